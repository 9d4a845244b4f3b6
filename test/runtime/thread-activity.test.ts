import { expect, test, vi } from "vitest";
import { noWorkerRunning } from "#ui/run-commands.ts";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

test("whether a thread has a live run takes one read of the store, however long the thread is", async () => {
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const { runs, runtime, waitUntilShown, store } = await world({ script: turns(ask) });
  expect(await runs.threadActivity(origin)).toBe("none");
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  await waitUntilShown(({ kind }) => kind === "question");
  await runtime.idle();
  const methods = (Object.keys(store) as (keyof typeof store)[]).map((name) => vi.spyOn(store, name));

  expect(await runs.threadActivity(origin)).toBe("live");

  expect(methods.flatMap(({ mock }) => mock.calls)).toEqual([[origin]]);
  await runs.requestCancel(origin, { by: "ada" });
  await waitUntilShown(({ kind }) => kind === "outcome");
  expect(await runs.threadActivity(origin)).toBe("ended");
});

/** A run that has opened a pull request and waits for its review. */
async function withPullRequest(...further: { text: string }[]) {
  const made = await world({
    script: turns(
      { calls: [{ name: "write_file", args: { path: "CHANGES.md", content: "New.\n" } }] },
      { calls: [{ name: "open_pull_request", args: { title: "Add a changelog", body: "New." } }] },
      { text: "Opened." },
      ...further,
    ),
  });
  const issue = { ...origin, ...made.github.repository };
  await made.runs.startRun({ origin: issue, worker: "fixer", text: "please" });
  const { id } = await made.approvalRequested();
  await made.runs.decideApprovals(issue, { by: "ada", target: id, approve: true });
  const opened = await made.waitUntilShown(({ view: { state } }) => state === "idle");
  return { ...made, issue, opened, pull: { ...issue, thread: opened.view.pullRequest ?? 0 } };
}

test("a run whose log was removed does not continue when its pull request is reopened", async () => {
  const made = await withPullRequest();
  const { runs, store, pull, opened } = made;
  await runs.pullRequestClosed(pull, { by: "ada", merged: false, commit: undefined });
  await made.waitUntilShown(({ kind, view: { state } }) => kind === "outcome" && state === "ended");
  await made.runtime.idle();
  expect(await store.removeExpired({ runsEndedBefore: Number.MAX_SAFE_INTEGER, deliveriesBefore: 0 })).toBe(true);

  await runs.pullRequestReopened(pull, { by: "ada" });

  expect(await runs.threadActivity(pull, { isOpen: true })).toBe("ended");
  expect(await store.inbox(opened.view.spec.id)).toEqual([]);
});

