import { z } from "zod";
import { readYaml } from "#text/read-yaml.ts";
import { messageOf, UserError } from "./errors.ts";
import { checkInTime, typesOf } from "./json-schema.ts";
import { describeMismatch, valueAt } from "./schema-issue.ts";

/** The JSON Schema that a worker's answers have to match. */
export type OutputSchema = Record<string, unknown>;

/** A regular expression of a schema may take this long on a model's answer before the answer is refused. */
const maxCheckMs = 1_000;
const maxProblems = 5;
const maxSchemaCharacters = 100_000;

const Schema = z.record(z.string(), z.unknown());

/** Parses an output schema in JSON or YAML. Throws a UserError that names the file. */
export function parseOutputSchema(text: string, file: string): OutputSchema {
  if (text.length > maxSchemaCharacters) {
    throw new UserError(`${file} is longer than ${maxSchemaCharacters.toLocaleString("en-US")} characters.`);
  }
  const json = text.trimStart().startsWith("{") ? parseJson(text) : { value: readYaml(text, file) };
  if ("problem" in json) throw new UserError(`${file} is not valid JSON: ${json.problem}.`);
  const schema = Schema.safeParse(json.value);
  if (!schema.success) {
    throw new UserError(`${file} is not a JSON Schema: it must be an object such as { "type": "object", … }.`);
  }
  compileOutputSchema(schema.data, file);
  return schema.data;
}

/** Compiles an output schema. Throws a UserError for one that cannot be checked; `name` says where it is. */
export function compileOutputSchema(schema: OutputSchema, name: string): z.ZodType {
  try {
    return z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
  } catch (error) {
    const reason = messageOf(error);
    throw new UserError(`${name} is not a JSON Schema that can be checked: ${reason}.`, { cause: error });
  }
}

type CheckedAnswer = { isValid: true; text: string } | { isValid: false; problem: string };

/** Checks an answer. Returns its JSON without a Markdown fence, or sentences about what is wrong with it. */
export function checkAnswer(schema: OutputSchema, answer: string): CheckedAnswer {
  const text = withoutFence(answer.trim());
  const parsed = parseJson(text);
  if ("problem" in parsed && !typesOf(schema).includes("string")) {
    return { isValid: false, problem: `It is not valid JSON: ${parsed.problem}.` };
  }
  const value = "problem" in parsed ? text : parsed.value;
  const issues = findIssues(compileOutputSchema(schema, "The output schema"), value);
  if (issues.length === 0) return { isValid: true, text };
  const problems = issues.slice(0, maxProblems).map((issue) => describeIssue(issue, value));
  if (issues.length > maxProblems) problems.push(`There are ${issues.length - maxProblems} more problems.`);
  return { isValid: false, problem: problems.join(" ") };
}

function withoutFence(text: string): string {
  return /^```(?:json)?[ \t]*\n([\s\S]*?)\n?```$/i.exec(text)?.[1]?.trim() ?? text;
}

function parseJson(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

function findIssues(schema: z.ZodType, value: unknown): readonly z.core.$ZodIssue[] {
  const parsed = checkInTime(() => schema.safeParse(value), maxCheckMs);
  if (parsed) return parsed.error?.issues ?? [];
  return [{ code: "custom", path: [], message: "A pattern of the schema took too long to check", input: value }];
}

function describeIssue(issue: z.core.$ZodIssue, answer: unknown): string {
  const path = issue.path.join(".");
  const prefix = path === "" ? "" : `${path}: `;
  if (issue.code === "custom") return `${prefix}${issue.message}.`;
  if (issue.code === "unrecognized_keys") {
    return `${prefix}Unknown property ${issue.keys.map((key) => JSON.stringify(key)).join(", ")}.`;
  }
  const value = valueAt(answer, issue.path);
  if (value === undefined && path !== "") return `${path} is missing.`;
  return `${prefix}${describeMismatch(issue as Parameters<typeof describeMismatch>[0], value)}.`;
}
