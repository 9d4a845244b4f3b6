import type { ModelCall } from "#domain/events.ts";
import {
  choicesOf,
  hasMoreParts,
  type JsonSchema,
  type Parameter,
  parametersOf,
  typeOfValue,
  typesOf,
} from "#domain/json-schema.ts";
import type { ToolResult } from "#domain/result.ts";
import { describeSchemaIssue, type SchemaIssue } from "#domain/schema-issue.ts";
import { parseArguments, type ToolSchema } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import { isObject } from "#text/json-values.ts";
import { failedResult } from "./tool-result.ts";

/** `value` is passed to the tool; `args` are shown, stored and validated again. */
export type ValidatedArguments = { valid: true; value: unknown; args: unknown } | { valid: false; result: ToolResult };

/** Validates arguments, after repairing obvious mistakes. The result of an invalid call shows a valid one. */
export async function validateArguments(
  tool: string,
  schema: ToolSchema,
  { args = {}, parseError }: Pick<ModelCall, "args" | "parseError">,
): Promise<ValidatedArguments> {
  const asGiven = parseError === undefined ? await parseArguments(schema, args) : undefined;
  if (asGiven?.valid && unknownParameters(args, schema.json).length === 0) return asGiven;

  const repairedArgs = repairArguments(args, schema.json);
  const repaired = await parseArguments(schema, repairedArgs);
  // A schema that accepts any text would also accept broken JSON.
  const isText = typeof args === "string" && typeof repairedArgs === "string";
  const accepted = repaired.valid && !isText ? repaired : asGiven?.valid ? asGiven : undefined;
  if (accepted) {
    const ignored = unknownParameters(accepted === repaired ? repairedArgs : args, schema.json).filter(
      (name) => !isObject(accepted.value) || !Object.hasOwn(accepted.value, name),
    );
    return ignored.length === 0 ? accepted : { valid: false, result: await ignoredResult(tool, schema, ignored) };
  }
  if (asGiven && !asGiven.valid)
    return { valid: false, result: await invalidResult(tool, schema, { args, issues: asGiven.issues }) };

  const message = `The arguments for ${tool} could not be read. ${parseError}`;
  return { valid: false, result: await invalidArguments(tool, schema, { message }) };
}

/** Returns the given parameters that the schema does not define. Null values are ignored, since they have no meaning. */
function unknownParameters(given: unknown, json: JsonSchema): string[] {
  if (!isObject(given)) return [];
  const known = new Set(json.properties ? Object.keys(json.properties) : parametersOf(json).map(({ name }) => name));
  if (!json.properties && known.size === 0) return [];
  return Object.keys(given).filter((name) => !known.has(name) && given[name] !== null);
}

/** The number of problems of a call that its result lists. */
const maxNamed = 5;

function ignoredResult(tool: string, schema: ToolSchema, ignored: string[]): Promise<ToolResult> {
  const names = ignored.slice(0, maxNamed).map((name) => `'${name}'`);
  if (ignored.length > maxNamed) names.push(`and ${ignored.length - maxNamed} more`);
  const message = `Unknown parameter ${names.join(", ")} for ${tool}.`;
  return invalidArguments(tool, schema, { message, unknown: ignored });
}

function invalidResult(
  tool: string,
  schema: ToolSchema,
  { args, issues }: { args: unknown; issues: SchemaIssue[] },
): Promise<ToolResult> {
  const unknown = unknownParameters(args, schema.json);
  const problems = issues.slice(0, maxNamed).map((issue) => `${describeSchemaIssue(tool, issue, args)}.`);
  if (issues.length > maxNamed) problems.push(`And ${issues.length - maxNamed} more.`);
  return invalidArguments(tool, schema, { message: problems.join("\n"), unknown, issues });
}

