import { asSchema, type JSONSchema7, jsonSchema, type Tool, type ToolSet } from "ai";
import { messageOf } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { ModelFailureError } from "./models.ts";

const converted = new WeakMap<NamedTool, Tool>();

/**
 * Converts tools for the AI SDK: name, description and the JSON Schema of the input, in the given order. Without `execute`,
 * because the SDK would call it, and without validation, because invalid calls must come back unchanged.
 */
export async function offerTools(tools: readonly NamedTool[]): Promise<ToolSet> {
  const entryOf = async (tool: NamedTool) => [tool.name, converted.get(tool) ?? (await convert(tool))] as const;
  return Object.fromEntries(await Array.fromAsync(tools, entryOf));
}

const sizes = new WeakMap<NamedTool, number>();

/** Estimates the tokens of the tools' definitions in a request. Throws ModelFailureError like `offerTools`. */
export async function estimateToolTokens(tools: readonly NamedTool[]): Promise<number> {
  let total = 0;
  for (const tool of tools) {
    const { name, description } = tool;
    const size = sizes.get(tool) ?? estimateTokens(JSON.stringify([name, description, await inputSchemaOf(tool)]));
    sizes.set(tool, size);
    total += size;
  }
  return total;
}

async function convert(tool: NamedTool): Promise<Tool> {
  const result = { description: tool.description, inputSchema: jsonSchema(await inputSchemaOf(tool)) } as Tool;
  converted.set(tool, result);
  return result;
}

async function inputSchemaOf(tool: NamedTool): Promise<JSONSchema7> {
  try {
    const schema = await asSchema(tool.inputSchema).jsonSchema;
    // Providers require a type at the top, which the schemas of some MCP servers lack.
    return schema.type === undefined ? { ...schema, type: "object" } : schema;
  } catch (error) {
    const why = messageOf(error);
    throw new ModelFailureError(
      `The tool ${tool.name} cannot be used: its input schema cannot be converted to JSON Schema (${why}).`,
      { retryable: false, cause: error },
    );
  }
}
