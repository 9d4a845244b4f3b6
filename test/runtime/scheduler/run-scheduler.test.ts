import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DatabaseError, OutageError, UserError } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import { GitHubRefusalError } from "#domain/github.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { confirmLease } from "#domain/work-context.ts";
import { type EffectHandler, type EffectHandlers, PostponedError } from "#runtime/effects/effect-handler.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { RuntimeEffect } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { combineObservers } from "#runtime/scheduler/run-observer.ts";
import { RunScheduler } from "#runtime/scheduler/run-scheduler.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { type NewEffect, readable, requireRun } from "#runtime/store/store.ts";
import {
  sampleApproval,
  sampleEffect,
  sampleRun,
  sampleSnapshot,
  sampleSpec,
  sampleStep,
} from "../../support/store-samples.ts";

type Perform = EffectHandler["perform"];

const opened: RunEvent = { type: "sandbox.opened", commit: "c".repeat(40), branch: "main" };

/** A scheduler over a store in memory. Effects that a test does not handle have an empty result. */
function schedulerWorld(
  perform: Partial<Record<RuntimeEffect["kind"], Perform>> = {},
  { onFailure = async () => ({}), maxRefusals }: Partial<Pick<EffectHandler, "onFailure" | "maxRefusals">> = {},
) {
  const store = openMemoryStore();
  const clock = { now: 1_000, aheadMs: 0 };
  const errors: unknown[] = [];
  const performed: string[] = [];
  const transitions: string[][] = [];
  const discardWorkspace = vi.fn(async () => undefined);
  const close = vi.fn(async () => undefined);
  const active = { spec: sampleSpec("r1"), discardWorkspace, close } as unknown as ActiveRun;
  const handler: EffectHandler = {
    maxAttempts: 3,
    ...(maxRefusals !== undefined && { maxRefusals }),
    perform: (effect, run, signal) => {
      performed.push(effect.request.kind);
      return perform[effect.request.kind]?.(effect, run, signal) ?? Promise.resolve({});
    },
    onFailure,
  };
  const scheduler: RunScheduler = new RunScheduler({
    store,
    loadHandlers: async () =>
      new Proxy({}, { get: (_, kind) => (kind === "then" ? undefined : handler) }) as EffectHandlers,
    openActiveRun: async (runId) => ({ ...active, spec: readable(await requireRun(store, runId)).spec }) as ActiveRun,
    dispatch: { wake: (runId) => void scheduler.process(runId) },
    observer: combineObservers([
      { transitionStored: ({ events }) => void transitions.push(events.map(({ event }) => event.type)) },
    ]),
    now: () => clock.now,
    cautiousNow: () => clock.now - clock.aheadMs,
    onError: (error) => errors.push(error),
  });

  return {
    store,
    clock,
    errors,
    performed,
    transitions,
    discardWorkspace,
    close,
    scheduler,
    async start(...effects: NewEffect[]) {
      await store.ingest({
        run: { ...sampleRun("r1", effects), snapshot: sampleSnapshot("callingModel") },
        events: [],
      });
      scheduler.wake("r1");
    },
    async append(event: RunEvent) {
      await store.ingest({ events: [{ runId: "r1", event }] });
      scheduler.wake("r1");
    },
  };
}

/** An effect that is performed until it is aborted. */
const hanging =
  (started: PromiseWithResolvers<void>): Perform =>
  (_effect, _run, signal) => {
    started.resolve();
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };

