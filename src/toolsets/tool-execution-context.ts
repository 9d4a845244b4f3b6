import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { RepeatedCalls } from "./repeated-calls.ts";
import type { ToolEvents } from "./tool-events.ts";
import type { CallContext } from "./toolbox.ts";

/** What reviewing and executing a call need to know. */
export interface ToolExecutionContext {
  tools: readonly NamedTool[];
  offered: readonly NamedTool[];
  find(name: string): NamedTool | undefined;
  schemas: ReadonlyMap<NamedTool, { input: ToolSchema; output: ToolSchema | undefined }>;
  workspace: Workspace;
  repeated: RepeatedCalls;
  events: ToolEvents | undefined;
  maxResultTokens: number;
}

/** A tool's schemas, which are opened before the desk is. */
export function schemasOf(
  desk: ToolExecutionContext,
  tool: NamedTool,
): { input: ToolSchema; output: ToolSchema | undefined } {
  const schemas = desk.schemas.get(tool);
  if (!schemas) throw new Error(`The schemas of ${tool.name} were never opened.`);
  return schemas;
}

/** The context a tool runs in, from the context of its call and the workspace it is lent. */
export function toolContext(sandbox: Workspace, callId: string, context: CallContext): ToolContext {
  const { invokedBy: _, ...given } = context;
  return { ...given, toolCallId: callId, sandbox };
}
