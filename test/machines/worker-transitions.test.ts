import { describe, expect, test } from "vitest";
import { initialTransition, transition } from "xstate";
import { RunEvent } from "#domain/events.ts";
import { Limits } from "#domain/worker.ts";
import type { EffectRequest } from "#machines/effects.ts";
import { workerMachine } from "#machines/worker-machine.ts";

type State = ReturnType<typeof workerMachine.resolveState>;
type StateName = keyof typeof pathTo;
type EventName = keyof typeof event;
type Input = Parameters<typeof initialTransition<typeof workerMachine>>[1];

const usage = { inputTokens: 10, outputTokens: 5 };
const result = { llmContent: "ok", value: { kind: "text" as const, content: "ok" } };
const pullRequest = { llmContent: "ok", value: { kind: "pull_request" as const, data: { number: 8 } } };
const by = "ada";

function answer(calls: string[], changes: object = {}): RunEvent {
  const made = calls.map((callId) => ({ callId, tool: "t", args: {} }));
  const type = "model.answered";
  return { type, text: "", calls: made, messages: [], usage, finishReason: "stop", lastSeenId: 0, ...changes };
}

function reviewed(kind: "allow" | "ask", answeredBy: "tool" | "person" | "worker", approvalId?: string): RunEvent {
  const verdict = { callId: "a", tool: "t", answeredBy };
  const verdicts =
    kind === "ask" ? [{ kind, ...verdict, approvalId: approvalId ?? "k7" }] : [{ kind, ...verdict, approvalId }];
  return RunEvent.parse({ type: "calls.reviewed", verdicts });
}

/** One event of each type, and more where the machine distinguishes them. */
const event = {
  opened: { type: "sandbox.opened", commit: "c".repeat(40), branch: "main" },
  "could not open": { type: "sandbox.failed", reason: "The repository is empty." },
  message: { type: "message.received", kind: "comment", text: "hello", by },
  answered: answer([]),
  "wants a call": answer(["a"]),
  "model failed": { type: "model.failed", reason: "overloaded", retryable: true },
  "model refused": { type: "model.failed", reason: "no such model", retryable: false },
  "call allowed": reviewed("allow", "tool"),
  "call needs approval": reviewed("ask", "tool"),
  "call refused": { type: "calls.reviewed", verdicts: [{ kind: "refuse", callId: "a", tool: "t", result }] },
  "question allowed": reviewed("allow", "person"),
  "question needs approval": reviewed("ask", "person"),
  "delegation allowed": reviewed("allow", "worker"),
  "delegation needs approval": reviewed("ask", "worker"),
  granted: { type: "approval.granted", approvalId: "k7", callId: "a", by },
  denied: { type: "approval.denied", approvalId: "k7", callId: "a", by, reason: "no" },
  expired: { type: "approval.expired", approvalId: "k7", callId: "a" },
  "tool finished": { type: "tool.finished", callId: "a", tool: "t", result },
  "pull request opened": { type: "tool.finished", callId: "a", tool: "open_pull_request", result: pullRequest },
  "question answered": { type: "question.answered", callId: "a", text: "yes", by },
  "child finished": {
    type: "child.finished",
    callId: "a",
    childId: "c1",
    outcome: { kind: "answered", text: "done" },
    usage: { inputTokens: 300, outputTokens: 40 },
    cost: 1.5,
  },
  "retry timer": { type: "timer.due", timer: "retry" },
  deadline: { type: "timer.due", timer: "deadline" },
  retry: { type: "retry.requested", by },
  stop: { type: "run.stop", by },
  resume: { type: "run.resume", by },
  cancel: { type: "run.cancel", by },
  exit: { type: "run.exit", by },
  "changes requested": { type: "pull_request.reviewed", by, requestsChanges: true, text: "Rename it." },
  "review without a request": { type: "pull_request.reviewed", by, requestsChanges: false, text: "Nice." },
  "checks failed": checks({ passed: false }),
  "checks passed": checks({ passed: true }),
  "checks fail on the base, too": checks({ passed: false, failedOnBase: true }),
  merged: { type: "pull_request.closed", number: 8, merged: true, by },
  closed: { type: "pull_request.closed", number: 8, merged: false, by },
  reopened: { type: "pull_request.reopened", number: 8, by },
  "limit raised": { type: "cost_limit.raised", limit: 9, by },
  "tool run by a person": { type: "tool.invoked", callId: "i1", tool: "t", by, args: {}, result },
  "guidance read": { type: "guidance.read", files: [] },
  "model changed": { type: "model.changed", model: "x:y", by },
  cleared: { type: "conversation.cleared", by },
  compacted: { type: "conversation.compacted", throughId: 3, summary: "", usage, cost: 0.25 },
} satisfies Record<string, RunEvent>;

