import fc from "fast-check";
import { expect, test } from "vitest";
import { renderApproval, renderBeforeApproval } from "#bot/render/render-approval.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { splitCode } from "#text/markdown-code.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { expectInert, hostile, proseOf } from "../../support/hostile-text.ts";
import { sampleApproval } from "../../support/run-view.ts";

const sanitize = createSanitizer([]);

/** Everything in fences, one after the other, without its line ends. */
function shownIn(comments: readonly string[]): string {
  const blocks = comments.flatMap((comment) =>
    splitCode(comment).filter(({ code, text }) => code && /^`{3}/.test(text)),
  );
  return flat(blocks.map(({ text }) => text.replace(/^`+\w*\n|\n`+\n?$/g, "")).join(""));
}

// What would look like our own marker is broken up, even in code.
const flat = (text: string) => text.replace(/<!--(?=\s*golem-forge:)/gi, "<! --").replace(/\s/g, "");

const repeated = fc
  .tuple(hostile, fc.constantFrom("", "\n", "`", "```\n", "x", "😀"), fc.integer({ min: 0, max: 60_000 }))
  .map(([text, filler, length]) => `${text}${filler.repeat(length / Math.max(1, filler.length))}${text}`);

test("whatever is asked, every character of it stands in some comment as it was, and no comment is cut", () => {
  fc.assert(
    fc.property(repeated, repeated, repeated, (before, diff, args) => {
      const preview = `${before}\n--- a/x\n+++ b/x\n${diff}`;
      const approval = sampleApproval({ preview, args: { args }, reason: before, workerPath: before });

      const above = renderBeforeApproval(approval).map((comment) => sanitize(comment));
      const request = sanitize(renderApproval(approval));

      const shown = shownIn(above.length > 0 ? above : [request]);
      expect(shown).toContain(flat(showHidden(preview)));
      expect(shown).toContain(flat(showHidden(JSON.stringify({ args }, null, 2))));
      for (const comment of [...above, request]) {
        expect(comment.length).toBeLessThan(60_000);
        expectInert(comment);
      }
      expect(proseOf(request).slice(-3).join("")).toMatch(
        /Only exactly this call is approved, once: digest , on commit \.$/,
      );
    }),
    { numRuns: 15 },
  );
});

test("a long request is short on a phone: it says how it begins, and that the rest stands above", () => {
  const preview = `Add it\n\n--- a/x\n+++ b/x\n${"+a line\n".repeat(10_000)}`;

  const approval = sampleApproval({ preview });
  const [first = "", second = "", ...more] = renderBeforeApproval(approval);
  const request = renderApproval(approval);

  expect(more).toEqual([]);
  expect(first).toMatch(/^### 🔐 Approval `k7mq` of \*\*fixer\*\*, digest `0123456789ab`, part 1 of 2\n/);
  expect(second).toMatch(
    /, part 2 of 2\n[\s\S]*What it would change, 2 of 2[\s\S]*The approval request follows below\.$/,
  );
  expect(request).toMatch(/only how it begins[\s\S]*80,\d{3} characters, stands in 2 comments, parts 1 to 2: read/);
  expect(request.length).toBeLessThan(4_000);
});

test("what is long but fits is opened with a tap, and no comment stands above", () => {
  const approval = sampleApproval({ preview: `--- a/x\n+++ b/x\n${"+a line\n".repeat(1_000)}` });

  expect(renderBeforeApproval(approval)).toEqual([]);
  expect(renderApproval(approval)).toContain("<summary>What it would change (1,002 lines)</summary>");
});
