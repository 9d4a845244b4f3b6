import fc from "fast-check";
import { parseHTML } from "linkedom";
import { describe, expect, test } from "vitest";
import type { RunEvent } from "#domain/events.ts";
import type { ResultValue } from "#domain/result.ts";
import { escapeInvisible } from "#text/visible-text.ts";
import { hostile } from "../support/hostile-text.ts";
import { webWorlds } from "../support/web-world.ts";

const world = webWorlds();

const attacks = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  '"><svg onload=alert(1)>',
  "' onmouseover='alert(1)",
  "</textarea><script>alert(1)</script>",
  "</pre></details></main><form action=https://evil.example><button>Approve</button></form>",
  "[click](javascript:alert(1)) ![x](https://evil.example/x.png)",
  '<a href="https://evil.example" style="position:fixed;inset:0">Sign in</a>',
  "<meta http-equiv=refresh content=0;url=https://evil.example><base href=https://evil.example>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "\u202Egnp.exe\u0000\u001B]8;;https://evil.example\u0007link",
  "&lt;script&gt;alert(1)&lt;/script&gt; {{constructor.constructor('alert(1)')()}}",
  "id: 9\n\ndata: {}\n\n",
];

/** Every field of a run that a model, an issue, a file or a person can fill, filled with this. */
function runOf(text: string): { events: RunEvent[]; values: ResultValue[] } {
  const usage = { inputTokens: 1, outputTokens: 1 };
  const values: ResultValue[] = [
    { kind: "text", content: text },
    { kind: "text", content: text, display: { preferredView: "markdown" }, summary: text },
    { kind: "diff", path: text, modified: text, isNew: true, bytesWritten: 1, diff: `+${text}\n-${text}` },
    { kind: "file_content", path: text, content: text, size: 1 },
    { kind: "file_list", path: text, files: [text, { path: text }, { [text]: text }], count: 1 },
    { kind: "json", data: { [text]: text } },
    { kind: "json", data: [{ [text]: text, b: { c: text } }], display: { preferredView: "table" } },
    { kind: "terminal", content: `\u001b[31m${text}\u001b[0m`, exitCode: 1 },
    { kind: "task_list", tasks: [{ content: text, activeForm: text, status: "in_progress" }] },
    { kind: "custom.kind", data: text, preview: text, summary: text },
  ];
  const failed = {
    llmContent: text,
    value: { kind: "text" as const, content: text },
    error: { type: "system_error", code: "EXECUTION_ERROR", message: text, suggestion: text } as never,
  };
  return {
    values,
    events: [
      { type: "message.received", kind: "comment", text, by: "ada" },
      { type: "message.received", kind: "context", text, by: text },
      { type: "sandbox.opened", commit: "a".repeat(40), branch: text },
      {
        type: "model.answered",
        text,
        calls: [
          { callId: "c1", tool: text, args: { [text]: text } },
          { callId: "c2", tool: "x", args: {}, parseError: text },
        ],
        messages: [],
        searches: [text],
        usage,
        finishReason: "stop",
        lastSeenId: 0,
      },
      {
        type: "calls.reviewed",
        verdicts: [
          { kind: "refuse", callId: "c2", tool: text, result: failed },
          { kind: "ask", callId: "c1", tool: text, answeredBy: "tool", approvalId: "k0mq" },
        ],
      },
      ...values.map(
        (value): RunEvent => ({ type: "tool.finished", callId: "c1", tool: text, result: { llmContent: text, value } }),
      ),
      { type: "tool.finished", callId: "c2", tool: text, result: failed },
      { type: "tool.invoked", callId: "c3", tool: text, by: text, args: text, result: failed },
      { type: "approval.granted", approvalId: text, callId: "c1", by: text, args: { [text]: text } },
      { type: "approval.denied", approvalId: text, callId: "c1", by: text, reason: text },
      { type: "question.answered", callId: "c1", text, by: text },
      { type: "child.finished", callId: "c1", childId: text, outcome: { kind: "answered", text }, usage },
      { type: "child.finished", callId: "c1", childId: text, outcome: { kind: "failed", reason: text }, usage },
      { type: "model.failed", reason: text, retryable: true },
      { type: "sandbox.failed", reason: text },
      { type: "run.stop", by: text },
    ],
  };
}