function checks({ passed, failedOnBase = false }: { passed: boolean; failedOnBase?: boolean }): RunEvent {
  return { type: "checks.completed", commit: "c".repeat(40), passed, failedOnBase, text: "" };
}

/** The events that lead to each state. */
const pathTo = {
  preparing: [],
  callingModel: ["opened"],
  retrying: ["opened", "model failed"],
  reviewing: ["opened", "wants a call"],
  executing: ["opened", "wants a call", "call allowed"],
  awaitingApproval: ["opened", "wants a call", "call needs approval"],
  awaitingAnswer: ["opened", "wants a call", "question allowed"],
  awaitingChild: ["opened", "wants a call", "delegation allowed"],
  idle: ["opened", "wants a call", "call allowed", "pull request opened", "answered"],
  interrupted: ["opened", "stop"],
  "interrupted while preparing": ["stop"],
  "ended with an answer": ["opened", "answered"],
  "ended by a merge": ["opened", "wants a call", "call allowed", "pull request opened", "answered", "merged"],
} satisfies Record<string, EventName[]>;

const limits = Limits.parse({ steps: 20, tokens: 10_000, cost: 5, minutes: 30, ci_repairs: 2 });

function play(names: readonly EventName[], input: Partial<Input> = {}): State {
  const [first] = initialTransition(workerMachine, { mode: "single", limits, ...input });
  return playOn(first, ...names.map((name) => event[name]));
}

function playOn(state: State, ...events: RunEvent[]): State {
  return events.reduce<State>((before, next) => transition(workerMachine, before, next)[0], state);
}

function expectNoEffect(path: readonly EventName[], given: RunEvent): void {
  const before = play(path);

  const [after, actions] = transition(workerMachine, before, given);

  expect(before.can(given)).toBe(true);
  expect({ value: after.value, context: after.context }).toEqual({ value: before.value, context: before.context });
  expect(actions).toEqual([]);
}

function nameOf({ value }: State): string {
  return typeof value === "string" ? value : String(Object.values(value)[0]);
}

function requests(actions: readonly { type: string; params?: unknown }[]): EffectRequest[] {
  return actions.flatMap(({ type, params }) =>
    type === "requestEffects" ? (params as { effects: EffectRequest[] }).effects : [],
  );
}

function timers(actions: readonly { type: string; params?: unknown }[]) {
  return actions.filter(({ type }) => type === "setTimer" || type === "clearTimer").map(({ params }) => params);
}

const model = { kind: "model.call" };
const review = { kind: "calls.review" };
const request = { kind: "approval.post", approvalId: "k7" };
const execute = { kind: "tool.execute", callId: "a", approvalId: undefined };
const question = { kind: "question.post", callId: "a", step: 1 };
const spawn = { kind: "child.spawn", callId: "a", approvalId: undefined };
const closeAll = [{ kind: "children.stop" }, { kind: "approvals.close" }];
const end = [...closeAll, { kind: "outcome.report" }];

test.each(Object.keys(pathTo) as StateName[])(
  "%s: an event is handled if it gives a new state or requests an effect, and only then",
  (name) => {
    const state = play(pathTo[name]);

    for (const [sent, next] of Object.entries(event)) {
      const [after, actions] = transition(workerMachine, state, next);
      expect([sent, after !== state || actions.length > 0]).toEqual([sent, state.can(next)]);
    }
  },
);

