import type { FlexibleSchema } from "ai";
import type { z } from "zod";
import { messageOf, UserError } from "#domain/errors.ts";
import { choicesOf, type JsonSchema, type Parameter, parametersOf, typesOf } from "#domain/json-schema.ts";
import { describeSchemaIssue } from "#domain/schema-issue.ts";
import { getManualTools, type NamedTool } from "#domain/tool.ts";
import { compileSchema, isZodSchema, jsonSchemaOf, parseArguments } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { FieldType, ManualToolField, ManualToolInfo } from "./manual-tool.ts";

/** Derives the fields of a form from an input schema; none for schemas that are not objects. Lists and objects are text fields. */
export function deriveFieldsFromSchema(schema: unknown): ManualToolField[] {
  return parametersFor(schema).map((parameter) => toField(parameter, defaultOf(schema, parameter)));
}

/** Returns the form of a tool; null for tools that people cannot call. */
export function extractManualToolInfo(tool: NamedTool): ManualToolInfo | null {
  return getManualTools([tool]).map(toInfo)[0] ?? null;
}

/** Returns the forms of all tools that people can call. */
export function getManualToolInfos(
  tools: readonly NamedTool[] | Readonly<Record<string, NamedTool>>,
): ManualToolInfo[] {
  return getManualTools(Object.values(tools)).map(toInfo);
}

export function isZodObjectSchema(schema: unknown): schema is z.ZodObject {
  return isZodSchema(schema) && schema._zod.def.type === "object";
}

/** Parses the input of a field. Throws a UserError that lists the accepted values. */
export function parseFieldValue(field: ManualToolField, typed: string | boolean): unknown {
  switch (field.type) {
    case "boolean":
      return readBoolean(field, typed);
    case "number":
      return readNumber(field, typed);
    case "select":
      return readChoice(field, typed);
    case "text":
      if (typeof typed === "string") return typed;
      throw new UserError(`${field.name} needs a value, such as --${field.name} "some text".`);
  }
}

/**
 * Converts the options of a command to validated tool arguments. `--dry-run` also sets `dry_run`, `-b` the only field that
 * begins with b, `--no-force` the same as `--force false`, and lists are written as `a,b` or JSON. Rejects with one
 * UserError that lists all problems.
 */
export async function argumentsFromOptions(
  schema: FlexibleSchema<unknown>,
  options: Readonly<Record<string, string | boolean>>,
): Promise<Record<string, unknown>> {
  const parameters = parametersFor(schema);
  const problems: string[] = [];
  const given: [string, unknown][] = [];

  for (const [option, typed] of Object.entries(options)) {
    try {
      const entry = readOption(option, typed, parameters);
      if (entry) given.push(entry);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      problems.push(error.message);
    }
  }
  const checked = await parseArguments(await compileSchema(schema), {
    ...nulls(parameters),
    ...Object.fromEntries(given),
  });
  if (problems.length === 0 && !checked.valid) {
    problems.push(
      ...checked.issues.map((issue) => `${describeSchemaIssue("this command", issue, Object.fromEntries(given))}.`),
    );
  }
  if (problems.length > 0) throw new UserError(problems.join("\n"));

  return (checked.valid ? checked.args : {}) as Record<string, unknown>;
}

function toInfo(tool: NamedTool): ManualToolInfo {
  const { label, category } = tool.manualExecution ?? {};
  return {
    name: tool.name,
    label: label ?? tool.name,
    description: tool.description,
    ...(category && { category }),
    fields: deriveFieldsFromSchema(tool.inputSchema),
  };
}

function parametersFor(schema: unknown): Parameter[] {
  const object = unwrap(schema);
  if (!isZodObjectSchema(object)) return isZodSchema(object) ? [] : parametersOf(jsonSchemaOf(object) ?? {});

  // Convert fields one by one, so that only a field that JSON Schema cannot express becomes a text field.
  return Object.entries(object.shape).map(([name, field]) => {
    const json = jsonSchemaOrEmpty(field);
    const [parameter] = parametersOf({ ...json, type: "object", properties: { [name]: json }, required: [name] });
    return { ...(parameter as Parameter), required: parameter?.required === true && !isOptional(field as z.ZodType) };
  });
}

function jsonSchemaOrEmpty(schema: unknown): JsonSchema {
  try {
    return jsonSchemaOf(schema) ?? {};
  } catch {
    return {};
  }
}

/** Preprocessing accepts undefined, but the schema behind it may not. */
function isOptional(schema: z.ZodType): boolean {
  return schema._zod.optin !== undefined && !(schema._zod.def.type === "pipe");
}

function unwrap(schema: unknown): unknown {
  if (!isZodSchema(schema)) return schema;

  const def = schema._zod.def as {
    type: string;
    innerType?: unknown;
    in?: unknown;
    out?: unknown;
    getter?: () => unknown;
  };
  if (def.type === "pipe") {
    const { in: before, out: after } = def;
    return unwrap(isZodSchema(before) && before._zod.def.type === "transform" ? after : before);
  }
  if (def.type === "lazy") return unwrap(def.getter?.());
  return def.innerType ? unwrap(def.innerType) : schema;
}

