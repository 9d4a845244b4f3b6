import type { ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import { BaseTool } from "./base-tool.ts";
import type { FunctionDefinition, OpenAIFunction } from "./tool-registry.ts";

const sharedWorkspaces = new WeakMap<ToolEvents, Workspace>();

/** A tool as a class that works on files. */
export abstract class WorkspaceTool extends BaseTool {
  readonly requiresConfirmation: boolean = false;
  protected abstract readonly parameters: OpenAIFunction["parameters"];
  readonly #workspace: Workspace | undefined;

  /** Without a workspace the tool uses that of the ToolManager or of the run. */
  constructor(activityStream: ToolEvents, { workspace }: { workspace?: Workspace } = {}) {
    super(activityStream);
    this.#workspace = workspace;
  }

  override getFunctionDefinition(): FunctionDefinition {
    const { name, description, parameters } = this;
    return { type: "function", function: { name, description, parameters } };
  }

  /** Returns the given workspace, or else that of the call, or else one in memory that the activity stream's tools share. */
  protected workspaceOf(context: ToolContext | undefined): Workspace {
    if (this.#workspace) return this.#workspace;
    if (context && hasSandbox(context)) return context.sandbox;
    const shared = sharedWorkspaces.get(this.activityStream) ?? createMemoryWorkspace();
    sharedWorkspaces.set(this.activityStream, shared);
    return shared;
  }
}

/** False for the placeholder sandbox of a ToolManager without a workspace, which fails on every call. */
function hasSandbox({ sandbox }: ToolContext): boolean {
  try {
    sandbox.resolve("");
    return true;
  } catch {
    return false;
  }
}
