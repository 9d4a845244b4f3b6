import { expect, test } from "vitest";
import type { RunEvent } from "#domain/events.ts";
import { emptySummary, progressOf, summarize } from "#runtime/views/run-summary.ts";
import { sampleSnapshot, sampleSpec } from "../../support/store-samples.ts";

const sampleRow = {
  id: "r1",
  rootId: "r1",
  spec: sampleSpec("r1"),
  status: "active" as const,
  version: 1,
  changeSets: 0,
  updatedAt: 0,
};
const answered: RunEvent = {
  type: "model.answered",
  text: "I pushed the change.",
  calls: [],
  messages: [],
  usage: { inputTokens: 1, outputTokens: 1 },
  finishReason: "stop",
  lastSeenId: 1,
};
const merged: RunEvent = { type: "pull_request.closed", number: 2, merged: true, by: "ada", commit: "abc" };
const answerAfter = (...events: RunEvent[]) =>
  events.reduce((summary, event) => summarize(summary, { event, at: 0 }), emptySummary).answer;

test("the last comment of a merged run is about the merge, even when the model answers afterwards", () => {
  expect(answerAfter(answered, merged)).toBe("Pull request #2 was merged by @ada as abc.");
  expect(answerAfter(merged, answered)).toBe("Pull request #2 was merged by @ada as abc.");
});

test("a run that is continued when its pull request is reopened has answers again", () => {
  const closed: RunEvent = { type: "pull_request.closed", number: 2, merged: false, by: "ada", commit: "abc" };
  const reopened: RunEvent = { type: "pull_request.reopened", number: 2, by: "ada" };

  expect(answerAfter(closed, reopened, answered)).toBe("I pushed the change.");
});

test("the timeline says how long the model, tools and people took", () => {
  const events: [number, RunEvent][] = [
    [1_000, { type: "message.received", kind: "request", text: "fix it", by: "ada" }],
    [3_000, { type: "sandbox.opened", commit: "abc", branch: "main" }],
    [9_000, answered],
    [9_500, { type: "calls.reviewed", verdicts: [] }],
    [60_000, { type: "approval.granted", approvalId: "k0mq", callId: "c1", by: "ada" }],
  ];

  const { timeline, base } = events.reduce((summary, [at, event]) => summarize(summary, { event, at }), emptySummary);

  expect(base).toBe("main");
  expect(timeline).toEqual([
    { kind: "people", from: 1_000, to: 1_000 },
    { kind: "tools", from: 1_000, to: 3_000 },
    { kind: "model", from: 3_000, to: 9_000 },
    { kind: "tools", from: 9_000, to: 9_500 },
    { kind: "people", from: 9_500, to: 60_000 },
  ]);
});

test("a run whose model cannot be reached says why and when the next try is, also during that try", () => {
  const reason = "OpenAI cannot be reached: the host models.example was not found.";
  const failed: RunEvent = { type: "model.failed", reason, retryable: true };
  const summary = summarize(emptySummary, { event: failed, at: Date.UTC(2026, 10, 26, 12, 0, 0) });
  const activityIn = (state: "callingModel" | "retrying", consecutiveFailures: number) =>
    progressOf({ ...sampleRow, snapshot: sampleSnapshot(state, { consecutiveFailures }) }, summary, undefined).activity;

  expect(activityIn("retrying", 1)).toBe(`Waiting to try the model again: ${reason} The next try is at 12:00:02 UTC.`);
  expect(activityIn("retrying", 4)).toBe(`Waiting to try the model again: ${reason} The next try is at 12:00:16 UTC.`);
  expect(activityIn("callingModel", 1)).toBe(`Trying the model again: ${reason}`);
  expect(activityIn("callingModel", 0)).toBe("Thinking.");
});

test.each([
  [undefined, "Paused by @ada. Continue it with /resume."],
  ["@ada closed #7.", "Paused. @ada closed #7. When this is resolved, continue with /resume."],
])("a paused run says who has paused it, or why: %s", (reason, activity) => {
  const summary = summarize(emptySummary, { at: 0, event: { type: "run.stop", by: "ada", reason } });
  const row = { ...sampleRow, snapshot: sampleSnapshot("interrupted") };

  expect(progressOf(row, summary, undefined).activity).toBe(activity);
});

test("no task of a run that has ended is shown as in progress", () => {
  const task = { content: "Run the tests", activeForm: "Running the tests", status: "in_progress" as const };
  const statusIn = (snapshot: ReturnType<typeof sampleSnapshot>) =>
    progressOf({ ...sampleRow, snapshot }, { ...emptySummary, tasks: [task] }, undefined).tasks[0]?.status;

  expect(statusIn(sampleSnapshot("callingModel"))).toBe("in_progress");
  expect(statusIn(sampleSnapshot("ended", { outcome: { kind: "cancelled", by: "ada" } }))).toBe("pending");
});