test.each<[StateName, EventName, string, object[]]>([
  ["preparing", "opened", "callingModel", [model]],
  ["preparing", "could not open", "ended", end],
  ["callingModel", "answered", "ended", end],
  ["callingModel", "wants a call", "reviewing", [review]],
  ["callingModel", "model failed", "retrying", []],
  ["callingModel", "model refused", "ended", end],
  ["retrying", "retry timer", "callingModel", [model]],
  ["retrying", "retry", "callingModel", [model]],
  ["reviewing", "call allowed", "executing", [execute]],
  ["reviewing", "call needs approval", "awaitingApproval", [request]],
  ["reviewing", "call refused", "callingModel", [model]],
  ["reviewing", "question allowed", "awaitingAnswer", [question]],
  ["reviewing", "question needs approval", "awaitingApproval", [request]],
  ["reviewing", "delegation allowed", "awaitingChild", [spawn]],
  ["reviewing", "delegation needs approval", "awaitingApproval", [request]],
  ["awaitingApproval", "granted", "executing", [{ ...execute, approvalId: "k7" }, request]],
  ["awaitingApproval", "denied", "callingModel", [request, model]],
  ["awaitingApproval", "expired", "callingModel", [request, model]],
  ["executing", "tool finished", "callingModel", [model]],
  ["awaitingAnswer", "question answered", "callingModel", [{ kind: "question.close", callId: "a", step: 1 }, model]],
  ["awaitingAnswer", "stop", "interrupted", [{ kind: "question.close", callId: "a", step: 1 }, ...closeAll]],
  ["awaitingAnswer", "cancel", "ended", [{ kind: "question.close", callId: "a", step: 1 }, ...end]],
  ["awaitingApproval", "stop", "interrupted", closeAll],
  ["awaitingChild", "child finished", "callingModel", [model]],
  ["awaitingChild", "stop", "interrupted", closeAll],
  ["interrupted", "resume", "callingModel", [model]],
  ["interrupted while preparing", "resume", "preparing", [{ kind: "sandbox.open" }]],
  ["idle", "message", "callingModel", [model]],
  ["idle", "changes requested", "callingModel", [model]],
  ["idle", "review without a request", "idle", []],
  ["idle", "checks failed", "callingModel", [model]],
  ["idle", "checks passed", "idle", []],
  ["idle", "checks fail on the base, too", "idle", []],
  ["idle", "merged", "ended", end],
  ["idle", "closed", "ended", end],
  ["idle", "reopened", "idle", []],
])("%s: %s leads to %s", (from, name, to, effects) => {
  const before = play(pathTo[from]);

  const [after, actions] = transition(workerMachine, before, event[name]);

  expect(nameOf(after)).toBe(to);
  expect(requests(actions)).toEqual(effects);
});

test("the states that work are busy, and those that wait are not", () => {
  const isBusy = Object.fromEntries(
    Object.entries(pathTo).map(([name, path]) => [name, play(path as EventName[]).hasTag("busy")]),
  );

  expect(isBusy).toEqual({
    preparing: true,
    callingModel: true,
    retrying: true,
    reviewing: true,
    executing: true,
    awaitingApproval: false,
    awaitingAnswer: false,
    awaitingChild: false,
    idle: false,
    interrupted: false,
    "interrupted while preparing": false,
    "ended with an answer": false,
    "ended by a merge": false,
  });
});

