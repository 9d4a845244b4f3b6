import { describe, expect, test, vi } from "vitest";
import { defaultPolicy } from "#config/deployment-policy.ts";
import type { RunEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { WorkerContext } from "#machines/worker-context.ts";
import {
  changeModel,
  clearConversation,
  dividePaused,
  listClosedPullRequests,
  listModels,
  listOpenPullRequests,
  raiseCostLimit,
  requestBaseMerge,
  requestExit,
  requestRetry,
  showChanges,
} from "#runtime/service/run-requests.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { StoredRun } from "#runtime/store/store.ts";
import { noWorkerRunning } from "#ui/run-commands.ts";
import { sampleRun, sampleSnapshot, sampleSpec, sampleStep } from "../../support/store-samples.ts";

type State = Parameters<typeof sampleSnapshot>[0];

interface GivenRun {
  state?: State;
  context?: Partial<WorkerContext>;
  spec?: Partial<RunSpec>;
  hasEnded?: boolean;
}

const { origin } = sampleSpec("r1");
const worker = WorkerDefinition.parse({ name: "fixer", instructions: "Fix it.", compatible_models: ["anthropic:*"] });
const newer = new UnreadableDataError("Run r2 was stored by a newer release.");

/** A thread with these runs, oldest first, and the options of the requests of people. */
async function threadWith(runs: Record<string, GivenRun>, { isUnreadable = false } = {}) {
  const store = openMemoryStore();
  for (const [id, { state = "idle", context, spec = {}, hasEnded }] of Object.entries(runs)) {
    const snapshot = sampleSnapshot(hasEnded ? "ended" : state, context);
    await store.ingest({ run: { ...sampleRun(id, [], spec), snapshot }, events: [] });
    if (hasEnded) await store.advance(sampleStep(id, { status: "done", snapshot }));
  }
  const wake = vi.fn();
  const models = {
    defaultModel: "anthropic:b",
    findModelProblem: (model: string) => (model.endsWith("x") ? "No key." : undefined),
  };
  const options = {
    store,
    scheduler: { wake },
    models,
    policy: { ...defaultPolicy, models: ["anthropic:*", "openai:*"], cost_per_day: { repository: 50, total: 50 } },
    openGitHub: () => ({
      readFile: async () => undefined,
      getPermission: async (login: string) => (login === "tom" ? "read" : "write"),
    }),
    now: () => 2_000,
  } as unknown as Parameters<typeof raiseCostLimit>[0];
  if (isUnreadable) {
    const found = await store.runsOfThread(origin);
    vi.spyOn(store, "runsOfThread").mockResolvedValue(found.map((run) => asUnreadable(run)));
  }
  const inboxOf = async (id: string) => (await store.inbox(id)).map(({ event }) => event);
  return { store, options, wake, inboxOf };
}

function asUnreadable(run: StoredRun): StoredRun {
  if (run.unreadable) return run;
  const { spec, snapshot: _, ...stored } = run;
  return { ...stored, displaySpec: spec, unreadable: newer };
}

describe("a request about the newest live run", () => {
  const by = "mia";

  test("a request about the newest live run reaches that run once for each delivery, and an older one if it is named", async () => {
    const { options, inboxOf, wake } = await threadWith({ r1: {}, r2: {}, r3: { hasEnded: true } });

    await requestExit(options, origin, { by, deliveryId: "d1" });
    await requestExit(options, origin, { by, deliveryId: "d1" });
    await requestExit(options, origin, { by, via: "page", runId: "r1" });

    expect(await inboxOf("r2")).toEqual([{ type: "run.exit", by }]);
    expect(await inboxOf("r1")).toEqual([{ type: "run.exit", by, via: "page" }]);
    expect(wake.mock.calls).toEqual([["r2"], ["r1"]]);
  });

  test("/exit ends the newest live run, and leaves alone one that has ended with its pull request", async () => {
    const closed = { isPullRequestClosed: true, pullRequest: 8 };
    const { options, inboxOf } = await threadWith({ r1: {}, r2: { context: closed, hasEnded: true } });

    const numbers = await requestExit(options, origin, { by, deliveryId: "d1" });

    expect([numbers, await requestExit(options, origin, { by, deliveryId: "d1" })]).toEqual([[], []]);
    expect(await inboxOf("r1")).toEqual([{ type: "run.exit", by }]);
    expect(await inboxOf("r2")).toEqual([]);
  });

  test("a request about the newest live run is refused without one, and for one that cannot be read", async () => {
    const ended = await threadWith({ r1: { hasEnded: true } });
    const unreadable = await threadWith({ r1: {} }, { isUnreadable: true });

    await expect(requestExit(ended.options, origin, { by })).rejects.toThrow(noWorkerRunning);
    await expect(requestExit(unreadable.options, origin, { by })).rejects.toThrow(newer.message);
  });

  test.each<[State, string | undefined]>([
    ["idle", undefined],
    ["interrupted", undefined],
    ["awaitingBudget", undefined],
    ["callingModel", "fixer is still working."],
    ["retrying", "fixer is still working."],
    [{ handlingCalls: "awaitingApproval" }, "fixer is waiting for approval."],
    [{ handlingCalls: "awaitingAnswer" }, "fixer is waiting for an answer."],
    [{ handlingCalls: "awaitingChild" }, "fixer is waiting for another worker."],
  ])(
    "a request about the newest live run to clear its conversation is accepted only while it waits for nothing else: %j",
    async (state, problem) => {
      const { options, inboxOf } = await threadWith({ r1: { state } });

      const cleared = clearConversation(options, origin, { by });

      await (problem === undefined ? cleared : expect(cleared).rejects.toThrow(problem));
      expect(await inboxOf("r1")).toEqual(problem === undefined ? [{ type: "conversation.cleared", by }] : []);
    },
  );
});

describe("the model of a run", () => {
  test("the model of a run is listed with those that it may use, first the one that was chosen last", async () => {
    const { options, store } = await threadWith({ r1: { spec: { worker, model: "anthropic:a" } } });

    const { current, available } = await listModels(options, origin);
    await store.ingest({
      events: [{ runId: "r1", event: { type: "model.changed", model: "anthropic:c", by: "mia" } }],
    });
    const changed = await listModels(options, origin, { runId: "r1" });

    expect(current).toBe("anthropic:a");
    expect(available.slice(0, 2)).toEqual(["anthropic:a", "anthropic:b"]);
    expect(available.length).toBeLessThanOrEqual(30);
    expect(available.filter((model) => !model.startsWith("anthropic:"))).toEqual([]);
    expect(changed.available.slice(0, 2)).toEqual(["anthropic:c", "anthropic:b"]);
  });

  test.each([
    ["anthropic:c", undefined],
    ["google:c", "The policy of this deployment does not allow the model google:c."],
    ["openai:c", "fixer works with anthropic:*, and not with openai:c."],
    ["anthropic:x", "No key."],
  ])(
    "the model of a run is changed to %s only if the policy, the worker and the keys allow it",
    async (model, problem) => {
      const { options, inboxOf } = await threadWith({ r1: { spec: { worker } } });

      const changed = changeModel(options, origin, { by: "mia", model });

      await (problem ? expect(changed).rejects.toThrow(problem) : changed);
      expect(await inboxOf("r1")).toEqual(problem ? [] : [{ type: "model.changed", model, by: "mia" }]);
    },
  );
});

describe("a retry", () => {
  const by = "mia";
  const starter = () => ({ start: vi.fn() });

  test("a retry starts the task of a run that has ended again, but not when its delivery is processed again", async () => {
    const { options, store } = await threadWith({ r1: { hasEnded: true, spec: { task: "Fix #7." } } });
    const { start } = starter();
    const retry = (request: object) => requestRetry(options, { start } as never, origin, { by, origin, ...request });

    await retry({ deliveryId: "d1", seen: undefined });
    await store.ingest({ deliveryId: "d1", events: [] });
    await retry({ deliveryId: "d1" });
    await retry({ runId: "r1" });

    const task = { worker: "fixer", text: "Fix #7.", origin, seen: undefined };
    expect(start.mock.calls).toEqual([[{ ...task, deliveryId: "d1" }], [task]]);
  });

  test("a retry is not refused when its delivery is processed again after the run has continued", async () => {
    const { options, store, inboxOf } = await threadWith({ r1: { state: "retrying" } });
    const retry = () => requestRetry(options, starter() as never, origin, { by, origin, deliveryId: "d1" });
    await retry();
    const snapshot = sampleSnapshot("callingModel");
    await store.advance(sampleStep("r1", { snapshot }));

    await retry();

    expect(await inboxOf("r1")).toEqual([{ type: "retry.requested", by }]);
  });

  test.each<[State, string | undefined]>([
    ["retrying", undefined],
    ["interrupted", "fixer is paused. Continue it with `/resume`."],
    ["callingModel", "fixer has not failed, so there is nothing to try again."],
  ])("a retry of a live run is possible only while it waits to call the model again: %s", async (state, problem) => {
    const { options, inboxOf, wake } = await threadWith({ r1: { state } });

    const retried = requestRetry(options, starter() as never, origin, { by, origin });

    await (problem ? expect(retried).rejects.toThrow(problem) : retried);
    expect(await inboxOf("r1")).toEqual(problem ? [] : [{ type: "retry.requested", by }]);
    expect(wake).toHaveBeenCalledTimes(problem ? 0 : 1);
  });

  test("a retry is refused without a run, and for one that cannot be read", async () => {
    const none = await threadWith({});
    const unreadable = await threadWith({ r1: {} }, { isUnreadable: true });

    const request = { by, origin };
    await expect(requestRetry(none.options, starter() as never, origin, request)).rejects.toThrow(noWorkerRunning);
    await expect(requestRetry(unreadable.options, starter() as never, origin, request)).rejects.toThrow(newer.message);
  });
});

describe("the cost limit of a run", () => {
  const state = "awaitingBudget" as const;
  const limits = { ...worker.limits, cost: 5 };

  test("the cost limit of a run is raised once for each delivery, and the reply is the same each time", async () => {
    const { options, store, inboxOf, wake } = await threadWith({ r1: { state, context: { limits } }, r2: {} });
    const raise = () => raiseCostLimit(options, origin, { by: "mia", amount: 2, deliveryId: "d1" });

    expect([await raise(), await raise()]).toEqual([7, 7]);

    expect(await inboxOf("r1")).toEqual([{ type: "cost_limit.raised", limit: 7, by: "mia" }]);
    const consumed = (await store.inbox("r1")).map(({ id }) => id);
    await store.advance(sampleStep("r1", { consumed }));
    expect(await inboxOf("r1")).toEqual([]);
    expect(await raise()).toBe(7);
    expect(wake).toHaveBeenCalledExactlyOnceWith("r1");
  });

  test.each([
    ["by someone who may not approve", { by: "tom", amount: 2 }, "@tom does not have write access."],
    ["above the policy's", { by: "mia", amount: 15.01 }, "allows at most $20.00 per run. This run's limit is $5.00."],
    [
      "of a run that does not wait for it",
      { by: "mia", amount: 1, runId: "r2" },
      "No run in this thread waits for a higher",
    ],
  ])("the cost limit of a run is not raised %s", async (_, request, problem) => {
    const { options, inboxOf } = await threadWith({ r1: { state, context: { limits } }, r2: {} });

    await expect(raiseCostLimit(options, origin, request)).rejects.toThrow(problem);
    expect(await inboxOf("r1")).toEqual([]);
  });

  test("the cost limit of a run is raised up to the policy's, and by no more than what is left of the day's budget", async () => {
    const { options } = await threadWith({ r1: { state, context: { limits } } });
    const policy = { ...options.policy, cost_per_day: { repository: 50, total: 14 } };

    const tight = raiseCostLimit({ ...options, policy }, origin, { by: "mia", amount: 15 });

    await expect(tight).rejects.toThrow("Only $14.00 of the deployment's daily budget is left.");
    expect(await raiseCostLimit(options, origin, { by: "mia", amount: 15 })).toBe(20);
  });

  test("the cost limit of a run is raised only for the named one if several runs wait", async () => {
    const { options, inboxOf } = await threadWith({ r1: { state }, r2: { state } });

    await expect(raiseCostLimit(options, origin, { by: "mia", amount: 2 })).rejects.toThrow(
      "2 runs in this thread wait for a higher cost limit. Name one: `/approve r2 +$2` for fixer, `/approve r1 +$2` for fixer.",
    );
    await raiseCostLimit(options, origin, { by: "mia", amount: 2, runId: "r1" });
    expect(await inboxOf("r1")).toHaveLength(1);
    expect(await inboxOf("r2")).toEqual([]);
  });

  test("the cost limit of a run is raised although another run of the thread cannot be read", async () => {
    const { options, store } = await threadWith({ r1: { state }, r2: { state } });
    const [unreadable, run] = await store.runsOfThread(origin);
    if (!unreadable || !run) throw new Error("The runs were just stored.");
    vi.spyOn(store, "runsOfThread").mockResolvedValue([asUnreadable(unreadable), run]);

    await raiseCostLimit(options, origin, { by: "mia", amount: 2 });

    await expect(raiseCostLimit(options, origin, { by: "mia", amount: 2, runId: "r2" })).rejects.toThrow(newer.message);
  });
});

test("the changes of the newest run are shown in the thread once for each delivery, even after it has ended", async () => {
  const { options, store, wake } = await threadWith({ r1: {}, r2: { hasEnded: true } });
  const none = await threadWith({});

  await showChanges(options, origin, { by: "mia", deliveryId: "d1" });
  await showChanges(options, origin, { by: "mia", deliveryId: "d1" });

  expect(wake).toHaveBeenCalledExactlyOnceWith("r2");
  const effect = await store.claimEffect("r2", "thread", 0);
  expect(effect?.request).toEqual({
    kind: "changes.show",
    callId: expect.stringMatching(/^by-\w{8}$/),
    by: "mia",
    thread: 7,
  });
  await expect(showChanges(none.options, origin, { by: "mia" })).rejects.toThrow(noWorkerRunning);
});

describe("the pull requests of a repository", () => {
  const here = { origin: { ...origin, repositoryId: 11 } };
  const elsewhere = { origin: { ...origin, repositoryId: 12 } };
  const repository = { installationId: 1, repositoryId: 11, owner: "ada", repo: "engine" };

  async function repositoryWith(runs: Record<string, GivenRun>) {
    const made = await threadWith(runs);
    for (const repositoryId of [11, 12]) {
      const location = { ...repository, repositoryId, repo: `engine${repositoryId}`, ownerId: 1, at: 1 };
      await made.store.saveLocation(location);
    }
    return made;
  }

  test("the pull requests of a repository are open while a live run has them, each listed once", async () => {
    const { options } = await repositoryWith({
      r1: { spec: here, context: { pullRequest: 8 } },
      r2: { spec: here, context: { pullRequest: 8 } },
      r3: { spec: here },
      r4: { spec: elsewhere, context: { pullRequest: 9 } },
      r5: { spec: here, context: { pullRequest: 10 }, hasEnded: true },
    });

    expect(await listOpenPullRequests(options, repository)).toEqual([8]);
    expect(await listOpenPullRequests(options, { ...repository, repositoryId: undefined })).toEqual([]);
  });

  test("the pull requests of a repository were closed if their run ended with them", async () => {
    const closed = { isPullRequestClosed: true };
    const { options } = await repositoryWith({
      r1: { spec: here, context: { ...closed, pullRequest: 8 }, hasEnded: true },
      r2: { spec: here, context: { ...closed, pullRequest: 8 }, hasEnded: true },
      r3: { spec: here, context: { pullRequest: 9 }, hasEnded: true },
      r4: { spec: elsewhere, context: { ...closed, pullRequest: 10 }, hasEnded: true },
      r5: { spec: here, context: closed, hasEnded: true },
    });

    expect(await listClosedPullRequests(options, repository)).toEqual([8]);
  });
});

test("only the live runs that opened a pull request are asked to merge its base", async () => {
  const { options, inboxOf, wake } = await threadWith({
    r1: { context: { pullRequest: 7 } },
    r2: { context: { pullRequest: 8 } },
    r3: { context: { pullRequest: 7 }, hasEnded: true },
  });

  await requestBaseMerge(options, origin, { base: "main", reason: "It has conflicts.", replyThread: 9 });

  const text = expect.stringMatching(/^It has conflicts\. Merge the branch main into your pull request: /);
  expect(await inboxOf("r1")).toEqual([
    { type: "message.received", kind: "prompt", text, by: "golem-forge", thread: 9 },
  ]);
  expect(await inboxOf("r2")).toEqual([]);
  expect(wake).toHaveBeenCalledExactlyOnceWith("r1");
});

describe("a run counts as paused", () => {
  const stop: RunEvent = { type: "run.stop", by: "ada" };
  const resume: RunEvent = { type: "run.resume", by: "ada" };
  const said: RunEvent = { type: "message.received", kind: "comment", text: "Hello.", by: "ada" };

  test.each<[string, "idle" | "interrupted", RunEvent[], boolean]>([
    ["works", "idle", [], false],
    ["works and has a message to read", "idle", [said], false],
    ["is about to be paused", "idle", [said, stop, said], true],
    ["is about to be paused again", "idle", [stop, resume, stop], true],
    ["is paused", "interrupted", [], true],
    ["is paused and has a message to read", "interrupted", [said], true],
    ["is paused and about to continue", "interrupted", [resume, said], false],
    ["is about to be paused and to continue", "idle", [stop, resume], false],
  ])(
    "a run counts as paused by what it is about to read, or by its state: one that %s",
    async (_, state, inbox, isPaused) => {
      const store = openMemoryStore();
      await store.ingest({ run: { ...sampleRun("r1"), snapshot: sampleSnapshot(state) }, events: [] });
      await store.ingest({ run: { ...sampleRun("r2"), snapshot: sampleSnapshot("idle") }, events: [] });
      await store.ingest({ events: inbox.map((event) => ({ runId: "r1", event })) });
      const live = await store.runsOfThread(sampleSpec("r1").origin);

      const { paused, running } = await dividePaused(store, live);

      expect(paused.map(({ id }) => id)).toEqual(isPaused ? ["r1"] : []);
      expect(running.map(({ id }) => id).sort()).toEqual(isPaused ? ["r2"] : ["r1", "r2"]);
    },
  );

  test("a run counts as paused by its state if its inbox cannot be read, and never if the run cannot be read", async () => {
    const store = openMemoryStore();
    await store.ingest({ run: { ...sampleRun("r1"), snapshot: sampleSnapshot("interrupted") }, events: [] });
    const [run] = await store.runsOfThread(sampleSpec("r1").origin);
    if (!run || run.unreadable) throw new Error("The run was just stored.");
    const { spec, snapshot: _, ...stored } = run;
    const unreadable = new UnreadableDataError("It was stored by a newer release.");
    const newer: StoredRun = { ...stored, id: "r2", displaySpec: spec, unreadable };
    const inbox = vi.spyOn(store, "inbox").mockRejectedValue(unreadable);

    expect(await dividePaused(store, [run, newer])).toEqual({ paused: [run], running: [newer] });
    expect(inbox).toHaveBeenCalledExactlyOnceWith("r1");
    inbox.mockRejectedValue(new Error("The disk is full."));
    await expect(dividePaused(store, [run])).rejects.toThrow("The disk is full.");
  });
});
