import { describe, expect, test } from "vitest";
import { initialTransition, transition } from "xstate";
import { getShortestPaths } from "xstate/graph";
import type { RunEvent } from "#domain/events.ts";
import { Limits } from "#domain/worker.ts";
import type { EffectRequest } from "#machines/effects.ts";
import { workerMachine } from "#machines/worker-machine.ts";
import { snapshotVersion, WorkerSnapshot } from "#machines/worker-snapshot.ts";

type State = ReturnType<typeof workerMachine.resolveState>;

const result = { llmContent: "ok", value: { kind: "text" as const, content: "ok" } };
const usage = { inputTokens: 10, outputTokens: 5 };
const limits = Limits.parse({ steps: 3 });

const message: RunEvent = { type: "message.received", kind: "comment", text: "hello", by: "ada" };
const opened: RunEvent = { type: "sandbox.opened", commit: "c".repeat(40), branch: "main" };
const invoked: RunEvent = { type: "tool.invoked", callId: "i1", tool: "t", by: "ada", args: {}, result };
const reviewed = (answeredBy: "tool" | "person" | "worker", kind: "allow" | "ask"): RunEvent => ({
  type: "calls.reviewed",
  verdicts: [
    kind === "allow"
      ? { kind, callId: "a", tool: "t", answeredBy }
      : { kind, callId: "a", tool: "t", answeredBy, approvalId: "k7" },
    { kind: "refuse", callId: "b", tool: "u", result },
  ],
});

const events: RunEvent[] = [
  message,
  opened,
  { type: "sandbox.failed", reason: "empty repository" },
  answer(0),
  answer(2),
  { type: "model.failed", reason: "overloaded", retryable: true },
  { type: "model.failed", reason: "no such model", retryable: false },
  reviewed("tool", "allow"),
  reviewed("tool", "ask"),
  reviewed("person", "allow"),
  reviewed("worker", "allow"),
  reviewed("worker", "ask"),
  { type: "approval.granted", approvalId: "k7", callId: "a", by: "ada" },
  { type: "approval.denied", approvalId: "k7", callId: "a", by: "ada", reason: "no" },
  { type: "approval.expired", approvalId: "k7", callId: "a" },
  { type: "question.answered", callId: "a", text: "yes", by: "ada" },
  { type: "tool.finished", callId: "a", tool: "t", result },
  { type: "child.finished", callId: "a", childId: "c1", outcome: { kind: "answered", text: "done" }, usage },
  invoked,
  { type: "run.stop", by: "ada" },
  { type: "run.resume", by: "ada" },
  { type: "run.cancel", by: "ada" },
  { type: "timer.due", timer: "retry" },
  { type: "timer.due", timer: "deadline" },
];

function answer(calls: number): RunEvent {
  const made = ["a", "b"].slice(0, calls).map((callId) => ({ callId, tool: "t", args: {} }));
  return { type: "model.answered", text: "hm", calls: made, messages: [], usage, finishReason: "stop", lastSeenId: 0 };
}

/** Caps the counters that only grow, so that the search for states ends. */
function shape(state: State): string {
  const { openCalls, requestedCalls, unreadMessages, outcome, steps, consecutiveFailures } = state.context;
  return JSON.stringify([
    state.value,
    openCalls,
    requestedCalls > 0,
    unreadMessages > 0,
    outcome?.kind,
    Math.min(steps, 3),
    Math.min(consecutiveFailures, 5),
  ]);
}

function reachableStates(mode: "single" | "chat") {
  return getShortestPaths(workerMachine, {
    input: { mode, limits },
    events,
    serializeState: (state) => shape(state as State),
    limit: 20_000,
  });
}