function defaultOf(schema: unknown, { name, schema: json }: Parameter): unknown {
  const object = unwrap(schema);
  const field = isZodObjectSchema(object) ? object.shape[name] : undefined;
  return field ? zodDefault(field) : json.default;
}

function zodDefault(schema: unknown): unknown {
  if (!isZodSchema(schema)) return undefined;

  const def = schema._zod.def as { type: string; innerType?: unknown; in?: unknown; defaultValue?: unknown };
  if (def.type === "default" || def.type === "prefault") return def.defaultValue;
  return zodDefault(def.innerType ?? def.in);
}

function toField({ name, schema, required }: Parameter, preset: unknown): ManualToolField {
  const choices = choicesOf(schema);
  const type = fieldType(schema, choices);
  return {
    name,
    description: schema.description ?? "",
    type,
    required: required && preset === undefined,
    ...(type === "select" && { options: choices?.map(String) }),
    ...(preset !== undefined && { default: preset }),
  };
}

function fieldType(schema: JsonSchema, choices: unknown[] | undefined): FieldType {
  const types = typesOf(schema).filter((type) => type !== "null");
  const only = types.length === 1 ? types[0] : undefined;

  if (only === "boolean") return "boolean";
  if (choices && !(choices.length === 1 && only === "number")) return "select";
  return only === "number" || only === "integer" ? "number" : "text";
}

function readOption(option: string, typed: string | boolean, parameters: Parameter[]): [string, unknown] | undefined {
  const exact = parameters.find(({ name }) => name === option);
  if (!exact && typed === true && (option === "i" || option === "interactive")) return undefined;

  const negated = exact ? undefined : findParameter(option.replace(/^no-/, ""), parameters);
  if (option.startsWith("no-") && typed === true && negated && typesOf(negated.schema).includes("boolean")) {
    return [negated.name, false];
  }
  const parameter = exact ?? findParameter(option, parameters);
  if (!parameter) throw new UserError(unknownOption(option, parameters));

  return [parameter.name, readTyped(parameter, typed)];
}

function findParameter(option: string, parameters: Parameter[]): Parameter | undefined {
  const plain = (word: string) => word.replace(/[-_]/g, "").toLowerCase();
  if (option.length > 1) return parameters.find(({ name }) => plain(name) === plain(option));

  const candidates = parameters.filter(({ name }) => name.toLowerCase().startsWith(option.toLowerCase()));
  if (candidates.length <= 1) return candidates[0];
  const names = candidates.map(({ name }) => `--${name}`).join(" or ");
  throw new UserError(`-${option} could mean ${names}. Write the full name.`);
}

function unknownOption(option: string, parameters: Parameter[]): string {
  const names = parameters.map(({ name }) => name);
  const match = closestMatch(option, names);
  if (match) return `Unknown option ${option}. Did you mean --${match}?`;
  return names.length === 0
    ? `Unknown option ${option}. This command has no options.`
    : `Unknown option ${option}. The options are ${names.map((name) => `--${name}`).join(", ")}.`;
}

function readTyped(parameter: Parameter, typed: string | boolean): unknown {
  const types = typesOf(parameter.schema);
  const isNested = !types.includes("string") && (types.includes("array") || types.includes("object"));
  if (isNested && typeof typed === "string") return readNested(parameter.name, typed, types);

  const value = parseFieldValue(toField(parameter, undefined), typed);
  return choicesOf(parameter.schema)?.find((choice) => String(choice) === value) ?? value;
}

function readNested(name: string, typed: string, types: string[]): unknown {
  if (/^\s*[[{]/.test(typed)) {
    try {
      return JSON.parse(typed);
    } catch (error) {
      throw new UserError(`${name} is not valid JSON: ${messageOf(error)}.`);
    }
  }
  return types.includes("array") ? typed.split(",").map((item) => item.trim()) : typed;
}

function readBoolean({ name }: ManualToolField, typed: string | boolean): boolean {
  if (typeof typed === "boolean") return typed;
  const word = typed.trim().toLowerCase();
  if (["true", "yes", "y", "on", "1"].includes(word)) return true;
  if (["false", "no", "n", "off", "0"].includes(word)) return false;
  throw new UserError(`${name} must be yes or no, not ${JSON.stringify(typed)}.`);
}

function readNumber({ name }: ManualToolField, typed: string | boolean): number {
  const number = typeof typed === "string" && typed.trim() !== "" ? Number(typed) : Number.NaN;
  if (Number.isFinite(number)) return number;
  throw new UserError(`${name} must be a number, not ${JSON.stringify(typed)}.`);
}

function readChoice({ name, options = [] }: ManualToolField, typed: string | boolean): string {
  const word = String(typed).trim();
  const choice =
    options.find((option) => option === word) ?? options.find((option) => option.toLowerCase() === word.toLowerCase());
  if (choice !== undefined) return choice;
  throw new UserError(`${name} must be one of ${options.join(", ")}, not ${JSON.stringify(typed)}.`);
}

/** Returns null for each required field that is nullable, as the default if it is omitted. */
function nulls(parameters: Parameter[]): Record<string, null> {
  const nullable = parameters.filter(({ schema, required }) => required && typesOf(schema).includes("null"));
  return Object.fromEntries(nullable.map(({ name }) => [name, null]));
}