/** An effect that is performed until the test releases it. */
function held() {
  const [started, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const perform: Perform = async () => {
    started.resolve();
    await released.promise;
    return {};
  };
  return { perform, started: started.promise, release: released.resolve };
}

test("a run is in memory while it has something to do, and not afterwards", async () => {
  const { start, scheduler, performed, close } = schedulerWorld();

  await start(sampleEffect("r1", "k1"));
  expect(scheduler.activeRuns()).toBe(1);
  await scheduler.idle();

  expect(performed).toEqual(["model.call"]);
  expect(scheduler.activeRuns()).toBe(0);
  expect(close).toHaveBeenCalledOnce();
});

test("the queues of a run do not wait for one another", async () => {
  const call = held();
  const { start, scheduler, performed } = schedulerWorld({ "model.call": call.perform });

  await start(
    sampleEffect("r1", "k1"),
    sampleEffect("r1", "k2", { request: { kind: "calls.review" } }),
    sampleEffect("r1", "t1", { queue: "thread", request: { kind: "approvals.close" } }),
  );
  await call.started;
  await vi.waitFor(() => expect(performed).toContain("approvals.close"), { timeout: 60_000 });
  expect(performed).not.toContain("calls.review");
  call.release();
  await scheduler.idle();

  expect(performed).toContain("calls.review");
});

test("a result is stored, and the runs it concerns are processed", async () => {
  const { store, scheduler, performed, transitions } = schedulerWorld({
    "sandbox.open": async () => ({ events: [{ runId: "r1", event: opened }] }),
  });
  const effects = [sampleEffect("r1", "k1", { request: { kind: "sandbox.open" } })];
  const snapshot = sampleSnapshot("preparing", { hasBase: false });
  await store.ingest({ run: { ...sampleRun("r1", effects), snapshot }, events: [] });

  scheduler.wake("r1");
  await vi.waitFor(() => expect(performed).toContain("model.call"), { timeout: 60_000 });

  expect(await requireRun(store, "r1")).toMatchObject({ snapshot: { value: "callingModel" } });
  expect(transitions).toEqual([["sandbox.opened"]]);
});

describe("a stop", () => {
  test("a stop aborts an effect that can be interrupted, and drops its result", async () => {
    const started = Promise.withResolvers<void>();
    const { start, append, store, scheduler, errors, discardWorkspace } = schedulerWorld({
      "model.call": hanging(started),
    });
    await start(sampleEffect("r1", "k1"));
    await started.promise;

    await append({ type: "run.stop", by: "ada" });
    await scheduler.idle();

    expect(await requireRun(store, "r1")).toMatchObject({ snapshot: { value: "interrupted" } });
    expect(await store.claimEffect("r1", "work", 1_000)).toBeUndefined();
    expect(discardWorkspace).toHaveBeenCalled();
    expect(errors).toEqual([]);
  });

  test("a stop lets a post finish", async () => {
    const [started, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let signal: AbortSignal | undefined;
    const { start, append, store, scheduler } = schedulerWorld({
      "question.post": async (_effect, _run, given) => {
        signal = given;
        started.resolve();
        await release.promise;
        return { posts: [{ name: "question", commentId: 7 }] };
      },
    });
    await start(sampleEffect("r1", "t1", { queue: "thread", request: { kind: "question.post", callId: "c" } }));
    await started.promise;

    await append({ type: "run.stop", by: "ada" });
    await vi.waitFor(async () => expect((await requireRun(store, "r1")).snapshot.value).toBe("interrupted"), {
      timeout: 60_000,
    });
    release.resolve();
    await scheduler.idle();

    expect(signal?.aborted).toBe(false);
    expect(await store.findPost("question")).toMatchObject({ commentId: 7 });
  });
});

describe("an effect that fails", () => {
  const effect = sampleEffect("r1", "k1");
  const fail: Perform = async () => {
    throw new Error("Bad gateway.");
  };

  test("an effect that fails is tried again after an increasing pause", async () => {
    const { start, store, scheduler, errors } = schedulerWorld({ "model.call": fail });

    await start(effect);
    await scheduler.idle();
    expect(await store.nextDueAt()).toBe(1_000 + 1_000);
    expect(await store.claimEffect("r1", "work", 2_000)).toMatchObject({ attempts: 2 });
    scheduler.wake("r1");
    await scheduler.idle();

    expect(errors).toHaveLength(1);
    await scheduler.drain(0);
  });

  test("the failure of an effect is stored after the last attempt", async () => {
    const onFailure = vi.fn<EffectHandler["onFailure"]>(async () => ({ posts: [{ name: "failed", commentId: 1 }] }));
    const { start, store, clock, scheduler } = schedulerWorld({ "model.call": fail }, { onFailure });

    await start(effect);
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await scheduler.idle();
      clock.now += 60_000;
      scheduler.wake("r1");
    }
    await scheduler.idle();

    expect(onFailure).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ attempts: 3 }),
      expect.anything(),
      new Error("Bad gateway."),
    );
    expect(await store.findPost("failed")).toBeDefined();
    await scheduler.drain(0);
  });

  test("an effect that fails is not tried again when a person has to act first", async () => {
    const onFailure = vi.fn<EffectHandler["onFailure"]>(async () => ({}));
    const { start, scheduler, errors, performed } = schedulerWorld(
      {
        "model.call": async () => {
          throw new UserError("No model is configured.");
        },
      },
      { onFailure },
    );

    await start(effect);
    await scheduler.idle();

    expect(performed).toEqual(["model.call"]);
    expect(onFailure).toHaveBeenCalledOnce();
    expect(errors).toEqual([]);
  });

  test.each([
    [404, 4, 4],
    [403, 4, 4],
    [410, 4, 1],
    [404, undefined, 1],
  ])("an effect is retried on a %i where %j attempts are allowed", async (status, maxRefusals, attempts) => {
    const onFailure = vi.fn<EffectHandler["onFailure"]>(async () => ({}));
    const refuse: Perform = async () => {
      throw new GitHubRefusalError("GitHub cannot find it.", { status, cause: undefined });
    };
    const { start, clock, scheduler, errors, performed } = schedulerWorld(
      { "model.call": refuse },
      { onFailure, ...(maxRefusals !== undefined && { maxRefusals }) },
    );

    await start(effect);
    for (let round = 1; round <= 5; round += 1) {
      await scheduler.idle();
      clock.now += 60_000;
      scheduler.wake("r1");
    }
    await scheduler.idle();

    expect(performed).toHaveLength(attempts);
    expect(onFailure).toHaveBeenCalledOnce();
    expect(errors).toEqual([]);
    await scheduler.drain(0);
  });

  test("an effect that fails does not stop the other queues of its run", async () => {
    const { start, scheduler, performed } = schedulerWorld({ "model.call": fail });

    await start(effect, sampleEffect("r1", "t1", { queue: "thread", request: { kind: "approvals.close" } }));
    await scheduler.idle();

    expect(performed.sort()).toEqual(["approvals.close", "model.call"]);
    await scheduler.drain(0);
  });
});

