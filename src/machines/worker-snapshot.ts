import { z } from "zod";
import { RunState } from "#domain/run.ts";
import { WorkerContext } from "./worker-context.ts";
import type { workerMachine } from "./worker-machine.ts";

/** The format of stored snapshots. Raise it when a state or a context field changes its meaning. */
export const snapshotVersion = 1;

const callStates = ["evaluatingCalls", "executing", "awaitingApproval", "awaitingAnswer", "awaitingChild"] as const;

const StateValue = z.union([
  RunState.exclude(callStates),
  z.strictObject({ handlingCalls: RunState.extract(callStates) }),
]) satisfies z.ZodType<ReturnType<typeof workerMachine.resolveState>["value"]>;

/** The stored state of a worker between events, with the clock for its limit of minutes. */
export const WorkerSnapshot = z.strictObject({
  version: z.literal(snapshotVersion),
  value: StateValue,
  context: WorkerContext,
  /** Milliseconds in busy states so far, without the current one. */
  workedMs: z.number(),
  /** The time at which the current busy state was entered; undefined while the worker waits. */
  busySince: z.number().optional(),
});
export type WorkerSnapshot = z.infer<typeof WorkerSnapshot>;
