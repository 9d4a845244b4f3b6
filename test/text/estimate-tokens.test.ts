import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { estimateTokens } from "#text/estimate-tokens.ts";

test("prose is about four or five characters a token", () => {
  const text = "The worker reads the file and then changes one line of it. ".repeat(100);

  const tokens = estimateTokens(text);

  expect(tokens).toBeGreaterThan(text.length / 6);
  expect(tokens).toBeLessThan(text.length / 3);
});

test("text without spaces, such as base64, is taken for the dense thing it is", () => {
  const text = randomBytes(6_000).toString("base64");

  expect(estimateTokens(text)).toBeCloseTo(text.length / 1.4, -1);
});

test("base64 in lines is as dense as in one", () => {
  const lines =
    randomBytes(6_000)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];

  expect(estimateTokens(lines.join("\n"))).toBeGreaterThan(5_000);
});

test("compact JSON and lists of paths are not taken for it", () => {
  const paths = Array.from({ length: 100 }, (_, index) => `src/models/some-file-${index}.ts`);
  const listing = JSON.stringify({ tool: "find_files", output: { type: "text", value: paths.join("\n") } });

  expect(estimateTokens(listing)).toBeLessThan(listing.length / 2);
});

test("a script without spaces between its words is dense", () => {
  const text = "สวัสดีครับผมชื่อสมชาย".repeat(20);

  expect(estimateTokens(text)).toBeGreaterThan(text.length / 2);
});

test("nothing is nothing", () => {
  expect(estimateTokens("")).toBe(0);
});

test("a very long run of one letter is estimated at once", () => {
  expect(estimateTokens("a".repeat(2_000_000))).toBeGreaterThan(1_000_000);
});

test("any text has a whole number of tokens, and none has more than twice its characters", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), (text) => {
      const tokens = estimateTokens(text);
      expect(Number.isInteger(tokens)).toBe(true);
      expect(tokens).toBeLessThanOrEqual(text.length * 2 + 1);
    }),
  );
});
