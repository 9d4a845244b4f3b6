import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { estimateTokens } from "#estimate-tokens.ts";

test("prose is about four or five characters a token", () => {
  const text = "The worker reads the file and then changes one line of it. ".repeat(100);

  const tokens = estimateTokens(text);

  expect(tokens).toBeGreaterThan(text.length / 6);
  expect(tokens).toBeLessThan(text.length / 3);
});

test("text without spaces, such as base64, is taken for the dense thing it is", () => {
  const text = randomBytes(6_000).toString("base64");

  expect(estimateTokens(text)).toBe(Math.ceil(text.length / 1.4));
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
