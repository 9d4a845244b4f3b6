import { jsonSchema } from "ai";
import { UserError } from "#domain/errors.ts";
import { getLLMTools, type NamedTool } from "#domain/tool.ts";
import { compileSchema } from "#domain/tool-schema.ts";
import type { Workspace } from "#domain/workspace.ts";
import { executeCall } from "./execute-call.ts";
import { watchRepeatedCalls } from "./repeated-calls.ts";
import { reviewCall } from "./review-call.ts";
import type { ToolEvents } from "./tool-events.ts";
import type { ToolExecutionContext } from "./tool-execution-context.ts";
import type { Toolbox } from "./toolbox.ts";
import type { FinishedCall } from "./toolset.ts";

export interface ToolboxOptions {
  tools: readonly NamedTool[];
  workspace: Workspace;
  /** Every finished call, oldest first. */
  history: () => readonly FinishedCall[];
  /** Hears each call start, print, end and fail. */
  events?: ToolEvents;
  /** What the model reads of one result, in estimated tokens. Default: 30,000. */
  maxResultTokens?: number;
  /** Releases what the tools hold. */
  close?: () => Promise<void>;
}

/** Puts rules around tools. Rejects with a UserError when two share a name or a schema cannot be understood. */
export async function createToolbox({
  tools,
  workspace,
  history,
  events,
  maxResultTokens = 30_000,
  close = async () => {},
}: ToolboxOptions): Promise<Toolbox> {
  const find = indexTools(tools);
  const schemas: ToolExecutionContext["schemas"] = new Map(
    await Promise.all(tools.map(async (tool) => [tool, await openSchemas(tool)] as const)),
  );
  // Only the JSON Schema is offered: arguments are checked here, once, where they can still be repaired.
  const offered = getLLMTools(tools).map((tool) => ({
    ...tool,
    inputSchema: jsonSchema(schemas.get(tool)?.input.json as Parameters<typeof jsonSchema>[0]),
  }));
  const repeated = watchRepeatedCalls(history, find);
  const desk: ToolExecutionContext = { tools, offered, find, schemas, workspace, repeated, events, maxResultTokens };

  return {
    tools,
    offered,
    find,
    review: (call, context, remembered) => reviewCall(desk, call, context, remembered),
    execute: (call, context) => executeCall(desk, call, context),
    close,
  };
}

/** Finds by name, then by alias, then by either in another case or with hyphens. A name wins over an alias. */
function indexTools(tools: readonly NamedTool[]): (name: string) => NamedTool | undefined {
  const byName = new Map<string, NamedTool>();
  for (const tool of tools) {
    if (byName.has(tool.name)) throw new UserError(`Two tools are called ${tool.name}: leave one of them out.`);
    byName.set(tool.name, tool);
  }
  const byAlias = new Map<string, NamedTool>();
  for (const tool of tools) {
    for (const alias of tool.aliases ?? []) {
      const other = byAlias.get(alias);
      if (other)
        throw new UserError(`${other.name} and ${tool.name} are both also called ${alias}: leave one of them out.`);
      byAlias.set(alias, tool);
    }
  }
  const plain = (name: string) => name.toLowerCase().replaceAll("-", "_");
  const byPlainName = new Map([...byAlias, ...byName].map(([name, tool]) => [plain(name), tool]));

  return (name) => byName.get(name) ?? byAlias.get(name) ?? byPlainName.get(plain(name));
}

async function openSchemas(tool: NamedTool) {
  try {
    return {
      input: await compileSchema(tool.inputSchema),
      output: tool.outputSchema && (await compileSchema(tool.outputSchema)),
    };
  } catch (error) {
    const why = error instanceof Error ? error.message : error;
    throw new UserError(`The schema of ${tool.name} cannot be understood: ${why}`, { cause: error });
  }
}
