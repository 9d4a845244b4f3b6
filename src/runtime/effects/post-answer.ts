import { lastAnswer } from "#runtime/read-log.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { readView } from "#runtime/views/read-view.ts";
import { type EffectHandler, type EffectServices, post } from "./effect-handler.ts";

/** Posts that a run has used up its cost limit, and how to raise it. */
export function postBudget({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"budget.post">> {
  return {
    maxAttempts: 12,
    async perform({ attempts }, { spec: { id } }) {
      const view = await readView(store, id);
      const { askForBudget } = frontEnd;
      if (!view || !askForBudget) return {};
      const name = `budget/${id}/${view.spec.worker.limits.cost}`;
      return post(store, { name, attempts }, (options) => askForBudget(view, options));
    },
    onFailure: async () => ({}),
  };
}

/** Posts the answer of a run that stays idle: a chat, or one with an open pull request. */
export function postAnswer({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"answer.post">> {
  return {
    maxAttempts: 12,
    async perform({ attempts }, run) {
      const last = lastAnswer(await run.log());
      const view = await readView(store, run.spec.id);
      const { showAnswer } = frontEnd;
      if (!view || !last?.answer.text.trim() || !showAnswer) return {};
      const name = `answer/${run.spec.id}/${last.step}`;
      return post(store, { name, attempts }, (options) => showAnswer(view, last.answer.text, options));
    },
    onFailure: async () => ({}),
  };
}