describe("event", () => {
  /** These stay in the inbox until the machine is waiting for them. */
  const answers: EventName[] = [
    "opened",
    "could not open",
    "answered",
    "wants a call",
    "model failed",
    "model refused",
    "retry timer",
  ];
  const atAnyTime = (Object.keys(event) as EventName[]).filter((name) => !answers.includes(name));

  test.each(atAnyTime)("an event never waits in the inbox of a live run: %s", (name) => {
    const live = Object.values(pathTo)
      .map((path) => play(path))
      .filter(({ status }) => status !== "done");

    for (const state of live) expect(state.can(event[name])).toBe(true);
  });

  test.each(answers)("an event that nothing waits for stays in the inbox: %s", (name) => {
    expect(play(pathTo.idle).can(event[name])).toBe(false);
    expect(play(pathTo["ended with an answer"]).can(event[name])).toBe(false);
  });

  // It has cost something, also if its parent was cancelled meanwhile.
  const withoutCost = (Object.keys(event) as EventName[]).filter((name) => name !== "child finished");

  test.each(withoutCost)("an event changes nothing of a run that has ended: %s", (name) => {
    for (const path of [pathTo["ended with an answer"], pathTo["ended by a merge"]]) {
      const before = play(path);

      const [after, actions] = transition(workerMachine, before, event[name]);

      expect(before.can(event[name])).toBe(false);
      expect({ value: after.value, context: after.context }).toEqual({ value: before.value, context: before.context });
      expect(actions).toEqual([]);
    }
  });

  test.each(["granted", "denied", "expired", "tool finished", "question answered"] as const)(
    "about another call changes nothing: %s",
    (name) => {
      for (const path of [pathTo.executing, pathTo.awaitingApproval, pathTo.awaitingAnswer, pathTo.awaitingChild]) {
        expectNoEffect(path, { ...event[name], callId: "b" });
      }
    },
  );

  test.each(["granted", "denied", "expired"] as const)("about an approval needs a call that waits: %s", (name) => {
    expectNoEffect(pathTo.executing, event[name]);
    expect(nameOf(playOn(play(pathTo.awaitingApproval), event[name]))).not.toBe("awaitingApproval");
  });

  test("an event with a result needs a call that runs", () => {
    expectNoEffect(pathTo.awaitingApproval, event["tool finished"]);
    expect(nameOf(playOn(play(pathTo.executing), event["tool finished"]))).toBe("callingModel");
  });

  test("an answer belongs to the step that asked, since a provider may repeat the ids of calls", () => {
    const asking = play(pathTo.awaitingAnswer);

    expectNoEffect(pathTo.awaitingAnswer, { ...event["question answered"], step: asking.context.steps - 1 });
    expect(nameOf(playOn(asking, { ...event["question answered"], step: asking.context.steps }))).toBe("callingModel");
  });

  test("a pull request that was opened at the moment of a stop belongs to the run", () => {
    const stopped = play([...pathTo.executing, "stop", "pull request opened"]);

    expect(nameOf(stopped)).toBe("interrupted");
    expect(stopped.context.pullRequest).toBe(8);
  });

  test.each([
    "tool run by a person",
    "guidance read",
    "call allowed",
    "call needs approval",
    "granted",
    "denied",
    "expired",
    "tool finished",
    "question answered",
    "model changed",
    "cleared",
    "resume",
    "retry",
    "checks passed",
    "checks fail on the base, too",
    "reopened",
  ] as const)("an event that needs no reaction is consumed without one: %s", (name) => {
    expectNoEffect(pathTo.callingModel, event[name]);
  });
});

describe("the outcome", () => {
  test.each<[string, EventName[], object]>([
    ["an answer", ["opened", "answered"], { kind: "answered" }],
    ["a repository that cannot be opened", ["could not open"], { kind: "failed", reason: "The repository is empty." }],
    ["a model that does not exist", ["opened", "model refused"], { kind: "failed", reason: "no such model" }],
    ["/cancel", ["opened", "cancel"], { kind: "cancelled", by: "ada" }],
    ["/exit", ["opened", "exit"], { kind: "answered" }],
    ["a merge", ["opened", "merged"], { kind: "answered" }],
    [
      "a deadline",
      ["opened", "wants a call", "call allowed", "deadline"],
      {
        kind: "limited",
        limit: "minutes: 30",
        reason: "The run reached its limit (minutes: 30) before it was done.",
      },
    ],
  ])("the outcome of %s", (_, path, outcome) => {
    const state = play(path);

    expect(nameOf(state)).toBe("ended");
    expect(state.context.outcome).toEqual(outcome);
    expect(state.context.openCalls).toEqual([]);
  });

  test("the outcome of a run whose pull request was closed says whether it may be reopened", () => {
    expect(play([...pathTo.idle, "merged"]).context.isPullRequestClosed).toBe(false);
    expect(play([...pathTo.idle, "closed"]).context.isPullRequestClosed).toBe(true);
    expect(play(["opened", "answered"]).context.isPullRequestClosed).toBe(false);
  });

  test("the outcome of an interrupted run is open: it forgets its calls", () => {
    const { context } = play([...pathTo.executing, "stop"]);

    expect(context.outcome).toBeUndefined();
    expect(context).toMatchObject({ openCalls: [], requestedCalls: 0 });
  });
});

