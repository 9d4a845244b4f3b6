import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  formatErrorResponse,
  formatSuccessResponse,
  fromOkResult,
  fromReturnDisplay,
  getResultPreview,
  isValidKind,
  isWellKnownKind,
  type ToolResultDisplay,
  taskStats,
  toOkResult,
  toReturnDisplay,
  toToolResponse,
  toToolResult,
} from "#compat/index.ts";
import { ToolResult } from "#domain/result.ts";

const tasks = [
  { content: "Task 1", activeForm: "Doing task 1", status: "in_progress" as const },
  { content: "Task 2", activeForm: "Doing task 2", status: "pending" as const },
  { content: "Task 3", activeForm: "Doing task 3", status: "completed" as const },
];

describe("every shape becomes one result", () => {
  test.each<[string, unknown, unknown, string]>([
    ["text", "hello", { kind: "text", content: "hello" }, "hello"],
    ["nothing", undefined, { kind: "text", content: "Done." }, "Done."],
    ["null", null, { kind: "json", data: null }, "null"],
    ["a number", 55, { kind: "json", data: 55 }, "55"],
    ["an object", { a: 1 }, { kind: "json", data: { a: 1 } }, '{\n "a": 1\n}'],
    ["a big number", { n: 5n }, { kind: "json", data: { n: "5" } }, '{\n "n": "5"\n}'],
    [
      "an object with a custom kind",
      { kind: "person", name: "Ada" },
      { kind: "json", data: { kind: "person", name: "Ada" } },
      '"Ada"',
    ],
    [
      "a kind that is broken",
      { kind: "text", words: 1 },
      { kind: "json", data: { kind: "text", words: 1 } },
      '"words"',
    ],
    [
      "a file",
      { kind: "file_content", path: "a", content: "x\ny", size: 3 },
      { kind: "file_content", path: "a", content: "x\ny", size: 3 },
      "x\ny",
    ],
    [
      "a diff",
      { kind: "diff", path: "a", modified: "y", isNew: true, bytesWritten: 1, summary: "+1 line" },
      { kind: "diff", path: "a", modified: "y", isNew: true, bytesWritten: 1, summary: "+1 line" },
      "+1 line",
    ],
    [
      "files",
      { kind: "file_list", path: "src", files: ["a"], count: 1 },
      { kind: "file_list", path: "src", files: ["a"], count: 1 },
      "1 in src",
    ],
    [
      "a terminal",
      { kind: "terminal", content: "\u001B[31mred\u001B[0m", exitCode: 1 },
      { kind: "terminal", content: "\u001B[31mred\u001B[0m", exitCode: 1 },
      "red\nExit code: 1",
    ],
    ["tasks", { kind: "task_list", tasks }, { kind: "task_list", tasks }, "[◐] Task 1\n[ ] Task 2\n[✓] Task 3"],
    [
      "a custom kind",
      {
        kind: "git.status",
        data: { branch: "main" },
        summary: "clean",
        display: { preferredView: "tree", collapsed: true },
      },
      {
        kind: "git.status",
        data: { branch: "main" },
        summary: "clean",
        display: { preferredView: "tree", collapsed: true },
      },
      "clean",
    ],
    [
      "an unknown hint",
      { kind: "git.status", data: 1, display: { preferredView: "hologram" } },
      { kind: "git.status", data: 1 },
      "1",
    ],
  ])("%s", (_, returned, value, llmContent) => {
    const result = toToolResult(returned);
    expect(result.value).toEqual(value);
    expect(result.llmContent).toContain(llmContent);
    expect(result.error).toBeUndefined();
  });

  test.each<[string, unknown, unknown]>([
    ["a heading", "## Found\n\n- one\n", { preferredView: "markdown" }],
    ["a heading after a paragraph", "Two files.\n\n# Found\n\none", { preferredView: "markdown" }],
    ["a fence", "Run this:\n```sh\nls\n```", { preferredView: "markdown" }],
    ["bold text", "It is **very** slow.", { preferredView: "markdown" }],
    ["a link", "See [the issue](https://example.com/1).", { preferredView: "markdown" }],
    ["a table", "| a | b |\n|---|:--:|\n| 1 | 2 |", { preferredView: "markdown" }],
    ["comments in code", "# The total\ntotal = 2\n# The rest\nrest = 1\n", undefined],
    ["operators", "x = a**b**c; f(**given); y[0](1)", undefined],
    [
      "a text with a view",
      { kind: "text", content: "# A", display: { preferredView: "text" } },
      { preferredView: "text" },
    ],
    ["a display", { llmContent: "ok", returnDisplay: "# A" }, { preferredView: "markdown" }],
    [
      "Markdown by its type",
      { kind: "a.b", data: "plain", mimeType: "text/markdown; charset=utf-8" },
      { preferredView: "markdown" },
    ],
    [
      "a patch by its type",
      { kind: "a.b", data: "+a", mimeType: "text/x-patch" },
      { preferredView: "code", language: "diff" },
    ],
    [
      "code by its type",
      { kind: "a.b", data: "a: 1", mimeType: "application/yaml" },
      { preferredView: "code", language: "yaml" },
    ],
    ["plain text by its type", { kind: "a.b", data: "# A\n", mimeType: "text/plain" }, undefined],
    ["another type", { kind: "a.b", data: "x", mimeType: "image/png" }, undefined],
    [
      "a type beside a hint",
      { kind: "a.b", data: [{ a: 1 }], mimeType: "application/json", display: { preferredView: "table" } },
      { preferredView: "table" },
    ],
  ])("%s implies the hints to show it", (_, returned, display) => {
    expect(toToolResult(returned).value.display).toEqual(display);
  });

  test("a result is unchanged", () => {
    const result = { llmContent: "Read 3 lines", value: { kind: "text", content: "a\nb\nc" } };
    expect(toToolResult(result)).toEqual(result);
  });

  test("a result with a display is translated, with its failure", () => {
    expect(toToolResult({ llmContent: "3 tasks", returnDisplay: { type: "task-list", tasks } })).toEqual({
      llmContent: "3 tasks",
      value: { kind: "task_list", tasks, stats: taskStats(tasks) },
    });
    const error = { message: "File does not exist: a", type: "FILE_NOT_FOUND" };
    expect(toToolResult({ llmContent: "Error", returnDisplay: "not found", error })).toMatchObject({
      value: { kind: "text", content: "not found" },
      error: { code: "FILE_NOT_FOUND", message: "File does not exist: a" },
    });
  });

  test.each<[string, unknown, object]>([
    [
      "ok: false",
      { ok: false, error: { code: "PERMISSION_DENIED", message: "no" } },
      { code: "PERMISSION_DENIED", type: "permission_error", message: "no" },
    ],
    [
      "success: false",
      { success: false, error: "no", error_type: "security_error", suggestion: "try" },
      { type: "security_error", message: "no", suggestion: "try" },
    ],
  ])("%s is a failure", (_, returned, error) => {
    expect(toToolResult(returned).error).toMatchObject(error);
  });

  test("ok: true gives its value", () => {
    expect(toToolResult({ ok: true, value: [1, 2] }).value).toEqual({ kind: "json", data: [1, 2] });
  });

  test("a circular reference is marked", () => {
    const loop: Record<string, unknown> = { a: 1 };
    loop.self = loop;
    expect(toToolResult(loop).value).toEqual({ kind: "json", data: { a: 1, self: "[Circular]" } });
  });

  test("any value becomes a result that can be stored", () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true }),
        (returned) => {
          const result = toToolResult(returned);
          expect(ToolResult.parse(JSON.parse(JSON.stringify(result)))).toEqual(result);
        },
      ),
    );
  });
});

