import { onlyWith } from "#compat/class-tools.ts";
import { UserError } from "#domain/errors.ts";
import type { RunSpec } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import { embeddedInstructionsFor } from "#runtime/model/instructions.ts";
import type { RepositoryAccess, RunEnvironment, RunWorkspace } from "#runtime/run-environment.ts";
import { requireRun, type Store } from "#runtime/store/store.ts";
import type { MemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { openToolbox, resolveToolsets } from "#toolsets/open-toolbox.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import type { WorkerSources } from "./options.ts";
import { findWorker, listKnownWorkers } from "./read-worker.ts";

export interface ProgramEnvironmentOptions {
  store: Store;
  /** The root run, not started yet. Its worker determines the tools. */
  root: RunSpec;
  workspace: Workspace;
  /** True if changes are kept in the store, so that another process can open the same files again. */
  storesChanges: boolean;
  tools: readonly NamedTool[];
  toolEvents: ToolEvents | undefined;
  sources: WorkerSources | undefined;
  maxDelegationDepth: number | undefined;
  omitToolsets: readonly string[];
  briefing: string | undefined;
  workerDirectory: string | undefined;
  programDirectory: string | undefined;
  services: Pick<ToolServices, "executors" | "networkHosts" | "sandboxTools" | "web">;
}

type ChangeTracking = Pick<MemoryWorkspace, "base" | "pendingChanges" | "markStored" | "rollback" | "history">;

/** Lets the person at the program decide everything, since there is no repository with settings. */
const ownRepository: RepositoryAccess = {
  readFile: async () => undefined,
  listNames: async () => [],
  getPermission: async () => "admin",
  confirmPermission: async () => "admin",
  findAccount: async () => undefined,
  isTeamMember: async () => false,
};

/**
 * The environment of runs in a program. The root and all workers below it share one workspace, within the limits of their
 * own sandbox policy and those of their callers. The root's tools stay open between runs.
 */
export class ProgramEnvironment implements RunEnvironment {
  readonly catalog: RunEnvironment["catalog"];
  readonly #options: ProgramEnvironmentOptions;
  readonly #changes = new ExclusiveChanges();
  #rootToolbox: Promise<Toolbox> | undefined;
  #rootHistory: () => readonly FinishedCall[] = () => [];

  constructor(options: ProgramEnvironmentOptions) {
    const { sources, maxDelegationDepth, omitToolsets } = options;
    this.#options = options;
    this.catalog = {
      find: async (name) => {
        const { worker } = await findWorker(sources, name);
        return { worker: withDepth(withoutToolsets(worker, omitToolsets), maxDelegationDepth), source: "deployment" };
      },
      list: () => listKnownWorkers(sources, []),
    };
  }

  repository(): RepositoryAccess {
    return ownRepository;
  }

  instructions(spec: RunSpec): string {
    return embeddedInstructionsFor(spec, this.#options.briefing);
  }

  /** Opens the tools of the root. Rejects with a UserError for a toolset or a policy that is not supported here. */
  openRootToolbox(): Promise<Toolbox> {
    const { root, tools, toolEvents, workerDirectory } = this.#options;
    this.#rootToolbox ??= this.workspaceOf(root).then((workspace) => {
      const services = this.#services(root, workspace, () => this.#rootHistory());
      return openToolbox(
        root.worker,
        { ...services, ...(workerDirectory !== undefined && { workerDirectory }) },
        { tools, ...(toolEvents && { events: toolEvents }) },
      );
    });
    return this.#rootToolbox;
  }

  /** Returns the part of the workspace that a run may see, which is never more than its parent's. */
  async workspaceOf(spec: RunSpec): Promise<Workspace> {
    const { store, workspace } = this.#options;
    const { parentId } = spec;
    const outer = parentId === undefined ? workspace : await this.workspaceOf((await requireRun(store, parentId)).spec);
    checkToolsets(spec, outer);
    return narrow(outer, spec);
  }

  async openWorkspace(spec: RunSpec): Promise<RunWorkspace> {
    const workspace = await this.workspaceOf(spec);
    const tracking = changeTracking(workspace);
    return {
      base: tracking.base,
      tracking,
      shared: {
        begin: () => this.#changes.begin(spec.id),
        storesChanges: this.#options.storesChanges,
      },
      readFile: (path) => workspace.readBytes(path),
      openToolbox: (history) => this.#openToolbox(spec, workspace, history),
    };
  }

  async close(): Promise<void> {
    const toolbox = await this.#rootToolbox?.catch(() => undefined);
    this.#rootToolbox = undefined;
    await toolbox?.close();
  }

  async #openToolbox(spec: RunSpec, workspace: Workspace, history: () => readonly FinishedCall[]): Promise<Toolbox> {
    if (spec.parentId === undefined) {
      this.#rootHistory = history;
      // Closed together with the environment.
      return { ...(await this.openRootToolbox()), close: async () => {} };
    }
    const { sources, toolEvents } = this.#options;
    const { directory } = await findWorker(sources, spec.worker.name);
    return openToolbox(
      spec.worker,
      { ...this.#services(spec, workspace, history), ...(directory !== undefined && { workerDirectory: directory }) },
      toolEvents && { events: toolEvents },
    );
  }

  #services(spec: RunSpec, workspace: Workspace, history: () => readonly FinishedCall[]): ToolServices {
    const { sources, root, services, programDirectory } = this.#options;
    const tracking = changeTracking(workspace);
    return {
      spec,
      workspace,
      // Only toolsets that `checkToolsets` rejects use other members.
      sandbox: onlyWith<ToolServices["sandbox"]>({ ...workspace, ...tracking }, "repository"),
      github: onlyWith<ToolServices["github"]>({}, "GitHub"),
      branch: tracking.base.branch,
      history,
      workers: async () => {
        const listed = await listKnownWorkers(sources, allowedWorkers(spec));
        const { name } = root.worker;
        // Includes the root, so that calling it is refused as circular and not as unknown.
        return listed.some((worker) => worker.name === name) ? listed : [...listed, { name }];
      },
      findWorker: (name) => this.catalog.find(name, ownRepository),
      sanitize: (text) => text,
      ...(programDirectory !== undefined && { programDirectory }),
      ...services,
    };
  }
}