describe("an effect that is postponed", () => {
  test("an effect that is postponed does not count as an attempt, and shows the reason once", async () => {
    const cause = new Error("GitHub is down.");
    const { start, store, clock, scheduler, errors, performed } = schedulerWorld({
      "tool.execute": async () => {
        throw new PostponedError(clock.now + 30_000, { reason: "GitHub did not answer.", cause });
      },
    });

    await start(sampleEffect("r1", "k1", { request: { kind: "tool.execute", callId: "c" } }));
    await scheduler.idle();
    expect(await store.effectProblem("r1")).toEqual({ kind: "postponed", reason: "GitHub did not answer." });
    clock.now += 30_000;
    scheduler.wake("r1");
    await scheduler.idle();

    expect(performed).toEqual(["tool.execute", "status.show", "tool.execute"]);
    expect(errors).toEqual([cause]);
    expect(await store.claimEffect("r1", "work", clock.now + 30_000)).toMatchObject({ attempts: 1 });
    await scheduler.drain(0);
  });
});

test("the same reason is shown again once something of the run was performed in between", async () => {
  const attempts: string[] = [];
  const { start, clock, scheduler, errors, performed } = schedulerWorld({
    "tool.execute": async ({ key }) => {
      attempts.push(key);
      if (attempts.filter((other) => other === key).length > 1) return {};
      throw new PostponedError(clock.now + 30_000, { reason: "GitHub did not answer.", cause: new Error(key) });
    },
  });
  const request = { kind: "tool.execute" as const, callId: "c" };

  await start(sampleEffect("r1", "k1", { request }), sampleEffect("r1", "k2", { request }));
  for (let round = 0; round < 3; round += 1) {
    await scheduler.idle();
    clock.now += 30_000;
    scheduler.wake("r1");
  }
  await scheduler.idle();

  expect(attempts).toEqual(["k1", "k1", "k2", "k2"]);
  expect(errors).toEqual([new Error("k1"), new Error("k2")]);
  expect(performed.filter((kind) => kind === "status.show")).toHaveLength(2);
  await scheduler.drain(0);
});

test("an outage ends no run: after its attempts the work is tried again every half minute, and the status says so", async () => {
  const onFailure = vi.fn<EffectHandler["onFailure"]>(async () => ({}));
  let isOut = true;
  const { start, store, clock, scheduler, performed } = schedulerWorld(
    {
      "sandbox.open": async () => {
        if (isOut) throw new OutageError("The git server answered 503.");
        return {};
      },
    },
    { onFailure },
  );
  await start(sampleEffect("r1", "k1", { request: { kind: "sandbox.open" } }));

  for (const waitMs of [1_000, 2_000, 30_000, 30_000]) {
    await scheduler.idle();
    clock.now += waitMs;
    scheduler.wake("r1");
  }
  await scheduler.idle();
  expect(performed.filter((kind) => kind === "sandbox.open")).toHaveLength(5);
  const reason = "GitHub does not respond. The run continues when it does.";
  expect(await store.effectProblem("r1")).toEqual({ kind: "postponed", reason });
  isOut = false;
  clock.now += 30_000;
  scheduler.wake("r1");
  await scheduler.idle();

  expect(await store.effectProblem("r1")).toBeUndefined();
  expect(onFailure).not.toHaveBeenCalled();
  await scheduler.drain(0);
});

test("a comment waits while GitHub does not respond, and is given up after a day", async () => {
  const onFailure = vi.fn<EffectHandler["onFailure"]>(async () => ({}));
  const { start, clock, scheduler, performed } = schedulerWorld(
    {
      "approval.post": async () => {
        throw new OutageError("GitHub did not answer.");
      },
    },
    { onFailure },
  );
  const request = { kind: "approval.post" as const, approvalId: "k3f9" };
  await start(sampleEffect("r1", "k1", { queue: "thread", request }));
  const pass = async (hours: number) => {
    for (const until = clock.now + hours * 3_600_000; clock.now < until; clock.now += 300_000) {
      scheduler.wake("r1");
      await scheduler.idle();
    }
  };

  await pass(23);
  expect(performed.filter((kind) => kind === "approval.post").length).toBeGreaterThan(200);
  expect(onFailure).not.toHaveBeenCalled();
  await pass(3);

  expect(onFailure).toHaveBeenCalledOnce();
  await scheduler.drain(0);
});

