import { randomUUID } from "node:crypto";
import type { RunSpec } from "#domain/run.ts";
import type { WorkerDefinition } from "#domain/worker.ts";

/** There is no thread: nothing of this reaches a model or a person. */
const nowhere = { installationId: 0, owner: "local", repo: "local", thread: 0, isPullRequest: false };

/** A run of a program's own. */
export function newSpec(worker: WorkerDefinition, { depth, model }: { depth: number; model: string }): RunSpec {
  const id = `run-${randomUUID().slice(0, 8)}`;
  return {
    id,
    rootId: id,
    depth,
    workerPath: worker.name,
    worker: { ...worker, mode: "single" },
    workerSource: "deployment",
    model,
    origin: { ...nowhere, requestedBy: "user" },
    createdAt: Date.now(),
  };
}

/** The worker with another limit on how deep workers may stand below the root. */
export function withDepth(worker: WorkerDefinition, depth: number | undefined): WorkerDefinition {
  return depth === undefined ? worker : { ...worker, limits: { ...worker.limits, depth } };
}