describe.each(["single", "chat"] as const)("every state a %s worker can reach", (mode) => {
  const states = reachableStates(mode).map((path) => path.state as State);

  test("include every way of waiting", () => {
    const names = new Set(states.map((state) => nameOf(state)));

    for (const name of [
      "callingModel",
      "retrying",
      "executing",
      "awaitingApproval",
      "awaitingAnswer",
      "awaitingChild",
      "interrupted",
      "ended",
    ]) {
      expect(names).toContain(name);
    }
    expect(names.has("idle")).toBe(mode === "chat");
  });

  test("every state can be stored and restored in less than 2 KB", () => {
    for (const state of states) {
      const { value, context } = state;
      const snapshot = { version: snapshotVersion, value, context, workedMs: 0 };
      const json = JSON.stringify(snapshot);
      const stored = WorkerSnapshot.parse(JSON.parse(json));

      // The process that stored it continues with the snapshot itself.
      expect(stored).toEqual(snapshot);
      expect(shape(workerMachine.resolveState(stored))).toBe(shape(state));
      expect(json.length).toBeLessThan(2_048);
    }
  });

  test("final states have an outcome and no open calls", () => {
    for (const state of states.filter((state) => state.status === "done")) {
      expect(state.context.outcome).toBeDefined();
      expect(state.context.openCalls).toEqual([]);
    }
  });

  test("a run can be stopped and cancelled until it has ended", () => {
    for (const state of states.filter((state) => state.status !== "done")) {
      const [stopped] = transition(workerMachine, state, { type: "run.stop", by: "ada" });
      const [cancelled] = transition(workerMachine, state, { type: "run.cancel", by: "ada" });

      expect(nameOf(stopped)).toBe("interrupted");
      expect(cancelled.context.outcome).toEqual({ kind: "cancelled", by: "ada" });
    }
  });

  test("consume a second stop, so that one /resume is enough", () => {
    const [first] = [...states].filter((state) => nameOf(state) === "interrupted");

    expect(first?.can({ type: "run.stop", by: "ada" })).toBe(true);
  });

  test("no state loses a message from a person", () => {
    for (const state of states.filter((state) => state.status !== "done")) {
      const [after, actions] = transition(workerMachine, state, message);

      const calls = requests(actions).some(({ kind }) => kind === "model.call");
      expect(calls || after.context.unreadMessages > state.context.unreadMessages || after.status === "done").toBe(
        true,
      );
    }
  });

  test("no state changes when a person runs a tool", () => {
    for (const state of states.filter((state) => state.status !== "done")) {
      const [after, actions] = transition(workerMachine, state, invoked);

      expect(state.can(invoked)).toBe(true);
      expect({ value: after.value, context: after.context }).toEqual({ value: state.value, context: state.context });
      expect(actions).toEqual([]);
    }
  });

  test("request no effects once the run has ended", () => {
    for (const state of states.filter((state) => state.status === "done")) {
      for (const event of events) expect(transition(workerMachine, state, event)[1]).toEqual([]);
    }
  });
});

test("a child that reports after its parent was cancelled has cost something, too", () => {
  const ended = play([opened, { type: "run.cancel", by: "ada" }]);
  const outcome = { kind: "cancelled" as const, by: "fixer" };

  const [after] = transition(workerMachine, ended, {
    ...{ type: "child.finished", callId: "a", childId: "c1", outcome, usage, cost: 0.5 },
  });

  expect(after.context).toMatchObject({ cost: 0.5, outcome: { kind: "cancelled", by: "ada" } });
  expect(after.context.tokens).toBe(usage.inputTokens + usage.outputTokens);
});

test("a message that arrives during a model call is shown to the model before the run can end", () => {
  const state = play([opened, message, answer(0)]);

  expect(nameOf(state)).toBe("callingModel");
  expect(state.context.outcome).toBeUndefined();
});

test("an answer that does not match the output schema is asked for once more, also between two tool calls", () => {
  const mismatch: RunEvent = { ...answer(0), schemaProblem: "It is not valid JSON." } as RunEvent;
  const again = play([opened, mismatch]);
  const calling = play([opened, mismatch, answer(1), reviewed("tool", "allow")]);

  expect([nameOf(again), again.context.mismatches]).toEqual(["callingModel", 1]);
  expect([nameOf(calling), calling.context.mismatches]).toEqual(["executing", 1]);
  expect(play([opened, mismatch, answer(0)]).context.outcome).toEqual({ kind: "answered" });
  expect(play([opened, mismatch, mismatch]).context.outcome).toEqual({
    kind: "failed",
    reason: "The worker's answer does not match its output schema: It is not valid JSON.",
  });
});

test("the model is not called again after the last step that the limit allows", () => {
  const turn: RunEvent[] = [
    answer(1),
    reviewed("tool", "allow"),
    { type: "tool.finished", callId: "a", tool: "t", result },
  ];
  const state = play([opened, ...turn, ...turn, ...turn]);

  expect(state.context.outcome).toMatchObject({ kind: "limited", limit: "steps: 3" });
  expect(state.context.steps).toBe(3);
});

test("a model that keeps failing is called five times; then the run fails with its reason", () => {
  const failure: RunEvent = { type: "model.failed", reason: "The model is overloaded.", retryable: true };
  const retry: RunEvent = { type: "timer.due", timer: "retry" };
  const state = play([opened, failure, retry, failure, retry, failure, retry, failure, retry, failure]);

  expect(state.context.outcome).toEqual({ kind: "failed", reason: "The model is overloaded." });
});

