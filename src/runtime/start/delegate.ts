import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Limits, WorkerDefinition } from "#domain/worker.ts";
import type { RunRow } from "#runtime/store/store.ts";

/** Throws a UserError if a run may not call this worker: it is one of its ancestors, too deep, or one too many. */
export function checkDelegation({ worker, workerPath, depth }: RunSpec, name: string, siblings: number): void {
  const path = `${workerPath} -> ${name}`;
  const ancestors = workerPath.split(" -> ").map((ancestor) => ancestor.toLowerCase());
  if (ancestors.includes(name.toLowerCase())) {
    throw new UserError(`Circular delegation: a worker cannot call itself or one that called it: ${path}.`);
  }
  if (depth >= worker.limits.depth) {
    throw new UserError(
      `Maximum delegation depth (${worker.limits.depth}) exceeded: workers may not call each other any deeper: ${path}.`,
    );
  }
  if (siblings >= worker.limits.children) {
    throw new UserError(`${worker.name} has already started ${worker.limits.children} workers, which is its limit.`);
  }
}

interface ChildOptions {
  id: string;
  callId: string;
  worker: WorkerDefinition;
  source: RunSpec["workerSource"];
  model: string;
  now: number;
  /** Its parent's other children. */
  siblings: readonly RunRow[];
  root: RunSpec;
}

/**
 * Returns the spec of the run that answers a worker call, with its share of its parent's remaining budget. Throws a
 * UserError if the share is too small.
 */
export function childSpec(
  parent: RunRow,
  { id, callId, worker, source, model, now, siblings, root }: ChildOptions,
): RunSpec {
  const { spec } = parent;
  const share = shareOf(parent, siblings);
  checkShare(worker, share, root);
  return {
    ...spec,
    id,
    parentId: spec.id,
    parentCallId: callId,
    depth: spec.depth + 1,
    workerPath: `${spec.workerPath} -> ${worker.name}`,
    worker: { ...worker, mode: "single", limits: narrowLimits(worker.limits, parent, share) },
    workerSource: source,
    model,
    parentChanges: parent.changeSets,
    createdAt: now,
  };
}

type Share = Pick<Limits, "tokens" | "cost">;

/** Divides the remaining budget equally among the open worker calls, without the shares that were already assigned to runs. */
function shareOf({ snapshot }: RunRow, siblings: readonly RunRow[]): Share {
  const { openCalls, tokens, cost, limits } = snapshot.context;
  const calls = openCalls.filter(({ answeredBy }) => answeredBy === "worker").map(({ callId }) => callId);
  const running = siblings.filter(({ spec: { parentCallId = "" } }) => calls.includes(parentCallId));
  const parts = Math.max(1, calls.length - running.length);
  const allotted = (kind: keyof Share) => running.reduce((sum, { spec }) => sum + spec.worker.limits[kind], 0);
  return {
    tokens: Math.floor((limits.tokens - tokens - allotted("tokens")) / parts),
    cost: (limits.cost - cost - allotted("cost")) / parts,
  };
}

/** The smallest share of the root's limit. A run can exceed its limit by one model call, so their number is bounded. */
const minShare = 0.01;

function checkShare({ name, limits }: WorkerDefinition, { tokens, cost }: Share, { worker }: RunSpec): void {
  const needs = (kind: keyof Share) => Math.min(limits[kind], worker.limits[kind] * minShare);
  if (tokens >= needs("tokens") && cost >= needs("cost")) return;
  throw new UserError(`The remaining budget of this run is too small to start ${name}. Do the task yourself.`);
}

/** Limits a child to its share of its parent's remaining budget, and to its own limits. */
function narrowLimits(own: Limits, { spec, snapshot }: RunRow, share: Share): Limits {
  const { limits } = spec.worker;
  return {
    steps: own.steps,
    tokens: Math.min(own.tokens, share.tokens),
    cost: Math.min(own.cost, share.cost),
    minutes: Math.max(1, Math.min(own.minutes, limits.minutes - snapshot.workedMs / 60_000)),
    depth: Math.min(own.depth, limits.depth),
    children: own.children,
    ci_repairs: own.ci_repairs,
  };
}

/** The arguments of a worker call as the model wrote them. Accepts other common names for `task` and `context`. */
const WorkerCall = z.object({
  task: z.string().nullish(),
  input: z.string().nullish(),
  prompt: z.string().nullish(),
  message: z.string().nullish(),
  context: z.string().nullish(),
  instructions: z.string().nullish(),
  attachments: z.union([z.array(z.string()), z.string().transform((path) => [path])]).nullish(),
});

/** Returns the paths of the files that a worker call attaches. */
export function attachmentsOf(args: unknown): string[] {
  return WorkerCall.safeParse(args).data?.attachments ?? [];
}

/** Returns the task of a worker call for the child's first message. */
export function taskOf(args: unknown): string {
  const { task, input, prompt, message, context, instructions } = WorkerCall.safeParse(args).data ?? {};
  return [task ?? input ?? prompt ?? message, context ?? instructions].filter(Boolean).join("\n\n");
}
