import { z } from "zod";
import { parseVersioned } from "#domain/stored-data.ts";
import { WorkerContext, type workerMachine } from "./worker-machine.ts";

/** The format of stored snapshots. Raise it when a state or a context field changes its meaning. */
export const snapshotVersion = 1;

type StateValue = ReturnType<typeof workerMachine.resolveState>["value"];

const WorkerState = z.union([
  z.enum([
    "preparing",
    "callingModel",
    "retrying",
    "evaluatingAnswer",
    "reviewing",
    "checkingLimits",
    "idle",
    "interrupted",
    "ended",
  ]),
  z.strictObject({
    handlingCalls: z.enum(["evaluatingCalls", "executing", "awaitingApproval", "awaitingAnswer", "awaitingChild"]),
  }),
]) satisfies z.ZodType<StateValue>;

/** The state of a worker between events, as the store keeps it, with the clock that its minutes are counted by. */
export const WorkerSnapshot = z.strictObject({
  version: z.literal(snapshotVersion),
  value: WorkerState,
  context: WorkerContext,
  /** Milliseconds in busy states so far, without the current one. */
  workedMs: z.number(),
  /** When the current busy state was entered; undefined while the worker waits. */
  busySince: z.number().optional(),
});
export type WorkerSnapshot = z.infer<typeof WorkerSnapshot>;

/** Reads a stored snapshot. Throws UnreadableDataError for snapshots of a newer release and for invalid ones. */
export function parseSnapshot(data: unknown): WorkerSnapshot {
  return parseVersioned(WorkerSnapshot, data, { version: snapshotVersion, name: "The state of the run" });
}
