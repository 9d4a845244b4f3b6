import { choicesOf, type JsonSchema, type Parameter, parametersOf, typesOf } from "#domain/json-schema.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";

/**
 * Builds a valid call from the schema, such as `read_file(path="src/main.ts")`, with the required parameters and as many
 * optional ones as it takes. Resolves to undefined if the schema accepts none of these.
 */
export async function exampleCall(tool: string, { json, validate }: ToolSchema): Promise<string | undefined> {
  const optional = parametersOf(json).filter(({ required }) => !required);
  for (let count = 0; count <= optional.length; count += 1) {
    const args = exampleArguments(json, optional.slice(0, count));
    if ((await validate(args)).valid) return formatExample(tool, args);
  }
  return undefined;
}

/** Arguments with an example of every required parameter, and of these optional ones. */
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
  if (/pattern|glob/i.test(name)) return "**/*.ts";
  if (/url/i.test(name)) return "https://example.com";
  if (/command/i.test(name)) return "ls -la";
  return "value";
}
