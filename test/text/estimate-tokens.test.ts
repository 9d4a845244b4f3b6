import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { estimateTokens } from "#text/estimate-tokens.ts";

test("prose has about four or five characters per token", () => {
  const text = "The worker reads the file and then changes one line of it. ".repeat(100);

  const tokens = estimateTokens(text);

  expect(tokens).toBeGreaterThan(text.length / 6);
  expect(tokens).toBeLessThan(text.length / 3);
});

test("base64 counts as dense text", () => {
  const text = randomBytes(6_000).toString("base64");

  expect(estimateTokens(text)).toBeCloseTo(text.length / 1.4, -1);
});

test("wrapped base64 is as dense as unwrapped base64", () => {
  const lines =
    randomBytes(6_000)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];

  expect(estimateTokens(lines.join("\n"))).toBeGreaterThan(5_000);
});

test("compact JSON and lists of paths do not count as dense", () => {
  const paths = Array.from({ length: 100 }, (_, index) => `src/models/some-file-${index}.ts`);
  const listing = JSON.stringify({ tool: "find_files", output: { type: "text", value: paths.join("\n") } });

  expect(estimateTokens(listing)).toBeLessThan(listing.length / 2);
});

test("scripts without spaces between words are dense", () => {
  const text = "สวัสดีครับผมชื่อสมชาย".repeat(20);

  expect(estimateTokens(text)).toBeGreaterThan(text.length / 2);
});

test("an empty text has no tokens", () => {
  expect(estimateTokens("")).toBe(0);
});

test("the estimate is an integer, at most twice the number of characters", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), (text) => {
      const tokens = estimateTokens(text);
      expect(Number.isInteger(tokens)).toBe(true);
      expect(tokens).toBeLessThanOrEqual(text.length * 2 + 1);
    }),
  );
});