describe("an effect that cannot be performed now", () => {
  /** Performs the effect once, with this error. */
  async function attempt(error: Error, { sends = false } = {}) {
    const onFailure = vi.fn<EffectHandler["onFailure"]>(async () => ({}));
    const perform = async () => {
      if (sends) await confirmLease();
      throw error;
    };
    const made = schedulerWorld({ "model.call": perform }, { onFailure });
    await made.start(sampleEffect("r1", "k1"));
    await made.scheduler.idle();
    const [problem, dueAt] = [await made.store.effectProblem("r1"), await made.store.nextDueAt()];
    const again = await made.store.claimEffect("r1", "work", dueAt ?? 0);
    await made.scheduler.drain(0);
    expect(onFailure).not.toHaveBeenCalled();
    return { problem, dueAt, attempts: again?.attempts, errors: made.errors };
  }

  test("an effect waits while GitHub's limit is used up, and counts as an attempt", async () => {
    const error = new OutageError("The limit is used up until 10:00 UTC.", { retryAt: 90_000 });

    expect(await attempt(error)).toEqual({
      problem: { kind: "postponed", reason: error.message },
      dueAt: 90_000,
      attempts: 2,
      errors: [error],
    });
  });

  test("an effect is tried again without counting if the database failed", async () => {
    const error = new DatabaseError("The disk is full.");

    expect(await attempt(error)).toEqual({ problem: undefined, dueAt: 2_000, attempts: 1, errors: [error] });
  });

  test.each([
    ["the database failed", new DatabaseError("The disk is full.")],
    ["something has to respond first", new PostponedError(2_000)],
  ])("an effect counts as an attempt once something was sent, even if %s", async (_, error) => {
    expect(await attempt(error, { sends: true })).toMatchObject({ dueAt: 2_000, attempts: 2 });
  });

  test("an effect whose data is of a newer release waits for that release, and reports it", async () => {
    const error = new UnreadableDataError("The run was stored by a newer release.");

    const { problem, dueAt, attempts, errors } = await attempt(error);

    expect(problem).toEqual({ kind: "unreadable", reason: error.message });
    expect(dueAt).toBeGreaterThan(10_000);
    expect({ attempts, errors }).toEqual({ attempts: 1, errors: [error] });
  });
});

test("a run whose repository has another installation now uses it for its next effect", async () => {
  const installations: number[] = [];
  const call = held();
  const note: Perform = async (effect, run, signal) => {
    installations.push(run.spec.origin.installationId);
    return effect.request.kind === "model.call" ? call.perform(effect, run, signal) : {};
  };
  const { store, scheduler, close } = schedulerWorld({ "model.call": note, "tool.execute": note });
  const location = { repositoryId: 11, installationId: 1, ownerId: 5, owner: "ada", repo: "engine", at: 2_000 };
  await store.saveLocation(location);
  const effects = [
    sampleEffect("r1", "k1"),
    sampleEffect("r1", "k2", { request: { kind: "tool.execute", callId: "c" } }),
  ];
  const run = sampleRun("r1", effects, { origin: { ...sampleSpec("r1").origin, repositoryId: 11 } });
  await store.ingest({ run: { ...run, snapshot: sampleSnapshot("callingModel") }, events: [] });
  scheduler.wake("r1");
  await call.started;

  await store.saveLocation({ ...location, installationId: 2, at: 3_000 });
  scheduler.wake("r1");
  await nextTurn();
  call.release();
  await scheduler.idle();

  expect(installations).toEqual([1, 2]);
  expect(close).toHaveBeenCalledTimes(2);
});

describe("when the process stops", () => {
  test("when the process stops, what is under way may finish, and nothing else starts", async () => {
    const call = held();
    const { store, start, append, scheduler, performed } = schedulerWorld({ "model.call": call.perform });
    await start(sampleEffect("r1", "k1"), sampleEffect("r1", "k2", { request: { kind: "calls.review" } }));
    await call.started;

    const drained = scheduler.drain(60_000);
    call.release();
    await drained;

    expect(performed).toEqual(["model.call"]);
    expect(scheduler.notify("r1")).toBe(false);
    const { version } = await requireRun(store, "r1");
    await append({ type: "run.stop", by: "ada" });
    await scheduler.process("r1");
    expect(await requireRun(store, "r1")).toMatchObject({ version });
  });

  test("when the process stops, what is not finished in time is aborted", async () => {
    const started = Promise.withResolvers<void>();
    const { start, scheduler, store } = schedulerWorld({ "model.call": hanging(started) });
    await start(sampleEffect("r1", "k1"));
    await started.promise;

    await scheduler.drain(0);
    await scheduler.idle();

    expect(await store.claimEffect("r1", "work", 1_000)).toMatchObject({ key: "k1", attempts: 2 });
  });
});

test("work whose result is not stored, because the run was stopped meanwhile, is told so", async () => {
  const [afterCommit, afterCancel] = [vi.fn(), vi.fn()];
  const { store, scheduler, start, errors } = schedulerWorld({
    "model.call": async ({ key }) => {
      await store.completeEffect({ runId: "r1", key });
      return key === "k1" ? { afterCommit, afterCancel } : {};
    },
  });

  await start(sampleEffect("r1", "k1"), sampleEffect("r1", "k2"));
  await scheduler.process("r1");

  expect(afterCancel).toHaveBeenCalledOnce();
  expect(afterCommit).not.toHaveBeenCalled();
  expect(errors).toEqual([]);
});

test("a run whose lease was revoked writes nothing more, even if its work ignores the signal", async () => {
  const [started, released, wrote] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), vi.fn()];
  const { start, scheduler, errors } = schedulerWorld({
    "model.call": async () => {
      started.resolve();
      await released.promise;
      await confirmLease();
      wrote();
      return {};
    },
  });
  await start(sampleEffect("r1", "k1"));
  await started.promise;

  scheduler.revokeLease("r1");
  released.resolve();
  await scheduler.idle();

  expect(wrote).not.toHaveBeenCalled();
  expect(errors).toEqual([]);
});

