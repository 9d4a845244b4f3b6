import { isDeepStrictEqual } from "node:util";
import { asSchema, type FlexibleSchema } from "ai";
import { z } from "zod";
import type { JsonSchema } from "./json-schema.ts";

/** One thing that is wrong with a value, in the shape of zod's issues whatever the schema's library. */
export interface SchemaIssue {
  code?: string;
  path: PropertyKey[];
  message: string;
  expected?: string;
  /** Keys that are not known. */
  keys?: string[];
  /** The values that would do. */
  values?: unknown[];
  /** For a union: what each of its members objects to. */
  errors?: SchemaIssue[][];
}

type Validation = { valid: true; value: unknown } | { valid: false; issues: SchemaIssue[] };

/** A schema ready for use: its JSON Schema and its validation, whichever library it was written with. */
export interface ToolSchema {
  readonly json: JsonSchema;
  /** Never throws: a schema that throws has found an issue. */
  validate(value: unknown): Promise<Validation>;
}

const opened = new WeakMap<object, Promise<ToolSchema>>();

/** Opens a schema once: the same schema resolves to the same answer. Rejects when it cannot be put as JSON Schema. */
export function compileSchema(schema: FlexibleSchema<unknown>): Promise<ToolSchema> {
  const known = opened.get(schema);
  if (known !== undefined) return known;

  const opening = open(schema);
  opened.set(schema, opening);
  return opening;
}

/** The JSON Schema of what a schema takes in; undefined for one that has to be waited for or is no schema. */
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

/** True for a schema of zod 4. */
export function isZodSchema(schema: unknown): schema is z.ZodType {
  return typeof schema === "object" && schema !== null && "_zod" in schema;
}

/**
 * Checks arguments: `value` is what the tool gets, `args` what is shown, stored and checked again later to the same
 * value. They differ only where a schema changes what it reads, such as text into a date.
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

async function open(schema: FlexibleSchema<unknown>): Promise<ToolSchema> {
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
    // A server may describe its tool with what zod cannot read. It checks its own arguments again anyway.
    return z.looseObject({});
  }
}

/** A regular expression of someone else's server could be made to hang this process. */
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
