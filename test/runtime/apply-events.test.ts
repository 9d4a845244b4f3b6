import { describe, expect, test } from "vitest";
import { transition } from "xstate";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { OpenCall } from "#domain/run.ts";
import type { EffectRequest } from "#machines/effects.ts";
import { workerMachine } from "#machines/worker-machine.ts";
import { applyEvents, initialRun, redisplayEffects, stateName } from "#runtime/apply-events.ts";
import type { RunRow } from "#runtime/store/store.ts";
import { sampleSnapshot, sampleSpec } from "../support/store-samples.ts";

const minute = 60_000;
const stop: RunEvent = { type: "run.stop", by: "ada" };
const resume: RunEvent = { type: "run.resume", by: "ada" };
const cancel: RunEvent = { type: "run.cancel", by: "ada" };
const comment: RunEvent = { type: "message.received", kind: "comment", text: "hello", by: "ada" };
const opened: RunEvent = { type: "sandbox.opened", commit: "c".repeat(40), branch: "main" };
const toolCall: OpenCall = { callId: "call-1", tool: "read_file", answeredBy: "tool", status: "running" };
const finished: RunEvent = {
  type: "tool.finished",
  callId: "call-1",
  tool: "read_file",
  result: { llmContent: "ok", value: { kind: "text", content: "ok" } },
};

const answer: RunEvent = { type: "question.answered", callId: "call-1", step: 1, text: "yes", by: "ada" };
const granted: RunEvent = { type: "approval.granted", approvalId: "k1", callId: "call-1", by: "ada" };
const denied: RunEvent = { type: "approval.denied", approvalId: "k1", callId: "call-1", by: "ada" };
const answered: RunEvent = {
  type: "model.answered",
  text: "",
  calls: [{ callId: "call-1", tool: "read_file", args: {} }],
  messages: [],
  usage: { inputTokens: 1, outputTokens: 1 },
  finishReason: "tool-calls",
  lastSeenId: 6,
};
const reviewed: RunEvent = {
  type: "calls.reviewed",
  verdicts: [{ kind: "allow", callId: "call-1", tool: "read_file", answeredBy: "tool" }],
};

function rowOf(snapshot: RunRow["snapshot"], changes: Partial<RunRow> = {}): RunRow {
  return {
    id: "r1",
    rootId: "r1",
    spec: sampleSpec("r1"),
    status: "active",
    snapshot,
    version: 4,
    changeSets: 0,
    updatedAt: 0,
    ...changes,
  };
}

function inboxOf(...events: RunEvent[]): LoggedEvent[] {
  return events.map((event, index) => ({ id: index + 7, runId: "r1", at: 0, event }));
}

function apply(row: RunRow, ...events: RunEvent[]) {
  const applied = applyEvents(row, inboxOf(...events), { now: 100_000, elapsedMs: minute });
  if (!applied) throw new Error("The inbox is empty");
  const { advance } = applied;
  return { ...applied, ...advance, kinds: advance.effects.map(({ request }) => request.kind) };
}

const limited = (limits: object) => {
  const spec = sampleSpec("r1");
  return { ...spec, worker: { ...spec.worker, limits: { ...spec.worker.limits, ...limits } } };
};

test("a new run opens its sandbox and shows its status", () => {
  const { effects, snapshot } = initialRun(sampleSpec("r1", { createdAt: 1_000 }));

  expect(stateName(snapshot)).toBe("preparing");
  expect(snapshot).toMatchObject({ workedMs: 0, busySince: 1_000 });
  expect(effects).toEqual([
    { key: "r1/0/0", runId: "r1", queue: "work", request: { kind: "sandbox.open" } },
    { key: "r1/status", runId: "r1", queue: "status", request: { kind: "status.show" } },
  ]);
});

test("a run that handles calls is in the state of these calls", () => {
  expect(stateName(sampleSnapshot({ handlingCalls: "awaitingApproval" }))).toBe("awaitingApproval");
});