test("the delay that a provider asks for is respected, up to ten minutes", () => {
  const failed = (retryAfterMs: number): RunEvent => ({
    type: "model.failed",
    reason: "busy",
    retryable: true,
    retryAfterMs,
  });
  const before = play([opened]);

  const [, actions] = transition(workerMachine, before, failed(30_000));
  expect(actions.find(({ type }) => type === "setTimer")).toMatchObject({
    params: { timer: "retry", afterMs: 30_000 },
  });
  expect(nameOf(transition(workerMachine, before, failed(3_600_000))[0])).toBe("ended");
});

test("approving one of several calls runs that call and leaves the others open", () => {
  const asked: RunEvent = {
    type: "calls.reviewed",
    verdicts: [
      { kind: "ask", callId: "a", tool: "t", answeredBy: "tool", approvalId: "k1" },
      { kind: "ask", callId: "b", tool: "t", answeredBy: "tool", approvalId: "k2" },
    ],
  };
  const before = play([opened, answer(2), asked]);
  const [state, actions] = transition(workerMachine, before, {
    type: "approval.granted",
    approvalId: "k2",
    callId: "b",
    by: "ada",
  });

  expect(requests(actions)).toContainEqual({ kind: "tool.execute", callId: "b", approvalId: "k2" });
  expect(nameOf(state)).toBe("executing");
  const after = transition(workerMachine, state, { type: "tool.finished", callId: "b", tool: "t", result })[0];
  expect(nameOf(after)).toBe("awaitingApproval");
});

test("a run that is stopped while the repository is being opened opens it again after a resume", () => {
  const stopped = play([
    { type: "run.stop", by: "ada" },
    { type: "sandbox.failed", reason: "aborted" },
  ]);
  expect(nameOf(stopped)).toBe("interrupted");

  const [resumed, actions] = transition(workerMachine, stopped, { type: "run.resume", by: "ada" });
  expect(nameOf(resumed)).toBe("preparing");
  expect(requests(actions)).toEqual([{ kind: "sandbox.open" }]);
  expect(nameOf(transition(workerMachine, resumed, opened)[0])).toBe("callingModel");
});

test("a resume or retry of a run that is not waiting for it is consumed without effect", () => {
  const working = play([opened]);

  for (const type of ["run.resume", "retry.requested"] as const) {
    expect(working.can({ type, by: "ada" })).toBe(true);
    expect(requests(transition(workerMachine, working, { type, by: "ada" })[1])).toEqual([]);
  }
});

test("a retry that a person asks for does not wait for the timer", () => {
  const failed = play([opened, { type: "model.failed", reason: "overloaded", retryable: true }]);

  const [state, actions] = transition(workerMachine, failed, { type: "retry.requested", by: "ada" });

  expect(nameOf(state)).toBe("callingModel");
  expect(actions.map(({ type }) => type)).toContain("clearTimer");
});

describe("run at its cost limit", () => {
  const spent: RunEvent = { ...answer(1), cost: 6 } as RunEvent;
  const finished: RunEvent[] = [reviewed("tool", "allow"), { type: "tool.finished", callId: "a", tool: "t", result }];
  const input = { mode: "single" as const, limits: Limits.parse({ steps: 3, cost: 5 }), pausesAtCostLimit: true };
  const paused = (more = input) =>
    [opened, spent, ...finished].reduce<State>(
      (state, event) => transition(workerMachine, state, event)[0],
      initialTransition(workerMachine, more)[0],
    );

  test("a run at its cost limit waits until a person raises the limit, and continues where it was", () => {
    const waiting = paused();
    expect(nameOf(waiting)).toBe("awaitingBudget");

    const raised: RunEvent = { type: "cost_limit.raised", limit: 8, by: "ada" };
    const [state, actions] = transition(workerMachine, waiting, raised);
    expect(nameOf(state)).toBe("callingModel");
    expect(state.context.limits.cost).toBe(8);
    expect(requests(actions)).toContainEqual({ kind: "model.call" });

    const [later] = transition(workerMachine, state, { ...raised, limit: 7 });
    expect(later.context.limits.cost).toBe(8);
  });

  test("a run at its cost limit waits again when the raise was too small", () => {
    const [state] = transition(workerMachine, paused(), { type: "cost_limit.raised", limit: 5.5, by: "ada" });

    expect(nameOf(state)).toBe("awaitingBudget");
  });

  test("a run at its cost limit ends where nobody can raise the limit, and where another limit is reached as well", () => {
    expect(paused({ ...input, pausesAtCostLimit: false }).context.outcome).toMatchObject({ kind: "limited" });
    expect(paused({ ...input, limits: { ...input.limits, steps: 1 } }).context.outcome).toMatchObject({
      kind: "limited",
    });
  });
});