describe("interruption", () => {
  test.each(["stop", "cancel", "exit", "deadline", "merged"] as const)(
    "an interruption by %s cancels effects and withdraws requests",
    (name) => {
      const [, actions] = transition(workerMachine, play(pathTo.awaitingApproval), event[name]);

      expect(actions.map(({ type }) => type)).toEqual(expect.arrayContaining(["cancelEffects", "withdrawApprovals"]));
    },
  );

  test("an interruption applies changes of the sandbox that happen during the call", () => {
    const stopped = play(["stop"]);

    expect(nameOf(playOn(stopped, event.stop))).toBe("interrupted");
    expect(nameOf(playOn(stopped, event["could not open"]))).toBe("interrupted");
    expect(nameOf(playOn(stopped, event.opened))).toBe("interrupted");
    expect(nameOf(playOn(stopped, event.opened, event.resume))).toBe("callingModel");
    expect(nameOf(playOn(stopped, event["could not open"], event.resume))).toBe("preparing");
  });
});

describe("run that has answered", () => {
  test("a run that has answered ends, unless it is a chat or the root of a run with a pull request", () => {
    const answered: EventName[] = ["opened", "answered"];
    const proposed = pathTo.idle;

    expect(nameOf(play(answered))).toBe("ended");
    expect(nameOf(play(answered, { mode: "chat" }))).toBe("idle");
    expect(nameOf(play(proposed))).toBe("idle");
    expect(nameOf(play(proposed, { isRoot: false }))).toBe("ended");
  });

  test("a run that has answered posts its answer when it stays idle", () => {
    const [, actions] = transition(workerMachine, play(["opened"], { mode: "chat" }), event.answered);

    expect(requests(actions)).toEqual([{ kind: "answer.post", step: 1 }]);
  });

  test("a run that has answered has no pull request when the call that should have opened one failed", () => {
    const error = { type: "user_error", code: "CONFLICT", message: "no" };
    const failed = RunEvent.parse({ ...event["pull request opened"], result: { ...pullRequest, error } });

    expect(playOn(play(pathTo.executing), failed).context.pullRequest).toBeUndefined();
    expect(play([...pathTo.executing, "pull request opened"]).context.pullRequest).toBe(8);
    // The result of a custom tool may have the same form.
    const custom = RunEvent.parse({ ...event["pull request opened"], tool: "deploy" });
    expect(playOn(play(pathTo.executing), custom).context.pullRequest).toBeUndefined();
    expect(play([...pathTo.executing, "tool finished"]).context.pullRequest).toBeUndefined();
  });

  test("a run that has answered has no pull request because another result has a number", () => {
    const value = { kind: "json" as const, data: { number: 8 } };
    const numbered: RunEvent = { type: "tool.finished", callId: "a", tool: "t", result: { llmContent: "", value } };

    expect(playOn(play(pathTo.executing), numbered).context.pullRequest).toBeUndefined();
  });

  test("a run that has answered keeps its pull request when a later call finishes", () => {
    const state = play([...pathTo.idle, "message", "wants a call", "call allowed", "tool finished"]);

    expect(state.context.pullRequest).toBe(8);
  });
});

describe("events while the run is busy", () => {
  test.each(["message", "changes requested", "review without a request", "checks failed"] as const)(
    "an event that arrives while the run is busy is read before the run ends: %s",
    (name) => {
      const state = play(["opened", name, "answered"]);

      expect(nameOf(state)).toBe("callingModel");
      expect(state.context.unreadMessages).toBe(0);
      expect(nameOf(playOn(state, event.answered))).toBe("ended");
    },
  );

  test("events that arrive while the run is busy are counted", () => {
    expect(play(["opened", "message", "message", "changes requested"]).context.unreadMessages).toBe(3);
  });

  test("events that arrive while the run is busy continue an idle run once", () => {
    const state = play([...pathTo.idle, "message", "answered"]);

    expect(nameOf(state)).toBe("idle");
  });
});

