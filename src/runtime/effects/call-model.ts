import { UserError } from "#domain/errors.ts";
import { askModel } from "#runtime/model/ask-model.ts";
import { instructionsFor } from "#runtime/model/instructions.ts";
import type { EffectHandler } from "#runtime/run-scheduler.ts";
import type { EffectServices } from "./effect-services.ts";

/** One call of the model over everything the log holds. A crash costs at most one more call. */
export function callModel({ models }: EffectServices): EffectHandler {
  return {
    maxAttempts: 3,
    async perform(effect, desk, signal) {
      const { spec } = desk;
      const [tools, log] = await Promise.all([desk.tools(signal), desk.log()]);
      const event = await askModel(models, {
        model: spec.model,
        instructions: instructionsFor(spec),
        log,
        maxTokens: spec.worker.max_context_tokens,
        tools: tools.offered,
        serverSideTools: spec.worker.server_side_tools,
        find: tools.find,
        signal,
        onText: (text) => desk.live.add(effect.runId, { source: `model/${effect.key}/${effect.attempts}`, text }),
      });
      return { events: [{ runId: effect.runId, event }] };
    },
    async onFailure(effect, _desk, error) {
      const reason = error instanceof UserError ? error.message : `The model could not be called: ${error}`;
      return { events: [{ runId: effect.runId, event: { type: "model.failed", reason, retryable: false } }] };
    },
  };
}
