import { expect, test } from "vitest";
import { costOf } from "#models/prices.ts";

const plain = { cacheRead: 0, cacheWrite: 0, searches: 0 };

test.each([
  ["anthropic:claude-haiku-4-5", { ...plain, input: 1_000_000, output: 1_000_000 }, 6],
  ["anthropic:claude-haiku-4-5-20251001", { ...plain, input: 1_000_000, output: 0 }, 1],
  [
    "anthropic:claude-haiku-4-5",
    { input: 1_000_000, cacheRead: 400_000, cacheWrite: 400_000, output: 0, searches: 0 },
    0.2 + 0.04 + 0.5,
  ],
  ["openai:gpt-5-2025-08-07", { ...plain, input: 0, output: 1_000_000 }, 10],
  ["openai:gpt-4.1", { input: 1_000_000, cacheRead: 1_000_000, cacheWrite: 0, output: 0, searches: 0 }, 0.5],
])("%s costs for %j", (model, tokens, dollars) => {
  expect(costOf(model, tokens)).toBeCloseTo(dollars, 9);
});

test("long calls cost more with models that have a higher price for them", () => {
  const long = costOf("google:gemini-2.5-pro", { ...plain, input: 400_000, output: 100_000 });
  const cached = costOf("anthropic:claude-haiku-5-5", {
    input: 200_000,
    cacheRead: 100_000,
    cacheWrite: 0,
    output: 10_000,
    searches: 0,
  });

  expect(long).toBeCloseTo(0.4 * 2.5 + 0.1 * 15, 9);
  expect(cached).toBeCloseTo(0.1 * 0.5 + 0.1 * 0.05 + 0.01 * 2.5, 9);
});

test.each([
  ["anthropic:claude-haiku-4-5", 3, 0.03],
  ["openai:gpt-5", 1, 0.01],
  ["google:gemini-3.8-flash", 2, 0.028],
])("web searches by the provider of %s are billed: %i of them", (model, searches, dollars) => {
  expect(costOf(model, { ...plain, input: 0, output: 0, searches })).toBeCloseTo(dollars, 9);
});

test.each(["compatible:llama", "anthropic:claude-nobody", "openai:claude-haiku-4-5", "__proto__:x", "constructor"])(
  "the price of %s is unknown",
  (model) => {
    expect(costOf(model, { ...plain, input: 10, output: 10 })).toBeUndefined();
  },
);
