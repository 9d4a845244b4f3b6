import type { LoggedEvent } from "#domain/events.ts";
import type { ToolReply } from "#runtime/calls/tool-reply.ts";
import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { EffectServices } from "./effect-services.ts";

/** Answers a person's command for a tool in the thread: one comment, from the first word about it to its result. */
export function postToolReply({ store, frontEnd }: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    async perform(effect, desk) {
      const { callId, words } = effect.input as { callId: string; words?: ToolReply };
      const reply = resultOf(await desk.log(), callId) ?? words;
      const view = await readView(store, effect.runId);
      if (!reply || !view) return {};

      const name = `tool/${effect.runId}/${callId}`;
      const post = await store.findPost(name);
      const options = { name, repeated: effect.attempts > 1, commentId: post?.commentId };
      return { post: { name, commentId: await frontEnd.showToolReply(view, reply, options) } };
    },
    onFailure: async () => ({}),
  };
}

function resultOf(log: readonly LoggedEvent[], callId: string): ToolReply | undefined {
  for (const { event } of log) {
    if (event.type === "tool.invoked" && event.callId === callId) {
      const { by, tool, args, result } = event;
      return { kind: "result", by, tool, args, result };
    }
  }
  return undefined;
}