async function invalidArguments(
  tool: string,
  schema: ToolSchema,
  { message, unknown = [], issues = [] }: { message: string; unknown?: string[]; issues?: SchemaIssue[] },
): Promise<ToolResult> {
  const known = parametersOf(schema.json).map(({ name }) => name);
  const hints = unknown.slice(0, maxNamed).map((name) => {
    const near = closestMatch(name, known);
    return near ? `Did you mean '${near}' instead of '${name}'?` : "";
  });
  if (unknown.length > 0 && hints.includes(""))
    hints.push(`The parameters of ${tool} are: ${known.join(", ") || "none"}.`);
  const example = await exampleCall(tool, schema);
  const explains = example !== undefined && example !== formatExample(tool, {});
  const details = issues.slice(0, maxNamed).map((issue) => ({ path: issue.path.map(String), message: issue.message }));

  return failedResult(message, {
    code: "INVALID_ARGUMENTS",
    suggestion: [...hints, explains ? `Example: ${example}` : ""].filter(Boolean).join(" "),
    ...(details.length > 0 && { details: { issues: details } }),
  });
}

const maxExampleParts = 2_000;
const maxExampleOptional = 5;

/**
 * Builds a valid call from the schema, such as `read_file(path="src/main.ts")`, with the required parameters and as few
 * optional ones as necessary, up to five. Resolves to undefined if the schema accepts none of these, or is too large.
 */
export async function exampleCall(tool: string, { json, validate }: ToolSchema): Promise<string | undefined> {
  if (hasMoreParts(json, maxExampleParts)) return undefined;
  const optional = parametersOf(json).filter(({ required }) => !required);
  for (let count = 0; count <= Math.min(optional.length, maxExampleOptional); count += 1) {
    const args = exampleArguments(json, optional.slice(0, count));
    if ((await validate(args)).valid) return formatExample(tool, args);
  }
  return undefined;
}

/** Returns arguments with an example of every required parameter, and of the given optional ones. */
export function exampleArguments(json: JsonSchema, optional: readonly Parameter[] = []): Record<string, unknown> {
  return exampleObject(json, 0, new Set(optional.map(({ name }) => name)));
}

/** Formats a call: `read_file(path="src/main.ts")`. */
export function formatExample(tool: string, args: Record<string, unknown>): string {
  const given = Object.entries(args).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `${tool}(${given.join(", ")})`;
}

function exampleObject(json: JsonSchema, depth: number, optional = new Set<string>()): Record<string, unknown> {
  const chosen = parametersOf(json).filter(({ name, required }) => required || optional.has(name));
  return Object.fromEntries(chosen.map(({ name, schema }) => [name, exampleValue(name, schema, depth)]));
}

function exampleValue(name: string, schema: JsonSchema, depth: number): unknown {
  const { examples, minimum } = schema as { examples?: unknown[]; minimum?: number };
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  const choices = choicesOf(schema);
  if (choices) return choices[0] ?? null;

  switch (typesOf(schema)[0]) {
    case "number":
    case "integer":
      return Math.max(minimum ?? 1, 1);
    case "boolean":
      return false;
    case "array":
      return schema.items && depth < 3 ? [exampleValue(name, schema.items as JsonSchema, depth + 1)] : [];
    case "object":
      return depth < 3 ? exampleObject(schema, depth + 1) : {};
    case "null":
      return null;
    default:
      return exampleText(name);
  }
}

function exampleText(name: string): string {
  if (/path|file/i.test(name)) return "src/main.ts";
  // Both a glob and a regular expression.
  if (/pattern|glob/i.test(name)) return "src/*";
  if (/url/i.test(name)) return "https://example.com";
  if (/command/i.test(name)) return "ls -la";
  return "value";
}

/** Parameter names that other tool systems use for the same purpose. */
const synonyms: readonly (readonly string[])[] = [
  ["path", "file_path", "filepath", "file", "filename", "file_name", "paths", "file_paths", "files", "filenames"],
  ["path", "directory", "dir", "folder"],
  ["content", "contents", "text", "body", "data"],
  ["pattern", "query", "regex", "search", "search_term"],
  ["command", "cmd", "script"],
  ["from", "source", "src", "old_path"],
  ["to", "destination", "dest", "target", "new_path"],
  ["old_string", "old_text", "old", "search"],
  ["new_string", "new_text", "new", "replace", "replacement"],
  ["patch", "diff"],
  ["limit", "max_results", "head_limit"],
  ["task", "input", "prompt", "message"],
  ["context", "instructions"],
].map((group) => group.map(normalizeName));

/**
 * Corrects common mistakes in a model's arguments: JSON passed as text, quoted numbers and booleans, a single value for a
 * list, null for an optional parameter, parameter names of other tool systems. Never completes truncated input or guesses
 * a value. The caller must validate the result.
 */
