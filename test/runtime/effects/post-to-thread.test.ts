import { describe, expect, test, vi } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import type { ModelCall, RunEvent } from "#domain/events.ts";
import type { WorkerContext } from "#machines/worker-context.ts";
import type { WorkerSnapshot } from "#machines/worker-snapshot.ts";
import { PostponedError } from "#runtime/effects/effect-handler.ts";
import {
  postAnswer,
  postBudget,
  postChanges,
  postToolReply,
  reportOutcome,
  showStatus,
} from "#runtime/effects/post-to-thread.ts";
import type { FrontEnd, ToolReply } from "#runtime/front-end.ts";
import { requireRun } from "#runtime/store/store.ts";
import { type EffectWorldOptions, effectWorld } from "../../support/effect-world.ts";
import { sampleEffect, sampleRun, sampleSnapshot, sampleSpec, sampleStep } from "../../support/store-samples.ts";

const answer = (text: string, calls: ModelCall[] = []): RunEvent => ({
  type: "model.answered",
  ...{ text, calls, messages: [], finishReason: "stop", lastSeenId: 0 },
  usage: { inputTokens: 100, outputTokens: 10 },
});

const { origin } = sampleSpec("r1");
const scheduled = { spec: { origin: { ...origin, repositoryId: 11, trigger: "schedule: 0 6 * * *" } } };

/** A run in this state. Its outcome, if any, has been stored. */
async function threadWorld(context: Partial<WorkerContext> = {}, options: EffectWorldOptions = {}) {
  const made = await effectWorld(options);
  const snapshot = sampleSnapshot(context.outcome ? "ended" : "callingModel", context);
  await made.store.advance(sampleStep("r1", { snapshot, status: context.outcome ? "done" : "active" }));
  return made;
}

/** Shows the status half an interval, or any other time, after the last edit. Resolves to the time it was postponed to. */
async function showAfter(sinceEditMs: number): Promise<number | "shown"> {
  const { store, services, clock, effect, perform, posts } = await effectWorld();
  vi.spyOn(store, "findPost").mockResolvedValue({ commentId: 1, updatedAt: clock.now - sinceEditMs });
  const result = await perform(showStatus(services), effect({ kind: "status.show" })).catch((error) => error);
  if (result instanceof PostponedError) return result.until - clock.now;
  expect(posts.map(({ kind }) => kind)).toEqual(["status"]);
  return "shown";
}

describe("the status", () => {
  test("a status is edited at most once in an interval", async () => {
    expect(await showAfter(200)).toBe(300);
    expect(await showAfter(500)).toBe("shown");
  });

  test("a status whose last edit is in the future, after a clock was corrected, is edited at once", async () => {
    expect(await showAfter(-300_000)).toBe("shown");
  });

  test("a status is posted first, and shows the state at the time when it can be posted", async () => {
    const { store, services, effect, perform } = await threadWorld();
    const states: unknown[] = [];
    const showStatusLater: FrontEnd["showStatus"] = async (view, { latest }) => {
      states.push(view.state);
      await store.advance(sampleStep("r1", { version: 1, snapshot: sampleSnapshot("interrupted"), status: "waiting" }));
      states.push((await latest?.())?.state);
      return 5;
    };
    const frontEnd = { ...services.frontEnd, showStatus: showStatusLater };

    const result = await perform(showStatus({ ...services, frontEnd }), effect({ kind: "status.show" }));

    expect(result).toEqual({ posts: [{ name: "status/r1", commentId: 5 }] });
    expect(states).toEqual(["callingModel", "interrupted"]);
  });

  test.each<[string, Partial<WorkerContext>, number]>([
    ["does nothing that people have to know", {}, 0],
    ["ended, which has a comment of its own", { outcome: { kind: "failed", reason: "It broke." } }, 0],
    ["opened a pull request", { pullRequest: 8 }, 1],
  ])("a status of a scheduled run that %s", async (_, context, shown) => {
    const { services, effect, perform, posts } = await threadWorld(context, scheduled);

    await perform(showStatus(services), effect({ kind: "status.show" }));

    expect(posts).toHaveLength(shown);
  });
});