test("a postponed effect is performed when it is due, without reading runs that have nothing else to do", async () => {
  const call = held();
  const posted = Promise.withResolvers<void>();
  const { store, clock, start, scheduler, performed } = schedulerWorld({
    "model.call": call.perform,
    "status.show": async ({ runId }) => {
      if (runId !== "r2") throw new Error("Only r2 has a status to show.");
      if (clock.now === 1_000) throw new PostponedError(1_001);
      posted.resolve();
      return {};
    },
  });
  const status = sampleEffect("r2", "s2", { queue: "status", request: { kind: "status.show" } });
  await store.ingest({
    run: { ...sampleRun("r2", [sampleEffect("r2", "k2"), status]), snapshot: sampleSnapshot("callingModel") },
    events: [],
  });
  await start(sampleEffect("r1", "k1"));
  await call.started;
  const inbox = vi.spyOn(store, "inbox");

  scheduler.wake("r2");
  await vi.waitFor(async () => expect(await store.nextDueAt()).toBe(1_001), { timeout: 60_000 });
  clock.now = 1_001;
  await posted.promise;

  expect(performed).toEqual(["model.call", "model.call", "status.show", "status.show"]);
  expect(inbox.mock.calls.filter(([runId]) => runId === "r1")).toEqual([]);
  call.release();
  await scheduler.idle();
});

test("an effect that adds nothing to the run causes no further reads of its inbox and queues", async () => {
  const { store, start, scheduler, performed } = schedulerWorld();
  const [inbox, claim] = [vi.spyOn(store, "inbox"), vi.spyOn(store, "claimEffect")];

  await start(sampleEffect("r1", "k1"), sampleEffect("r1", "k2", { request: { kind: "calls.review" } }));
  await scheduler.idle();

  expect(performed).toEqual(["model.call", "calls.review"]);
  expect(inbox).toHaveBeenCalledOnce();
  expect(claim.mock.calls.map(([, queue]) => queue).sort()).toEqual(["status", "thread", "work", "work"]);
});

test("an effect that is next when the process is stopping is not performed, and does not count as attempted", async () => {
  const { store, start, scheduler, performed } = schedulerWorld({
    "model.call": async () => ({ afterCommit: () => void scheduler.drain(0) }),
  });

  await start(sampleEffect("r1", "k1"), sampleEffect("r1", "k2", { request: { kind: "calls.review" } }));
  await scheduler.idle();

  expect(performed).toEqual(["model.call"]);
  expect(await store.claimEffect("r1", "work", 1_000)).toMatchObject({ key: "k2", attempts: 1 });
});

test("an effect that is next when the lease is revoked is performed once, under the new lease", async () => {
  const attempts: number[] = [];
  const { start, scheduler, errors } = schedulerWorld({
    "model.call": async () => ({ afterCommit: () => scheduler.revokeLease("r1") }),
    "calls.review": async (effect) => {
      attempts.push(effect.attempts);
      await confirmLease();
      return {};
    },
  });

  await start(sampleEffect("r1", "k1"), sampleEffect("r1", "k2", { request: { kind: "calls.review" } }));
  await scheduler.idle();

  expect({ attempts, errors }).toEqual({ attempts: [1], errors: [] });
});

test("events that could not be applied, because others were stored first, are applied together with them", async () => {
  const call = held();
  const { store, start, append, scheduler, transitions } = schedulerWorld({ "model.call": call.perform });
  await start(sampleEffect("r1", "k1"));
  await call.started;
  vi.spyOn(store, "advance").mockResolvedValueOnce(false);

  await append({ type: "run.stop", by: "ada" });
  call.release();
  await scheduler.idle();

  expect(await requireRun(store, "r1")).toMatchObject({ snapshot: { value: "interrupted" } });
  expect(transitions).toEqual([["run.stop"]]);
});

describe("after a commit whose outcome is unknown", () => {
  const lost = new DatabaseError("The connection was lost during a commit.");

  test("after a commit whose outcome is unknown, the files are opened again, since the changes of the call may have been stored", async () => {
    const [afterCommit, afterCancel] = [vi.fn(), vi.fn()];
    const { store, start, scheduler, errors, discardWorkspace } = schedulerWorld({
      "model.call": async () => ({ afterCommit, afterCancel }),
    });
    const { completeStep } = store;
    vi.spyOn(store, "completeStep").mockImplementationOnce(async (...step) => {
      await completeStep(...step);
      throw lost;
    });

    await start(sampleEffect("r1", "k1"));
    await scheduler.idle();

    expect(errors).toEqual([lost]);
    expect(discardWorkspace).toHaveBeenCalledOnce();
    expect(afterCancel).toHaveBeenCalledOnce();
    expect(afterCommit).not.toHaveBeenCalled();
  });

  test("after a commit whose outcome is unknown, what a stop may have interrupted is aborted", async () => {
    const started = Promise.withResolvers<void>();
    const { store, start, append, scheduler, errors } = schedulerWorld({ "model.call": hanging(started) });
    const { advance } = store;
    vi.spyOn(store, "advance").mockImplementationOnce(async (step) => {
      await advance(step);
      throw lost;
    });
    await start(sampleEffect("r1", "k1"));
    await started.promise;

    await append({ type: "run.stop", by: "ada" });
    await scheduler.idle();

    expect(errors).toEqual([lost]);
    expect(await requireRun(store, "r1")).toMatchObject({ snapshot: { value: "interrupted" } });
  });
});

