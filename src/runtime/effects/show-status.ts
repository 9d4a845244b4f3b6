import { type EffectHandler, Postponed } from "#runtime/effects/effect-handler.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { EffectServices } from "./effect-services.ts";

/** Draws the one living status comment of a root run, at its pace, as things stand at that moment. */
export function showStatus({ store, frontEnd, now, statusIntervalMs }: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    async perform(effect) {
      if (!frontEnd.showStatus) return {};
      const name = `status/${effect.runId}`;
      const post = await store.findPost(name);
      const earliest = post ? post.updatedAt + statusIntervalMs : 0;
      if (earliest > now()) throw new Postponed(earliest);

      const view = await readView(store, effect.runId);
      if (!view) return {};
      const options = { name, repeated: effect.attempts > 1, commentId: post?.commentId };
      return { post: { name, commentId: await frontEnd.showStatus(view, options) } };
    },
    onFailure: async () => ({}),
  };
}
