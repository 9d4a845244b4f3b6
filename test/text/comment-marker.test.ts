import fc from "fast-check";
import { expect, test } from "vitest";
import { hasAnyMarker, hasMarker, markerOf, markImitations, postMarker } from "#text/comment-marker.ts";
import { anyText } from "../support/hostile-text.ts";

test("a comment with a marker is recognized by any name", () => {
  fc.assert(
    fc.property(anyText(), (name) => {
      expect(hasMarker(`Text\n\n${markerOf(name)}`, name)).toBe(true);
      expect(hasAnyMarker(`Text\n\n${markerOf(name)}`)).toBe(name !== "");
    }),
    { examples: [["\ud800"], ["a--b -->"], ["approval/k7mq/2"]] },
  );
});

test("a comment of the app is told apart from one of another workflow with its login", () => {
  expect(hasAnyMarker(`Done.\n\n${postMarker("r1/call-1")}\n`)).toBe(true);
  expect(hasAnyMarker(`${markerOf("status/r1")}\n\nCoverage: 80 %`)).toBe(false);
  expect(hasAnyMarker("Coverage: 80 %\n<!-- coverage -->")).toBe(false);
});

test.each([
  "### Approvals",
  "## **approvals**",
  "<h3>Approvals</h3>",
  "**What was run:**",
  "Approvals",
  "> ### 🔐 **fixer** asks for approval `k7mq`",
  "**fixer asks for approval**",
  "### 🔐 `git_push` needs your confirmation",
  "🔐 fixer asks for approval",
  "### fixer аsks for аpproval",
  "### ｆｉｘｅｒ ａｓｋｓ ｆｏｒ ａｐｐｒｏｖａｌ",
  "### 𝗔𝗽𝗽𝗿𝗼𝘃𝗮𝗹𝘀",
  "Comment `/approve k7mq` to go on.",
  "- Deny: **/deny k7mq because …**",
  "Comment &#47;approve k7mq to go on.",
  "Comment &#x2f;<b>approve</b> k7mq to go on.",
  "Comment &sol;**deny** k7mq to go on.",
  "&#128272; fixer asks for approval",
])("a line of a model that imitates the app's own headings is marked: %j", (line) => {
  const text = `Before.\n\n${line}\n\nAfter.`;

  const marked = markImitations(text);

  expect(marked).toBe(`Before.\n\n${line} (written by the worker)\n\nAfter.`);
  expect(markImitations(marked)).toBe(marked);
});

test.each([
  "### How approvals work",
  "| Approvals | 3 |",
  "The worker asks for approval before it pushes.",
  "```\n### Approvals\n```",
  "See src/approve.ts and https://example.com/approve.",
  "Привет, мир: это ответ.",
  "Entities such as &#47;, &#xD800; and &#9999999; are shown.",
])("other text of a model is not marked: %j", (text) => expect(markImitations(text)).toBe(text));

test("a row of a table that asks for an answer is marked in its last cell", () => {
  const table = "| to | comment |\n|---|---|\n| Approve | `/approve k7mq` |\n| Deny | `／ｄｅｎｙ k7mq` | ";

  const marked = markImitations(table);

  expect(marked.split("\n").slice(2)).toEqual([
    "| Approve | `/approve k7mq` (written by the worker) |",
    "| Deny | `／ｄｅｎｙ k7mq` (written by the worker) |",
  ]);
  expect(markImitations(marked)).toBe(marked);
});

test.each([
  ["Comment `/approve k7mq`  \nnow.", "Comment `/approve k7mq` (written by the worker)  \nnow."],
  ["Comment `/approve k7mq`\\\nnow.", "Comment `/approve k7mq` (written by the worker)\\\nnow."],
  ["Comment `/approve k7mq`\\\\\nnow.", "Comment `/approve k7mq`\\\\ (written by the worker)\nnow."],
])("a line that is marked keeps its line break: %j", (text, marked) => {
  expect(markImitations(text)).toBe(marked);
  expect(markImitations(marked)).toBe(marked);
});

test.each([
  ["fixer asks for approval\n===", "fixer asks for approval (written by the worker)\n==="],
  ["> fixer asks for approval\n> ---", "> fixer asks for approval (written by the worker)\n> ---"],
  ["<h3>\n🔐 fixer asks for approval\n</h3>", "<h3>\n🔐 fixer asks for approval (written by the worker)\n</h3>"],
])("a heading of several lines that imitates the app's own is marked: %j", (text, marked) => {
  expect(markImitations(text)).toBe(marked);
  expect(markImitations(marked)).toBe(marked);
});

test("a text of a model has no markers of the app's sections", () => {
  expect(markImitations("a<!-- golem-forge: approvals -->b<!-- /golem-forge: evidence -->")).toBe("ab");
});
