import { UserError } from "#errors.ts";
import type { RunSpec } from "#run.ts";
import type { Limits, WorkerDefinition } from "#worker.ts";
import type { Snapshot } from "./fold.ts";
import type { RunRow } from "./store/store.ts";

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
}

/** The run that answers a worker call: single, one deeper, with no more than its parent has left. */
export function childSpec(parent: RunRow, { id, callId, worker, source, model, now }: ChildOf): RunSpec {
  const { spec } = parent;
  return {
    ...spec,
    id,
    parentId: spec.id,
    parentCallId: callId,
    depth: spec.depth + 1,
    workerPath: `${spec.workerPath} -> ${worker.name}`,
    worker: { ...worker, mode: "single", limits: narrowed(worker.limits, parent) },
    workerSource: source,
    model,
    parentChanges: parent.changeSets,
    createdAt: now,
  };
}

/** The budget is the tree's: a child may use what its parent has left, and no more than its own file says. */
function narrowed(own: Limits, { spec, snapshot }: RunRow): Limits {
  const { context, workedMs } = snapshot as Snapshot;
  const { limits } = spec.worker;
  return {
    steps: own.steps,
    tokens: Math.max(1, Math.min(own.tokens, limits.tokens - context.tokens)),
    cost: Math.max(0.01, Math.min(own.cost, limits.cost - context.cost)),
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
