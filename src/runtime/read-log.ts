import { z } from "zod";
import type { LoggedEvent, ModelCall, RunEvent } from "#domain/events.ts";
import type { BaseCommit } from "#sandbox/sandbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

type ModelAnswered = Extract<RunEvent, { type: "model.answered" }>;

/** Returns the base commit of the run; undefined until it is pinned. */
export function readBase(log: readonly LoggedEvent[]): BaseCommit | undefined {
  for (const { event } of log) {
    if (event.type === "sandbox.opened") return { commit: event.commit, branch: event.branch };
  }
  return undefined;
}

/** Returns the model's last answer with its number, counted from 1. */
export function lastAnswer(log: readonly LoggedEvent[]): { answer: ModelAnswered; step: number } | undefined {
  const answer = log.findLast(({ event }) => event.type === "model.answered")?.event;
  if (answer?.type !== "model.answered") return undefined;
  return { answer, step: stepsOf(log) };
}

/** Returns the number of the model's answers, which is also the step of a call made by a person. */
export function stepsOf(log: readonly LoggedEvent[]): number {
  return log.filter(({ event }) => event.type === "model.answered").length;
}

/** Returns a call of the last answer. Throws when there is no such call, which would be a bug. */
export function openCallOf(log: readonly LoggedEvent[], callId: string): { call: ModelCall; step: number } {
  const last = lastAnswer(log);
  const call = last?.answer.calls.find((made) => made.callId === callId);
  if (!last || !call) throw new Error(`The last answer has no call ${callId}`);
  return { call, step: last.step };
}

/** Returns a question of the run, with its answer if there is one. Throws when there is no such call. */
export function questionOf(
  log: readonly LoggedEvent[],
  callId: string,
): { call: ModelCall; step: number; answer: { by: string; text: string; at: number } | undefined } {
  const asked = indexOfCall(log, callId);
  const { call, step } = openCallOf(log.slice(0, asked + 1), callId);
  const answered = log.slice(asked).find(({ event }) => event.type === "question.answered" && event.callId === callId);
  if (answered?.event.type !== "question.answered") return { call, step, answer: undefined };
  return { call, step, answer: { by: answered.event.by, text: answered.event.text, at: answered.at } };
}

/** Returns the id of the event that put an open question to people: its review, or the approval of its call. */
export function questionAskedId(log: readonly LoggedEvent[], callId: string): number {
  const sinceCall = log.slice(indexOfCall(log, callId));
  const asked = sinceCall.findLast(
    ({ event }) =>
      (event.type === "approval.granted" && event.callId === callId) ||
      (event.type === "calls.reviewed" && event.verdicts.some((verdict) => verdict.callId === callId)),
  );
  return asked?.id ?? 0;
}

/** A provider may use the id of a call again, so the last call of this id counts. */
function indexOfCall(log: readonly LoggedEvent[], callId: string): number {
  return log.findLastIndex(
    ({ event }) => event.type === "model.answered" && event.calls.some((call) => call.callId === callId),
  );
}

/** Returns the finished tool calls of the model and of people, oldest first. */
export function finishedCalls(log: readonly LoggedEvent[]): FinishedCall[] {
  let step = 0;
  let calls: ModelCall[] = [];
  return log.flatMap(({ event }) => {
    if (event.type === "model.answered") {
      step += 1;
      calls = event.calls;
    }
    if (event.type === "tool.invoked") {
      const { callId, tool, args, result } = event;
      return [{ callId, tool, args, result, step, byPerson: true }];
    }
    if (event.type !== "tool.finished") return [];
    const { callId, tool, result } = event;
    const args = calls.find((call) => call.callId === callId)?.args;
    return [{ callId, tool, args, result, step }];
  });
}

const Pushed = z.object({ pushed: z.object({ commit: z.string() }) });

/** The last commit that the run pushed; undefined when it has pushed none. */
export function lastPushedCommit(log: readonly LoggedEvent[]): string | undefined {
  const results = log.flatMap(({ event }) =>
    event.type === "tool.finished" || event.type === "tool.invoked" ? [event.result] : [],
  );
  const commits = results.flatMap(({ value, error }) => {
    const pushed = Pushed.safeParse(error?.details ?? ("data" in value ? value.data : undefined));
    return pushed.success ? [pushed.data.pushed.commit] : [];
  });
  return commits.at(-1);
}
