import { UserError } from "#domain/errors.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import type { ToolReply } from "#runtime/front-end.ts";
import { lastAnswer, readBaseCommit } from "#runtime/read-log.ts";
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

/** Replies to a person's call of a tool. One comment shows it as queued, and later with its result. */
export function postToolReply({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"tool.reply">> {
  return {
    maxAttempts: 12,
    async perform({ runId, attempts, request }, run) {
      const reply = findResult(await run.log(), request.callId) ?? request.reply;
      const view = await readView(store, runId);
      if (!reply || !view) return {};
      const { thread, callId } = request;
      return post(store, { name: `tool/${runId}/${callId}`, attempts }, (options) =>
        frontEnd.showToolReply(view, reply, { ...options, thread }),
      );
    },
    onFailure: async () => ({}),
  };
}

/** Posts the changes of a run for a person who asked for them. */
export function postChanges({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"changes.show">> {
  return {
    maxAttempts: 4,
    async perform({ runId, attempts, request: { by, callId, thread } }, run, signal) {
      const view = await readView(store, runId);
      if (!view) return {};
      const reply = await readChanges(run, by, signal);
      return post(store, { name: `tool/${runId}/${callId}`, attempts }, (options) =>
        frontEnd.showToolReply(view, reply, { ...options, thread }),
      );
    },
    onFailure: async ({ key, runId, request: { by, callId, thread } }, _run, error) => {
      const message = error instanceof UserError ? error.message : "The changes could not be read. Try again.";
      const request = { kind: "tool.reply" as const, callId, thread, reply: { kind: "refused" as const, by, message } };
      return { effects: [{ key: `${key}/reply`, runId, queue: "thread", request }] };
    },
  };
}

async function readChanges(run: ActiveRun, by: string, signal: AbortSignal): Promise<ToolReply> {
  if (!readBaseCommit(await run.log())) {
    return { kind: "refused", by, message: "The repository is still being opened, so there are no changes yet." };
  }
  const { diff } = await run.workspace(signal);
  return { kind: "changes", by, diff: (await diff?.()) ?? "" };
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