test("a review and a comment reach the run right after a pull request was closed and reopened, but not one that has just ended", async () => {
  const made = await withPullRequest({ text: "I see what you say." }, { text: "And the rest." });
  const { runs, model, issue, opened, pull } = made;
  const review = { id: 1, state: "changes_requested", body: "Say more." };

  await runs.pullRequestClosed(pull, { by: "ada", merged: false, commit: undefined });
  await made.waitUntilShown(({ kind, view: { state } }) => kind === "outcome" && state === "ended");
  expect(await runs.threadActivity(pull)).toBe("ended");
  expect(await runs.threadActivity(pull, { isOpen: true })).toBe("live");
  expect(await runs.threadActivity(issue, { isOpen: true })).toBe("ended");
  expect(await runs.deliverReview(pull, { by: "ada", review })).toBe(opened.view.spec.id);
  await made.runtime.scheduler.idle();
  const lost = vi.spyOn(made.runtime.scheduler, "wake").mockReturnValueOnce();
  await runs.pullRequestReopened(pull, { by: "ada" });
  expect(lost).toHaveBeenCalledOnce();
  expect(await made.store.dueRuns(Number.MAX_SAFE_INTEGER)).toEqual([opened.view.spec.id]);
  await runs.pullRequestClosed(pull, { by: "ada", merged: false, commit: undefined });
  await runs.pullRequestReopened(pull, { by: "ada" });
  expect(await runs.deliverMessage(pull, { by: "ada", text: "And hurry." })).toBe(opened.view.spec.id);

  const read = () => JSON.stringify(model.requests.at(-1)?.messages);
  await made.waitUntilShown(() => read().includes("Say more.") && read().includes("And hurry."));
  expect(await runs.threadActivity(pull)).toBe("live");

  const whileLive = await made.store.runsOfThread(pull);
  await runs.requestCancel(pull, { by: "ada" });
  await made.waitUntilShown(({ view: { outcome } }) => outcome?.kind === "cancelled");
  const stored = vi.spyOn(made.store, "runsOfThread");
  stored.mockResolvedValueOnce(whileLive);
  expect(await runs.deliverMessage(pull, { by: "ada", text: "Too late." })).toBeUndefined();
  stored.mockResolvedValueOnce(whileLive);
  expect(await runs.continueRun(pull, { by: "ada", worker: "fixer", text: "Too late." })).toBe(false);
  stored.mockResolvedValueOnce(whileLive);
  expect(await runs.deliverReview(pull, { by: "ada", review })).toBeUndefined();
});

test.each([
  ["before the run has read that it was closed", true],
  ["while the run reads that it was closed", false],
])("closing a pull request does not pause its run when it is reopened: the thread is closed %s", async (_, isLate) => {
  const { runs, runtime, store, pull, waitUntilShown } = await withPullRequest();
  await runtime.scheduler.idle();
  const whileLive = await store.runsOfThread(pull);
  const wake = vi.spyOn(runtime.scheduler, "wake");
  if (isLate) wake.mockReturnValueOnce();
  await runs.pullRequestClosed(pull, { by: "ada", merged: false, commit: undefined });
  if (!isLate) {
    await waitUntilShown(({ kind, view: { state } }) => kind === "outcome" && state === "ended");
    vi.spyOn(store, "runsOfThread").mockResolvedValueOnce(whileLive);
  }

  const stopped = runs.requestStop(pull, { by: "ada", reason: "@ada closed it." });

  await expect(stopped).rejects.toThrow(noWorkerRunning);
  await runs.pullRequestReopened(pull, { by: "ada" });
  await runtime.scheduler.idle();
  expect(await runs.listRunViews(pull)).toMatchObject([{ state: "idle" }]);
});

test.each(["pull", "issue"] as const)(
  "a person's /stop pauses a run that has ended with its pull request when that is reopened: /stop in the thread of the %s",
  async (where) => {
    const { runs, runtime, issue, pull, opened, waitUntilShown } = await withPullRequest();
    await runs.pullRequestClosed(pull, { by: "ada", merged: false, commit: undefined });
    await waitUntilShown(({ kind, view: { state } }) => kind === "outcome" && state === "ended");
    const stop = { by: "mia", deliveryId: "stop" };

    const closed = await runs.requestStop({ pull, issue }[where], stop);

    expect([closed, await runs.requestStop(pull, stop)]).toEqual([[pull.thread], [pull.thread]]);
    await runs.pullRequestReopened(pull, { by: "ada" });
    await runtime.scheduler.idle();
    expect(await runs.listRunViews(pull)).toMatchObject([
      { state: "interrupted", activity: expect.stringContaining("@mia") },
    ]);
    expect(await runs.findPaused(opened.view.spec.id)).toMatchObject({ worker: "fixer" });
    await runs.requestResume(pull, { by: "mia" });
    await runtime.scheduler.idle();
    expect(await runs.findPaused(opened.view.spec.id)).toBeUndefined();
    expect(await runs.listRunViews(pull)).toMatchObject([{ state: "idle" }]);
  },
);

