import { choicesOf, type JsonSchema, parametersOf, typesOf } from "#domain/json-schema.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";

/**
 * Builds a valid call from the schema, such as `read_file(path="src/main.ts")`, with the required parameters and as many
 * optional ones as it takes. Resolves to undefined if the schema accepts none of these.
 */
export async function exampleCall(tool: string, { json, validate }: ToolSchema): Promise<string | undefined> {
  const parameters = parametersOf(json);
  const optional = parameters.filter(({ required }) => !required);
  for (let count = 0; count <= optional.length; count += 1) {
    const given = new Set([...parameters.filter(({ required }) => required), ...optional.slice(0, count)]);
    const args = parameters
      .filter((parameter) => given.has(parameter))
      .map(({ name, schema }) => [name, exampleValue(name, schema, 0)] as const);
    if (!(await validate(Object.fromEntries(args))).valid) continue;
    return `${tool}(${args.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")})`;
  }
  return undefined;
}

function exampleObject(json: JsonSchema, depth: number): Record<string, unknown> {
  const required = parametersOf(json).filter((parameter) => parameter.required);
  return Object.fromEntries(required.map(({ name, schema }) => [name, exampleValue(name, schema, depth)]));
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