test("a run that can be shown again updates its requests, and the status of its root", () => {
  expect(redisplayEffects(sampleSpec("r1-a", { rootId: "r1" }))).toEqual([
    { key: "r1-a/redisplay", runId: "r1-a", queue: "thread", request: { kind: "approvals.close" } },
    { key: "r1/status", runId: "r1", queue: "status", request: { kind: "status.show" } },
  ]);
});

test("an empty inbox changes nothing", () => {
  expect(applyEvents(rowOf(sampleSnapshot("idle")), [], { now: 0, elapsedMs: 0 })).toBeUndefined();
});

test("events lead to the states and the effects of XState's own transition", () => {
  let row = rowOf(sampleSnapshot("preparing", { hasBase: false }));
  let expected = workerMachine.resolveState(row.snapshot);
  for (const event of [opened, comment, stop, resume, opened, cancel]) {
    const { snapshot, kinds } = apply(row, event);
    const [after, actions] = transition(workerMachine, expected, event);

    expect({ value: snapshot.value, context: snapshot.context }).toEqual({
      value: after.value,
      context: after.context,
    });
    const requested = actions.flatMap(
      ({ params }) => (params as { effects?: EffectRequest[] } | undefined)?.effects ?? [],
    );
    expect(kinds.filter((kind) => kind !== "status.show")).toEqual(requested.map(({ kind }) => kind));
    row = rowOf(snapshot);
    expected = after;
  }
  expect(stateName(row.snapshot)).toBe("ended");
});

describe("events", () => {
  test("events are applied in order, and their effects are named for them", () => {
    const { advance } = apply(rowOf(sampleSnapshot("preparing", { hasBase: false })), opened, comment);

    expect(advance).toMatchObject({ runId: "r1", version: 4, consumed: [7, 8], seen: 8, status: "active" });
    expect(advance.snapshot).toMatchObject({ value: "callingModel", context: { hasBase: true, unreadMessages: 1 } });
    expect(advance.effects).toEqual([
      { key: "r1/7/0", runId: "r1", queue: "work", request: { kind: "model.call" } },
      { key: "r1/status", runId: "r1", queue: "status", request: { kind: "status.show" } },
    ]);
  });

  test("events that answer an effect of the same inbox make it unnecessary", () => {
    const calling = rowOf(sampleSnapshot("callingModel"));
    const stopped = apply(calling, stop, answered, reviewed);

    expect(apply(calling, answered, reviewed).kinds).toEqual(["tool.execute", "status.show"]);
    expect(stopped).toMatchObject({ consumed: [7, 9], kinds: expect.not.arrayContaining(["tool.execute"]) });
    // The answer waited in the inbox, and its calls are reviewed again.
    expect(apply(rowOf(stopped.snapshot), resume, answered).kinds).toEqual(["calls.review", "status.show"]);
  });

  test("events that the machine cannot take now stay in the inbox, and are tried again after each other one", () => {
    const row = rowOf(sampleSnapshot("preparing", { hasBase: false }));
    const failed: RunEvent = { type: "model.failed", reason: "no", retryable: false };

    const early = apply(row, failed);
    const later = apply(row, failed, opened);

    expect(early).toMatchObject({ consumed: [], seen: 7, kinds: [] });
    expect(later.consumed).toEqual([8, 7]);
    expect(later.snapshot.value).toBe("ended");
  });

  test.each<[string, OpenCall, RunEvent]>([
    ["a result", toolCall, finished],
    ["an answer", { ...toolCall, answeredBy: "person" }, answer],
    ["an approval", { ...toolCall, status: "awaitingApproval" }, granted],
    ["a denial", { ...toolCall, status: "awaitingApproval" }, denied],
  ])(
    "events about a call that a stop has closed do not apply to a later one with the same id: %s",
    (_, call, event) => {
      const asking = rowOf(sampleSnapshot({ handlingCalls: "executing" }, { openCalls: [call] }));

      const stopped = apply(asking, stop, event);

      expect(stopped.consumed).toEqual([7, 8]);
      expect(stateName(stopped.snapshot)).toBe("interrupted");
    },
  );

  test("events about the calls of an answer do not apply to those of a later one: a run that is stopped and resumed at once", () => {
    const reviewing = rowOf(sampleSnapshot("reviewing", { requestedCalls: 1 }));

    const resumed = apply(reviewing, stop, resume, reviewed);

    expect(resumed.consumed).toEqual([7, 8, 9]);
    expect(apply(rowOf(resumed.snapshot), answered).kinds).toEqual(["calls.review", "status.show"]);
  });

  test("events of a run that has ended are consumed without effect", () => {
    const ended = sampleSnapshot("ended", { outcome: { kind: "answered" } });

    expect(apply(rowOf(ended), stop, cancel, finished)).toMatchObject({
      consumed: [7, 8, 9],
      status: "done",
      kinds: ["status.show"],
    });
  });

  test("events of a child update the status of its root", () => {
    const row = rowOf(sampleSnapshot("idle"), { rootId: "root", spec: sampleSpec("r1", { rootId: "root" }) });

    expect(apply(row, comment).effects).toContainEqual({
      key: "root/status",
      runId: "root",
      queue: "status",
      request: { kind: "status.show" },
    });
  });

  test("events that hand over a child's changes say so", () => {
    const child: OpenCall = { callId: "call-1", tool: "helper", answeredBy: "worker", status: "running" };
    const row = rowOf(sampleSnapshot({ handlingCalls: "awaitingChild" }, { openCalls: [child] }));
    const reported: RunEvent = {
      type: "child.finished",
      callId: "call-1",
      childId: "c1",
      outcome: { kind: "answered", text: "" },
      usage: { inputTokens: 1, outputTokens: 2 },
    };

    expect(apply(row, reported).sandboxChanged).toBe(true);
    expect(apply(row, comment).sandboxChanged).toBe(false);
    // Its changes are stored, although the run was paused meanwhile.
    expect(apply(rowOf(sampleSnapshot("interrupted")), reported).sandboxChanged).toBe(true);
  });
});