describe("a status that is not posted yet", () => {
  const failed: WorkerContext["outcome"] = { kind: "failed", reason: "It broke." };

  /** Returns the number of comments that showing the status of a run in this state posts. */
  async function postedIn(
    state: WorkerSnapshot["value"],
    { attempts = 1, context = {} as Partial<WorkerContext> } = {},
  ) {
    const { store, services, effect, perform, posts } = await effectWorld();
    const status = state === "ended" ? "done" : "waiting";
    await store.advance(sampleStep("r1", { snapshot: sampleSnapshot(state, context), status }));
    await perform(showStatus(services), { ...effect({ kind: "status.show" }), attempts });
    return posts.length;
  }

  test.each<[WorkerSnapshot["value"], number]>([
    ["callingModel", 1],
    [{ handlingCalls: "awaitingApproval" }, 0],
    [{ handlingCalls: "awaitingAnswer" }, 0],
    ["awaitingBudget", 0],
    ["idle", 1],
    ["interrupted", 1],
  ])(
    "the first status of a run in the state %j makes %i comments: a request says all that it would",
    async (state, count) => {
      expect(await postedIn(state)).toBe(count);
    },
  );

  test("no first status is posted below the outcome", async () => {
    expect(await postedIn("ended", { context: { outcome: failed } })).toBe(0);
  });

  test("a status that a crash may have interrupted is posted in any case, so that the comment does not stay as it was", async () => {
    expect(await postedIn({ handlingCalls: "awaitingApproval" }, { attempts: 2 })).toBe(1);
  });

  test.each<[WorkerContext["outcome"]]>([[failed], [{ kind: "cancelled", by: "ada" }]])(
    "an outcome that cannot be posted is shown in a first status: %j",
    async (outcome) => {
      const { store, services, effect, perform, posts, run } = await threadWorld({ outcome });
      const result = await reportOutcome(services).onFailure(effect({ kind: "outcome.report" }), run, new Error("403"));
      await store.ingest({ events: [], effects: [sampleEffect("r1", "post")] });
      await store.completeEffect({ runId: "r1", key: "post", ...result });

      await perform(showStatus(services), effect({ kind: "status.show" }));

      expect(posts).toHaveLength(1);
    },
  );

  test("a status that has to wait for GitHub's rate limit is made again then, and is no problem of the run", async () => {
    const { services, effect, perform } = await threadWorld();
    const limited = async () => {
      throw new OutageError("The rate limit is used up.", { retryAt: 60_000 });
    };
    const frontEnd = { ...services.frontEnd, showStatus: limited };

    const error = await perform(showStatus({ ...services, frontEnd }), effect({ kind: "status.show" })).catch((e) => e);

    expect(error).toBeInstanceOf(PostponedError);
    expect(error).toMatchObject({ until: 60_000, reason: undefined });
  });
});

describe("the answer of a run that stays idle", () => {
  test("the answer of a run that stays idle is posted once for each step", async () => {
    const { services, effect, perform, posts, append } = await effectWorld();
    const post = () => perform(postAnswer(services), effect({ kind: "answer.post" }));

    expect(await post()).toEqual({});
    await append(answer("One."));
    expect(await post()).toEqual({ posts: [{ name: "answer/r1/1", commentId: 1 }] });
    await append(answer("  \n"));
    expect(await post()).toEqual({});
    await append(answer("Three."));
    expect(await post()).toEqual({ posts: [{ name: "answer/r1/3", commentId: 2 }] });

    const optionsOf = (name: string) => ({ name, commentId: undefined, isFirstAttempt: true });
    expect(posts).toEqual([
      { kind: "answer", options: optionsOf("answer/r1/1") },
      { kind: "answer", options: optionsOf("answer/r1/3") },
    ]);
  });

  test("the answer that is posted is that of its step, even if the run has gone on while it waited for GitHub", async () => {
    const { services, effect, perform, append } = await effectWorld();
    await append(answer("One."), answer("I am looking.", [{ callId: "c1", tool: "read_file", args: {} }]));
    const shown: string[] = [];
    const showAnswer: FrontEnd["showAnswer"] = async (_view, text) => shown.push(text);
    const handler = postAnswer({ ...services, frontEnd: { ...services.frontEnd, showAnswer } });

    const result = await perform(handler, effect({ kind: "answer.post", step: 1 }));

    expect(result).toEqual({ posts: [{ name: "answer/r1/1", commentId: 1 }] });
    expect(shown).toEqual(["One."]);
  });
});

test("a cost limit that is used up is posted once for each limit", async () => {
  const { services, effect, perform, posts } = await effectWorld();

  const result = await perform(postBudget(services), effect({ kind: "budget.post" }, { attempts: 2 }));

  const name = `budget/r1/${sampleSpec("r1").worker.limits.cost}`;
  expect(result).toEqual({ posts: [{ name, commentId: 1 }] });
  expect(posts).toEqual([{ kind: "budget", options: { name, commentId: undefined, isFirstAttempt: false } }]);
});

