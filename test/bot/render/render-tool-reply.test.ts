import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { renderToolReply } from "#bot/render/render-tool-reply.ts";
import { textPreview } from "#domain/preview.ts";
import type { ResultValue, ToolResult } from "#domain/result.ts";
import type { ToolReply } from "#runtime/front-end.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { expectInert, hostile, proseOf } from "../../support/hostile-text.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { samplePreview } from "../../support/run-view.ts";

const sanitize = createSanitizer([]);

function resultOf(value: ResultValue, error?: ToolResult["error"]): ToolReply {
  return { kind: "result", by: "ada", tool: "git_push", args: {}, result: { llmContent: "", value, error } };
}

test("a reply to a command that has to wait says what it waits for, and how to run it now", () => {
  expect(renderToolReply({ kind: "queued", by: "ada", behind: "model" })).toMatch(
    /^⏳ ada, this runs when the model has answered; .*`\/stop` the run first/,
  );
});

const show = (value: ResultValue) => renderToolReply(resultOf(value));

describe("results by kind", () => {
  test.each<[ResultValue, string]>([
    [{ kind: "text", content: "All *fine*." }, "```text\nAll *fine*.\n```"],
    [
      {
        kind: "diff",
        path: "a.js",
        modified: "b\n",
        isNew: false,
        bytesWritten: 2,
        diff: "--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-a\n+b\n",
        stats: { additions: 1, deletions: 1, changes: 2 },
      },
      "**a.js**, changed, +1 −1\n\n```diff\n--- a/a.js",
    ],
    [{ kind: "diff", path: "n.js", modified: "b\n", isNew: true, bytesWritten: 2 }, "**n.js**, new\n\n```js\nb\n```"],
    [{ kind: "file_content", path: "a.ts", content: "let a;\n", size: 7 }, "**a.ts**, 7 bytes\n\n```ts\nlet a;\n```"],
    [
      { kind: "file_list", path: "src", files: ["a.js", { path: "b.js" }, { name: "c" }], count: 3 },
      "**src**, 3 entries\n\n```text\na.js\nb.js\nc\n```",
    ],
    [{ kind: "json", data: { a: 1 } }, '```json\n{\n  "a": 1\n}\n```'],
    [{ kind: "terminal", content: "\u001B[31mred\u001B[0m\n", exitCode: 1 }, "Exit code 1\n\n```text\nred\n```"],
    [{ kind: "task_list", tasks: [{ content: "Fix", activeForm: "Fixing", status: "completed" }] }, "- [x] Fix"],
    [{ kind: "git.push", data: { branch: "b" }, summary: "Pushed" }, 'Pushed\n\n```json\n{\n  "branch": "b"\n}\n```'],
    [
      { kind: "git.diff", data: {}, preview: "+a", display: { preferredView: "code", language: "diff" } },
      "```diff\n+a\n```",
    ],
    [
      { kind: "db.rows", data: [{ id: 1, name: "a|b" }, { id: 2 }], display: { preferredView: "table" } },
      "| id | name |\n|---|---|\n| 1 | a\\|b |\n| 2 |  |",
    ],
    [{ kind: "text", content: "**bold**", display: { preferredView: "markdown" } }, "> **bold**"],
    [{ kind: "text", content: "x", display: { collapsed: true } }, "<details>\n<summary>Show (1 line)</summary>"],
    [{ kind: "text", content: "1\n2\n3", display: { maxHeight: 2 } }, "```text\n1\n2\n… 1 more line\n```"],
  ])("a result is shown by its kind: %j", (value, shown) => {
    expect(show(value)).toContain(shown);
  });

  test("a hidden value shows only its summary, and a long one is folded", () => {
    expect(show({ kind: "json", data: { a: 1 }, summary: "Done", display: { preferredView: "hidden" } })).toBe(
      "### 🔧 `git_push`, run by ada\n\nDone",
    );
    expect(show({ kind: "text", content: "line\n".repeat(100) })).toContain("<details>");
  });

  test("a failure says what went wrong and what to try, with what was printed", () => {
    const error = {
      type: "system_error",
      code: "TIMEOUT",
      message: "It took too long.",
      suggestion: "Try less.",
    } as const;

    const shown = renderToolReply(resultOf({ kind: "terminal", content: "half way" }, error));

    expect(shown).toMatch(
      /^### ❌ `git_push` failed, run by ada\n\nIt took too long\. Try less\.\n\n```text\nhalf way/,
    );
  });
});

