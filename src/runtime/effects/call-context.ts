import type { ModelCall } from "#domain/events.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import type { CallContext } from "#toolsets/toolbox.ts";

/** The context one call is reviewed and run in. */
export function callContext(
  { spec, live }: Pick<ActiveRun, "spec"> & Partial<Pick<ActiveRun, "live">>,
  { callId }: Pick<ModelCall, "callId">,
  step: number,
  abortSignal: AbortSignal,
): CallContext {
  return {
    abortSignal,
    messages: [],
    run: { id: spec.id, worker: spec.worker.name, depth: spec.depth, step },
    idempotencyKey: `${spec.id}/${step}/${callId}`,
    output: (text) => live?.add(spec.id, { source: callId, text }),
  };
}
