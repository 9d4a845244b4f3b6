import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import { getManualTools, isLLMTool, isManualTool, type NamedTool } from "#domain/tool.ts";
import { closestMatch } from "#text/closest-match.ts";
import { failedResult } from "./failed-result.ts";
import { schemasOf, type ToolExecutionContext } from "./tool-execution-context.ts";
import type { CallContext } from "./toolbox.ts";
import { validateArguments } from "./validate-arguments.ts";

/** A call whose tool is there for who asks, with arguments it takes. */
export interface FoundCall {
  tool: NamedTool;
  /** What the tool gets. */
  value: unknown;
  /** What is shown, stored and compared. */
  args: unknown;
}

/** Finds the tool of a call and checks the arguments; `refused` says to the model how to do better. */
export async function findCall(
  desk: ToolExecutionContext,
  call: ModelCall,
  { invokedBy = "model" }: Pick<CallContext, "invokedBy">,
): Promise<FoundCall | { refused: ToolResult }> {
  const tool = desk.find(call.tool);
  const reachable = invokedBy === "model" ? desk.offered : getManualTools(desk.tools);
  if (!tool) return { refused: unknownTool(call.tool, reachable) };
  if (invokedBy === "model" && !isLLMTool(tool)) return { refused: manualTool(tool) };
  if (invokedBy === "person" && !isManualTool(tool)) return { refused: modelTool(tool) };

  const checked = await validateArguments(tool.name, schemasOf(desk, tool).input, call);
  return checked.valid ? { tool, value: checked.value, args: checked.args } : { refused: checked.result };
}

function unknownTool(name: string, reachable: readonly NamedTool[]): ToolResult {
  const words = reachable.flatMap((tool) => [tool.name, ...(tool.aliases ?? [])]);
  const near = closestMatch(name, words);
  const names = reachable.map((tool) => tool.name);
  const list = names.length > 0 ? `Available tools: ${names.join(", ")}.` : "There are no tools.";
  return failedResult(`Unknown tool: ${name}.`, {
    code: "UNKNOWN_TOOL",
    type: "validation_error",
    suggestion: near ? `Did you mean ${near}? ${list}` : list,
    details: { requested_tool: name, available_tools: names },
  });
}

function manualTool({ name }: NamedTool): ToolResult {
  return failedResult(`${name} is a manual tool: only a person may call it. The call was refused and recorded.`, {
    code: "MANUAL_TOOL",
    suggestion: `Say in your answer why ${name} should be called, so that a person can do it.`,
  });
}

function modelTool({ name }: NamedTool): ToolResult {
  return failedResult(`${name} is a tool of the worker, not one that people call.`, { code: "PERMISSION_DENIED" });
}
