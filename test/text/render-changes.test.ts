import { expect, test } from "vitest";
import { highlightLines, renderChanges } from "#text/changes/render-changes.ts";
import { html, markupOf } from "#text/html.ts";

const count = (text: string, part: string) => text.split(part).length - 1;

test("code with nested tokens on thousands of lines does not become gigabytes", () => {
  const nested = Array.from({ length: 20_000 }, () => "`${");

  const markup = markupOf(highlightLines(nested, "a.js") ?? []);

  expect(markup.length).toBeLessThan(10 * nested.join("\n").length);
});

test("a very long line has no colors, and the lines around it have", () => {
  const long = `const b = ${"x".repeat(1_000)};`;

  const [first, second, third] = highlightLines(["const a = 1;", long, "const c = 3;"], "a.js") ?? [];

  expect(markupOf(first)).toContain('<span class="hljs-keyword">const</span> a');
  expect(markupOf(second)).toBe(long);
  expect(markupOf(third)).toContain('<span class="hljs-keyword">const</span> c');
});

test("long code is colored in blocks that end between statements", () => {
  const statement = ["/*", "const inComment = 1;", "*/", "", "const a = `", "const inString = 1;", "`;", ""];
  const lines = Array.from({ length: 150 }, () => statement).flat();

  const markup = markupOf(highlightLines(lines, "a.js") ?? []);

  expect(count(markup, '<span class="hljs-keyword">const</span> a')).toBe(150);
  expect(count(markup, '<span class="hljs-keyword">const</span> in')).toBe(0);
});

test.each([
  ['"b/\\303\\274\\"x.md"', 'b/ü"x.md'],
  ['"b/ü\\"x.md"', 'b/ü"x.md'],
  ['"b/\\\\303.md"', "b/\\303.md"],
])("the quoted name %s is shown as %s", (quoted, shown) => {
  const markup = markupOf(renderChanges([{ name: shown, lines: [`+++ ${quoted}`] }], "id"));

  expect(markup).toContain(markupOf(html`+++ ${shown}`));
});

test("files beyond the first tens of thousands of characters are shown without colors, and in full", () => {
  const lines = Array.from({ length: 3_000 }, (_, index) => `+const a = ${index};`);
  const files = ["a.js", "b.js", "c.js"].map((name) => ({ name, lines: ["@@ -0,0 +1,3000 @@", ...lines] }));

  const markup = markupOf(renderChanges(files, "id"));

  expect(count(markup, "a = ") + count(markup, "a = <")).toBeGreaterThanOrEqual(9_000);
  expect(count(markup, "hljs-keyword")).toBeGreaterThan(1_000);
  expect(count(markup, "hljs-keyword")).toBeLessThan(6_000);
  expect(count(markup, "have no syntax colors")).toBe(1);
});
