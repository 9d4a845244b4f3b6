import fc from "fast-check";
import { expect, test } from "vitest";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { resultOfError, truncateToTokens, withUnifiedDiff } from "#toolsets/tool-result.ts";
import { anyText } from "../support/hostile-text.ts";

test.each([
  [{ isNew: false, original: "a\nb\n", modified: "a\nc\n" }, "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", 2],
  [{ isNew: true, modified: "a\n" }, "--- /dev/null\n+++ b/a.ts\n@@ -0,0 +1,1 @@\n+a\n", 1],
])("a diff value that has only its texts, %j, gets a unified diff", async (texts, diff, changes) => {
  const value = { kind: "diff" as const, path: "a.ts", bytesWritten: 4, ...texts };
  const completed = { diff: expect.stringContaining(diff), stats: expect.objectContaining({ changes }) };

  expect(await withUnifiedDiff({ llmContent: "Changed", value })).toMatchObject({
    llmContent: "Changed",
    value: completed,
  });
  const complete = { llmContent: "Changed", value: { ...value, diff: "as given" } };
  expect(await withUnifiedDiff(complete)).toEqual(complete);
});

test("a text that fits is unchanged", () => {
  const text = "a line of words\n".repeat(100);
  expect(truncateToTokens(text, 30_000)).toBe(text);
});

test("a text that is too long keeps whole lines at both ends and reports how much was left out", () => {
  const lines = Array.from({ length: 10_000 }, (_, index) => `line ${index} of the log`);

  const cut = truncateToTokens(lines.join("\n"), 1_000).split("\n");

  expect(cut[0]).toBe("line 0 of the log");
  expect(cut.at(-1)).toBe("line 9999 of the log");
  expect(cut.every((line) => line.startsWith("[…") || lines.includes(line))).toBe(true);
  expect(cut.find((line) => line.startsWith("[…"))).toMatch(/\d+ lines, \d+ characters left out/);
});

test("any text is shortened to the limit and keeps both ends", () => {
  const text = fc.oneof(
    anyText({ maxLength: 2_000 }),
    fc.array(fc.lorem(), { maxLength: 150 }).map((words) => words.join("\n")),
    fc.stringMatching(/^[A-Za-z0-9+/]{0,1500}$/),
  );
  fc.assert(
    fc.property(text, fc.integer({ min: 60, max: 500 }), (whole, limit) => {
      const cut = truncateToTokens(whole, limit);

      expect(estimateTokens(cut)).toBeLessThanOrEqual(limit);
      if (cut === whole) return;
      const [head, tail] = cut.split(/\n\[… .* …\]\n/);
      expect(whole.startsWith(head ?? "?")).toBe(true);
      expect(whole.endsWith(tail ?? "?")).toBe(true);
    }),
    { numRuns: 40 },
  );
});

test("a text of 20 MB is shortened in seconds", () => {
  const huge = "word ".repeat(4_000_000);
  const started = performance.now();
  truncateToTokens(huge, 30_000);
  expect(performance.now() - started).toBeLessThan(20_000);
});

test("a surrogate pair is never split", () => {
  expect(truncateToTokens("😀".repeat(5_000), 200).isWellFormed()).toBe(true);
});

test("a ToolError of another copy of golem-forge keeps its code and its suggestion", () => {
  class ToolError extends Error {
    override readonly name = "ToolError";
    readonly code = "READ_ONLY";
    readonly suggestion: unknown = undefined;
  }
  expect(resultOfError(new ToolError("Not here"))).toMatchObject({
    error: { type: "permission_error", code: "READ_ONLY" },
  });
  expect(resultOfError(Object.assign(new ToolError("Not here"), { suggestion: "Try /tmp" }))).toMatchObject({
    llmContent: "Error: Not here\nTry /tmp",
  });
});
