import { describe, expect, test } from "vitest";
import { describeChannel } from "#domain/approval.ts";
import { CustomResultValue, isValidKind, isWellKnown, isWellKnownKind, ResultValue } from "#domain/result.ts";
import { type ExecutionMode, getLLMTools, getManualTools } from "#domain/tool.ts";
import { aTool } from "../support/toolbox-world.ts";

describe("tool", () => {
  const tool = (name: string, mode?: ExecutionMode) => aTool({ name, ...(mode && { manualExecution: { mode } }) });
  const tools = [tool("default"), tool("llm", "llm"), tool("manual", "manual"), tool("both", "both")];

  test("a tool is for the model unless it is declared for people", () => {
    expect(getLLMTools(tools).map(({ name }) => name)).toEqual(["default", "llm", "both"]);
    expect(getManualTools(tools).map(({ name }) => name)).toEqual(["manual", "both"]);
  });

  test("a tool of a record keeps its key", () => {
    const record = Object.fromEntries(tools.map((one) => [`my-${one.name}`, one]));

    expect(Object.keys(getLLMTools(record))).toEqual(["my-default", "my-llm", "my-both"]);
    expect(Object.keys(getManualTools(record))).toEqual(["my-manual", "my-both"]);
  });
});

test.each([
  ["git.status", true],
  ["a1_b.c2", true],
  ["Git.status", false],
  ["git.", false],
  [".git", false],
  ["1git", false],
  ["git..status", false],
  ["git status", false],
  ["", false],
])("the kind %j is valid: %s", (kind, valid) => {
  expect(isValidKind(kind)).toBe(valid);
});

test("well-known kinds belong to well-known values only", () => {
  expect(isWellKnownKind("text")).toBe(true);
  expect(isWellKnownKind("git.status")).toBe(false);
  expect(isWellKnown({ kind: "text", content: "a" })).toBe(true);
  expect(isWellKnown({ kind: "git.status", data: 1 })).toBe(false);
  expect(CustomResultValue.safeParse({ kind: "text", data: 1 }).success).toBe(false);
  expect(CustomResultValue.safeParse({ kind: "Git", data: 1 }).success).toBe(false);
});

test.each([
  {
    kind: "text",
    content: "a",
    summary: "s",
    display: { preferredView: "code", language: "ts", collapsed: true, maxHeight: 9 },
  },
  {
    kind: "diff",
    path: "a",
    original: "x",
    modified: "y",
    isNew: false,
    bytesWritten: 1,
    diff: "d",
    action: "update",
    rejected: true,
  },
  { kind: "file_content", path: "a", content: "x", size: 1, modified: "2026-01-01" },
  { kind: "file_list", path: "a", files: ["b"], count: 1 },
  { kind: "json", data: { a: 1 } },
  { kind: "terminal", content: "x", exitCode: null, stdout: "x", stderr: "", durationMs: 5 },
  { kind: "task_list", tasks: [{ content: "a", activeForm: "b", status: "pending" }] },
  { kind: "git.status", data: 1, summary: "s", preview: "p", mimeType: "text/plain", display: { collapsed: false } },
])("a result is read back as it was: $kind", (value) => {
  expect(ResultValue.parse(value)).toEqual(value);
});

test("a person who answered on the run page is shown with that place", () => {
  expect(describeChannel("page")).toBe(" on the run page");
  expect(describeChannel(undefined)).toBe("");
});