describe("a stop", () => {
  test("a stop cancels the effects that can be interrupted, those of the same inbox as well", () => {
    const row = rowOf(sampleSnapshot({ handlingCalls: "executing" }, { openCalls: [toolCall] }));

    const stopped = apply(row, finished, stop);

    expect(stopped.interrupted).toBe(true);
    expect(stopped.withdrawApprovals).toBe(true);
    expect(stopped.cancelEffects?.kinds.sort()).toEqual(
      ["calls.review", "child.spawn", "model.call", "sandbox.open", "tool.execute"].sort(),
    );
    expect(stopped.kinds).toEqual(["children.stop", "approvals.close", "status.show"]);
  });

  test("a stop closes open questions in the thread, and does not cancel posts", () => {
    const question: OpenCall = { callId: "call-1", tool: "ask_user", answeredBy: "person", status: "running" };
    const row = rowOf(sampleSnapshot({ handlingCalls: "awaitingAnswer" }, { openCalls: [question] }));

    const { effects, cancelEffects } = apply(row, stop);

    expect(effects[0]).toMatchObject({ queue: "thread", request: { kind: "question.close", callId: "call-1" } });
    expect(cancelEffects?.kinds).not.toContain("question.close");
    expect(cancelEffects?.kinds).not.toContain("approval.post");
  });

  test("a stop before the sandbox was opened is followed by opening it", () => {
    const row = rowOf(sampleSnapshot("preparing", { hasBase: false }));

    const resumed = apply(row, stop, resume);

    expect(resumed.snapshot.value).toBe("preparing");
    expect(resumed.kinds).toEqual(["children.stop", "approvals.close", "sandbox.open", "status.show"]);
  });

  test("after a stop at the moment the sandbox was opened, a resume calls the model", () => {
    const row = rowOf(sampleSnapshot("preparing", { hasBase: false }));

    expect(apply(row, stop, opened, resume).snapshot).toMatchObject({
      value: "callingModel",
      context: { hasBase: true },
    });
  });

  test("after a stop at any later time, a resume calls the model", () => {
    expect(apply(rowOf(sampleSnapshot("callingModel")), stop, resume).snapshot.value).toBe("callingModel");
  });
});

