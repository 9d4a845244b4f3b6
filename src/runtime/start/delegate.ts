import { UserError } from "#domain/errors.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Limits, WorkerDefinition } from "#domain/worker.ts";
import type { Snapshot } from "#runtime/apply-events.ts";
import type { RunRow } from "#runtime/store/store.ts";

/** Throws a UserError when a run may not call this worker: it is above it, too deep, or one too many. */
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
    throw new UserError(`${worker.name} may start ${worker.limits.children} workers, and has.`);
  }
}

interface ChildOf {
  id: string;
  callId: string;
  worker: WorkerDefinition;
  source: RunSpec["workerSource"];
  model: string;
  now: number;
  /** The other runs its parent started. */
  siblings: readonly RunRow[];
  /** The run at the head of the tree. */
  root: RunSpec;
}

/**
 * The run that answers a worker call: single, one deeper, with its share of what its parent has left. Throws a
 * UserError when that is next to nothing.
 */
export function childSpec(
  parent: RunRow,
  { id, callId, worker, source, model, now, siblings, root }: ChildOf,
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
    worker: { ...worker, mode: "single", limits: narrowed(worker.limits, parent, share) },
    workerSource: source,
    model,
    parentChanges: parent.changeSets,
    createdAt: now,
  };
}

type Share = Pick<Limits, "tokens" | "cost">;

/** Every worker call that is open has a part of what is left: what was lent out already, or an equal part of the rest. */
function shareOf({ spec, snapshot }: RunRow, siblings: readonly RunRow[]): Share {
  const { limits } = spec.worker;
  const { openCalls: open, tokens, cost } = (snapshot as Snapshot).context;
  const calls = open.filter(({ answeredBy }) => answeredBy === "worker").map(({ callId }) => callId);
  const lent = siblings.filter(({ spec: { parentCallId = "" } }) => calls.includes(parentCallId));
  const parts = Math.max(1, calls.length - lent.length);
  const sumOf = (kind: keyof Share) => lent.reduce((sum, sibling) => sum + sibling.spec.worker.limits[kind], 0);
  return {
    tokens: Math.floor((limits.tokens - tokens - sumOf("tokens")) / parts),
    cost: (limits.cost - cost - sumOf("cost")) / parts,
  };
}

/** A run may go past its limit by one call of the model: a hundred runs of a tree are enough of that. */
const smallestShare = 0.01;

function checkShare({ name, limits }: WorkerDefinition, { tokens, cost }: Share, { worker }: RunSpec): void {
  const needs = (kind: keyof Share) => Math.min(limits[kind], worker.limits[kind] * smallestShare);
  if (tokens >= needs("tokens") && cost >= needs("cost")) return;
  throw new UserError(`There is too little left of this run's budget to lend ${name} a part of it. Do it yourself.`);
}

/** The budget is the tree's: a child may use its share of what its parent has left, and no more than its own file says. */
function narrowed(own: Limits, { spec, snapshot }: RunRow, share: Share): Limits {
  const { workedMs } = snapshot as Snapshot;
  const { limits } = spec.worker;
  return {
    steps: own.steps,
    tokens: Math.min(own.tokens, share.tokens),
    cost: Math.min(own.cost, share.cost),
    minutes: Math.max(1, Math.min(own.minutes, limits.minutes - workedMs / 60_000)),
    depth: Math.min(own.depth, limits.depth),
    children: own.children,
  };
}

/** What a worker call asks for, as the child's first words. */
export function taskOf(args: unknown): string {
  const { task, context } = args as { task?: unknown; context?: unknown };
  return [task, context].filter((text) => typeof text === "string" && text !== "").join("\n\n");
}