describe("the reply to a person's call", () => {
  const request = { kind: "tool.reply" as const, callId: "by-1", thread: 9 };
  const queued: ToolReply = { kind: "queued", by: "ada", behind: "model" };
  const confirm: ToolReply = { kind: "confirm", callId: "by-1", tool: "undo", args: {}, command: "/undo", word: "abc" };

  /** A run, and the replies that were shown. */
  async function replies() {
    const made = await effectWorld();
    const shown: unknown[] = [];
    const { frontEnd } = made.services;
    const showToolReply: FrontEnd["showToolReply"] = (view, reply, options) => {
      shown.push(reply);
      return frontEnd.showToolReply(view, reply, options);
    };
    const handler = postToolReply({ store: made.store, frontEnd: { ...frontEnd, showToolReply } });
    const post = (reply?: ToolReply) => made.perform(handler, made.effect({ ...request, reply }));
    return { ...made, shown, post };
  }

  test("the reply to a person's call is posted where the call was made, and is its result as soon as there is one", async () => {
    const { post, shown, posts, append } = await replies();
    const result = { llmContent: "ok", value: { kind: "text" as const, content: "ok" } };
    const invoked = (callId: string, by: string): RunEvent => {
      return { type: "tool.invoked", callId, tool: "undo", by, args: { path: "a" }, result };
    };

    expect(await post()).toEqual({});
    await post(queued);
    await append(invoked("by-0", "mia"), invoked("by-1", "ada"));
    await post(queued);

    expect(shown).toEqual([queued, { kind: "result", by: "ada", tool: "undo", args: { path: "a" }, result }]);
    expect(posts.map(({ options }) => options)).toMatchObject(Array(2).fill({ name: "tool/r1/by-1", thread: 9 }));
  });

  test("the reply to a person's call that asks to confirm a call can be found by its word", async () => {
    const { post } = await replies();

    expect((await post(confirm)).posts?.map(({ name }) => name)).toEqual(["tool/r1/by-1", "confirm/r1/abc"]);
    expect((await post(queued)).posts?.map(({ name }) => name)).toEqual(["tool/r1/by-1"]);
  });
});

describe("the changes of a run", () => {
  const request = { kind: "changes.show" as const, callId: "by-1", by: "ada", thread: 9 };

  test.each([
    [true, { kind: "changes", by: "ada", diff: "the diff" }],
    [false, { kind: "refused", by: "ada", message: expect.stringContaining("still being opened") }],
  ])("the changes of a run are shown as a diff once the repository is open: %s", async (isOpened, reply) => {
    const { services, effect, perform, posts } = await effectWorld({ isOpened });
    const showToolReply = vi.fn(services.frontEnd.showToolReply);
    const frontEnd = { ...services.frontEnd, showToolReply };

    const result = await perform(postChanges({ ...services, frontEnd }), effect(request));

    expect(showToolReply.mock.calls[0]?.[1]).toEqual(reply);
    expect(result.posts).toMatchObject([{ name: "tool/r1/by-1", commentId: 1 }]);
    expect(posts).toMatchObject([{ options: { thread: 9 } }]);
  });

  test("/diff on a run whose log was removed says that it was", async () => {
    const { services, effect, perform, removeLog } = await effectWorld();
    const showToolReply = vi.fn(services.frontEnd.showToolReply);
    await removeLog();

    await perform(postChanges({ ...services, frontEnd: { ...services.frontEnd, showToolReply } }), effect(request));

    const message = expect.stringMatching(/^The log of this run was removed on \d{4}-\d\d-\d\d, because/);
    expect(showToolReply.mock.calls[0]?.[1]).toEqual({ kind: "refused", by: "ada", message });
  });

  test("the changes of a run that cannot be read are answered with a reason that the person can act on", async () => {
    const { services, effect, run } = await effectWorld();
    const fail = async (error: Error) =>
      (await postChanges(services).onFailure(effect(request, { key: "k" }), run, error)).effects;

    const replyOf = (message: string) => [
      {
        ...{ key: "k/reply", runId: "r1", queue: "thread" },
        request: { kind: "tool.reply", callId: "by-1", thread: 9, reply: { kind: "refused", by: "ada", message } },
      },
    ];
    expect(await fail(new UserError("The branch is gone."))).toEqual(replyOf("The branch is gone."));
    expect(await fail(new Error("secret"))).toEqual(replyOf("The changes could not be read. Try again."));
  });
});

