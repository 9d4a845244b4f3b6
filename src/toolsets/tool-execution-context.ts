import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { RepeatedCalls } from "./repeated-calls.ts";
import type { ToolEvents } from "./tool-events.ts";
import type { CallContext, PreparedCall } from "./toolbox.ts";

/** The state that reviewing and executing calls share. */
export interface ToolExecutionContext {
  tools: readonly NamedTool[];
  offered: readonly NamedTool[];
  find(name: string): NamedTool | undefined;
  schemas: ReadonlyMap<NamedTool, ToolSchemas>;
  workspace: Workspace;
  repeated: RepeatedCalls;
  events: ToolEvents | undefined;
  maxResultTokens: number;
  alwaysAsk: readonly string[];
  /** Validated calls that have not run yet, by call id. */
  prepared: Map<string, PreparedCall>;
}

export interface ToolSchemas {
  input: ToolSchema;
  output: ToolSchema | undefined;
}

export function schemasOf({ schemas }: Pick<ToolExecutionContext, "schemas">, tool: NamedTool): ToolSchemas {
  const found = schemas.get(tool);
  if (!found) throw new Error(`The schemas of ${tool.name} were never compiled.`);
  return found;
}

/**
 * Opens the context in which a tool handles one call. Its sandbox can be read at any time but changed only until
 * `close`, so that work a tool left running cannot change files during a later call.
 */
export function openToolContext(
  workspace: Workspace,
  { callId }: { callId: string },
  { invokedBy: _, ...context }: CallContext,
): { context: ToolContext; close(): void } {
  let isOpen = true;

  async function whileOpen<T>(change: () => Promise<T>): Promise<T> {
    if (isOpen) return change();
    throw new ToolError("The sandbox is read-only outside of the tool's own call.", {
      code: "PERMISSION_DENIED",
      suggestion: "Change files only in execute, and wait for the changes before it returns.",
    });
  }

  const sandbox: Workspace = {
    resolve: (path) => workspace.resolve(path),
    exists: (path) => workspace.exists(path),
    stat: (path) => workspace.stat(path),
    read: (path) => workspace.read(path),
    write: (path, content, options) => whileOpen(() => workspace.write(path, content, options)),
    remove: (path, options) => whileOpen(() => workspace.remove(path, options)),
    move: (from, to, options) => whileOpen(() => workspace.move(from, to, options)),
    list: (path, options) => workspace.list(path, options),
    paths: () => workspace.paths(),
    changes: () => workspace.changes(),
    readBase: (path) => workspace.readBase(path),
    ruleFor: (path) => workspace.ruleFor(path),
  };
  return {
    context: { ...context, toolCallId: callId, sandbox },
    close: () => {
      isOpen = false;
    },
  };
}