describe("failed checks", () => {
  test("wake the run as often as its limit says", () => {
    const twice = play([...pathTo.idle, "checks failed", "answered", "checks failed", "answered"]);

    expect(twice.context.checkRepairs).toBe(2);
    expect(nameOf(twice)).toBe("idle");
    expect(nameOf(playOn(twice, event["checks failed"]))).toBe("idle");
  });

  test("count while the run is busy as well", () => {
    const busy = play(["opened", "checks failed", "checks failed", "checks failed", "checks passed"]);

    expect(busy.context).toMatchObject({ checkRepairs: 2, unreadMessages: 2 });
  });
});

describe("usage", () => {
  test("usage adds up answers, children and summaries", () => {
    const state = playOn(
      play(["opened", "compacted"]),
      answer(["a"], { cost: 0.5 }),
      event["delegation allowed"],
      event["child finished"],
    );

    expect(state.context).toMatchObject({ steps: 1, tokens: 15 + 15 + 340, cost: 0.25 + 0.5 + 1.5 });
  });

  test("usage includes children that were cancelled when the run was paused", () => {
    const paused = playOn(play(pathTo.awaitingChild), event.stop);

    const told = playOn(paused, event["child finished"]);

    expect(nameOf(told)).toBe("interrupted");
    expect(told.context).toEqual({ ...paused.context, tokens: 15 + 340, cost: 1.5 });
  });

  test("usage counts calls and children of unknown price as free", () => {
    const { cost: _, ...unpriced } = event["child finished"];
    const state = playOn(play(pathTo.awaitingChild), unpriced as RunEvent);

    expect(state.context).toMatchObject({ steps: 1, tokens: 15 + 340, cost: 0 });
  });

  test("usage starts at zero", () => {
    expect(play([]).context).toMatchObject({ steps: 0, tokens: 0, cost: 0, consecutiveFailures: 0, checkRepairs: 0 });
  });
});

describe("limit", () => {
  const spend = (changes: object) => (state: State) =>
    playOn(state, answer(["a"], changes), event["call allowed"], event["tool finished"]);
  const tokens = (count: number) => spend({ usage: { inputTokens: count - 5, outputTokens: 5 } });

  test.each<[string, (state: State) => State, string | undefined]>([
    ["19 of 20 steps", (state) => Array.from({ length: 19 }).reduce<State>(spend({}), state), undefined],
    ["20 of 20 steps", (state) => Array.from({ length: 20 }).reduce<State>(spend({}), state), "steps: 20"],
    ["9,999 of 10,000 tokens", tokens(9_999), undefined],
    ["10,000 of 10,000 tokens", tokens(10_000), "tokens: 10000"],
    ["$4.99 of $5", spend({ cost: 4.99 }), undefined],
    ["$5 of $5", spend({ cost: 5 }), "cost: $5"],
    ["$6 of $5", spend({ cost: 6 }), "cost: $5"],
  ])("a limit is checked before the next model call: %s", (_, work, limit) => {
    const state = work(play(["opened"]));

    expect(nameOf(state)).toBe(limit ? "ended" : "callingModel");
    expect(state.context.outcome).toEqual(
      limit && { kind: "limited", limit, reason: `The run reached its limit (${limit}) before it was done.` },
    );
  });

  test("a limit does not discard a last answer", () => {
    expect(playOn(play(["opened"]), answer([], { cost: 6 })).context.outcome).toEqual({ kind: "answered" });
  });

  test.each(["message", "changes requested", "checks failed"] as const)(
    "a limit that is used up ends an idle run that is woken: %s",
    (name) => {
      const idle = playOn(play(pathTo.idle), event.message, answer([], { cost: 6 }));

      expect(nameOf(idle)).toBe("idle");
      expect(playOn(idle, event[name]).context.outcome).toMatchObject({ kind: "limited", limit: "cost: $5" });
    },
  );

  test("a limit ends an interrupted run when it is resumed", () => {
    const working = playOn(play(["opened"]), answer(["a"], { cost: 6 }), event.stop, event.resume);

    expect(working.context.outcome).toMatchObject({ kind: "limited", limit: "cost: $5" });
  });

  test("a cost limit that was raised early counts as soon as it is reached", () => {
    const raised = play(["opened", "limit raised"]);

    expect(raised.context.limits).toEqual({ ...limits, cost: 9 });
    expect(nameOf(spend({ cost: 6 })(raised))).toBe("callingModel");
  });

  test("a cost limit pauses a run that may ask for more, and says so", () => {
    const paused = { pausesAtCostLimit: true };
    const before = playOn(play(["opened"], paused), answer(["a"], { cost: 5 }), event["call allowed"]);

    const [waiting, actions] = transition(workerMachine, before, event["tool finished"]);

    expect(nameOf(waiting)).toBe("awaitingBudget");
    expect(waiting.hasTag("busy")).toBe(false);
    expect(requests(actions)).toEqual([{ kind: "budget.post" }]);
    expect(playOn(waiting, event["limit raised"]).context.limits).toEqual({ ...limits, cost: 9 });
    expect(nameOf(spend({ cost: 4 })(play(["opened"], paused)))).toBe("callingModel");
  });

  test("a time limit is not reached by a timer of another kind", () => {
    expect(nameOf(playOn(play(pathTo.executing), event["retry timer"]))).toBe("executing");
    expect(nameOf(playOn(play(pathTo.retrying), event.deadline))).toBe("ended");
  });
});