test.each(["requestCancel", "requestExit"] as const)(
  "a run that has ended with its pull request does not continue when that is reopened after a person ended it: %s",
  async (end) => {
    const { runs, runtime, store, issue, pull, waitUntilShown } = await withPullRequest();
    await runs.pullRequestClosed(pull, { by: "ada", merged: false, commit: undefined });
    await waitUntilShown(({ kind, view: { state } }) => kind === "outcome" && state === "ended");

    const closedBy = async () => {
      const ended = await runs[end](issue, { by: "mia", deliveryId: "end" });
      return "closed" in ended ? ended.closed : ended;
    };
    expect(await closedBy()).toEqual([pull.thread]);
    await runtime.scheduler.idle();
    // The reply was lost, so the delivery is processed again.
    expect(await closedBy()).toEqual([pull.thread]);

    await runs.pullRequestReopened(pull, { by: "ada" });
    await runtime.scheduler.idle();
    expect(await store.runsOfThread(pull)).toMatchObject([{ status: "done" }]);
    expect(await runs.threadActivity(pull, { isOpen: true })).toBe("ended");
    await expect(runs[end](pull, { by: "mia" })).rejects.toThrow(noWorkerRunning);
  },
);

test("each pause of a run has its own key, even within one step, and a second stop does not begin another", async () => {
  const { runs, runtime, issue, opened } = await withPullRequest();
  const { id } = opened.view.spec;
  const stop = async () => {
    await runs.requestStop(issue, { by: "ada" });
    await runtime.scheduler.idle();
    return (await runs.findPaused(id))?.key;
  };

  const first = await stop();
  const again = await stop();
  const wake = vi.spyOn(runtime.scheduler, "wake").mockReturnValueOnce();
  await runs.requestResume(issue, { by: "ada" });
  expect(wake).toHaveBeenCalledOnce();
  const second = await stop();

  expect(first).toBe(again);
  expect(new Set([undefined, first, second]).size).toBe(3);
});

test("a /stop or /resume that the run has not read yet already counts for whether it is paused", async () => {
  const { runs, runtime, issue, opened } = await withPullRequest();
  const { id } = opened.view.spec;
  await runtime.scheduler.idle();
  const wake = vi.spyOn(runtime.scheduler, "wake").mockReturnValue();

  await runs.requestStop(issue, { by: "ada" });
  expect(await runs.findPaused(id)).toMatchObject({ worker: "fixer" });
  await runs.requestResume(issue, { by: "ada" });
  expect(await runs.findPaused(id)).toBeUndefined();

  wake.mockRestore();
});

test("what a person says with /resume in the pull request is answered there", async () => {
  const { runs, waitUntilShown, pull } = await withPullRequest({ text: "I go on." });
  await runs.requestStop(pull, { by: "ada" });
  await waitUntilShown(({ view }) => view.state === "interrupted");

  await runs.requestResume(pull, { by: "ada", text: "go on" });

  const { view } = await waitUntilShown(
    ({ view: { outcome } }) => outcome?.kind === "answered" && outcome.text === "I go on.",
  );
  expect(view.replyThread).toBe(pull.thread);
});

test("a comment or review that another run of the thread reads does not count as one for the paused run", async () => {
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const { runs, runtime, waitUntilShown } = await world({ script: turns(ask, { text: "Thanks." }) });
  const asking = await runs.startRun({ origin, worker: "fixer", text: "please" });
  await waitUntilShown(({ kind }) => kind === "question");
  const paused = await runs.startRun({ origin, worker: "explorer", text: "Look." });
  await runs.requestStop(origin, { by: "ada", runId: paused.id });
  await runtime.scheduler.idle();

  const reader = await runs.deliverMessage(origin, { by: "ada", text: "The second." });

  expect(reader).toBe(asking.id);
  expect(await runs.findPaused(asking.id)).toBeUndefined();
  expect(await runs.findPaused(paused.id)).toMatchObject({ worker: "explorer" });
});
