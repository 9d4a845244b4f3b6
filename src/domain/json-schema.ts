import { runInNewContext } from "node:vm";
import type { z } from "zod";

/** JSON Schema as it is sent to a model. */
export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** One property of an object schema. */
export interface Parameter {
  name: string;
  /** With `$ref` and single `allOf` entries resolved. */
  schema: JsonSchema;
  /** False for optional properties and those with a default. */
  required: boolean;
}

/** The properties of an object schema; empty for other schemas. */
export function parametersOf(json: JsonSchema): Parameter[] {
  const object = resolve(json, json);
  const required = new Set(object.required ?? []);
  return Object.entries(object.properties ?? {}).map(([name, property]) => {
    const schema = resolve(property, json);
    return { name, schema, required: required.has(name) && !("default" in schema) };
  });
}

/** The JSON types that a schema accepts, such as `["string", "array"]`; empty if it does not restrict the type. */
export function typesOf(schema: JsonSchema): string[] {
  if (schema.type !== undefined) return [schema.type].flat();
  if (schema.const !== undefined) return [typeOfValue(schema.const)];
  if (schema.enum) return [...new Set(schema.enum.map(typeOfValue))];
  return [...new Set((schema.anyOf ?? schema.oneOf ?? []).flatMap((member) => typesOf(member as JsonSchema)))];
}

/** The values of an enumeration, without null; undefined if the schema accepts other values too. */
export function choicesOf(schema: JsonSchema): unknown[] | undefined {
  if (schema.const !== undefined) return [schema.const];
  if (schema.enum) return schema.enum.filter((choice) => choice !== null);

  const members = (schema.anyOf ?? schema.oneOf)?.filter((member) => (member as JsonSchema).type !== "null");
  const choices = members?.map((member) => choicesOf(member as JsonSchema));
  if (!choices || choices.length === 0 || choices.includes(undefined)) return undefined;
  return choices.flat();
}

/** The JSON Schema type of a value, which distinguishes `null` and `array` from `object`. */
export function typeOfValue(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

function resolve(schema: unknown, root: JsonSchema, depth = 0): JsonSchema {
  if (typeof schema !== "object" || schema === null || depth > 10) return {};

  const { $ref, allOf } = schema as JsonSchema;
  if (typeof $ref !== "string" && allOf?.length !== 1) return schema as JsonSchema;
  const refersTo = typeof $ref === "string" ? target($ref, root) : allOf?.[0];
  const { $ref: _, allOf: __, ...own } = schema as JsonSchema;
  // Inherited and not copied: thousands of parameters may refer to a schema with thousands of members.
  return Object.create(resolve(refersTo, root, depth + 1), Object.getOwnPropertyDescriptors(own));
}

function target(reference: string, root: JsonSchema): unknown {
  const [hash, ...keys] = reference.split("/");
  if (hash !== "#") return undefined;
  return keys.reduce<unknown>((node, key) => {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    return typeof node === "object" && node !== null && Object.hasOwn(node, name)
      ? (node as Record<string, unknown>)[name]
      : undefined;
  }, root);
}

/** True if a schema has more parts than `max`, where a part counts each time it is referred to. Recursive ones have no end. */
export function hasMoreParts(json: JsonSchema, max: number): boolean {
  const open: unknown[] = [json];
  let parts = 0;
  while (open.length > 0) {
    const part = open.pop();
    if (typeof part !== "object" || part === null) continue;
    parts += 1;
    if (parts > max) return true;
    for (const member of Object.values(part)) open.push(member);
    if ("$ref" in part && typeof part.$ref === "string") open.push(target(part.$ref, json));
  }
  return false;
}

/**
 * Runs a check of a value by someone else's JSON Schema. Returns undefined if that takes too long: a pattern, or members that
 * refer to others twice, may take time that grows exponentially.
 */
export function checkInTime<Result>(check: () => Result, maxMs: number): Result | undefined {
  try {
    return runInNewContext("check()", { check }, { timeout: maxMs });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    return undefined;
  }
}

const maxValues = 20_000;
const maxDepth = 100;

/** True for a value so large or so deeply nested that handling it would block the event loop or overflow the stack. */
export function isTooComplex(value: unknown): boolean {
  let level: unknown[] = [value];
  let values = 0;
  for (let depth = 0; level.length > 0; depth += 1) {
    values += level.length;
    if (values > maxValues || depth > maxDepth) return true;
    level = level.flatMap((part) => (typeof part === "object" && part !== null ? Object.values(part) : []));
  }
  return false;
}
