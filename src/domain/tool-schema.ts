import { isDeepStrictEqual } from "node:util";
import { asSchema, type FlexibleSchema } from "ai";
import { z } from "zod";
import { type JsonSchema, typeOfValue } from "./json-schema.ts";

/** A validation issue in the shape of zod's issues, for schemas of any library. */
export interface SchemaIssue {
  code?: string;
  path: PropertyKey[];
  message: string;
  expected?: string;
  /** Unknown keys. */
  keys?: string[];
  /** The values that are accepted. */
  values?: unknown[];
  /** For a union: the issues of each member. */
  errors?: SchemaIssue[][];
}

type Validation = { valid: true; value: unknown } | { valid: false; issues: SchemaIssue[] };

/** A compiled schema of any library: its JSON Schema and a validation function. */
export interface ToolSchema {
  readonly json: JsonSchema;
  /** Never rejects: an error of the schema is reported as an issue. */
  validate(value: unknown): Promise<Validation>;
}

const compiled = new WeakMap<object, Promise<ToolSchema>>();

/** Compiles a schema, once for each schema. Rejects if it cannot be expressed as JSON Schema. */
export function compileSchema(schema: FlexibleSchema<unknown>): Promise<ToolSchema> {
  const cached = compiled.get(schema);
  if (cached !== undefined) return cached;

  const compiling = compile(schema);
  compiled.set(schema, compiling);
  return compiling;
}

/** The JSON Schema of a schema's input; undefined for asynchronous schemas and for values that are not schemas. */
export function jsonSchemaOf(schema: unknown): JsonSchema | undefined {
  if (isZodSchema(schema)) return fromZod(schema);
  if (schema === null || (typeof schema !== "object" && typeof schema !== "function")) return undefined;

  try {
    const json = asSchema(schema as FlexibleSchema<unknown>).jsonSchema;
    return isPromise(json) ? undefined : (json as JsonSchema);
  } catch {
    return undefined;
  }
}

/** True for zod 4 schemas. */
export function isZodSchema(schema: unknown): schema is z.ZodType {
  return typeof schema === "object" && schema !== null && "_zod" in schema;
}

/**
 * Parses the arguments of a tool call. `value` is passed to the tool; `args` is shown and stored, and parses to the same
 * value again. They differ only if the schema transforms its input, such as a string into a date.
 */
export async function parseArguments(
  schema: ToolSchema,
  given: unknown,
): Promise<{ valid: true; value: unknown; args: unknown } | { valid: false; issues: SchemaIssue[] }> {
  const checked = await schema.validate(given);
  if (!checked.valid) return checked;

  const { value } = checked;
  const stored = asStored(value);
  const again = await schema.validate(stored);
  const isStable = again.valid && isDeepStrictEqual(again.value, value);
  return { valid: true, value, args: isStable ? stored : given };
}

function asStored(value: unknown): unknown {
  try {
    const json = JSON.stringify(value);
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}

async function compile(schema: FlexibleSchema<unknown>): Promise<ToolSchema> {
  if (isZodSchema(schema)) return { json: fromZod(schema), validate: (value) => validateWithZod(schema, value) };

  const wrapped = asSchema(schema);
  const json = (await wrapped.jsonSchema) as JsonSchema;
  const { validate } = wrapped;
  if (!validate) {
    const parsed = zodFrom(json);
    return { json, validate: (value) => validateWithZod(parsed, value) };
  }
  return {
    json,
    validate: async (value) => {
      try {
        const result = await validate(value);
        return result.success ? { valid: true, value: result.value } : { valid: false, issues: issuesOf(result.error) };
      } catch (error) {
        return { valid: false, issues: issuesOf(error) };
      }
    },
  };
}

function fromZod(schema: z.ZodType): JsonSchema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: "input", target: "draft-7", unrepresentable: "any" });
  return json;
}

async function validateWithZod(schema: z.ZodType, value: unknown): Promise<Validation> {
  try {
    const result = await z.safeParseAsync(schema, value);
    return result.success
      ? { valid: true, value: result.data }
      : { valid: false, issues: result.error.issues as SchemaIssue[] };
  } catch (error) {
    return { valid: false, issues: issuesOf(error) };
  }
}

