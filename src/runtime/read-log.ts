import type { LoggedEvent, ModelCall, RunEvent } from "#domain/events.ts";
import { pushedCommit, shortId } from "#domain/run.ts";
import type { BaseCommit } from "#sandbox/sandbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

type ModelAnswered = Extract<RunEvent, { type: "model.answered" }>;

/**
 * Returns a function that derives a value from a list that only grows, such as a log. The value is cached per list and updated
 * with the items appended since the last call, so that the cost of a step does not depend on the length of its run.
 */
export function foldForward<State, Item = LoggedEvent>(
  create: () => State,
  add: (state: State, item: Item) => void,
): (list: readonly Item[]) => State {
  const known = new WeakMap<readonly Item[], { state: State; length: number }>();
  return (list) => {
    const fold = known.getOrInsertComputed(list, () => ({ state: create(), length: 0 }));
    for (const item of list.slice(fold.length)) {
      add(fold.state, item);
      fold.length += 1;
    }
    return fold.state;
  };
}

/** Returns the base commit of the run; undefined until it is pinned. */
export function readBaseCommit(log: readonly LoggedEvent[]): BaseCommit | undefined {
  for (const { event } of log) {
    if (event.type === "sandbox.opened") return { commit: event.commit, branch: event.branch };
  }
  return undefined;
}

/** Returns the model's last answer with its number, counted from 1. */
export function lastAnswer(log: readonly LoggedEvent[]): { answer: ModelAnswered; step: number } | undefined {
  const { answer, steps } = foldAnswers(log);
  return answer && { answer, step: steps };
}

/** Returns the model's answer with this number, counted from 1; undefined if there is none. */
export function answerAt(log: readonly LoggedEvent[], step: number): ModelAnswered | undefined {
  return log.flatMap(({ event }) => (event.type === "model.answered" ? [event] : []))[step - 1];
}

/** Returns the number of the model's answers, which is also the step of a call made by a person. */
export function stepsOf(log: readonly LoggedEvent[]): number {
  return foldAnswers(log).steps;
}

const foldAnswers = foldForward(
  (): { answer: ModelAnswered | undefined; steps: number } => ({ answer: undefined, steps: 0 }),
  (state, { event }) => {
    if (event.type !== "model.answered") return;
    state.answer = event;
    state.steps += 1;
  },
);

/** Returns a call of the last answer. Throws if there is no such call, which would be a bug. */
export function openCallOf(log: readonly LoggedEvent[], callId: string): { call: ModelCall; step: number } {
  const last = lastAnswer(log);
  const call = last?.answer.calls.find((made) => made.callId === callId);
  if (!last || !call) throw new Error(`The last answer has no call ${callId}`);
  return { call, step: last.step };
}

/**
 * Returns a question of the run, with its answer if there is one. `wanted`: the number of the model's answer that asked. Default:
 * the last one with such a call. Throws if there is no such call.
 */
export function questionOf(
  log: readonly LoggedEvent[],
  callId: string,
  wanted?: number,
): { call: ModelCall; step: number; answer: { by: string; text: string; at: number } | undefined } {
  const asked = wanted === undefined ? indexOfCall(log, callId) : indexOfAnswer(log, wanted);
  const { call, step } = openCallOf(log.slice(0, asked + 1), callId);
  const answered = log
    .slice(asked)
    .find(({ event }) => event.type === "question.answered" && event.callId === callId && isAnswerAt(event, step));
  if (answered?.event.type !== "question.answered") return { call, step, answer: undefined };
  return { call, step, answer: { by: answered.event.by, text: answered.event.text, at: answered.at } };
}

/** True for an answer to a question of this step. A provider may reuse the ids of calls in other steps. */
export function isAnswerAt({ step }: Extract<RunEvent, { type: "question.answered" }>, asked: number): boolean {
  return step === undefined || step === asked;
}

/** Returns the name of the post of a question. A provider may reuse the ids of calls in other steps. */
export function questionName(runId: string, step: number, callId: string): string {
  // PostgreSQL does not index long names, and model servers may put kilobytes of data into an id.
  return `question/${runId}/${step}/${/^[\w.:-]{1,100}$/.test(callId) ? callId : shortId(callId, 16)}`;
}

/** Returns the id of the event that presented an open question to people: its review, or the approval of its call. */
export function questionAskedId(log: readonly LoggedEvent[], callId: string): number {
  const sinceCall = log.slice(indexOfCall(log, callId));
  const asked = sinceCall.findLast(
    ({ event }) =>
      (event.type === "approval.granted" && event.callId === callId) ||
      (event.type === "calls.reviewed" && event.verdicts.some((verdict) => verdict.callId === callId)),
  );
  return asked?.id ?? 0;
}

/** Returns the index of the last call with this id, since a provider may reuse ids. */
function indexOfCall(log: readonly LoggedEvent[], callId: string): number {
  return log.findLastIndex(
    ({ event }) => event.type === "model.answered" && event.calls.some((call) => call.callId === callId),
  );
}

/** Returns the index of the model's answer with this number, counted from 1. */
function indexOfAnswer(log: readonly LoggedEvent[], step: number): number {
  let steps = 0;
  return log.findIndex(({ event: { type } }) => {
    if (type === "model.answered") steps += 1;
    return steps === step;
  });
}

/** Returns the finished tool calls of the model and of people, oldest first. */
export function finishedCalls(log: readonly LoggedEvent[]): readonly FinishedCall[] {
  return callsOf(log).finished;
}

const callsOf = foldForward(
  (): { step: number; calls: ModelCall[]; finished: FinishedCall[] } => ({ step: 0, calls: [], finished: [] }),
  (state, { event }) => {
    const { step, calls, finished } = state;
    if (event.type === "model.answered") {
      state.step += 1;
      state.calls = event.calls;
    }
    if (event.type === "tool.invoked") {
      const { callId, tool, args, result } = event;
      finished.push({ callId, tool, args, result, step, byPerson: true });
    }
    if (event.type === "tool.finished") {
      const { callId, tool, result } = event;
      finished.push({ callId, tool, args: calls.find((call) => call.callId === callId)?.args, result, step });
    }
  },
);

/** Returns the model that a person chose last; undefined if none was chosen. */
export function chosenModel(log: readonly LoggedEvent[]): string | undefined {
  return foldChoice(log).model;
}

const foldChoice = foldForward(
  (): { model: string | undefined } => ({ model: undefined }),
  (state, { event }) => {
    if (event.type === "model.changed") state.model = event.model;
  },
);

/** Returns what identifies the check results of a commit that were reported to the run, oldest first. */
export function reportedDigests(log: readonly LoggedEvent[], commit: string): string[] {
  return log.flatMap(({ event }) =>
    event.type === "checks.completed" && event.commit === commit && event.digest !== undefined ? [event.digest] : [],
  );
}

/** Returns the commits that the run pushed, oldest first. */
export function pushedCommits(log: readonly LoggedEvent[]): string[] {
  return log.flatMap(({ event }) => {
    if (event.type !== "tool.finished" && event.type !== "tool.invoked") return [];
    return pushedCommit(event.tool, event.result) ?? [];
  });
}
