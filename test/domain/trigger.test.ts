import { describe, expect, test } from "vitest";
import { matchesEvent, matchesPaths, nextCronTime, Triggers } from "#domain/trigger.ts";

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
  test("are in UTC", () => {
    expect(nextCronTime("0 6 * * 1", Date.parse("2026-11-20T00:00:00Z"))).toBe(Date.parse("2026-11-23T06:00:00Z"));
  });

  test.each([
    ["* * * * *", "once every five minutes"],
    ["0 0 30 2 *", "never due"],
    ["every day", "five fields"],
    ["0 0 0 * * *", "five fields"],
  ])("%j is not valid", (cron, message) => {
    expect(() => Triggers.parse({ schedule: [{ cron, issue: 1, task: "Look." }] })).toThrow(message);
  });
});