/** Serializes the changes of a tree of runs: they share files, so each change is stored before the next one begins. */
class ExclusiveChanges {
  #last: Promise<void> = Promise.resolve();
  readonly #releases = new Map<string, () => void>();

  /** Resolves when no other run is changing files. The caller releases what this resolves to. */
  async begin(runId: string): Promise<() => void> {
    // A run makes one change at a time, so an earlier one that is still open could not be stored.
    this.#releases.get(runId)?.();
    const { promise, resolve } = Promise.withResolvers<void>();
    const before = this.#last;
    this.#last = before.then(() => promise);
    this.#releases.set(runId, resolve);
    await before;
    return resolve;
  }
}

/** Returns the worker with another limit for the levels of workers below the root. */
export function withDepth(worker: WorkerDefinition, depth: number | undefined): WorkerDefinition {
  return depth === undefined ? worker : { ...worker, limits: { ...worker.limits, depth } };
}

export function withoutToolsets(worker: WorkerDefinition, omitted: readonly string[]): WorkerDefinition {
  const kept = Object.entries(worker.toolsets).filter(([name]) => !omitted.includes(name));
  return { ...worker, toolsets: Object.fromEntries(kept) };
}

const requirements: Record<string, string> = {
  github: "an issue or a pull request on GitHub",
  pull_request: "an issue or a pull request on GitHub",
  git: "a repository",
};

function checkToolsets({ worker }: RunSpec, workspace: Workspace): void {
  for (const { toolset } of resolveToolsets(worker)) {
    const requirement = requirements[toolset.name];
    if (!requirement || (toolset.name === "git" && "branches" in workspace)) continue;
    throw new UserError(
      `The worker ${worker.name} uses the toolset ${toolset.name}, which needs ${requirement}: an embedding program has none.`,
    );
  }
}

function narrow(workspace: Workspace, { worker }: RunSpec): Workspace {
  if (!worker.sandbox) return workspace;
  if (isNarrowable(workspace)) return workspace.restricted(worker.sandbox);
  throw new UserError(
    `The worker ${worker.name} has a sandbox policy, but its workspace cannot be restricted: use one created by createMemoryWorkspace.`,
  );
}

function isNarrowable(workspace: Workspace): workspace is Workspace & Pick<MemoryWorkspace, "restricted"> {
  return "restricted" in workspace && typeof workspace.restricted === "function";
}

/** Returns the change tracking of a workspace. A program's own workspace has none, so nothing can be undone in it. */
export function changeTracking(workspace: Workspace): ChangeTracking {
  if ("history" in workspace) return workspace as MemoryWorkspace;
  const base = { commit: "0".repeat(40), branch: "memory" };
  return { base, pendingChanges: () => undefined, markStored: () => {}, rollback: () => {}, history: async () => [] };
}

function allowedWorkers({ worker }: RunSpec): string[] {
  const { allowed } = (worker.toolsets.workers ?? {}) as { allowed?: unknown };
  return Array.isArray(allowed) ? allowed.filter((name) => typeof name === "string") : [];
}
