import type { EffectHandler } from "#runtime/drive.ts";
import { openCallOf } from "#runtime/read-log.ts";
import { readView } from "#runtime/read-view.ts";
import type { EffectServices } from "./effect-services.ts";

/** Puts a worker's question to the people of the thread. The answer comes as an event, whenever it comes. */
export function postQuestion({ store, frontEnd }: EffectServices): EffectHandler {
  return {
    attempts: 12,
    async perform(effect, desk) {
      const { callId } = effect.input as { callId: string };
      const { call, step } = openCallOf(await desk.log(), callId);
      const view = await readView(store, desk.spec.rootId);
      if (!view) return {};

      const name = `question/${desk.spec.id}/${step}/${callId}`;
      const question = { callId, text: questionText(call.args), workerPath: desk.spec.workerPath };
      const post = await store.post(name);
      const options = { name, repeated: effect.attempts > 1, commentId: post?.commentId };
      return { post: { name, commentId: await frontEnd.askQuestion(view, question, options) } };
    },
    giveUp: async () => ({}),
  };
}

function questionText(args: unknown): string {
  const { question, options } = args as { question?: unknown; options?: unknown };
  const choices = Array.isArray(options) ? options.map((option) => `- ${String(option)}`) : [];
  return [String(question ?? "What should I do?"), ...choices].join("\n");
}