test("the changes of a child are merged again if its parent has changed files meanwhile", async () => {
  const { store, start, scheduler, performed, errors } = schedulerWorld({
    "model.call": async ({ attempts }) => {
      const [{ changeSets }, content] = [await requireRun(store, "r2"), new Uint8Array(1)];
      if (performed.length === 1)
        await store.completeEffect({ runId: "r2", key: "k2", changes: { step: "1", changes: [] } });
      const changes = { step: String(attempts), changes: [{ path: "a.txt", content, mode: "100644" as const }] };
      return { parentChanges: { runId: "r2", changes, mergedWith: changeSets } };
    },
  });
  await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "k2")]), events: [] });

  await start(sampleEffect("r1", "k1"));
  await scheduler.idle();

  expect(performed).toEqual(["model.call", "model.call"]);
  expect(await store.changesOf("r2")).toMatchObject([{ step: "1" }, { step: "1", changes: [{ path: "a.txt" }] }]);
  expect(errors).toEqual([]);
});

test("a call is not executed again if a child has handed over changes before its result is stored", async () => {
  const resultOver = (mergedWith: number): EffectResult => ({ changes: { step: "2", changes: [] }, mergedWith });
  const { store, start, scheduler, performed, errors } = schedulerWorld({
    "model.call": async () => {
      await store.completeEffect({
        runId: "r2",
        key: "k2",
        parentChanges: { runId: "r1", changes: { step: "1", changes: [] } },
      });
      return { ...resultOver(0), mergeAgain: async () => resultOver(1) };
    },
  });
  await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "k2")]), events: [] });

  await start(sampleEffect("r1", "k1"));
  await scheduler.idle();

  expect(performed).toEqual(["model.call"]);
  expect(await store.changesOf("r1")).toMatchObject([{ step: "1" }, { step: "2" }]);
  expect(errors).toEqual([]);
});

describe("a run that does not count toward the limit of runs", () => {
  test("a run that does not count toward the limit of runs posts, but does not work on what it gets meanwhile before its turn has come", async () => {
    const post = held();
    const { store, append, scheduler, performed } = schedulerWorld({ "approvals.close": post.perform });
    const closing = sampleEffect("r1", "k1", { queue: "thread", request: { kind: "approvals.close" } });
    await store.ingest({ run: sampleRun("r1", [closing]), events: [] });
    await store.advance(sampleStep("r1", { snapshot: sampleSnapshot("idle"), status: "waiting" }));
    const processed = scheduler.process("r1", false);
    await post.started;

    await append({ type: "message.received", kind: "comment", text: "Go on.", by: "ada" });
    post.release();

    expect(await processed).toBe("awaitsTurn");
    expect(performed).toEqual(["approvals.close"]);
    expect(await requireRun(store, "r1")).toMatchObject({ snapshot: { value: "idle" } });
    expect(await scheduler.process("r1", true)).toBe("finished");
    expect(performed).toContain("model.call");
  });

  test("a run that does not count toward the limit of runs posts, and leaves the work that it has for its turn", async () => {
    const { store, scheduler, performed } = schedulerWorld();
    const closing = sampleEffect("r1", "k2", { queue: "thread", request: { kind: "approvals.close" } });
    const effects = [sampleEffect("r1", "k1"), closing];
    await store.ingest({
      run: { ...sampleRun("r1", effects), snapshot: sampleSnapshot("callingModel") },
      events: [],
    });

    expect(await scheduler.process("r1", false)).toBe("awaitsTurn");

    expect(performed).toEqual(["approvals.close"]);
    expect(await scheduler.process("r1", true)).toBe("finished");
    expect(performed).toEqual(["approvals.close", "model.call"]);
  });

  test("a run that does not count toward the limit of runs is stopped, and does not work", async () => {
    const { store, scheduler, performed } = schedulerWorld();
    const run = { ...sampleRun("r1", [sampleEffect("r1", "k1")]), snapshot: sampleSnapshot("callingModel") };
    await store.ingest({ run, events: [{ runId: "r1", event: { type: "run.stop", by: "ada" } }] });

    expect(await scheduler.process("r1", false)).toBe("finished");

    expect(performed).not.toContain("model.call");
    expect(await requireRun(store, "r1")).toMatchObject({ status: "waiting", snapshot: { value: "interrupted" } });
  });
});

test("only the status of a run that cannot be read is shown, until it can be read", async () => {
  const { store, scheduler, errors, performed } = schedulerWorld();
  const status = sampleEffect("r1", "k3", { queue: "status", request: { kind: "status.show" } });
  const closing = sampleEffect("r1", "k2", { queue: "thread", request: { kind: "approvals.close" } });
  const effects = [sampleEffect("r1", "k1"), closing, status];
  await store.ingest({ run: { ...sampleRun("r1", effects), snapshot: sampleSnapshot("callingModel") }, events: [] });
  const unreadable = new UnreadableDataError("An event was stored by a newer release.");
  const inbox = vi.spyOn(store, "inbox").mockRejectedValue(unreadable);

  await scheduler.process("r1", true);

  expect(new Set(performed)).toEqual(new Set(["status.show"]));
  expect(new Set(errors)).toEqual(new Set([unreadable]));
  inbox.mockRestore();
  await scheduler.process("r1", true);
  expect(performed).toEqual(expect.arrayContaining(["approvals.close", "model.call"]));
});

