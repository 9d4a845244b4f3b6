import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import type { Question } from "#runtime/front-end.ts";
import { questionOf } from "#runtime/read-log.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { EffectServices } from "./effect-services.ts";
import { stopUnpostable } from "./stop-unseen.ts";

/**
 * Puts a worker's question to the people of the thread, and shows what became of it once it is over. The answer comes
 * as an event, whenever it comes.
 */
export function showQuestion({ store, frontEnd }: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    async perform({ kind, input, attempts }, run) {
      const { callId } = input as { callId: string };
      const { call, step, answer } = questionOf(await run.log(), callId);
      const { spec } = run;
      const view = await readView(store, spec.rootId);
      if (!view) return {};

      const question: Question = {
        runId: spec.id,
        callId,
        text: questionText(call.args),
        workerPath: spec.workerPath,
      };
      if (answer) question.end = { kind: "answered", ...answer };
      else if (kind === "question.close") question.end = { kind: "withdrawn" };
      const name = `question/${spec.id}/${step}/${callId}`;
      const post = await store.findPost(name);
      const options = { name, repeated: attempts > 1, commentId: post?.commentId };
      return { post: { name, commentId: await frontEnd.askQuestion(view, question, options) } };
    },
    onFailure: async ({ kind }, { spec }, error) => (kind === "question.post" ? stopUnpostable(spec, error) : {}),
  };
}

function questionText(args: unknown): string {
  const { question, options } = args as { question?: unknown; options?: unknown };
  const choices = Array.isArray(options) ? options.map((option) => `- ${String(option)}`) : [];
  return [String(question ?? "What should I do?"), ...choices].join("\n");
}
