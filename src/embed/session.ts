import { UserError } from "#domain/errors.ts";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Models } from "#models/models.ts";
import { finishedCalls } from "#runtime/read-log.ts";
import type { MemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { openToolbox } from "#toolsets/open-toolbox.ts";
import { resolveToolsets } from "#toolsets/resolve-toolsets.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { ApprovalController } from "#ui/approval-controller.ts";
import type { RuntimeEventCallback } from "#ui/runtime-events.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";
import { createLane, type Lane } from "./lane.ts";
import type { WorkerCatalogue } from "./options.ts";
import { listWorkers } from "./read-worker.ts";
import { createReporter, type Reporter } from "./reporter.ts";

/** What a program lends to a worker and to every worker below it. */
export interface Surroundings {
  /** The run at the head of the tree. */
  root: RunSpec;
  models: Models;
  approvals: ApprovalController;
  ui: RuntimeUI | undefined;
  onEvent: RuntimeEventCallback | undefined;
  toolEvents: ToolEvents | undefined;
  catalogue: WorkerCatalogue | undefined;
  maxDelegationDepth: number | undefined;
  /** Toolsets that no worker here gets. */
  omitToolsets: readonly string[];
  briefing: string | undefined;
  lent: Pick<ToolServices, "executors" | "web">;
}

export type Steps = Pick<MemoryWorkspace, "base" | "pendingChanges" | "markStored" | "rollback" | "history">;

/** One worker with everything it has in its hands, for as many runs as it makes. */
export interface Session {
  readonly spec: RunSpec;
  readonly around: Surroundings;
  readonly workspace: Workspace;
  readonly steps: Steps;
  readonly toolbox: Toolbox;
  readonly report: Reporter;
  /** Its work, and what people do with its tools: one thing at a time, since all of it changes one tree. */
  readonly lane: Lane;
  /** The conversation so far. */
  log(): readonly LoggedEvent[];
  record(event: RunEvent): LoggedEvent;
  /** Begins another conversation: only what was recorded from this place on is kept. */
  forgetBefore(index: number): void;
  close(): Promise<void>;
}

export interface OpenSession {
  spec: RunSpec;
  around: Surroundings;
  /** The tree of whoever calls this worker; its own policy narrows it further. */
  tree: Workspace;
  tools?: readonly NamedTool[];
  workerDirectory: string | undefined;
}

/** Opens a worker's tools. Rejects with a UserError for a toolset or a sandbox that a program cannot give it. */
export async function openSession({
  spec: asked,
  around,
  tree,
  tools,
  workerDirectory,
}: OpenSession): Promise<Session> {
  const spec = { ...asked, worker: without(asked.worker, around.omitToolsets) };
  checkToolsets(spec, tree);
  const workspace = narrow(tree, spec);
  const steps = stepsOf(workspace);
  let log: LoggedEvent[] = [];
  let last = 0;

  const services: ToolServices = {
    spec,
    workspace,
    sandbox: reachingOnly({ ...workspace, ...steps }, "a repository") as unknown as ToolServices["sandbox"],
    github: reachingOnly({}, "GitHub") as ToolServices["github"],
    branch: steps.base.branch,
    history: () => finishedCalls(log),
    workers: async () => {
      const listed = await listWorkers(around.catalogue, allowedWorkers(spec));
      const { name } = around.root.worker;
      // The root is known to those below it, who are told that calling it is circular.
      return listed.some((one) => one.name === name) ? listed : [...listed, { name }];
    },
    sanitize: (text) => text,
    ...around.lent,
    ...(workerDirectory !== undefined && { workerDirectory }),
  };
  const toolbox = await openToolbox(spec.worker, services, {
    ...(tools && { tools }),
    ...(around.toolEvents && { events: around.toolEvents }),
  });
  return {
    spec,
    around,
    workspace,
    steps,
    toolbox,
    report: createReporter(spec, around),
    lane: createLane(),
    log: () => log,
    record: (event) => {
      const logged = { id: ++last, runId: spec.id, at: Date.now(), event };
      log = [...log, logged];
      return logged;
    },
    forgetBefore: (index) => {
      log = log.slice(index);
    },
    close: () => toolbox.close(),
  };
}

const outOfReach: Record<string, string> = {
  github: "an issue or a pull request on GitHub",
  pull_request: "an issue or a pull request on GitHub",
  git: "a repository",
};

function without(worker: WorkerDefinition, omitted: readonly string[]): WorkerDefinition {
  const kept = Object.entries(worker.toolsets).filter(([name]) => !omitted.includes(name));
  return { ...worker, toolsets: Object.fromEntries(kept) };
}

function checkToolsets({ worker }: RunSpec, tree: Workspace): void {
  for (const { toolset } of resolveToolsets(worker)) {
    const need = outOfReach[toolset.name];
    if (!need || (toolset.name === "git" && "branches" in tree)) continue;
    throw new UserError(
      `The worker ${worker.name} uses the toolset ${toolset.name}, which needs ${need}: a worker in a program of its own has none.`,
    );
  }
}

/** A worker sees no more than whoever calls it, and what its own policy leaves of that. */
function narrow(tree: Workspace, { worker }: RunSpec): Workspace {
  if (!worker.sandbox) return tree;
  if (isNarrowable(tree)) return tree.restricted(worker.sandbox);
  throw new UserError(
    `The worker ${worker.name} has a sandbox policy, and the sandbox it was given cannot be narrowed: give it one of createMemoryWorkspace.`,
  );
}

function isNarrowable(tree: Workspace): tree is Workspace & Pick<MemoryWorkspace, "restricted"> {
  return "restricted" in tree && typeof tree.restricted === "function";
}

function stepsOf(workspace: Workspace): Steps {
  if ("history" in workspace) return workspace as MemoryWorkspace;
  const base = { commit: crypto.randomUUID(), branch: "memory" };
  return { base, pendingChanges: () => undefined, markStored: () => {}, rollback: () => {}, history: () => [] };
}

function reachingOnly<Given extends object>(given: Given, what: string): Given {
  return new Proxy(given, {
    get(target, name, receiver) {
      if (name in target || typeof name === "symbol" || name === "then") return Reflect.get(target, name, receiver);
      throw new UserError(`There is no ${what.replace(/^a /, "")} here.`);
    },
  });
}

function allowedWorkers({ worker }: RunSpec): string[] {
  const { allowed } = (worker.toolsets.workers ?? {}) as { allowed?: unknown };
  return Array.isArray(allowed) ? allowed.filter((name) => typeof name === "string") : [];
}
