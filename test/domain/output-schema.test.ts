import { describe, expect, test } from "vitest";
import { checkAnswer, parseOutputSchema } from "#domain/output-schema.ts";
import { parseWorker, withOutputSchema } from "#domain/worker.ts";

const schema = {
  type: "object",
  properties: { severity: { enum: ["low", "high"] }, lines: { type: "array", items: { type: "integer" } } },
  required: ["severity"],
  additionalProperties: false,
};

describe("answer", () => {
  test.each([
    ['{"severity":"low"}', '{"severity":"low"}'],
    ['  {"severity":"low","lines":[1]}\n', '{"severity":"low","lines":[1]}'],
    ['```json\n{"severity":"high"}\n```', '{"severity":"high"}'],
  ])("%j matches", (answer, text) => {
    expect(checkAnswer(schema, answer)).toEqual({ isValid: true, text });
  });

  test.each([
    ["It is low.", /^It is not valid JSON: /],
    ["{}", "severity is missing."],
    ['{"severity":"urgent"}', 'severity: Expected one of "low", "high", got "urgent".'],
    ['{"severity":"low","lines":[1,"2"]}', "lines.1: Expected number, got string."],
    ['{"severity":"low","note":1}', 'Unknown property "note".'],
    ["[]", "Expected object, got array."],
  ])("%j is refused with what is wrong", (answer, problem) => {
    const result = checkAnswer(schema, answer);

    expect(result).toEqual({
      isValid: false,
      problem: typeof problem === "string" ? problem : expect.stringMatching(problem),
    });
  });

  test("an answer for a string schema needs no quotes", () => {
    expect(checkAnswer({ type: "string", enum: ["yes", "no"] }, "yes")).toEqual({ isValid: true, text: "yes" });
    expect(checkAnswer({ type: "string", enum: ["yes", "no"] }, "maybe")).toMatchObject({ isValid: false });
  });

  test("a pattern of the schema cannot block the process", () => {
    const slow = { type: "string", pattern: "^(a+)+$" };

    expect(checkAnswer(slow, `${"a".repeat(40)}b`)).toEqual({
      isValid: false,
      problem: "A pattern of the schema took too long to check.",
    });
  });
});

describe("schema of a worker", () => {
  const worker = parseWorker("---\nname: triager\noutput_schema_ref: ./answer.json\n---\nTriage.", "triager.worker");

  test("the schema of a worker is read from the file that output_schema_ref names, in JSON or YAML", () => {
    expect(withOutputSchema(worker, JSON.stringify(schema)).output_schema).toEqual(schema);
    expect(withOutputSchema(worker, "type: object\nrequired: [severity]\n").output_schema).toEqual({
      type: "object",
      required: ["severity"],
    });
  });

  test.each([
    [undefined, "triager: there is no file ./answer.json, which output_schema_ref names."],
    ["{", "./answer.json is not valid JSON"],
    ["- 1", "./answer.json is not a JSON Schema"],
    ['{"type":"objct"}', "./answer.json is not a JSON Schema that can be checked: Unsupported type: objct."],
  ])("the schema of a worker is refused with the name of the file: %j", (text, message) => {
    expect(() => withOutputSchema(worker, text)).toThrow(message);
  });

  test("the schema of a worker may be in its front matter, and is checked there", () => {
    const inline = parseWorker("---\nname: a\noutput_schema: { type: array }\n---\nList.", "a.worker");

    expect(inline.output_schema).toEqual({ type: "array" });
    expect(() => parseWorker("---\nname: a\noutput_schema: { type: lst }\n---\nList.", "a.worker")).toThrow(
      "output_schema: output_schema is not a JSON Schema that can be checked: Unsupported type: lst.",
    );
    expect(parseOutputSchema("type: array", "x.yml")).toEqual({ type: "array" });
  });
});