describe("displays", () => {
  const fileDiff = {
    fileDiff: "@@ -1 +1 @@\n-a\n+b",
    fileName: "a.ts",
    originalContent: "a",
    newContent: "b",
    diffStat: { additions: 1, deletions: 1, changes: 2 },
    action: "update" as const,
    hunks: [{ oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines: ["-a", "+b"] }],
  };

  test.each<[string, ToolResultDisplay]>([
    ["text", "## words"],
    ["a diff", fileDiff],
    [
      "a new file that was refused",
      { fileDiff: "", fileName: "a", originalContent: null, newContent: "b", rejected: true },
    ],
    ["a terminal", { type: "ansi", content: "\u001B[31mred" }],
    ["tasks", { type: "task-list", tasks, stats: taskStats(tasks) }],
  ])("%s comes back as it was", (_, display) => {
    expect(toReturnDisplay({ value: fromReturnDisplay(display) })).toEqual(display);
  });

  test("a file diff without text is shown from its hunks", () => {
    const { hunks } = fileDiff;
    const edit = { fileDiff: "", fileName: "a.ts", originalContent: "a", newContent: "b", hunks };

    expect(fromReturnDisplay(edit)).toMatchObject({ diff: "--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n" });
    expect(fromReturnDisplay({ ...edit, originalContent: null })).toMatchObject({
      diff: expect.stringMatching(/^--- \/dev\/null\n/),
    });
  });

  test("files, lists and data become text", () => {
    expect(toReturnDisplay({ value: { kind: "file_content", path: "a", content: "```", size: 3 } })).toBe(
      "## File: a\n\n````\n```\n````",
    );
    expect(toReturnDisplay({ value: { kind: "file_list", path: "", files: ["a", { path: "b" }], count: 2 } })).toBe(
      "a\nb",
    );
    expect(toReturnDisplay({ value: { kind: "git.status", data: { a: 1 }, summary: "clean" } })).toContain("clean");
  });
});

