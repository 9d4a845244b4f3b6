import type { ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";

const workspaces = new WeakMap<ToolEvents, Workspace>();

/**
 * The files of a tool that was given none: those of the call's context, otherwise a workspace in memory that all tools of
 * one activity stream share.
 */
export function defaultWorkspace(stream: ToolEvents, context: ToolContext | undefined): Workspace {
  if (context && hasSandbox(context)) return context.sandbox;
  const workspace = workspaces.get(stream) ?? createMemoryWorkspace();
  workspaces.set(stream, workspace);
  return workspace;
}

/** A ToolManager without a workspace gives its tools a sandbox that fails with every call. */
function hasSandbox({ sandbox }: ToolContext): boolean {
  try {
    sandbox.resolve("");
    return true;
  } catch {
    return false;
  }
}