test("a call that has to be confirmed shows the change and the command to copy", () => {
  const shown = renderToolReply({
    kind: "confirm",
    callId: "by-1",
    word: "abcd",
    tool: "undo",
    args: { path: "a.js" },
    preview: samplePreview("-a\n+b"),
    command: "/tool undo --path a.js --yes abcd1234",
  });

  expect(shown).toMatch(
    /File \*\*`sum\.js`\*\*: modified[\s\S]*```diff\n-a\n\+b[\s\S]*Nothing has been run yet\.[\s\S]*```\n\/tool undo --path a\.js --yes abcd1234\n```$/,
  );
});

test("a form names each option, what it takes, whether it is needed, and a command to copy", () => {
  const shown = renderToolReply({
    kind: "form",
    tool: {
      name: "deploy",
      label: "Deploy",
      description: "Deploys it.",
      fields: [
        { name: "stage", type: "select", options: ["test", "live"], required: true, description: "Where to" },
        { name: "note", type: "text", required: true, description: "" },
        { name: "force", type: "boolean", required: false, default: false, description: "Even so" },
      ],
    },
  });

  expect(shown).toContain("| \\--stage | test, live | yes | Where to |");
  expect(shown).toContain("| \\--force | yes or no | no (default: false) | Even so |");
  expect(shown).toContain('```\n/tool deploy --stage "test" --note "…"\n```');
});

test("the tools are listed by category", () => {
  const shown = renderToolReply({
    kind: "list",
    tools: [
      { name: "git_push", label: "Push to Remote", description: "Pushes.", category: "Git", fields: [] },
      { name: "deploy", label: "deploy", description: "Deploys.", fields: [] },
    ],
  });

  expect(shown).toContain("**Git**\n\n- `/git_push` Push to Remote — Pushes.\n\n**Other**\n\n- `/deploy`");
  expect(renderToolReply({ kind: "list", tools: [] })).toContain("no tools");
});

test("a tool with the name of a command is listed with /tool, since its name alone runs the command", () => {
  const undo = { name: "undo", label: "Undo the last change", description: "Undo it.", fields: [] };

  expect(renderToolReply({ kind: "list", tools: [undo] })).toContain("- `/tool undo` Undo the last change");
});

// Every field that a tool, a model or the author of a custom tool can fill.
const value: fc.Arbitrary<ResultValue> = hostile.chain((text) =>
  fc.constantFrom<ResultValue>(
    { kind: "text", content: text, summary: text },
    { kind: "diff", path: text, modified: text, isNew: false, bytesWritten: 1, diff: text },
    { kind: "file_content", path: text, content: text, size: 1 },
    { kind: "file_list", path: text, files: [text, { [text]: text }], count: 2 },
    { kind: "json", data: { [text]: text } },
    { kind: "terminal", content: text, display: { language: text } },
    { kind: "task_list", tasks: [{ content: text, activeForm: text, status: "in_progress" }] },
    { kind: "a.table", data: [{ [text]: text, a: text }], display: { preferredView: "table" } },
    { kind: "a.tree", data: text, preview: text, summary: text, display: { language: text, collapsed: true } },
  ),
);
const reply: fc.Arbitrary<ToolReply> = fc.oneof(
  fc.tuple(value, hostile, fc.boolean()).map(([shown, text, failed]) => ({
    ...(resultOf(
      shown,
      failed ? { type: "user_error", code: "CONFLICT", message: text, suggestion: text } : undefined,
    ) as Extract<ToolReply, { kind: "result" }>),
    args: { text },
  })),
  hostile.map((text) => ({
    kind: "confirm" as const,
    callId: text,
    tool: "undo",
    args: { text },
    preview: textPreview(text),
    command: text,
    word: text,
  })),
  hostile.map((text) => ({ kind: "refused" as const, by: "ada", message: text })),
  hostile.map((text) => {
    const fields = [{ name: text, description: text, type: "select" as const, required: true, options: [text] }];
    const tool = { name: "deploy", label: text, description: text, category: text, fields };
    return { kind: "form" as const, tool };
  }),
  hostile.map((text) => ({
    kind: "list" as const,
    tools: [{ name: "deploy", label: text, description: text, category: text, fields: [] }],
  })),
);

test("any output of a tool is inert and cannot leave its block", () => {
  fc.assert(
    fc.property(reply, (said) => {
      const sent = sanitize(renderToolReply(said));
      const prose = proseOf(sent).join("");

      expectInert(sent);
      expect(prose.match(/<details>/g)?.length ?? 0).toBe(prose.match(/<\/details>/g)?.length ?? 0);
      expect(prose).not.toMatch(/^### ✅/m);
    }),
    { numRuns: propertyRuns(1_000) },
  );
});

test("a reply with any amount of output fits into a comment and says who ran what", () => {
  const long = "@a `x` <b> | ".repeat(20_000);
  const values: ResultValue[] = [
    { kind: "text", content: long, summary: long },
    { kind: "text", content: long, display: { preferredView: "markdown" } },
    { kind: "file_list", path: long, files: Array(5_000).fill(long.slice(0, 500)), count: 5_000 },
    { kind: "task_list", tasks: Array(500).fill({ content: long, activeForm: long, status: "pending" }) },
    { kind: "a.table", data: Array(500).fill({ a: long, b: long }), display: { preferredView: "table" } },
  ];

  for (const one of values) {
    const sent = sanitize(renderToolReply({ ...resultOf(one), args: { long } } as ToolReply));
    expect(sent.length).toBeLessThanOrEqual(60_000);
    expect(sent).toMatch(/^### 🔧 `git_push`, run by ada/);
  }
});
