import type { LoggedEvent } from "#domain/events.ts";
import type { ToolReply } from "#runtime/calls/tool-reply.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { EffectHandler, EffectServices } from "./effect-handler.ts";
import { post } from "./post.ts";

/** Replies to a person's call of a tool. One comment shows it as queued, and later with its result. */
export function postToolReply({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"tool.reply">> {
  return {
    maxAttempts: 12,
    async perform({ runId, request }, run) {
      const reply = findResult(await run.log(), request.callId) ?? request.reply;
      const view = await readView(store, runId);
      if (!reply || !view) return {};
      return post(store, `tool/${runId}/${request.callId}`, (options) => frontEnd.showToolReply(view, reply, options));
    },
    onFailure: async () => ({}),
  };
}

function findResult(log: readonly LoggedEvent[], callId: string): ToolReply | undefined {
  for (const { event } of log) {
    if (event.type === "tool.invoked" && event.callId === callId) {
      const { by, tool, args, result } = event;
      return { kind: "result", by, tool, args, result };
    }
  }
  return undefined;
}
