import { expect, test } from "vitest";
import type { ResultValue } from "#domain/result.ts";
import { markupOf } from "#text/html.ts";
import { renderChart } from "#web/render-chart.ts";
import { valueToHtml } from "#web/value-to-html.ts";

const long = Array.from({ length: 40 }, (_, index) => `line ${index}`).join("\n");

test.each<[ResultValue, RegExp]>([
  [{ kind: "text", content: "a < b" }, /^<pre>a &lt; b<\/pre>$/],
  [
    { kind: "text", content: "**b** #7", display: { preferredView: "markdown" } },
    /<strong>b<\/strong> <a href="https:\/\/github.com\/o\/r\/issues\/7"/,
  ],
  [{ kind: "text", content: long }, /^<details><summary>40 lines<\/summary><pre>line 0/],
  [{ kind: "text", content: long, display: { maxHeight: 2 } }, /^<pre>line 0\nline 1\n… 38 more lines<\/pre>$/],
  [{ kind: "text", content: "x", display: { preferredView: "hidden" } }, /^$/],
  [
    {
      kind: "diff",
      path: "a.js",
      modified: "",
      isNew: false,
      bytesWritten: 1,
      diff: "@@ -1 +1 @@\n-a\n+b",
      stats: { additions: 1, deletions: 1, changes: 2 },
    },
    /<b>a\.js<\/b> changed <span class="added">\+1<\/span>.*<span class="hunk"[^>]*>@@ -1 \+1 @@\n<\/span><span class="change"><span class="removed" data-old="1" data-new="">-a\n<\/span><span class="added" data-old="" data-new="1">\+b/s,
  ],
  [{ kind: "file_content", path: "a.js", content: "x", size: 1 }, /<b>a\.js<\/b> 1 byte<\/p><pre>x<\/pre>/],
  [
    { kind: "file_content", path: "a.js", content: "/* a\nb */ let x = '<b>';", size: 1 },
    /<pre><span class="hljs-comment">\/\* a<\/span>\n<span class="hljs-comment">b \*\/<\/span> <span class="hljs-keyword">let<\/span> x = <span class="hljs-string">&#x27;&lt;b&gt;&#x27;<\/span>;<\/pre>/,
  ],
  [
    {
      kind: "git.diff",
      data: {},
      preview:
        '--- "a/na\\303\\257ve.js"\n+++ "b/na\\303\\257ve.js"\n@@ -1 +1 @@\n--- not a header\n+let a;\n--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-a\n+b\n',
      display: { preferredView: "code", language: "diff" },
    },
    /2 files .*<li><code>naïve\.js<\/code>.*<li><code>b\.py<\/code>.*<summary><code>naïve\.js<\/code>.*\+\+\+ b\/naïve\.js.*<span class="hljs-keyword">let<\/span>.*<summary><code>b\.py<\/code>/s,
  ],
  [{ kind: "file_list", path: "", files: ["a", { path: "b" }], count: 2 }, /<b>\/<\/b> 2 entries<\/p><pre>a\nb<\/pre>/],
  [{ kind: "json", data: { a: 1 } }, /<pre>\{\n {2}&quot;a&quot;: 1\n\}<\/pre>/],
  [
    { kind: "json", data: [{ a: 1, b: null }], display: { preferredView: "table" } },
    /<th scope="col">a<\/th>.*<td>1<\/td><td><\/td>/s,
  ],
  [
    { kind: "terminal", content: "\u001b[1;31mbad\u001b[39m bold\u001b[0m plain\u001b[2J", exitCode: 2 },
    /<span class="ansi-red ansi-bold">bad<\/span><span class="ansi-bold"> bold<\/span> plain<\/pre><p class="exit bad">Exit code 2/,
  ],
  [
    { kind: "task_list", tasks: [{ content: "Fix", activeForm: "Fixing", status: "in_progress" }] },
    /<li class="in_progress"><span role="img" aria-label="in progress">◐<\/span> Fixing<\/li>/,
  ],
  [{ kind: "git.status", data: { branch: "main" }, preview: "On main" }, /^<pre>On main<\/pre>$/],
  [{ kind: "git.status", data: "clean" }, /^<pre>clean<\/pre>$/],
])("%j is rendered by its kind", (value, expected) => {
  expect(markupOf(valueToHtml(value, "https://github.com/o/r"))).toMatch(expected);
});

test("the state chart shows every state of the machine, the current one and the states that can follow", () => {
  const chart = markupOf(renderChart("awaitingApproval"));

  expect([...chart.matchAll(/class="state [^"]*lit">.*?<text[^>]*>([^<]*)</g)].map(([, name]) => name)).toEqual([
    "Waiting for approval",
  ]);
  expect(chart).toContain(
    'aria-label="The run is in the state &quot;Waiting for approval&quot;. Next: Deciding about tool calls."',
  );
  for (const state of [
    "Starting",
    "Waiting for the model",
    "Checking tool calls",
    "Running tools",
    "Paused",
    "Ended",
  ]) {
    expect(chart).toContain(`>${state}</text>`);
  }
  expect(chart).toContain("<b>Stop</b> leads to <b>Paused</b> from every state");
});