test("a run that cannot be read is left when the database fails as well, and its status is shown later", async () => {
  const { store, scheduler, errors, performed } = schedulerWorld();
  await store.ingest({ run: sampleRun("r1"), events: [] });
  const unreadable = new UnreadableDataError("An event was stored by a newer release.");
  const failure = new DatabaseError("The database does not answer.");
  vi.spyOn(store, "inbox").mockRejectedValue(unreadable);
  vi.spyOn(store, "ingest").mockRejectedValueOnce(failure);

  await scheduler.process("r1", true);

  expect(errors).toEqual([failure, unreadable]);
  await scheduler.process("r1", true);
  expect(performed).toEqual(["status.show"]);
});

test("files that are open are opened again when a child has handed over its changes", async () => {
  const { store, append, scheduler, discardWorkspace } = schedulerWorld();
  const call = { callId: "c1", tool: "helper", answeredBy: "worker" as const, status: "running" as const };
  const snapshot = sampleSnapshot({ handlingCalls: "awaitingChild" }, { openCalls: [call] });
  await store.ingest({ run: { ...sampleRun("r1"), snapshot }, events: [] });

  await append({
    ...{ type: "child.finished", callId: "c1", childId: "r2", outcome: { kind: "answered", text: "Done." } },
    usage: { inputTokens: 1, outputTokens: 1 },
  });
  await scheduler.idle();

  expect(discardWorkspace).toHaveBeenCalledOnce();
});

test("a call that is being executed when a child hands over its changes keeps its files until its end", async () => {
  const call = held();
  const { store, append, scheduler, transitions, discardWorkspace } = schedulerWorld({ "calls.review": call.perform });
  const running = { callId: "c1", tool: "helper", answeredBy: "worker" as const, status: "running" as const };
  const snapshot = sampleSnapshot({ handlingCalls: "awaitingChild" }, { openCalls: [running] });
  const effects = [sampleEffect("r1", "k1", { request: { kind: "calls.review" } })];
  await store.ingest({ run: { ...sampleRun("r1", effects), snapshot }, events: [] });
  scheduler.wake("r1");
  await call.started;

  await append({
    ...{ type: "child.finished", callId: "c1", childId: "r2", outcome: { kind: "answered", text: "Done." } },
    usage: { inputTokens: 1, outputTokens: 1 },
  });
  await vi.waitFor(() => expect(transitions).toHaveLength(1), { timeout: 60_000 });
  expect(discardWorkspace).not.toHaveBeenCalled();
  call.release();
  await scheduler.idle();

  expect(discardWorkspace).toHaveBeenCalledOnce();
});

describe("the alarm", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Lets everything happen that waits for no timer. */
  async function manyTurns() {
    for (let turn = 0; turn < 50; turn += 1) await nextTurn();
  }

  test("a postponed effect is performed when it is due, also after the clock was set back", async () => {
    const { store, scheduler, clock, performed } = schedulerWorld();
    const run = { ...sampleRun("r1", [sampleEffect("r1", "k1")]), snapshot: sampleSnapshot("callingModel") };
    await store.ingest({ run, events: [] });
    await store.postponeEffect({ runId: "r1", key: "k1" }, 6_000);
    await scheduler.schedule();

    vi.advanceTimersByTime(5_000);
    await manyTurns();
    expect(performed).toEqual([]);
    clock.now = 6_000;
    vi.advanceTimersByTime(5_000);
    await manyTurns();

    expect(performed).toEqual(["model.call"]);
  });

  test("no approval expires because the clock was set forward", async () => {
    const { store, scheduler, clock } = schedulerWorld();
    await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      approvals: [sampleApproval("r1", "a1", { expiresAt: 6_000 })],
    });
    Object.assign(clock, { now: 7_000, aheadMs: 3_000 });

    for (const status of ["pending", "expired"]) {
      await scheduler.schedule();
      vi.advanceTimersByTime(5_000);
      await manyTurns();

      expect(await store.findApproval("a1")).toMatchObject({ status });
      clock.aheadMs = 0;
    }
  });

  test("an active run that gets an earlier timer is processed earlier", async () => {
    const post = held();
    const { store, start, append, scheduler, clock, performed } = schedulerWorld({ "approvals.close": post.perform });
    await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "later")]), events: [] });
    await store.postponeEffect({ runId: "r1", key: "later" }, 3_600_000);
    await scheduler.schedule();
    await start(sampleEffect("r1", "t1", { queue: "thread", request: { kind: "approvals.close" } }));
    await post.started;

    await append({ type: "model.failed", reason: "Overloaded.", retryable: true, retryAfterMs: 2_000 });
    await manyTurns();
    clock.now = 3_000;
    vi.advanceTimersByTime(2_000);
    await manyTurns();

    expect(performed).toContain("model.call");
    post.release();
    await scheduler.idle();
    await scheduler.drain(0);
  });
});

