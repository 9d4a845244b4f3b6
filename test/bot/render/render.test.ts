import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { renderApproval } from "#bot/render/render-approval.ts";
import { renderCosts, renderHelp, renderStatusReply } from "#bot/render/render-reply.ts";
import { renderStatus } from "#bot/render/render-status.ts";
import { renderOutcome, renderQuestion } from "#bot/thread-front-end.ts";
import { textPreview } from "#domain/preview.ts";
import type { RunState } from "#domain/run.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { expectInert, hostile, proseOf } from "../../support/hostile-text.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { sampleApproval, sampleView } from "../../support/run-view.ts";

const sanitize = createSanitizer([]);

describe("status", () => {
  test("a status shows the activity, the results, the cost, and how to stop the run", () => {
    const view = sampleView({
      tasks: [
        { content: "Read it", activeForm: "Reading it", status: "completed" },
        { content: "Fix it", activeForm: "Fixing it", status: "in_progress" },
        { content: "Test it", activeForm: "Testing it", status: "pending" },
        { content: "Drop it", activeForm: "Dropping it", status: "cancelled" },
      ],
    });

    expect(renderStatus(view, [sampleApproval()])).toMatchInlineSnapshot(`
      "### ⚙️ **fixer** is working

      Thinking.

      - [x] Read it
      - [ ] **Fixing it** …
      - [ ] Test it
      - [x] ~~Drop it~~

      **Waiting for approval**

      - fixer → \`open_pull_request\`: \`/approve k7mq\` or \`/deny k7mq reason\`. fixer wants to open a pull request.

      <sub>3 steps · 12.3K tokens in, 678 out · \\$0.123 · anthropic:claude-sonnet-4-5 · run \`run1\`</sub>

      <details>
      <summary>Log (2 lines)</summary>

      \`\`\`text
      Opened main at abc1234
      read_file: 12 lines
      \`\`\`

      </details>

      \`/stop\` pauses the run, \`/cancel\` ends it, \`/status\` shows details. Other comments are passed to the worker."
    `);
  });

  test("a status shows children below their parents, with what each costs", () => {
    const grandchild = sampleView({
      spec: { ...sampleView().spec, worker: { ...sampleView().spec.worker, name: "linter" } },
    });
    const child = sampleView({
      spec: { ...sampleView().spec, worker: { ...sampleView().spec.worker, name: "tester" } },
      outcome: { kind: "failed", reason: "no" },
      children: [grandchild],
    });

    const status = renderStatus(sampleView({ children: [child] }), []);

    expect(status).toMatch(/^- ❌ \*\*tester\*\* failed \(3 steps .*\)\n {2}- ⚙️ \*\*linter\*\* is working — Thinking/m);
  });

  test.each<[RunState, string, string]>([
    ["interrupted", "is paused", "`/resume`"],
    ["awaitingApproval", "is waiting for approval", "`/stop`"],
    ["awaitingApproval", "is waiting for approval", "The worker reads other comments once the request is answered."],
    ["awaitingAnswer", "is waiting for you", "Any other comment answers the question."],
    ["callingModel", "is working", "Other comments are passed to the worker."],
    ["awaitingAnswer", "is waiting for you", "`/stop`"],
    ["idle", "is waiting for you", "`/stop`"],
  ])("the status of a run in the state %s says %j", (state, words, way) => {
    const status = renderStatus(sampleView({ state }), []);

    expect(status).toContain(words);
    expect(status).toContain(way);
  });

  test("a status warns when most of the cost limit is used, until the run waits at it or has ended", () => {
    const { spec } = sampleView();
    const limits = { ...spec.worker.limits, cost: 2 };
    const render = (change: Parameters<typeof sampleView>[0]) =>
      renderStatus(sampleView({ spec: { ...spec, worker: { ...spec.worker, limits } }, ...change }), [], {}, 80);

    expect(render({ cost: 1.7 })).toContain("⚠️ 85% of the cost limit is used: \\$1.70 of \\$2.00.");
    expect(render({ cost: 1.59 })).not.toContain("⚠️");
    expect(render({ cost: 2.1, state: "awaitingBudget" })).not.toContain("⚠️");
    expect(render({ cost: 1.7, outcome: { kind: "answered", text: "Done." } })).not.toContain("⚠️");
  });

  test("a status says what such runs have cost before, until this run has cost something or has ended", () => {
    const { spec } = sampleView();
    const limits = { ...spec.worker.limits, cost: 2 };
    const worker = { ...spec.worker, limits };
    const render = (change: Parameters<typeof sampleView>[0]) =>
      renderStatus(sampleView({ spec: { ...spec, worker, usualCost: 0.25 }, ...change }), []);
    const usual = "Runs of this worker have cost \\$0.250 in this repository (median); this one stops at \\$2.00.";

    expect(render({ cost: undefined })).toContain(usual);
    expect(render({ cost: 0.01 })).not.toContain("have cost");
    expect(render({ cost: undefined, outcome: { kind: "answered", text: "Done." } })).not.toContain("have cost");
    expect(renderStatus(sampleView({ cost: undefined }), [])).not.toContain("have cost");
  });

  test("a log of thousands of lines shows its end", () => {
    const status = renderStatus(sampleView({ log: Array.from({ length: 5_000 }, (_, index) => `line ${index}`) }), []);

    expect(status).toContain("… 4,800 earlier lines");
    expect(status).toContain("line 4999");
    expect(status.length).toBeLessThan(20_000);
  });
});

