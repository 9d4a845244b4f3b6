import { Cron } from "croner";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { matchesEvent, matchesPaths, nextCronTime, Triggers, TriggersOfFile } from "#domain/trigger.ts";

const event = { event: "issues" as const, type: "opened", author: "ada", labels: ["bug"] };

test.each([
  [{ types: ["opened"] }, {}, true],
  [{ types: ["labeled"] }, {}, false],
  [{ types: ["opened"], labels: ["BUG"] }, {}, true],
  [{ types: ["opened"], labels: ["feature"] }, {}, false],
  [{ types: ["labeled"], labels: ["area/*"] }, { type: "labeled", label: "area/web" }, true],
  [{ types: ["labeled"], labels: ["bug"] }, { type: "labeled", label: "area/web" }, false],
  [{ types: ["opened"], authors: ["grace"] }, {}, false],
  [{ types: ["assigned"] }, { type: "assigned", assignee: "Golem-User" }, true],
  [{ types: ["assigned"] }, { type: "assigned", assignee: "ada" }, false],
])("the trigger %j matches an issue with %j: %s", (issues, change, expected) => {
  expect(matchesEvent(Triggers.parse({ issues }), { ...event, ...change }, "golem-user")).toBe(expected);
});

test("assignments start nothing without a machine user", () => {
  const triggers = Triggers.parse({ issues: { types: ["assigned"] } });

  expect(matchesEvent(triggers, { ...event, type: "assigned", assignee: "ada" }, undefined)).toBe(false);
});

test("a requested review starts a worker if it is asked of the machine user", () => {
  const triggers = Triggers.parse({
    pull_request: { types: ["opened", "review_requested"], branches: ["main", "v*"] },
  });
  const asked = { ...event, event: "pull_request" as const, type: "review_requested", baseBranch: "v2" };

  expect(matchesEvent(triggers, { ...asked, assignee: "golem-user" }, "Golem-User")).toBe(true);
  expect(matchesEvent(triggers, { ...asked, assignee: "ada" }, "golem-user")).toBe(false);
  expect(matchesEvent(triggers, asked, "golem-user")).toBe(false);
  expect(matchesEvent(triggers, { ...asked, type: "opened", baseBranch: "x" }, "golem-user")).toBe(false);
});

test("a problem of a schedule names its place in the list, and a task may be short", () => {
  const [first, second] = ["0 6 * * *", "* * * * *"].map((cron) => ({ cron, issue: 1, task: "Look." }));
  const types = { issues: { types: ["opened", "labeled"] }, task: "Sort it." };

  const { error } = TriggersOfFile.safeParse({ ...types, schedule: [first, second] });

  expect(error?.issues.map(({ path }) => path)).toEqual([["schedule", 1, "cron"]]);
  expect(TriggersOfFile.parse({ ...types, schedule: [first] })).toEqual({ ...types, schedule: [first] });
  expect(Triggers.safeParse({ issues: { types: [] } }).success).toBe(false);
});

test.each([
  ["src/**", "src/a/b.ts", true],
  ["src/**", "test/a.ts", false],
  ["**/*.md", "README.md", true],
  ["**/*.md", "docs/a/b.md", true],
  ["*.md", "docs/a.md", true],
  ["/*.md", "docs/a.md", false],
  ["docs", "docs/a/b.md", true],
  ["*.{js,ts}", "src/a.ts", true],
  ["src/*/index.ts", "src/a/index.ts", true],
  [`${"*a".repeat(90)}c`, "a".repeat(1_000), false],
])("the path pattern %s matches %s: %s", (pattern, file, expected) => {
  const triggers = Triggers.parse({ pull_request: { types: ["opened"], paths: [pattern] } });

  expect(matchesPaths(triggers, [file])).toBe(expected);
});

describe("schedules", () => {
  test("schedules are in UTC", () => {
    expect(nextCronTime("0 6 * * 1", Date.parse("2026-11-20T00:00:00Z"))).toBe(Date.parse("2026-11-23T06:00:00Z"));
  });

  test.each([
    ["* * * * *", "once every five minutes"],
    ["0 0 30 2 *", "never due"],
    ["every day", "five fields"],
    ["0 0 0 * * *", "five fields"],
    ["2100-01-01T00:00:00", "five fields"],
    ["*/7 * * * *", "once every five minutes at most, but this one is due at 00:56 and at 01:00"],
    ["0,1 6 * * *", "but this one is due at 06:00 and at 06:01"],
    ["0,59 3,9,10 * * *", "but this one is due at 09:59 and at 10:00"],
    ["0,59 0,23 * * *", "but this one is due at 23:59 and at 00:00"],
    ["0,58 */2,13 * * *", "but this one is due at 12:58 and at 13:00"],
    ["0,58 22,23 * * *", "but this one is due at 22:58 and at 23:00"],
    ["0,59 0,23 * * 0,1", "but this one is due at 23:59 and at 00:00"],
    ["0,59 0,23 29,1 2,3 *", "but this one is due at 23:59 and at 00:00"],
  ])("%j is not valid at any time of day", (cron, message) => {
    onTestFinished(() => void vi.useRealTimers());
    for (const time of ["06:00:30", "12:10:00", "12:51:00"]) {
      vi.useFakeTimers({ now: Date.parse(`2026-11-20T${time}Z`), toFake: ["Date"] });

      expect(() => TriggersOfFile.parse({ schedule: [{ cron, issue: 1, task: "Look." }] })).toThrow(message);
    }
    // A run that was started by an earlier release stays readable.
    expect(Triggers.parse({ schedule: [{ cron, issue: 1, task: "Look." }] }).schedule).toHaveLength(1);
  });

  test("a schedule that is due every five minutes is checked without looking at each of its times", () => {
    const nextRun = vi.spyOn(Cron.prototype, "nextRun");
    onTestFinished(() => nextRun.mockRestore());

    TriggersOfFile.parse({ schedule: [{ cron: "*/5 * * * *", issue: 1, task: "Look." }] });

    expect(nextRun.mock.calls.length).toBeLessThan(20);
  });

  test.each([
    "*/5 * * * *",
    "0 6 * * 1",
    "0 0 29 2 *",
    "55 23 * * *",
    "0,59 3,5 * * *",
    "0,59 0,23 * * 1",
    "0,59 0,23 29 2,3 *",
    "0,59 1-23/2 * * *",
    "0,59 0-22/2 * * *",
    "59 * * * *",
  ])("%j is valid", (cron) => {
    expect(TriggersOfFile.parse({ schedule: [{ cron, issue: 1, task: "Look." }] }).schedule).toHaveLength(1);
  });
});