describe("the outcome of a run", () => {
  const report = { kind: "outcome.report" as const };
  const ofDay = (name: string) => `outcome/${name}/fixer/1970-01-01`;

  test.each<[string, WorkerContext["outcome"], EffectWorldOptions, unknown]>([
    ["a person started", { kind: "failed", reason: "It broke." }, {}, "outcome/r1"],
    ["a schedule started and that succeeded", { kind: "answered" }, scheduled, "outcome/r1"],
    ["a schedule started and that failed", { kind: "failed", reason: "It broke." }, scheduled, ofDay("11#7")],
    [
      "a schedule started and that reached a limit, without a repository id",
      { kind: "limited", limit: "steps: 1", reason: "Too long." },
      { spec: { origin: { ...scheduled.spec.origin, repositoryId: undefined } } },
      ofDay("ada/engine#7"),
    ],
  ])("the outcome of a run that %s is posted", async (_, outcome, options, name) => {
    const { services, effect, perform, append } = await threadWorld({ outcome }, options);
    await append(answer("Done."));

    expect(await perform(reportOutcome(services), effect(report))).toEqual({ posts: [{ name, commentId: 1 }] });
  });

  test("the outcome of a run that a schedule started and that found nothing to do is not posted", async () => {
    const { services, effect, perform, append } = await threadWorld({ outcome: { kind: "answered" } }, scheduled);
    await append(answer("Nothing to do."));

    expect(await perform(reportOutcome(services), effect(report))).toEqual({});
  });
});

describe("the outcome of a child", () => {
  const child = { rootId: "p", parentId: "p", parentCallId: "c1" };
  const file = (path: string, content: string) => ({
    path,
    content: new TextEncoder().encode(content),
    mode: "100644" as const,
  });

  /** A child with this outcome, and the changes of its parent before and after the spawn. */
  async function childWorld(outcome: WorkerContext["outcome"], { parentChanges = 1 } = {}) {
    const made = await threadWorld({ outcome, cost: 0.5 }, { spec: { ...child, parentChanges } });
    const { store, effect, perform, services } = made;
    await store.ingest({ run: sampleRun("p"), events: [] });
    const change = async (runId: string, ...changes: ReturnType<typeof file>[]) => {
      await store.ingest({ events: [], effects: [sampleEffect(runId, "change")] });
      await store.completeEffect({ runId, key: "change", changes: { step: "1", changes } });
    };
    await change("p", file("a.txt", "before the spawn"));
    await change("p", file("b.txt", "of the parent"));
    await change("r1", file("a.txt", "first"), file("b.txt", "of the child"));
    await change("r1", file("a.txt", "second"));
    await made.append(answer("All done."));
    return { ...made, report: () => perform(reportOutcome(services), effect({ kind: "outcome.report" })) };
  }

  test("the outcome of a child hands its last change of each file to its parent, except for files that the parent has changed since", async () => {
    const { report } = await childWorld({ kind: "answered" });

    const { events, parentChanges } = await report();

    expect(events).toEqual([
      {
        runId: "p",
        event: {
          ...{ type: "child.finished", callId: "c1", childId: "r1", cost: 0.5 },
          outcome: { kind: "answered", text: expect.stringMatching(/^All done\.\n\nThese files .* dropped: b\.txt$/) },
          usage: { inputTokens: 100, outputTokens: 10, cachedInputTokens: 0 },
        },
        dedupe: "r1/finished",
      },
    ]);
    expect(parentChanges).toEqual({
      runId: "p",
      changes: { step: "child/r1", changes: [file("a.txt", "second")] },
      mergedWith: 2,
    });
  });

  test("the outcome of a child hands over all changes, and its text as it is, if its parent has changed nothing since", async () => {
    const { report } = await childWorld({ kind: "answered" }, { parentChanges: 2 });

    const { events, parentChanges } = await report();

    expect(events).toMatchObject([{ event: { outcome: { kind: "answered", text: "All done." } } }]);
    expect(parentChanges?.changes.changes.map(({ path }) => path)).toEqual(["a.txt", "b.txt"]);
  });

  test("a child that failed hands over no changes", async () => {
    const { report } = await childWorld({ kind: "failed", reason: "It broke." });

    const result = await report();

    expect(result.events).toMatchObject([{ event: { outcome: { kind: "failed", reason: "It broke." } } }]);
    expect(result).not.toHaveProperty("parentChanges");
  });

  test("the outcome of a child waits until the costs of its own children are added, but not for long", async () => {
    const { store, report, clock, append } = await childWorld({ kind: "cancelled", by: "fixer" });
    const cancelled = { kind: "cancelled" as const, by: "fixer" };
    const usage = { inputTokens: 1, outputTokens: 1 };
    await store.ingest({ run: sampleRun("g", [], { rootId: "p", parentId: "r1", parentCallId: "c2" }), events: [] });
    const endedAt = Date.now();
    clock.now = endedAt;

    await expect(report()).rejects.toEqual(new PostponedError(endedAt + 1_000));
    clock.now = endedAt + 90_000;
    expect((await report()).events).toHaveLength(1);

    clock.now = endedAt;
    await append({ type: "child.finished", callId: "c2", childId: "g", outcome: cancelled, usage });
    await expect(report()).rejects.toThrow(PostponedError);
    const { version, snapshot } = await requireRun(store, "r1");
    const consumed = (await store.inbox("r1")).map(({ id }) => id);
    await store.advance(sampleStep("r1", { version, snapshot, status: "done", consumed }));
    expect((await report()).events).toHaveLength(1);
  });

  test("the outcome of a child is not reported before there is one", async () => {
    const { report } = await childWorld(undefined);

    expect(await report()).toEqual({});
  });
});