function unescapeHtml(markup: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" };
  return markup.replace(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => named[name] ?? "");
}

const ownLink = /^(?:\/runs(?:\/|$)|#|https:\/\/github\.example\/)/;

/** Expects that no part of the text runs, loads, submits or redirects by itself, and that our own markup is intact. */
function expectInert(markup: string): void {
  const { document } = parseHTML(markup);
  const all = [...document.querySelectorAll("*")];
  const scripts = all.filter(({ tagName }) => tagName === "SCRIPT").map((script) => script.getAttribute("src"));
  expect(scripts).toEqual(["/runs/-/assets/changes.js", "/runs/-/assets/run.js"]);
  expect(all.map(({ tagName }) => tagName)).not.toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^(?:IMG|IFRAME|OBJECT|EMBED|BASE|STYLE|AUDIO|VIDEO|MATH|TEMPLATE)$/),
    ]),
  );
  const attributes = all.flatMap((element) => element.getAttributeNames());
  expect(attributes.filter((name) => /^on|^style$|^srcdoc$|^formaction$/i.test(name))).toEqual([]);
  expect(all.filter(({ tagName }) => tagName === "META")).toHaveLength(5);
  for (const form of document.querySelectorAll("form")) expect(form.getAttribute("action")).toMatch(/^\/runs\//);
  for (const link of document.querySelectorAll("a")) {
    const href = link.getAttribute("href") ?? "";
    if (!ownLink.test(href)) {
      expect(href).toMatch(/^(?:https?:|mailto:)/);
      expect(link.getAttribute("rel")).toContain("noopener");
    }
  }
  expect(document.querySelector("main > .transcripts > .run > ol.transcript > li.entry")).not.toBeNull();
  for (const hidden of ["\u202E", "\u001B", "\u0000"]) expect(markup).not.toContain(hidden);
}

describe("hostile text in a model's answer, an issue or a file", () => {
  test.each(attacks)("%j is displayed as text", async (text) => {
    const { startRun, get, pathOf, signedIn } = await world({ github: { issue: { title: text } } });
    const { events } = runOf(text);
    await startRun("abc1", {
      spec: { task: text, workerPath: text, model: text },
      events,
      approvals: [
        {
          tool: text,
          reason: text,
          preview: {
            sections: [
              { kind: "text", title: text, text },
              {
                kind: "file",
                change: { path: text, kind: "added", newMode: "100644", newBlob: "1".repeat(40), size: 1 },
                diff: `+${escapeInvisible(text)}`,
              },
            ],
          },
          args: { [text]: text },
          workerPath: text,
          approvers: text,
        },
      ],
    });

    const { status, text: markup } = await get(pathOf("abc1"), { cookie: signedIn("mia").cookie });

    expect(status).toBe(200);
    expectInert(markup);
    const { document } = parseHTML(markup);
    const given = document.querySelector("textarea[name=arguments]")?.innerHTML ?? "";
    expect(JSON.parse(unescapeHtml(given))).toEqual({ [text]: text });
  });

  test("any mixture of special characters and markup is displayed as text", async () => {
    const { startRun, get, pathOf } = await world();
    const samples = fc.sample(
      fc.tuple(hostile, fc.constantFrom(...attacks)).map(([a, b]) => a + b + a),
      { numRuns: 25, seed: 7 },
    );
    await startRun("abc1", { events: samples.flatMap((text) => runOf(text).events.slice(0, 8)) });

    const { text } = await get(pathOf("abc1"));

    expectInert(text);
  });
});
