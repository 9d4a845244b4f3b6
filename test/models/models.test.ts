import fc from "fast-check";
import { expect, test } from "vitest";
import { modelMatches, parseModelName } from "#models/models.ts";

test.each([
  [["anthropic:*"], "anthropic:claude-haiku-4-5", true],
  [["anthropic:claude-haiku-*"], "anthropic:claude-haiku-4-5", true],
  [["anthropic:claude-haiku-*"], "anthropic:claude-opus-5", false],
  [["openai:gpt-5", "anthropic:*"], "anthropic:claude-opus-5", true],
  [["openai:gpt-5"], "openai:gpt-5-mini", false],
  [["*:free"], "openrouter:meta/llama:free", true],
  [["*"], "anything:at-all", true],
  [["google:gemini-*-flash"], "google:gemini-2.5-flash", true],
  [["google:gemini-*-flash"], "google:gemini-flash", false],
  [["a*a"], "a", false],
  [["anthropic:claude.haiku"], "anthropic:claude-haiku", false],
  [["anthropic"], "anthropic:claude-haiku-4-5", false],
  [undefined, "anthropic:claude-haiku-4-5", true],
  [[], "anthropic:claude-haiku-4-5", false],
])("%j fits %s: %s", (patterns, model, matches) => {
  expect(modelMatches(patterns, model)).toBe(matches);
});

test.each([
  ["openrouter:meta/llama:free", "openrouter", "meta/llama:free"],
  ["anthropic:claude-haiku-4-5", "anthropic", "claude-haiku-4-5"],
  ["gpt-5", "", "gpt-5"],
  ["openai:", "openai", ""],
])("%s is split at the first colon", (text, provider, model) => {
  expect(parseModelName(text)).toEqual({ provider, model });
});

const word = fc.stringMatching(/^[a-c:*]{0,8}$/);
const plain = fc.stringMatching(/^[a-c:]{0,12}$/);

test("matching agrees with the equivalent regular expression", () => {
  fc.assert(
    fc.property(word, plain, (pattern, model) => {
      const expected = new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(model);
      expect(modelMatches([pattern], model)).toBe(expected);
    }),
  );
});

test("a model matches itself, and a star replaces its beginning or its end", () => {
  fc.assert(
    fc.property(plain, fc.nat(12), (model, at) => {
      expect(modelMatches([model], model)).toBe(true);
      expect(modelMatches([`${model.slice(0, at)}*`], model)).toBe(true);
      expect(modelMatches([`*${model.slice(at)}`], model)).toBe(true);
    }),
  );
});

test("a hostile pattern is matched quickly", () => {
  expect(modelMatches([`${"*a".repeat(200)}b`], "a".repeat(10_000))).toBe(false);
});
