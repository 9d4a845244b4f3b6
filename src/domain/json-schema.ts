import type { z } from "zod";

/** JSON Schema as a model is offered it. */
export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** One member of an object that a schema describes. */
export interface Parameter {
  name: string;
  /** With references and single `allOf`s followed. */
  schema: JsonSchema;
  /** False for what may be left out, with or without a default. */
  required: boolean;
}

/** The members of the object a schema describes; none for what is no object. */
export function parametersOf(json: JsonSchema): Parameter[] {
  const object = resolve(json, json);
  const required = new Set(object.required ?? []);
  return Object.entries(object.properties ?? {}).map(([name, property]) => {
    const schema = resolve(property, json);
    return { name, schema, required: required.has(name) && !("default" in schema) };
  });
}

/** The JSON types a schema takes, such as `["string", "array"]`; empty when it says nothing of them. */
export function typesOf(schema: JsonSchema): string[] {
  if (schema.type !== undefined) return [schema.type].flat();
  if (schema.const !== undefined) return [typeOfValue(schema.const)];
  if (schema.enum) return [...new Set(schema.enum.map(typeOfValue))];
  return [...new Set((schema.anyOf ?? schema.oneOf ?? []).flatMap((member) => typesOf(member as JsonSchema)))];
}

/** The only values a schema takes, null apart; undefined when there are others. */
export function choicesOf(schema: JsonSchema): unknown[] | undefined {
  if (schema.const !== undefined) return [schema.const];
  if (schema.enum) return schema.enum.filter((choice) => choice !== null);

  const members = (schema.anyOf ?? schema.oneOf)?.filter((member) => (member as JsonSchema).type !== "null");
  const choices = members?.map((member) => choicesOf(member as JsonSchema));
  if (!choices || choices.length === 0 || choices.includes(undefined)) return undefined;
  return choices.flat();
}

/** What a value is, in the words of JSON Schema: `null` and `array` apart from `object`. */
export function typeOfValue(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

function resolve(schema: unknown, root: JsonSchema, depth = 0): JsonSchema {
  if (typeof schema !== "object" || schema === null || depth > 10) return {};

  const { $ref, allOf, ...own } = schema as JsonSchema;
  if (typeof $ref === "string") return { ...resolve(target($ref, root), root, depth + 1), ...own };
  if (allOf?.length === 1) return { ...resolve(allOf[0], root, depth + 1), ...own };
  return schema as JsonSchema;
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