export function repairArguments(args: unknown, json: JsonSchema): unknown {
  const object = typeof args === "string" ? parseJson(parseJson(args)) : args;
  if (typeOfValue(object) !== "object") return object;

  return repairObject(object as Record<string, unknown>, json);
}

function repairObject(given: Record<string, unknown>, json: JsonSchema): Record<string, unknown> {
  const names = namesOf(json);
  const entries = Object.entries(given).flatMap(([key, value]): [string, unknown][] => {
    const parameter = names.exact.get(key) ?? likelyParameter(key, given, names);
    if (!parameter) return [[key, value]];

    const { name, schema, required } = parameter;
    const mayBeNull = typesOf(schema).length === 0 || typesOf(schema).includes("null");
    return value === null && !required && !mayBeNull ? [] : [[name, repairValue(value, schema)]];
  });
  return Object.fromEntries(entries);
}

/** The parameters of a schema by name, and those of each normalized name in their order. */
interface ParameterNames {
  exact: ReadonlyMap<string, Parameter>;
  normalized: ReadonlyMap<string, readonly Parameter[]>;
}

/** A list may have thousands of objects, and an object thousands of unknown keys, so each schema is read only once. */
const namesBySchema = new WeakMap<JsonSchema, ParameterNames>();

function namesOf(json: JsonSchema): ParameterNames {
  const known = namesBySchema.get(json);
  if (known) return known;

  const parameters = parametersOf(json);
  const names = {
    exact: new Map(parameters.map((parameter) => [parameter.name, parameter])),
    normalized: Map.groupBy(parameters, ({ name }) => normalizeName(name)),
  };
  namesBySchema.set(json, names);
  return names;
}

function likelyParameter(
  key: string,
  given: Record<string, unknown>,
  { exact, normalized }: ParameterNames,
): Parameter | undefined {
  const free = (word: string) => normalized.get(normalizeName(word))?.find(({ name }) => !Object.hasOwn(given, name));
  const same = free(key);
  if (same) return same;

  const groups = synonyms.filter((group) => group.includes(normalizeName(key)));
  const meant = new Set(groups.flat().flatMap((word) => free(word) ?? []));
  return meant.size > 0 ? exact.values().find((parameter) => meant.has(parameter)) : undefined;
}

export function normalizeName(name: string): string {
  return name.replace(/[-_]/g, "").toLowerCase();
}

function repairValue(value: unknown, schema: JsonSchema): unknown {
  const types = typesOf(schema);
  const type = typeOfValue(value);
  if (types.length === 0) return value;
  if (types.includes(type) || (type === "number" && types.includes("integer"))) return repairMembers(value, schema);

  if (typeof value === "string") {
    const parsed = parseText(value, types);
    if (parsed !== undefined) return repairMembers(parsed, schema);
  }
  if (types.includes("array") && type !== "null") return repairMembers([value], schema);
  if (Array.isArray(value) && value.length === 1) return repairValue(value[0], schema);
  return value;
}

function repairMembers(value: unknown, schema: JsonSchema): unknown {
  if (Array.isArray(value) && schema.items) return value.map((item) => repairValue(item, schema.items as JsonSchema));
  if (typeOfValue(value) === "object" && schema.properties) {
    return repairObject(value as Record<string, unknown>, schema);
  }
  return value;
}

function parseText(text: string, types: string[]): unknown {
  const word = text.trim();
  if ((types.includes("number") || types.includes("integer")) && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(word)) {
    return Number(word);
  }
  if (types.includes("boolean") && /^(true|false)$/i.test(word)) return word.toLowerCase() === "true";

  const parsed = parseJson(text);
  return parsed !== text && types.includes(typeOfValue(parsed)) ? parsed : undefined;
}

/** Parses JSON text; returns any other value unchanged. */
function parseJson(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(withoutFence(value));
  } catch {
    return value;
  }
}

function withoutFence(text: string): string {
  const lines = text.trim().split("\n");
  const isFenced = lines.length > 2 && /^```\w*\s*$/.test(lines[0] ?? "") && lines.at(-1)?.trim() === "```";
  return isFenced ? lines.slice(1, -1).join("\n") : text;
}
