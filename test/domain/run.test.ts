import { describe, expect, test } from "vitest";
import type { ToolResult } from "#domain/result.ts";
import {
  branchOf,
  isOpenQuestion,
  isRunBranch,
  isScheduled,
  openedPullRequest,
  phaseOf,
  pushedCommit,
  RunOutcome,
  type RunPhase,
  type RunState,
  SnapshotOutcome,
  shortId,
} from "#domain/run.ts";
import { logContext, logFieldsOf, withLogContext } from "#domain/work-context.ts";
import { sampleSpec } from "../support/store-samples.ts";

const spec = sampleSpec("r2", { rootId: "r1" });

test("a run pushes to a branch of its root, or to that of its pull request", () => {
  expect(branchOf(spec)).toBe("golem/7-r1");
  expect(branchOf({ ...spec, pullRequestBranch: "feature" })).toBe("feature");
  expect(isRunBranch("golem/7-r1")).toBe(true);
  expect(isRunBranch("my/golem/7-r1")).toBe(false);
  expect(isRunBranch("golem")).toBe(false);
});

test("a run is scheduled when a schedule started it", () => {
  expect(isScheduled({ trigger: "schedule: 0 6 * * 1" })).toBe(true);
  expect(isScheduled({ trigger: "issues: labeled" })).toBe(false);
  expect(isScheduled({})).toBe(false);
});

test.each<[RunState, RunPhase]>([
  ["preparing", "starting"],
  ["callingModel", "working"],
  ["evaluatingAnswer", "working"],
  ["reviewing", "working"],
  ["evaluatingCalls", "working"],
  ["executing", "working"],
  ["checkingLimits", "working"],
  ["ended", "working"],
  ["retrying", "retrying"],
  ["awaitingApproval", "awaitingApproval"],
  ["awaitingAnswer", "awaitingAnswer"],
  ["awaitingChild", "awaitingChild"],
  ["awaitingBudget", "awaitingBudget"],
  ["idle", "awaitingMessage"],
  ["interrupted", "paused"],
])("the phase of a run that is %s is %s", (state, phase) => {
  expect(phaseOf({ state })).toBe(phase);
  expect(phaseOf({ state, outcome: { kind: "cancelled" } })).toBe("cancelled");
});

test("an idle run with a pull request waits for its review", () => {
  expect(phaseOf({ state: "idle", pullRequest: 8 })).toBe("awaitingReview");
  expect(phaseOf({ state: "callingModel", pullRequest: 8 })).toBe("working");
});

describe("outcome", () => {
  test.each([
    { kind: "failed", reason: "no" },
    { kind: "limited", limit: "steps: 3", reason: "no" },
    { kind: "cancelled", by: "ada" },
  ])("an outcome is kept with its details: %j", (outcome) => {
    expect(RunOutcome.parse(outcome)).toEqual(outcome);
    expect(SnapshotOutcome.parse(outcome)).toEqual(outcome);
  });

  test("the outcome of an answered run has its text, which a snapshot leaves to the log", () => {
    expect(RunOutcome.parse({ kind: "answered", text: "Done." })).toEqual({ kind: "answered", text: "Done." });
    expect(SnapshotOutcome.parse({ kind: "answered", text: "Done." })).toEqual({ kind: "answered" });
    expect(RunOutcome.safeParse({ kind: "answered" }).success).toBe(false);
  });
});

describe("fields of a log line", () => {
  test("the fields of a log line name the run, its root, worker and repository, and the delivery", () => {
    expect(logFieldsOf(sampleSpec("r1"))).toEqual({ run: "r1", worker: "fixer", repository: "ada/engine" });
    expect(logFieldsOf({ ...spec, delivery: "d1" })).toEqual({
      run: "r2",
      rootRun: "r1",
      worker: "fixer",
      repository: "ada/engine",
      delivery: "d1",
    });
  });

  test("the fields of a log line are those of the work in progress, also inside one another", async () => {
    const seen = await withLogContext({ delivery: "d1", run: "r1" }, async () => {
      await Promise.resolve();
      return [logContext(), withLogContext({ run: "r2" }, logContext)];
    });

    expect(seen).toEqual([
      { delivery: "d1", run: "r1" },
      { delivery: "d1", run: "r2" },
    ]);
    expect(logContext()).toEqual({});
  });
});

describe("a push", () => {
  const data = { number: 8, pushed: { commit: "c".repeat(40) } };
  const pull = { kind: "pull_request", data } as unknown as ToolResult["value"];
  const text = { kind: "text" as const, content: "" };
  const error = { type: "system_error" as const, code: "UNAVAILABLE" as const, message: "GitHub did not answer." };

  test.each<[string, string, Partial<ToolResult>, number | undefined, string | undefined]>([
    ["is that of a tool that pushes", "open_pull_request", { value: pull }, 8, data.pushed.commit],
    [
      "is that of a tool that pushes, in another spelling",
      "Update-Pull-Request",
      { value: pull },
      8,
      data.pushed.commit,
    ],
    ["is not what another tool says", "deploy", { value: pull }, undefined, undefined],
    ["is not what a result without it says", "git_push", { value: text }, undefined, undefined],
    [
      "is what a failed call says that pushed before it failed",
      "git_push",
      { value: text, error: { ...error, details: data } },
      undefined,
      data.pushed.commit,
    ],
    ["opens no pull request if it failed", "git_push", { value: pull, error }, undefined, data.pushed.commit],
    [
      "has no commit if its data has another form",
      "git_push",
      { value: { ...pull, data: { number: "8" } } as never },
      undefined,
      undefined,
    ],
  ])("a push %s", (_, tool, result, number, commit) => {
    const given = { llmContent: "", value: text, ...result };

    expect(openedPullRequest(tool, given)).toBe(number);
    expect(pushedCommit(tool, given)).toBe(commit);
  });
});

test("a question is open while a person has to answer it", () => {
  const call = { callId: "c1", tool: "ask", answeredBy: "person" as const, status: "running" as const };

  expect(isOpenQuestion(call)).toBe(true);
  expect(isOpenQuestion({ ...call, status: "awaitingApproval" })).toBe(false);
  expect(isOpenQuestion({ ...call, answeredBy: "tool" })).toBe(false);
});

test("a short id is the same for the same seed, and has only characters that are easy to read aloud", () => {
  const ids = Array.from({ length: 200 }, (_, seed) => shortId(`${seed}`, 8));

  expect(shortId("1", 8)).toBe(ids[1]);
  expect(new Set(ids).size).toBe(200);
  expect(ids.filter((id) => !/^[abcdefghjkmnpqrstvwxyz0-9]{8}$/.test(id))).toEqual([]);
  expect(shortId("1", 4)).toBe(ids[1]?.slice(0, 4));
});