test("the usage of all model calls among the events is counted in the hour in which they are applied", () => {
  const { origin } = sampleSpec("r1");
  const row = rowOf(sampleSnapshot("callingModel"), {
    spec: sampleSpec("r1", { rootId: "root", origin: { ...origin, repositoryId: 11 } }),
  });
  const answered: RunEvent = {
    type: "model.answered",
    ...{ text: "", calls: [], messages: [], finishReason: "stop", lastSeenId: 0, cost: 0.25 },
    usage: { inputTokens: 100, outputTokens: 10, cachedInputTokens: 50 },
  };
  const compacted: RunEvent = {
    type: "conversation.compacted",
    ...{ summary: "", throughId: 0 },
    usage: { inputTokens: 7, outputTokens: 3 },
  };

  const empty: RunEvent = {
    type: "model.failed",
    ...{ reason: "The answer was empty.", retryable: false, cost: 0.5 },
    usage: { inputTokens: 1_000, outputTokens: 500 },
  };

  const applied = applyEvents(row, inboxOf(compacted, answered), { now: 2.5 * 60 * minute, elapsedMs: 0 });
  const failed = applyEvents(row, inboxOf(empty), { now: 2.5 * 60 * minute, elapsedMs: 0 });

  expect(applied?.advance.usage).toEqual({
    ...{ rootId: "root", worker: "fixer", hour: 2, modelCalls: 2 },
    ...{ inputTokens: 107, outputTokens: 13, cachedInputTokens: 50, cost: 0.25 },
    origin: { repositoryId: 11, installationId: 1, owner: "ada", repo: "engine" },
  });
  expect(failed?.advance.usage).toMatchObject({ modelCalls: 1, inputTokens: 1_000, outputTokens: 500, cost: 0.5 });
  expect(failed?.advance.snapshot.context).toMatchObject({ tokens: 1_500, cost: 0.5 });
  expect(apply(rowOf(sampleSnapshot("idle")), comment)).not.toHaveProperty("usage");
});

describe("the outcome", () => {
  test("the outcome of a root is posted in its thread, and that of a child is reported to its parent", () => {
    const childSpec = sampleSpec("r1", { parentId: "root", rootId: "root" });
    const child = rowOf(sampleSnapshot("callingModel"), { spec: childSpec });
    const queueOf = (row: RunRow) =>
      apply(row, cancel).effects.find(({ request }) => request.kind === "outcome.report")?.queue;

    expect(queueOf(rowOf(sampleSnapshot("callingModel")))).toBe("thread");
    expect(queueOf(child)).toBe("work");
  });
});