test("the costs of a run whose log was removed name its tokens", () => {
  const usage = { inputTokens: 0, outputTokens: 0 };

  expect(renderCosts([sampleView({ usage, tokens: 1_234 })])).toMatch(/\| 1234 \|$/m);
});

describe("approvals", () => {
  test("an approval request shows the tool, its arguments, the change, who may answer, the deadline, and what to type", () => {
    expect(renderApproval(sampleApproval())).toMatchInlineSnapshot(`
      "### 🔐 **fixer** asks for approval \`k7mq\`

      fixer wants to open a pull request.

      Tool \`open_pull_request\`

      File **\`sum.js\`**: modified, mode 100644, blob 1111111111 → 2222222222, 5 bytes

      \`\`\`diff
      @@ -1 +1 @@
      -a + a
      +a + b
      \`\`\`

      <details>
      <summary>Arguments (4 lines)</summary>

      \`\`\`json
      {
        "title": "Fix the sum",
        "body": "It added twice."
      }
      \`\`\`

      </details>

      | to | comment |
      |---|---|
      | Approve | \`/approve k7mq\` |
      | Approve, and don't ask again for identical calls in this run | \`/approve k7mq session\` |
      | Deny with a reason | \`/deny k7mq because …\` |
      | Revoke your approval, until the call begins | \`/revoke k7mq\` |

      Anyone with write access can approve until 2026-05-04 10:00 UTC; then it is denied automatically. Approval covers exactly this call, once: digest \`0123456789ab\`, on commit \`aaaaaaa\`."
    `);
  });

  test("a request that several people have to approve offers no approval of later calls, which is refused", () => {
    const answers = [{ by: "mia", byId: 3, at: Date.UTC(2026, 4, 1, 11) }];
    const quorum = (who: string, required: number) => ({ who, required, by: [] });

    expect(renderApproval(sampleApproval({}))).toContain("session");
    expect(renderApproval(sampleApproval({ quorums: [quorum("Anyone", 2)] }))).not.toContain("session");
    expect(renderApproval(sampleApproval({ quorums: [quorum("The owner", 1)], answers }))).not.toContain("session");
  });

  test.each([
    [
      { status: "approved" as const, decidedBy: "mia", decidedAt: Date.UTC(2026, 4, 1, 11) },
      "✅ Approved by mia, 2026-05-01 11:00 UTC",
    ],
    [
      { status: "used" as const, decidedBy: "mia", remember: "session" as const },
      "✅ Approved by mia for this session",
    ],
    [{ status: "denied" as const, decidedBy: "mia", note: "wrong *file*" }, "⛔ Denied by mia"],
    [{ status: "expired" as const }, "⌛ Expired without an answer, 2026-05-04 10:00 UTC"],
    [{ status: "withdrawn" as const }, "Withdrawn"],
  ])("approvals that are decided say by whom: %j", (change, words) => {
    const shown = renderApproval(sampleApproval(change));

    expect(shown).toContain(words);
    expect(shown).not.toContain("/approve k7mq");
    if ("note" in change) expect(shown).toContain("> wrong \\*file\\*");
  });

  test("approvals that were changed show the arguments that ran", () => {
    const shown = renderApproval(
      sampleApproval({ status: "used", decidedBy: "mia", changedArgs: { title: "Better" } }),
    );

    expect(shown).toMatch(/With these arguments instead:\s+```json\n\{\n {2}"title": "Better"/);
  });
});

describe("outcomes", () => {
  test.each([
    [{ kind: "answered" as const, text: "All **fine**." }, "All **fine**."],
    [{ kind: "answered" as const, text: " " }, "Finished without a message"],
    [
      { kind: "failed" as const, reason: "The model is down." },
      "> The model is down.\n\nTo try again, comment `/run fixer`",
    ],
    [
      { kind: "limited" as const, limit: "steps", reason: "50 steps were taken." },
      "`/run fixer`. You can raise the limits under `limits:`",
    ],
    [{ kind: "cancelled" as const, by: "ada" }, "was cancelled by ada"],
  ])("an outcome is shown as a sentence: %j", (outcome, words) => {
    expect(renderOutcome(sampleView({ outcome }))).toContain(words);
  });
});

test("a question is quoted, and its last line says how to answer", () => {
  expect(
    renderQuestion({ runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: "Which one?\n- a\n- b" }),
  ).toBe(
    "### 💬 **fixer** asks\n\n> Which one?\n> - a\n> - b\n\nAnyone with write access can answer with a plain comment. `/stop` stops the worker instead.",
  );
});

test("a question that was posted while another was open says that comments answer the other one first", () => {
  const question = { runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: "Which one?", isPreceded: true };

  expect(renderQuestion(question)).toMatch(
    /can answer with a plain comment\. Until the earlier question of this thread is answered, quote this question in it\. `\/stop`/,
  );
});

test("a question cannot imitate a request for approval", () => {
  const question = {
    runId: "run-1",
    callId: "c",
    step: 1,
    workerPath: "fixer",
    text: "### 🔐 **fixer** asks for approval",
  };

  expect(renderQuestion(question)).toContain("\n> ### 🔐 **fixer** asks for approval (written by the worker)\n");
});

test("an answered question shows who answered, when and what, and a withdrawn one says so", () => {
  const question = { runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: "Which one?\n- a" };
  const answered = { kind: "answered" as const, by: "mia", text: "The second\n# one", at: Date.UTC(2026, 4, 1, 11) };

  expect(renderQuestion({ ...question, end: answered })).toBe(
    "### ✅ Answered by mia, 2026-05-01 11:00 UTC\n\n> The second\n> # one\n\n**fixer** had asked:\n\n> Which one?\n> - a",
  );
  expect(renderQuestion({ ...question, end: { kind: "withdrawn" } })).toMatch(
    /^### ⏹️ Withdrawn: .*\n\n\*\*fixer\*\* had asked:\n\n> Which one\?/,
  );
});

test("help without workers says how to add one, and status without runs says how to start one", () => {
  expect(renderHelp([])).toContain(".github/workers/");
  expect(renderStatusReply([], [])).toContain("/help");
});

describe("whatever a model writes", () => {
  test("an approval request ends with our own text, outside of any code block", () => {
    fc.assert(
      fc.property(hostile, hostile, hostile, fc.boolean(), (args, reason, preview, decided) => {
        const status = decided ? ("denied" as const) : ("pending" as const);
        const approval = sampleApproval({
          args: { args },
          reason,
          preview: textPreview(preview),
          tool: "tool",
          workerPath: reason,
          status,
        });
        const sent = sanitize(renderApproval(approval));
        const prose = proseOf(sent);
        if (!decided)
          expect(prose.slice(-3).join("")).toMatch(/Approval covers exactly this call, once: digest , on commit \.$/);
        else expect(sent.endsWith("\n</details>")).toBe(true);
        expectInert(sent);
        expect(prose.join("").match(/<details>/g)?.length ?? 0).toBe(prose.join("").match(/<\/details>/g)?.length ?? 0);
      }),
      { numRuns: propertyRuns(400) },
    );
  });

  test("a status keeps its sections, whatever a model writes", () => {
    fc.assert(
      fc.property(hostile, hostile, hostile, (log, activity, content) => {
        const task = { content, activeForm: content, status: "in_progress" as const };
        const sent = sanitize(renderStatus(sampleView({ log: [log, log], activity, tasks: [task] }), []));
        expect(proseOf(sent).join("")).toMatch(
          /<\/details>\n\n\s*pauses the run, .*Other comments are passed to the worker\.$/s,
        );
        expectInert(sent);
      }),
      { numRuns: propertyRuns(400) },
    );
  });

  test("a question of a model cannot leave its quotation", () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const sent = sanitize(renderQuestion({ runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text }));
        const [, ...lines] = sent.split("\n\n").join("\n").split("\n");
        expect(lines.slice(0, -1).every((line) => line.startsWith(">") || line === "")).toBe(true);
        expect(sent.endsWith("stops the worker instead.")).toBe(true);
        expectInert(sent);
      }),
      { numRuns: propertyRuns(400) },
    );
  });

  test("an answer, a failure and a worker's name stay inert", () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expectInert(sanitize(renderOutcome(sampleView({ outcome: { kind: "answered", text } }))));
        expectInert(sanitize(renderOutcome(sampleView({ outcome: { kind: "failed", reason: text } }))));
        expectInert(sanitize(renderHelp([{ name: "fixer", description: text }])));
      }),
      { numRuns: propertyRuns(400) },
    );
  });
});

test("every comment is within GitHub's limit", () => {
  const long = "@a `x` <b> ".repeat(20_000);
  const view = sampleView({
    log: Array(3_000).fill(long),
    activity: long,
    tasks: Array(500).fill({ content: long, activeForm: long, status: "pending" }),
    outcome: { kind: "answered", text: `<details>\n\n\`\`\`\n${long}\n${"x\n".repeat(100_000)}` },
    children: Array(100).fill(sampleView({ activity: long })),
  });
  const approval = sampleApproval({ args: { long }, preview: textPreview(long), reason: long });

  for (const markdown of [
    renderStatus(view, Array(200).fill(approval)),
    renderApproval(approval),
    renderOutcome(view),
    renderOutcome({ ...view, outcome: { kind: "failed", reason: long } }),
    renderQuestion({ runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: long }),
    renderStatusReply(Array(5).fill({ ...view, outcome: undefined }), Array(200).fill(approval)),
  ]) {
    expect(sanitize(markdown).length).toBeLessThanOrEqual(60_000);
  }
  expect(sanitize(renderApproval(approval))).toMatch(
    /approval `k7mq`[\s\S]*Approval covers exactly this call, once: digest `0123456789ab`/,
  );
});