describe("a run that waits for its turn", () => {
  /** Shows why the run waits, while showing its status fails with this error, if any. */
  async function showWaiting(error?: Error) {
    const showStatus: Perform = async () => {
      if (error) throw error;
      return { posts: [{ name: "status/r1", commentId: 1 }] };
    };
    const made = schedulerWorld({ "status.show": showStatus });
    await made.store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
    const shown = await made.scheduler
      .showWaiting("r1", "Two runs are ahead.", async () => {})
      .catch((thrown) => thrown);
    const [problem, dueAt] = [await made.store.effectProblem("r1"), await made.store.nextDueAt()];
    return { ...made, shown, problem, dueAt };
  }

  test("a run that waits for its turn says so in its status, and nothing of it is performed or counted", async () => {
    const { performed, store, shown, problem, close } = await showWaiting();

    expect(shown).toBe(true);
    expect(performed).toEqual(["status.show"]);
    expect(problem).toEqual({ kind: "postponed", reason: "Two runs are ahead." });
    expect(await store.findPost("status/r1")).toMatchObject({ commentId: 1 });
    expect(await store.claimEffect("r1", "work", 1_000)).toMatchObject({ key: "k1", attempts: 1 });
    // For the time when its turn has come.
    expect(await store.claimEffect("r1", "status", 1_000)).toMatchObject({ attempts: 1 });
    expect(await store.effectProblem("r1")).toBeUndefined();
    expect(close).toHaveBeenCalledOnce();
  });

  test.each(["ingest", "claimEffect", "setEffectProblem", "completeEffect", "postponeEffect"] as const)(
    "a run that waits for its turn has not begun to work when its process ends at %s",
    async (method) => {
      const { store, scheduler } = schedulerWorld({ "status.show": () => Promise.reject(new Error("Bad gateway.")) });
      await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
      vi.spyOn(store, method).mockRejectedValueOnce(new Error("The process ended."));

      await expect(scheduler.showWaiting("r1", "Two runs are ahead.", async () => {})).rejects.toThrow();

      expect(await store.claimEffect("r1", "work", 1_000)).toMatchObject({ key: "k1", attempts: 1 });
    },
  );

  test("a run that waits for its turn says so although it has not applied the event yet that lets it work", async () => {
    const shown: (string | undefined)[] = [];
    const { store, scheduler } = schedulerWorld({
      "status.show": async () => {
        shown.push((await store.effectProblem("r1"))?.reason);
        return {};
      },
    });
    await store.ingest({
      run: sampleRun("r1"),
      events: [{ runId: "r1", event: { type: "approval.granted", approvalId: "a1", callId: "c1", by: "ada" } }],
    });

    expect(await scheduler.showWaiting("r1", "Two runs are ahead.", async () => {})).toBe(true);

    expect(shown).toEqual(["Two runs are ahead."]);
    expect(await store.effectProblem("r1")).toMatchObject({ reason: "Two runs are ahead." });
  });

  test("a run that waits for its turn shows its status later if it was shown just now, or could not be", async () => {
    const later = await showWaiting(new PostponedError(1_500));
    const failed = await showWaiting(new Error("Bad gateway."));

    expect([later.shown, later.dueAt]).toEqual([false, 1_500]);
    expect(await later.scheduler.showWaiting("r1", "One run is ahead.", async () => {})).toBe(false);
    expect(later.performed).toEqual(["status.show"]);
    expect(await later.store.claimEffect("r1", "status", 1_500)).toMatchObject({ attempts: 1 });
    expect(failed.shown).toEqual(new Error("Bad gateway."));
    expect(await failed.store.claimEffect("r1", "status", 1_000)).toMatchObject({ attempts: 2 });
    expect([later.close, failed.close].map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
  });
});

test("a run whose lease is revoked aborts its work without an error, and is processed again when it is acquired again", async () => {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const started = [first, second];
  const { start, scheduler, errors } = schedulerWorld({
    "model.call": (effect, run, signal) => hanging(started[effect.attempts - 1] ?? second)(effect, run, signal),
  });
  await start(sampleEffect("r1", "k1"));
  await first.promise;

  scheduler.revokeLease("r1");
  expect(scheduler.notify("r1")).toBe(false);
  const processed = scheduler.process("r1");
  await second.promise;
  await scheduler.drain(0);
  await processed;

  expect(errors).toEqual([]);
});

test("the limit of minutes does not count the hour in which no process was running, or by which the clock was set", async () => {
  const { store, clock, append, scheduler } = schedulerWorld();
  const busySince = clock.now;
  await store.ingest({
    run: { ...sampleRun("r1"), snapshot: { ...sampleSnapshot("callingModel"), busySince } },
    events: [],
  });
  clock.now += 60 * 60_000;

  await append({ type: "timer.due", timer: "deadline" });
  await scheduler.idle();

  const run = await requireRun(store, "r1");
  expect(run).toMatchObject({ status: "active", snapshot: { value: "callingModel", busySince: clock.now } });
  expect(await store.nextDueAt()).toBeGreaterThan(clock.now);
});
