import { isDeepStrictEqual } from "node:util";
import { asSchema, type FlexibleSchema, type JSONSchema7, jsonSchema } from "ai";
import { z } from "zod";
import { messageOf } from "./errors.ts";
import { checkInTime, type JsonSchema } from "./json-schema.ts";
import type { SchemaIssue } from "./schema-issue.ts";

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
  return [{ path: [], message: messageOf(error) }];
}

const maxCheckMs = 100;

/**
 * Returns a schema of the AI SDK for the JSON Schema of an MCP server. It accepts every value once a check has taken too
 * long: the server validates the arguments of its tools itself.
 */
export function serverSchema(json: JSONSchema7): FlexibleSchema<unknown> {
  let schema: z.ZodType | undefined;
  return jsonSchema(json, {
    validate: (value) => {
      const result = checkInTime(() => {
        // A server may list hundreds of large schemas, and few of its tools are called.
        schema ??= zodFrom(json as JsonSchema);
        return schema.safeParse(value);
      }, maxCheckMs);
      if (!result) {
        schema = z.unknown();
        return { success: true, value };
      }
      return result.success ? { success: true, value: result.data } : { success: false, error: result.error };
    },
  });
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
