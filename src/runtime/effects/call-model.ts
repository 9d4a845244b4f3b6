import { UserError } from "#domain/errors.ts";
import type { ModelRequest } from "#models/models.ts";
import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { askModel } from "#runtime/model/ask-model.ts";
import { abandonOnAbort } from "#toolsets/abandon-on-abort.ts";
import type { EffectServices } from "./effect-services.ts";

/** One call of the model over everything the log holds. A crash costs at most one more call. */
export function callModel({ models, observer }: EffectServices): EffectHandler {
  return {
    maxAttempts: 3,
    async perform(effect, desk, signal) {
      const { spec } = desk;
      const [tools, log] = await Promise.all([desk.tools(signal), desk.log()]);
      const asking = {
        model: spec.model,
        instructions: desk.instructions(),
        log,
        maxTokens: spec.worker.max_context_tokens,
        tools: tools.offered,
        serverSideTools: spec.worker.server_side_tools,
        find: tools.find,
        signal,
        onText: (text: string) =>
          desk.live.add(effect.runId, { source: `model/${effect.key}/${effect.attempts}`, text }),
        onCall: (request: ModelRequest) => observer?.modelCalled(spec, request),
      };
      // A provider that ignores the signal must not keep an interrupted run active.
      const answer = await abandonOnAbort(() => askModel(models, asking), signal);
      if (answer.abandoned) throw signal.reason;
      return { events: [{ runId: effect.runId, event: answer.value }] };
    },
    async onFailure(effect, _desk, error) {
      const reason = error instanceof UserError ? error.message : `The model could not be called: ${error}`;
      return { events: [{ runId: effect.runId, event: { type: "model.failed", reason, retryable: false } }] };
    },
  };
}
