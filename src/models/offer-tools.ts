import { asSchema, type JSONSchema7, jsonSchema, type Tool, type ToolSet } from "ai";
import type { NamedTool } from "#domain/tool.ts";
import { ModelFailure } from "./models.ts";

const offers = new WeakMap<NamedTool, Tool>();

/**
 * The tools as the AI SDK may have them: name, description and the JSON schema of the input, in the order given.
 * Nothing that could run: the SDK executes whatever has an `execute`. No validation either: a call with wrong
 * arguments must come back as the model made it.
 */
export async function offerTools(tools: readonly NamedTool[]): Promise<ToolSet> {
  const entries: [string, Tool][] = [];
  for (const tool of tools) entries.push([tool.name, offers.get(tool) ?? (await offer(tool))]);
  return Object.fromEntries(entries);
}

async function offer(tool: NamedTool): Promise<Tool> {
  const offered = { description: tool.description, inputSchema: jsonSchema(await inputSchemaOf(tool)) } as Tool;
  offers.set(tool, offered);
  return offered;
}

async function inputSchemaOf(tool: NamedTool): Promise<JSONSchema7> {
  try {
    const schema = await asSchema(tool.inputSchema).jsonSchema;
    // Providers refuse a schema that does not say so at its top, as those of some MCP servers do not.
    return schema.type === undefined ? { ...schema, type: "object" } : schema;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ModelFailure(
      `The tool ${tool.name} cannot be offered to a model: its input schema is no JSON schema (${why}).`,
      { retryable: false, cause: error },
    );
  }
}
