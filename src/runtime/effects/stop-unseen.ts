import { UserError } from "#domain/errors.ts";
import type { RunSpec } from "#domain/run.ts";
import type { EffectResult } from "#runtime/effects/effect-handler.ts";

/**
 * Stops the whole tree of a run whose request cannot be shown to anybody, with the reason. It can be resumed when
 * somebody has put that right, and asks anew.
 */
export function stopUnpostable({ rootId, workerPath }: RunSpec, error: unknown): EffectResult {
  const why = error instanceof UserError ? error.message : "GitHub did not take it for a long time.";
  const reason = `What ${workerPath} asks could not be posted here. ${why}`;
  return { events: [{ runId: rootId, event: { type: "run.stop", by: "golem-forge", reason } }] };
}