describe("a run whose pull request", () => {
  const pull = { llmContent: "ok", value: { kind: "pull_request", data: { number: 8 } } };
  const proposed = play([
    opened,
    answer(1),
    reviewed("tool", "allow"),
    { type: "tool.finished", callId: "a", tool: "open_pull_request", result: pull },
    answer(0),
  ]);
  const closed = (merged: boolean): State =>
    transition(workerMachine, proposed, { type: "pull_request.closed", number: 8, merged, by: "ada" })[0];
  const reopen = (state: State, number = 8): State =>
    workerMachine.resolveState(
      transition(workerMachine, state, { type: "pull_request.reopened", number, by: "ada" })[0],
    );

  test("a run whose pull request was closed continues when it is reopened", () => {
    expect(nameOf(closed(false))).toBe("ended");

    const reopened = reopen(closed(false));

    expect(nameOf(reopened)).toBe("idle");
    expect(reopened.context).toMatchObject({ outcome: undefined, isPullRequestClosed: false });
    expect(reopened.can({ type: "pull_request.closed", number: 8, merged: true, by: "ada" })).toBe(true);
  });

  const review = (requestsChanges: boolean): RunEvent => ({
    type: "pull_request.reviewed",
    by: "ada",
    requestsChanges,
    text: "Say more.",
  });
  const close: RunEvent = { type: "pull_request.closed", number: 8, merged: false, by: "ada" };
  const message: RunEvent = { type: "message.received", kind: "comment", text: "Why?", by: "ada" };
  const proposedAnd = (...events: RunEvent[]): State =>
    events.reduce((state, event) => workerMachine.resolveState(transition(workerMachine, state, event)[0]), proposed);

  test.each<[string, RunEvent[], string]>([
    ["a review that was not answered", [review(true), close], "callingModel"],
    ["a message that was not answered", [message, close], "callingModel"],
    ["a review reported before the reopening", [close, review(true)], "callingModel"],
    ["a message reported before the reopening", [close, message], "callingModel"],
    ["no call of the model where its steps are used up", [message, answer(0), close, message], "idle"],
    ["a review that requests nothing", [review(false), close], "idle"],
    ["a review that requests nothing, reported before the reopening", [close, review(false)], "idle"],
    ["the pause of a person, who resumes it", [{ type: "run.stop", by: "ada" }, message, close], "interrupted"],
    [
      "a pause and a review reported before the reopening",
      [{ type: "run.stop", by: "ada" }, close, review(true)],
      "interrupted",
    ],
    ["a pause after it was closed", [message, close, { type: "run.stop", by: "ada" }], "interrupted"],
  ])("a run whose pull request was closed continues with %s", (_, events, expected) => {
    expect(nameOf(proposedAnd(...events))).toBe("ended");
    const reopened = reopen(proposedAnd(...events));
    expect(nameOf(reopened)).toBe(expected);
    expect(reopened.context).toMatchObject({ outcome: undefined, isPullRequestClosed: false, wasPaused: false });
  });

  test("a run whose pull request was closed requests the model call when it continues its work", () => {
    const [, actions] = transition(workerMachine, proposedAnd(message, close), {
      type: "pull_request.reopened",
      number: 8,
      by: "ada",
    });

    expect(requests(actions)).toEqual([{ kind: "model.call" }]);
  });

  test("a run whose pull request was merged stays ended, and so does one that was cancelled", () => {
    expect(nameOf(reopen(closed(true)))).toBe("ended");
    expect(nameOf(reopen(closed(false), 9))).toBe("ended");
    expect(nameOf(reopen(transition(workerMachine, proposed, { type: "run.cancel", by: "ada" })[0]))).toBe("ended");
  });
});

function play(steps: RunEvent[]): State {
  const [first] = initialTransition(workerMachine, { mode: "single", limits });
  return steps.reduce<State>((state, event) => transition(workerMachine, state, event)[0], first);
}

function nameOf({ value }: State): string {
  return typeof value === "string" ? value : String(Object.values(value)[0]);
}

function requests(actions: readonly { type: string; params?: unknown }[]): EffectRequest[] {
  return actions.flatMap(({ type, params }) =>
    type === "requestEffects" ? (params as { effects: EffectRequest[] }).effects : [],
  );
}