test("what cannot be posted for a long time does not end the run", async () => {
  const { services, effect, run } = await effectWorld();
  const error = new Error("GitHub did not accept it.");
  const reply = { kind: "tool.reply" as const, callId: "by-1" };

  expect([
    await showStatus(services).onFailure(effect({ kind: "status.show" }), run, error),
    await postBudget(services).onFailure(effect({ kind: "budget.post" }), run, error),
    await postToolReply(services).onFailure(effect(reply), run, error),
  ]).toEqual([{}, {}, {}]);
});

describe("results that cannot be posted", () => {
  const error = new Error("GitHub did not accept it.");

  /** Fails to post, and shows the status twice: before and after another answer of the model. */
  async function shownAfter(kind: "answer.post" | "outcome.report", outcome?: WorkerContext["outcome"]) {
    const { store, services, clock, effect, perform, append, run } = await threadWorld({ outcome });
    const statusPosts = [{ name: "status/r1", commentId: 7 }];
    const shown: unknown[] = [];
    const showView: FrontEnd["showStatus"] = async (view, { latest }) => {
      expect((await latest?.())?.unposted).toBe(view.unposted);
      return shown.push(view.unposted);
    };
    const handler = showStatus({ ...services, frontEnd: { ...services.frontEnd, showStatus: showView } });
    const status = effect({ kind: "status.show" });
    await append(answer("Done."));

    const failed =
      kind === "answer.post"
        ? await postAnswer(services).onFailure(effect({ kind }), run, error)
        : await reportOutcome(services).onFailure(effect({ kind }), run, error);
    expect(failed.effects).toEqual([{ key: "r1/status", runId: "r1", queue: "status", request: status.request }]);
    await store.ingest({ events: [], effects: [sampleEffect("r1", "post")] });
    await store.completeEffect({
      runId: "r1",
      key: "post",
      ...failed,
      posts: [...(failed.posts ?? []), ...statusPosts],
    });
    clock.now += 1_000;
    await perform(handler, status);
    await append(answer("Done again."));
    clock.now += 1_000;
    await perform(handler, status);
    return shown;
  }

  test.each<["answer.post" | "outcome.report", WorkerContext["outcome"], unknown]>([
    ["answer.post", undefined, "Done."],
    ["outcome.report", { kind: "answered" }, "Done."],
    ["outcome.report", { kind: "failed", reason: "It broke." }, "It broke."],
    ["outcome.report", { kind: "cancelled", by: "ada" }, ""],
  ])("the status shows a result that cannot be posted: %s of %j", async (kind, outcome, text) => {
    expect(await shownAfter(kind, outcome)).toEqual([text, undefined]);
  });

  test("the outcome of a child has its parent as reader, and none in the thread", async () => {
    const { services, effect, run } = await effectWorld({ spec: { rootId: "p", parentId: "p", parentCallId: "c1" } });

    expect(await reportOutcome(services).onFailure(effect({ kind: "outcome.report" }), run, error)).toEqual({});
  });
});
