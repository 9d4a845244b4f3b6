import type { LoggedEvent, ModelCall, RunEvent } from "#domain/events.ts";
import type { BaseCommit } from "#sandbox/sandbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

type Answered = Extract<RunEvent, { type: "model.answered" }>;

/** The commit the run stands on, once it is fixed. */
export function readBase(log: readonly LoggedEvent[]): BaseCommit | undefined {
  for (const { event } of log) {
    if (event.type === "sandbox.opened") return { commit: event.commit, branch: event.branch };
  }
  return undefined;
}

/** The model's last answer, and which it was, counted from 1. */
export function lastAnswer(log: readonly LoggedEvent[]): { answer: Answered; step: number } | undefined {
  const answer = log.findLast(({ event }) => event.type === "model.answered")?.event;
  if (answer?.type !== "model.answered") return undefined;
  return { answer, step: stepsOf(log) };
}

/** How often the model has answered: the step a person's call belongs to. */
export function stepsOf(log: readonly LoggedEvent[]): number {
  return log.filter(({ event }) => event.type === "model.answered").length;
}

/** A call of the last answer. Throws for one that is not there, which would be a bug. */
export function openCallOf(log: readonly LoggedEvent[], callId: string): { call: ModelCall; step: number } {
  const last = lastAnswer(log);
  const call = last?.answer.calls.find((made) => made.callId === callId);
  if (!last || !call) throw new Error(`The last answer has no call ${callId}`);
  return { call, step: last.step };
}

/** A question that the run put to people, and the answer once there is one. Throws for a call that was never made. */
export function questionOf(
  log: readonly LoggedEvent[],
  callId: string,
): { call: ModelCall; step: number; answer: { by: string; text: string; at: number } | undefined } {
  const asked = log.findLastIndex(({ event }) => event.type === "model.answered" && hasCall(event, callId));
  const { call, step } = openCallOf(log.slice(0, asked + 1), callId);
  const answered = log.slice(asked).find(({ event }) => event.type === "question.answered" && event.callId === callId);
  if (answered?.event.type !== "question.answered") return { call, step, answer: undefined };
  return { call, step, answer: { by: answered.event.by, text: answered.event.text, at: answered.at } };
}

function hasCall({ calls }: Answered, callId: string): boolean {
  return calls.some((call) => call.callId === callId);
}

/** Every tool call that is over, the model's and people's, with what was asked and what came of it, oldest first. */
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
