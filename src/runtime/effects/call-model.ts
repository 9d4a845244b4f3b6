import { UserError } from "#domain/errors.ts";
import type { InputPiece, ModelRequest } from "#models/models.ts";
import { askModel } from "#runtime/model/ask-model.ts";
import { chosenModel } from "#runtime/read-log.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { abandonOnAbort } from "#toolsets/abandon-on-abort.ts";
import type { EffectHandler, EffectServices } from "./effect-handler.ts";

/** Calls the model once with the whole log. A crash costs at most one more call. */
export function callModel({
  models,
  observer,
}: Pick<EffectServices, "models" | "observer">): EffectHandler<EffectOf<"model.call">> {
  return {
    maxAttempts: 3,
    async perform({ key, runId, attempts }, run, signal) {
      const { spec } = run;
      const source = `model/${key}/${attempts}`;
      const [tools, log] = await Promise.all([run.tools(signal), run.log()]);
      const options = {
        model: chosenModel(log) ?? spec.model,
        instructions: run.instructions(),
        log,
        maxTokens: spec.worker.max_context_tokens,
        tools: tools.offered,
        serverSideTools: spec.worker.server_side_tools,
        find: tools.find,
        outputSchema: spec.worker.output_schema,
        signal,
        onText: (text: string) => run.live.add(runId, { source, text }),
        onInput: (input: InputPiece) => run.live.add(runId, { source, input }),
        onCall: (request: ModelRequest) => observer.modelCalled(spec, request),
      };
      // A provider that ignores the signal must not keep an interrupted run active.
      const answer = await abandonOnAbort(() => askModel(models, options), signal);
      if (answer.abandoned) throw signal.reason;
      return { events: answer.value.map((event) => ({ runId, event })) };
    },
    async onFailure({ runId }, _run, error) {
      const message = error instanceof Error ? error.message : String(error);
      const reason = error instanceof UserError ? message : `The model could not be called: ${message}`;
      return { events: [{ runId, event: { type: "model.failed", reason, retryable: false } }] };
    },
  };
}