function issuesOf(error: unknown): SchemaIssue[] {
  const { issues, cause } = (error ?? {}) as { issues?: unknown; cause?: { issues?: unknown } };
  const found = Array.isArray(issues) ? issues : cause?.issues;
  if (Array.isArray(found)) return found.map((issue) => ({ path: [], message: "is not valid", ...issue }));
  return [{ path: [], message: error instanceof Error ? error.message : String(error) }];
}

function zodFrom(json: JsonSchema): z.ZodType {
  try {
    return z.fromJSONSchema(withoutPatterns(json) as Parameters<typeof z.fromJSONSchema>[0]);
  } catch {
    // zod cannot convert every JSON Schema. An MCP server validates the arguments of its tools itself.
    return z.looseObject({});
  }
}

/** Drops regular expressions: a malicious server could use one to block this process. */
function withoutPatterns(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(withoutPatterns);
  if (json === null || typeof json !== "object") return json;

  return Object.fromEntries(
    Object.entries(json)
      .filter(([key, value]) => key !== "patternProperties" && !(key === "pattern" && typeof value === "string"))
      .map(([key, value]) => [key, withoutPatterns(value)]),
  );
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}

/** Describes a schema issue for the model: `Invalid type for parameter 'path' in read_file: Expected string, got number`. */
export function describeSchemaIssue(tool: string, issue: SchemaIssue, args: unknown): string {
  if (issue.code === "unrecognized_keys") {
    const keys = (issue.keys ?? []).map((key) => `'${pathText([...issue.path, key])}'`);
    return `Unknown parameter ${keys.join(", ")} for ${tool}`;
  }

  const value = valueAt(args, issue.path);
  const parameter = pathText(issue.path);
  if (parameter === "") return `Invalid arguments for ${tool}: ${describeMismatch(issue, value)}`;
  if (value === undefined) return `Missing required parameter '${parameter}' for ${tool}`;
  if (issue.code === "invalid_type")
    return `Invalid type for parameter '${parameter}' in ${tool}: ${describeMismatch(issue, value)}`;
  return `Invalid value for parameter '${parameter}' in ${tool}: ${describeMismatch(issue, value)}`;
}

/** Describes how a value differs from what the schema expects: `Expected string, got number`. */
export function describeMismatch(issue: SchemaIssue, value: unknown): string {
  if (issue.code === "invalid_type" && issue.expected) {
    return `Expected ${typeName(issue.expected)}, got ${describeActual(issue.expected, value)}`;
  }
  if (issue.code === "invalid_value" && issue.values) {
    const values = issue.values.map((one) => JSON.stringify(one)).join(", ");
    return `Expected ${issue.values.length > 1 ? `one of ${values}` : values}, got ${excerpt(value)}`;
  }
  if (issue.code === "invalid_union") {
    const branches = (issue.errors ?? []).map((errors) => errors[0]);
    const types = branches.filter((branch) => branch?.code === "invalid_type" && branch.path.length === 0);
    if (types.length > 0 && types.length === branches.length) {
      const expected = [...new Set(types.map((branch) => typeName(branch?.expected ?? "")))];
      return `Expected ${expected.join(" or ")}, got ${typeOfValue(value)}`;
    }
  }
  return value === undefined ? issue.message : `${issue.message}, got ${excerpt(value)}`;
}

function typeName(expected: string): string {
  return expected === "int" ? "integer" : expected;
}

function describeActual(expected: string, value: unknown): string {
  return expected === "int" && typeof value === "number" ? String(value) : typeOfValue(value);
}

function excerpt(value: unknown): string {
  const text = typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? typeof value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** The value at a path in parsed data; undefined if there is none. */
export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((node, key) => {
    const hasKey = typeof node === "object" && node !== null && Object.hasOwn(node, key);
    return hasKey ? (node as Record<PropertyKey, unknown>)[key] : undefined;
  }, value);
}

function pathText(path: PropertyKey[]): string {
  return path
    .map((key, index) => (typeof key === "number" ? `[${key}]` : `${index > 0 ? "." : ""}${String(key)}`))
    .join("");
}