describe("model that fails", () => {
  const failed = (changes: object = {}): RunEvent => ({ ...event["model failed"], ...changes }) as RunEvent;
  const delayAfter = (failures: number, changes = {}) => {
    const retries = Array.from({ length: failures }, () => ["model failed", "retry timer"] as const).flat();
    return timers(transition(workerMachine, play(["opened", ...retries]), failed(changes))[1]);
  };

  test("a model that fails is called again after two seconds, then four, and so on", () => {
    expect([0, 1, 2, 3].map((failures) => delayAfter(failures))).toEqual(
      [2_000, 4_000, 8_000, 16_000].map((afterMs) => [{ timer: "retry", afterMs }]),
    );
  });

  test("a model whose provider asks for no delay is not called five times within a second", () => {
    expect([0, 1, 2, 3].map((failures) => delayAfter(failures, { retryAfterMs: 0 }))).toEqual(
      [0, 0, 8_000, 16_000].map((afterMs) => [{ timer: "retry", afterMs }]),
    );
    expect(delayAfter(3, { retryAfterMs: 30_000 })).toEqual([{ timer: "retry", afterMs: 30_000 }]);
  });

  test("a model that fails with an answer that cannot be used has it counted", () => {
    const used = { usage: { inputTokens: 100, outputTokens: 10 }, cost: 2 };
    const retrying = playOn(play(["opened"]), failed(used));

    expect(retrying.context).toMatchObject({ tokens: 110, cost: 2 });
  });

  test("a model that has used up a limit with answers that cannot be used is not called again", () => {
    const overspent = playOn(play(["opened"]), failed({ usage: { inputTokens: 1, outputTokens: 1 }, cost: 1_000 }));

    for (const name of ["retry timer", "retry"] as const) {
      const { value, context } = playOn(overspent, event[name]);
      expect([value, context.outcome?.kind]).toEqual(["ended", "limited"]);
    }
  });

  test("a model that fails is not called a sixth time", () => {
    const four = Array.from({ length: 4 }, () => ["model failed", "retry timer"] as const).flat();
    const state = play(["opened", ...four]);

    expect(state.context.consecutiveFailures).toBe(4);
    expect(nameOf(playOn(state, failed()))).toBe("ended");
  });

  test("a model that answers after failures has them forgiven", () => {
    const state = play(["opened", "model failed", "retry timer", "wants a call"]);

    expect(state.context.consecutiveFailures).toBe(0);
  });

  test("a failed model call may request a delay of at most ten minutes", () => {
    expect(nameOf(playOn(play(["opened"]), failed({ retryAfterMs: 600_000 })))).toBe("retrying");
    expect(nameOf(playOn(play(["opened"]), failed({ retryAfterMs: 600_001 })))).toBe("ended");
  });

  test("a model that fails leaves no timer behind", () => {
    for (const name of ["retry timer", "retry", "stop", "cancel"] as const) {
      expect(timers(transition(workerMachine, play(pathTo.retrying), event[name])[1])).toEqual([{ timer: "retry" }]);
    }
  });
});