test("tasks are counted by status", () => {
  expect(taskStats([...tasks, { status: "cancelled" }])).toEqual({
    total: 4,
    pending: 1,
    inProgress: 1,
    completed: 1,
    cancelled: 1,
  });
});

test("an ok result survives translation in both directions", () => {
  expect(toOkResult(toToolResult({ ok: true, value: { size: 3 } }))).toEqual({ ok: true, value: { size: 3 } });
  const failed = { ok: false as const, error: { code: "FILE_NOT_FOUND", message: "no a", details: { path: "a" } } };
  expect(toOkResult(toToolResult(failed))).toEqual(failed);
  expect(fromOkResult({ ok: false, error: { code: "OWN_CODE", message: "no" } }).error).toMatchObject({
    code: "EXECUTION_ERROR",
    details: { code: "OWN_CODE" },
  });
});

describe("flat responses", () => {
  test("an error names its call without empty arguments and with long ones shortened", () => {
    expect(
      formatErrorResponse(
        { tool: "my_tool", args: { param1: "value" } },
        "File not found",
        "user_error",
        "Check the path",
      ),
    ).toEqual({
      success: false,
      error: 'my_tool(param1="value"): File not found',
      error_type: "user_error",
      suggestion: "Check the path",
    });
    const args = { a: undefined, b: null, c: [], list: [1, 2, 3, 4], text: "x".repeat(50) };
    expect(formatErrorResponse({ tool: "t", args }, "no").error).toBe(
      `t(list=[4 items], text="${"x".repeat(37)}..."): no`,
    );
    expect(formatErrorResponse({ tool: "t" }, "no").error).toBe("t(): no");
  });

  test("a success carries its fields", () => {
    expect(formatSuccessResponse({ count: 42 })).toEqual({ success: true, error: "", count: 42 });
  });

  test("a result becomes a response", () => {
    const call = { tool: "t", args: { a: 1 } };
    expect(toToolResponse(toToolResult({ count: 2 }), call)).toMatchObject({ success: true, error: "", count: 2 });
    expect(toToolResponse(toToolResult("words"), call)).toMatchObject({ success: true, content: "words" });
    expect(toToolResponse(toToolResult({ success: false, error: "no" }), call)).toMatchObject({
      success: false,
      error: "t(a=1): no",
    });
  });

  test("a preview shows the first lines, or the error", () => {
    expect(getResultPreview(formatSuccessResponse({ content: "1\n2\n3\n4" }), 3)).toEqual(["1", "2", "3", "..."]);
    expect(getResultPreview(formatSuccessResponse({}))).toEqual(["Success"]);
    expect(getResultPreview({ success: false, error: "no", suggestion: "try" })).toEqual([
      "Error: no",
      "Suggestion: try",
    ]);
  });
});

test.each([
  ["text", true],
  ["git.status", true],
  ["a_1.b2", true],
  ["my_custom_type", true],
  ["Git", false],
  ["1a", false],
  ["a..b", false],
  ["a.", false],
  ["a.1", false],
  ["a-b", false],
  ["", false],
])("the kind %j is valid: %j", (kind, valid) => {
  expect(isValidKind(kind)).toBe(valid);
});

test("well-known kinds are distinguished from custom ones", () => {
  const known = ["text", "diff", "file_content", "file_list", "json", "terminal", "task_list"];
  expect(known.every(isWellKnownKind)).toBe(true);
  expect(isWellKnownKind("git.status")).toBe(false);
});
