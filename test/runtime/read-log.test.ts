import { expect, test } from "vitest";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import { chosenModel, openCallOf, pushedCommits, questionOf, reportedDigests, stepsOf } from "#runtime/read-log.ts";

const logOf = (...events: RunEvent[]): LoggedEvent[] => events.map((event, id) => ({ id, runId: "r1", at: id, event }));

const finished = (result: unknown): RunEvent =>
  ({ type: "tool.finished", callId: "c", tool: "git_push", result }) as RunEvent;
const pushed = (commit: string) => ({ pushed: { commit } });

test("the pushed commits are those that results name, also of a call that failed after its push", () => {
  const log = logOf(
    finished({ value: { kind: "json", data: pushed("first") } }),
    { type: "tool.invoked", tool: "git_push", result: { value: { kind: "json", data: pushed("second") } } } as RunEvent,
    finished({ value: { kind: "text", text: "No." }, error: { details: pushed("third") } }),
    finished({ value: { kind: "json", data: { pushed: "fourth" } } }),
    finished({ value: { kind: "text", text: "Done." } }),
  );

  expect(pushedCommits(log)).toEqual(["first", "second", "third"]);
  expect(pushedCommits(log.slice(3))).toEqual([]);
});

test("a log that grows is read once more from where it ended, and each answer counts once", () => {
  const answered = (...callIds: string[]): RunEvent =>
    ({ type: "model.answered", calls: callIds.map((callId) => ({ callId, tool: "t", args: {} })) }) as RunEvent;
  const log = logOf(answered("c1"), finished({ value: { kind: "text", text: "" } }));

  expect([stepsOf(log), stepsOf(log)]).toEqual([1, 1]);
  log.push(...logOf(answered("c2", "c3")));
  expect([stepsOf(log), stepsOf(log)]).toEqual([2, 2]);
  expect(openCallOf(log, "c3")).toMatchObject({ call: { callId: "c3" }, step: 2 });
  expect(() => openCallOf(log, "c1")).toThrow("The last answer has no call c1");
  expect(() => openCallOf([], "c1")).toThrow("The last answer has no call c1");
});

test("the answer to a question is that to its own step, or of a release that named no step", () => {
  const asked = { type: "model.answered", calls: [{ callId: "c", tool: "ask_user", args: {} }] } as unknown as RunEvent;
  const reply = (text: string, step?: number): RunEvent => ({
    ...{ type: "question.answered", callId: "c", text, by: "ada" },
    ...(step !== undefined && { step }),
  });

  expect(questionOf(logOf(asked, asked, reply("late", 1)), "c").answer).toBeUndefined();
  expect(questionOf(logOf(asked, asked, reply("late", 1), reply("yes", 2)), "c").answer?.text).toBe("yes");
  expect(questionOf(logOf(asked, asked, reply("no step")), "c").answer?.text).toBe("no step");
});

test("the model is the one chosen last", () => {
  const chosen = (model: string): RunEvent => ({ type: "model.changed", model, by: "ada" }) as RunEvent;

  expect(
    chosenModel(
      logOf(
        chosen("a:1"),
        finished({ value: { kind: "text", text: "" } }),
        chosen("b:2"),
        finished({ value: { kind: "text", text: "" } }),
      ),
    ),
  ).toBe("b:2");
  expect(chosenModel(logOf(finished({ value: { kind: "text", text: "" } })))).toBeUndefined();
});

test("check results are known by commit, in the order in which they were reported", () => {
  const completed = (commit: string, digest?: string): RunEvent =>
    ({ type: "checks.completed", commit, digest, failed: [] }) as unknown as RunEvent;
  const log = logOf(
    completed("a", "1"),
    completed("b", "2"),
    completed("a"),
    completed("a", "3"),
    finished({ value: { kind: "text", text: "" } }),
  );

  expect(reportedDigests(log, "a")).toEqual(["1", "3"]);
  expect(reportedDigests(log, "c")).toEqual([]);
});