describe("limits", () => {
  test("a limit of minutes is a deadline, which counts busy time only", () => {
    const spec = limited({ minutes: 10 });
    const busy = {
      ...sampleSnapshot({ handlingCalls: "executing" }, { openCalls: [toolCall] }),
      workedMs: 2 * minute,
      busySince: 40_000,
    };

    const first = apply(rowOf(busy, { spec, version: 0 }), finished);
    const working = apply(rowOf(busy, { spec }), finished);
    const waiting = apply(rowOf(busy, { spec }), stop);

    expect(working.snapshot).toMatchObject({ workedMs: 3 * minute, busySince: 100_000 });
    expect(first.timers).toEqual({ set: [{ timer: "deadline", dueAt: 100_000 + 7 * minute }], clear: [] });
    expect(working.timers, "which is set already").toBeUndefined();
    expect(waiting.snapshot).toMatchObject({ workedMs: 3 * minute, busySince: undefined });
    expect(waiting.timers).toEqual({ set: [], clear: ["deadline"] });
    expect(waiting.status).toBe("waiting");
  });

  test("a limit of minutes is due at once when it is used up", () => {
    const used = { ...sampleSnapshot("callingModel"), workedMs: 20 * minute };

    expect(apply(rowOf(used, { spec: limited({ minutes: 10 }) }), comment).timers?.set).toEqual([
      { timer: "deadline", dueAt: 100_000 },
    ]);
  });

  const deadline: RunEvent = { type: "timer.due", timer: "deadline" };

  test("a limit of minutes ends the run when the deadline is due", () => {
    const used = { ...sampleSnapshot("callingModel"), workedMs: 9 * minute, busySince: 40_000 };

    const { snapshot, status } = apply(rowOf(used, { spec: limited({ minutes: 10 }) }), deadline);

    expect(status).toBe("done");
    expect(snapshot.context.outcome).toMatchObject({ kind: "limited", limit: expect.stringMatching(/^minutes: /) });
  });

  test("a limit of minutes does not count the hour by which a clock was set forward", () => {
    const hourLater = 60 * minute;
    const busy = { ...sampleSnapshot("callingModel"), workedMs: 2 * minute, busySince: 0 };
    const row = rowOf(busy, { spec: limited({ minutes: 10 }) });

    const applied = applyEvents(row, inboxOf(deadline), { now: hourLater, elapsedMs: minute });

    expect(applied?.advance).toMatchObject({ consumed: [7], status: "active", snapshot: { workedMs: 3 * minute } });
    expect(applied?.advance.timers?.set).toEqual([{ timer: "deadline", dueAt: hourLater + 7 * minute }]);
  });

  test.each([
    [1_001, "active"],
    [1_000, "done"],
  ])("a deadline that is due %i ms early leaves the run %s", (earlyMs, status) => {
    const busy = { ...sampleSnapshot("callingModel"), workedMs: 9 * minute - earlyMs, busySince: 40_000 };

    expect(apply(rowOf(busy, { spec: limited({ minutes: 10 }) }), deadline).status).toBe(status);
  });

  test("a limit of minutes does not count the time in which the run waited", () => {
    const waiting = { ...sampleSnapshot("idle"), workedMs: 2 * minute };

    const { snapshot, timers } = apply(rowOf(waiting, { spec: limited({ minutes: 10 }) }), comment);

    expect(snapshot).toMatchObject({ workedMs: 2 * minute, busySince: 100_000 });
    expect(timers?.set).toEqual([{ timer: "deadline", dueAt: 100_000 + 8 * minute }]);
  });

  test.each([
    ["cost", { cost: 2 }, { cost: 2 }, "cost: $2"],
    ["tokens", { tokens: 100 }, { tokens: 100 }, "tokens: 100"],
    ["steps", { steps: 3 }, { steps: 3 }, "steps: 3"],
  ])("a limit of %s ends the run before the next call of the model", (_, limits, spent, limit) => {
    const { worker } = limited(limits);
    const context = { ...spent, limits: worker.limits, openCalls: [toolCall] };

    const reached = apply(rowOf(sampleSnapshot({ handlingCalls: "executing" }, context)), finished);

    expect(reached.snapshot.context.outcome).toMatchObject({ kind: "limited", limit });
    expect(reached.kinds).not.toContain("model.call");
  });

  test("a run below its limits continues", () => {
    const { worker } = limited({ cost: 2, tokens: 100, steps: 3 });
    const context = { cost: 1.99, tokens: 99, steps: 2, limits: worker.limits, openCalls: [toolCall] };

    const reached = apply(rowOf(sampleSnapshot({ handlingCalls: "executing" }, context)), finished);

    expect(reached.kinds).toContain("model.call");
  });
});

test("a failed call of the model is tried again later, and the timer is cleared by a stop", () => {
  const failed: RunEvent = { type: "model.failed", reason: "overloaded", retryable: true, retryAfterMs: 5_000 };

  const retrying = apply(rowOf(sampleSnapshot("callingModel")), failed);
  const stopped = apply(rowOf(retrying.snapshot), stop);

  expect(retrying.snapshot.value).toBe("retrying");
  expect(retrying.timers?.set).toContainEqual({ timer: "retry", dueAt: 105_000 });
  expect(stopped.timers?.clear).toContain("retry");
});
