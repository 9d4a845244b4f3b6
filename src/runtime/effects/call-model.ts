import { UserError } from "#errors.ts";
import { ModelFailure } from "#models/models.ts";
import type { EffectHandler } from "#runtime/drive.ts";
import { fitTranscript } from "#runtime/fit-transcript.ts";
import { instructionsFor } from "#runtime/instructions.ts";
import { transcript } from "#runtime/transcript.ts";
import type { EffectServices } from "./effect-services.ts";

/** One call of the model over everything the log holds. A crash costs at most one more call. */
export function callModel({ models }: EffectServices): EffectHandler {
  return {
    attempts: 3,
    async perform(effect, desk, signal) {
      const { spec } = desk;
      const [tools, log] = await Promise.all([desk.tools(signal), desk.log()]);
      const seen = log.at(-1)?.id ?? 0;
      try {
        const { cost, messages, ...answer } = await models.call({
          model: spec.model,
          instructions: instructionsFor(spec),
          messages: fitTranscript(transcript(log), spec.worker.max_context_tokens),
          tools: tools.offered,
          signal,
        });
        return {
          events: [{ runId: effect.runId, event: { type: "model.answered", ...answer, messages, cost, seen } }],
        };
      } catch (error) {
        if (!(error instanceof ModelFailure) || signal.aborted) throw error;
        const { message: reason, retryable, retryAfterMs } = error;
        return { events: [{ runId: effect.runId, event: { type: "model.failed", reason, retryable, retryAfterMs } }] };
      }
    },
    async giveUp(effect, _desk, error) {
      const reason = error instanceof UserError ? error.message : `The model could not be called: ${error}`;
      return { events: [{ runId: effect.runId, event: { type: "model.failed", reason, retryable: false } }] };
    },
  };
}