describe("answer that does not match the output schema", () => {
  const mismatch = (calls: string[] = []) => answer(calls, { schemaProblem: "x".repeat(600) });

  test("an answer that does not match the output schema is described in 500 characters", () => {
    expect(playOn(play(["opened"]), mismatch()).context.schemaProblem).toBe("x".repeat(500));
  });

  test("an answer that does not match the output schema is forgotten when the next one matches", () => {
    const state = playOn(play(["opened"], { mode: "chat" }), mismatch(), event.answered);

    expect(nameOf(state)).toBe("idle");
    expect(state.context).toMatchObject({ mismatches: 0, schemaProblem: undefined });
  });

  test("an answer that does not match the output schema is not asked for again when the run has reached a limit", () => {
    const state = playOn(play(["opened"]), answer([], { schemaProblem: "no", cost: 6 }));

    expect(state.context.outcome).toMatchObject({ kind: "limited", limit: "cost: $5" });
  });

  test("an answer that does not match the output schema is not an error while a person's message waits", () => {
    const state = playOn(play(["opened"]), mismatch(), event.message, mismatch());

    expect(nameOf(state)).toBe("callingModel");
  });
});

describe("several calls", () => {
  const verdict = (kind: "allow" | "ask", callId: string, answeredBy: string) =>
    kind === "ask"
      ? { kind, callId, tool: "t", answeredBy, approvalId: `k-${callId}` }
      : { kind, callId, tool: "t", answeredBy };
  const review = (...verdicts: object[]) => RunEvent.parse({ type: "calls.reviewed", verdicts });
  const start = playOn(play(["opened"]), answer(["a", "b", "c", "d"]));

  test("several calls run first, then wait for approvals, people and children, in this order", () => {
    const all = playOn(
      start,
      review(
        verdict("allow", "a", "tool"),
        verdict("ask", "b", "tool"),
        verdict("allow", "c", "person"),
        verdict("allow", "d", "worker"),
      ),
    );
    const executed = playOn(all, event["tool finished"]);
    const denied = playOn(executed, { ...event.denied, callId: "b" });
    const answered = playOn(denied, { ...event["question answered"], callId: "c" });
    const done = playOn(answered, { ...event["child finished"], callId: "d" });

    expect([all, executed, denied, answered, done].map(nameOf)).toEqual([
      "executing",
      "awaitingApproval",
      "awaitingAnswer",
      "awaitingChild",
      "callingModel",
    ]);
    expect([all, executed, denied, answered, done].map((state) => state.context.openCalls.length)).toEqual([
      4, 3, 2, 1, 0,
    ]);
  });

  test("several calls keep their own approvals", () => {
    const state = playOn(start, review(verdict("ask", "a", "tool"), verdict("ask", "b", "worker")));

    const [granted, actions] = transition(workerMachine, state, { ...event.granted, callId: "b", approvalId: "k-b" });

    expect(requests(actions)).toEqual([
      { kind: "child.spawn", callId: "b", approvalId: "k-b" },
      { kind: "approval.post", approvalId: "k-b" },
    ]);
    expect(granted.context.openCalls).toMatchObject([
      { callId: "a", status: "awaitingApproval" },
      { callId: "b", status: "running" },
    ]);
  });

  test("several calls that an approval for the session covers run under it", () => {
    const [, actions] = transition(workerMachine, play(pathTo.reviewing), reviewed("allow", "tool", "k1"));

    expect(requests(actions)).toEqual([{ kind: "tool.execute", callId: "a", approvalId: "k1" }]);
  });

  test("several calls that wait for approval are not questions that a stop has to close", () => {
    const [, actions] = transition(
      workerMachine,
      playOn(start, review(verdict("ask", "a", "person"), verdict("allow", "b", "tool"))),
      event.stop,
    );

    expect(requests(actions)).toEqual(closeAll);
  });
});
