import { ToolError } from "#domain/errors.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import type { CallContext } from "#toolsets/prepare-call.ts";

/** Returns the context in which a call is reviewed and executed. */
export function callContext(
  { spec, live }: Pick<ActiveRun, "spec"> & Partial<Pick<ActiveRun, "live">>,
  { callId, step, signal }: { callId: string; step: number; signal: AbortSignal },
): CallContext {
  return {
    abortSignal: signal,
    messages: [],
    run: { id: spec.id, worker: spec.worker.name, depth: spec.depth, step },
    idempotencyKey: `${spec.id}/${step}/${callId}`,
    output: (text) => live?.add(spec.id, { source: callId, text }),
  };
}

/** The error of a call that was running when the process died, and that must not run twice. */
export function interruptedCall(): ToolError {
  return new ToolError("The process stopped during this call, so it may or may not have taken effect.", {
    code: "INTERRUPTED",
    type: "system_error",
    suggestion: "Check its effect before you try again.",
  });
}
