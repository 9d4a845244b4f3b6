import { expect, test } from "vitest";
import { describeForModel } from "#toolsets/tool-result.ts";
import { summarizeResult } from "#ui/result-layout.ts";

test.each([
  [{ words: 37 }, '{"words":37}'],
  [[1, 2], "[1,2]"],
  [{ text: "x".repeat(300) }, expect.stringMatching(/^\{"text":"x+…$/)],
])("a result of data is one line of JSON in a log: %j", (data, line) => {
  const value = { kind: "json" as const, data };

  expect(summarizeResult({ value, llmContent: describeForModel(value) })).toEqual(line);
});

test("a result is described by its summary, or else by the first line that the model reads", () => {
  const value = { kind: "json" as const, data: { words: 37 } };

  expect(summarizeResult({ value: { ...value, summary: "37 words" }, llmContent: "{" })).toBe("37 words");
  expect(summarizeResult({ value, llmContent: "There are 37 words.\nCounted just now." })).toBe("There are 37 words.");
});
