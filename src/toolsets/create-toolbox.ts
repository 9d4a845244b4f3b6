import { type JSONSchema7, jsonSchema } from "ai";
import { UserError } from "#domain/errors.ts";
import { getLLMTools, type NamedTool } from "#domain/tool.ts";
import { compileSchema } from "#domain/tool-schema.ts";
import type { Workspace } from "#domain/workspace.ts";
import { executeCall } from "./execute-call.ts";
import { RepeatedCalls } from "./repeated-calls.ts";
import { reviewCall } from "./review-call.ts";
import type { ToolEvents } from "./tool-events.ts";
import type { ToolExecutionContext, ToolSchemas } from "./tool-execution-context.ts";
import type { Toolbox } from "./toolbox.ts";
import type { FinishedCall } from "./toolset.ts";

export interface ToolboxOptions {
  tools: readonly NamedTool[];
  workspace: Workspace;
  /** Every finished call, oldest first. */
  history: () => readonly FinishedCall[];
  /** Receives the events of each call: start, output, end and failure. */
  events?: ToolEvents;
  /** The maximum length of one result for the model, in estimated tokens. Default: 30,000. */
  maxResultTokens?: number;
  /** Tools that need approval whatever their settings say. */
  alwaysAsk?: readonly string[];
  /** Releases the resources that the tools hold. */
  close?: () => Promise<void>;
}

/** Creates a toolbox. Rejects with a UserError if two tools share a name or a schema is invalid. */
export async function createToolbox({
  tools,
  workspace,
  history,
  events,
  maxResultTokens = 30_000,
  alwaysAsk = [],
  close = async () => {},
}: ToolboxOptions): Promise<Toolbox> {
  const find = indexTools(tools);
  const schemas = new Map(await Promise.all(tools.map(async (tool) => [tool, await compileSchemas(tool)] as const)));
  const offered = getLLMTools(tools).map((tool) => ({
    ...tool,
    // Only the JSON Schema is offered: this module validates arguments, after it has repaired what it can.
    inputSchema: jsonSchema(schemas.get(tool)?.input.json as JSONSchema7),
  }));
  const execution: ToolExecutionContext = {
    ...{ tools, offered, find, schemas, workspace, events, maxResultTokens, alwaysAsk },
    repeated: new RepeatedCalls(history, find),
    prepared: new Map(),
  };

  return {
    tools,
    offered,
    find,
    review: (call, context, remembered) => reviewCall(execution, call, context, remembered),
    execute: (call, context) => executeCall(execution, call, context),
    close,
  };
}

/** Finds a tool by name, then by alias, then by either ignoring case and hyphens. A name takes precedence over an alias. */
function indexTools(tools: readonly NamedTool[]): (name: string) => NamedTool | undefined {
  const byName = new Map<string, NamedTool>();
  for (const tool of tools) {
    if (byName.has(tool.name)) throw new UserError(`Two tools are named ${tool.name}. Remove one of them.`);
    byName.set(tool.name, tool);
  }
  const byAlias = new Map<string, NamedTool>();
  for (const tool of tools) {
    for (const alias of tool.aliases ?? []) {
      const other = byAlias.get(alias);
      if (other) throw new UserError(`${other.name} and ${tool.name} share the alias ${alias}. Remove one of them.`);
      byAlias.set(alias, tool);
    }
  }
  const normalize = (name: string) => name.toLowerCase().replaceAll("-", "_");
  const byNormalizedName = new Map([...byAlias, ...byName].map(([name, tool]) => [normalize(name), tool]));

  return (name) => byName.get(name) ?? byAlias.get(name) ?? byNormalizedName.get(normalize(name));
}

async function compileSchemas(tool: NamedTool): Promise<ToolSchemas> {
  try {
    return {
      input: await compileSchema(tool.inputSchema),
      output: tool.outputSchema && (await compileSchema(tool.outputSchema)),
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    throw new UserError(`The schema of the tool ${tool.name} is invalid: ${reason}`, { cause: error });
  }
}
