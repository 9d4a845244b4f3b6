import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import type { EffectServices } from "./effect-services.ts";

/** Ends every child that is still alive, and through them theirs. */
export function stopChildren({ store }: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    async perform(effect, { spec }) {
      const children = await store.childrenOf(effect.runId);
      const alive = children.filter(({ status }) => status !== "done");
      const event = { type: "run.cancel" as const, by: spec.worker.name };
      return { events: alive.map((child) => ({ runId: child.spec.id, event, dedupe: `${child.spec.id}/cancel` })) };
    },
    onFailure: async () => ({}),
  };
}
