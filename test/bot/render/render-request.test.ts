import fc from "fast-check";
import { expect, test } from "vitest";
import { renderApproval, renderBeforeApproval } from "#bot/render/render-approval.ts";
import { type Preview, textPreview } from "#domain/preview.ts";
import { type FileVersions, previewFiles } from "#sandbox/preview-files.ts";
import { splitCode } from "#text/markdown-code.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { visibleName } from "#text/visible-text.ts";
import { requestBlocks } from "#ui/request-blocks.ts";
import { expectInert, hostile } from "../../support/hostile-text.ts";
import { sampleApproval, samplePreview } from "../../support/run-view.ts";

const sanitize = createSanitizer([]);

/** The lines of every fence, one after the other. */
function shownIn(comments: readonly string[]): string[] {
  const blocks = comments.flatMap((comment) =>
    splitCode(comment).filter(({ code, text }) => code && /^`{3,}\w*\n/.test(text)),
  );
  return blocks.flatMap(({ text }) => text.replace(/^`+\w*\n|\n`+\n?$/g, "").split("\n"));
}

// Text that looks like the app's own marker is broken up, even in code.
const broken = (line: string) => line.replace(/<!--(?=\s*golem-forge:)/gi, "<! --");

const repeated = fc
  .tuple(hostile, fc.constantFrom("", "\n", "`", "```\n", "x", "😀"), fc.integer({ min: 0, max: 60_000 }))
  .map(([text, filler, length]) => `${text}${filler.repeat(length / Math.max(1, filler.length))}${text}`);

test("every line of a request, visible and wrapped, is in a comment, and no comment is cut", async () => {
  await fc.assert(
    fc.asyncProperty(repeated, repeated, repeated, async (text, file, args) => {
      const [section] = await previewFiles([
        { path: `dir/${text}`, before: undefined, after: { content: Buffer.from(file), executable: true } },
      ]);
      const preview: Preview = { sections: [{ kind: "text", title: "Message", text }, ...(section ? [section] : [])] };
      const approval = sampleApproval({ preview, args: { args }, reason: text, workerPath: text });

      const above = renderBeforeApproval(approval).map((comment) => sanitize(comment));
      const request = sanitize(renderApproval(approval));

      const expected = requestBlocks(approval).flatMap(({ lines }) => lines.map(broken));
      expect(shownIn(above.length > 0 ? above : [request])).toEqual(expected);
      for (const comment of [...above, request]) {
        expect(comment.length).toBeLessThan(60_000);
        expectInert(comment);
      }
    }),
    { numRuns: 15, examples: [["\n", "", ""]] },
  );
});

test("a request without the secret in its arguments says so, and offers no approval of later calls", () => {
  const preview: Preview = { ...textPreview("Count [secret removed] once", "Title"), hidesArguments: true };
  const approval = sampleApproval({ preview, args: { title: `Count ghp_${"a".repeat(36)} once` } });

  const request = renderApproval(approval);

  expect(request).toContain("<summary>Arguments, without what looks like a secret (3 lines)</summary>");
  expect(request).toContain('"title": "Count [secret removed] once"');
  expect(request).not.toContain("session");
  expect(renderApproval({ ...approval, preview: textPreview("Count") })).toContain("session");
});

const file = (path: string, lines: number): FileVersions => ({
  path,
  before: undefined,
  after: { content: Buffer.from("a line\n".repeat(lines)), executable: false },
});

test.each([
  ["many files with long names", Array.from({ length: 100 }, (_, id) => file(`${"a".repeat(600)}${id}.ts`, 2))],
  ["many files of some length", Array.from({ length: 100 }, (_, id) => file(`src/${id}.ts`, 300))],
  ["a name of invisible characters", [file(`${"\u00ad".repeat(2_000)}.ts`, 10_000)]],
])("a request with %s names every file, and no comment is cut", async (_, files) => {
  const approval = sampleApproval({ preview: { sections: await previewFiles(files) } });

  const above = renderBeforeApproval(approval).map((comment) => sanitize(comment));
  const request = sanitize(renderApproval(approval));

  const shown = above.length > 0 ? above.join("\n") : request;
  expect(files.filter(({ path }) => !shown.includes(`\`${visibleName(path)}\``))).toEqual([]);
  expect(request).toContain("Approval covers exactly this call, once");
  for (const comment of [...above, request]) expect(comment.length).toBeLessThan(60_000);
});

test("a long request is short on a phone: it shows the beginning and links the comments above with the rest", () => {
  const preview = samplePreview("+a line\n".repeat(10_000));

  const approval = sampleApproval({ preview });
  const [first = "", second = "", ...more] = renderBeforeApproval(approval);
  const request = renderApproval(approval);

  expect(more).toEqual([]);
  expect(first).toMatch(/^### 🔐 Approval `k7mq` of \*\*fixer\*\*, digest `0123456789ab`, part 1 of 2\n/);
  expect(second).toMatch(/, part 2 of 2\n[\s\S]*sum\.js[\s\S]*, 2 of 2[\s\S]*The approval request follows below\.$/);
  expect(request).toMatch(/Only the beginning is shown[\s\S]*80,\d{3} characters\) is in the 2 comments above: read/);
  expect(request.length).toBeLessThan(4_000);
});

test("a long request that fits one comment is folded, without comments above it", () => {
  const approval = sampleApproval({ preview: samplePreview("+a line\n".repeat(1_000)) });

  expect(renderBeforeApproval(approval)).toEqual([]);
  expect(renderApproval(approval)).toContain("<summary>Changes (1,001 lines)</summary>");
});

test.each([
  ["src/p\u0430yments.ts", "Cyrillic letters in its name"],
  ["docs/\u0440\u0430\u0443.md", "Cyrillic letters in its name"],
  ["src/\u039Fauth\u0430.ts", "Cyrillic and Greek letters in its name"],
  ["docs/日本語.md", undefined],
])("a file name with letters that may look like Latin ones says so: %s", (path, note) => {
  const change = { path, kind: "added" as const, newMode: "100644" as const, newBlob: "a".repeat(40), size: 1 };
  const approval = sampleApproval({ preview: { sections: [{ kind: "file", change, diff: "+a" }] } });
  const body = renderApproval(approval);

  if (note === undefined) expect(body).not.toContain("letters in its name");
  else expect(body).toContain(`1 byte, ${note}`);
});
