import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { type JSONSchema7, jsonSchema } from "ai";
import type { ToolErrorType } from "#domain/errors.ts";
import type { ToolResult as DomainResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import { resultOfError } from "#toolsets/tool-result.ts";
import type { ClassTool, ForeignResult } from "./adapt-tool.ts";
import { formatErrorResponse, formatSuccessResponse, getResultPreview, type ToolResponse } from "./foreign-results.ts";
import { toToolResult } from "./to-tool-result.ts";
import type { FunctionDefinition, OpenAIFunction } from "./tool-registry.ts";

/** One call of a tool. An instance may serve several calls at once. */
interface Invocation {
  params: Readonly<Record<string, unknown>>;
  /** Undefined for a call of `execute`. */
  context?: ToolContext;
}

/** A tool as a class that emits events and answers with a flat response. */
export abstract class BaseTool implements ClassTool {
  abstract readonly name: string;
  abstract readonly description: string;
  /** True if a model's call needs approval. A call of `execute` by the program never does. */
  abstract readonly requiresConfirmation: boolean;
  /** True if user interfaces must not animate running calls, because the tool renders its own progress. */
  readonly suppressExecutionAnimation: boolean = false;
  protected readonly activityStream: ToolEvents;
  readonly #invocations = new AsyncLocalStorage<Invocation>();

  constructor(activityStream: ToolEvents) {
    this.activityStream = activityStream;
  }

  /** Runs the tool. In a worker's run there is a context with the sandbox and the abort signal. */
  // biome-ignore lint/suspicious/noExplicitAny: each tool names the arguments it takes
  protected abstract executeImpl(args: any, context?: ToolContext): Promise<ForeignResult>;

  /** Returns the definition for the model. Default: a tool without parameters. */
  getFunctionDefinition(): FunctionDefinition {
    const parameters = { type: "object" as const, properties: {}, required: [] };
    return { type: "function", function: { name: this.name, description: this.description, parameters } };
  }

  /** Runs the tool with these arguments, without validation, and emits the events of the call. Never rejects. */
  async execute(args: Record<string, unknown> = {}): Promise<ToolResponse> {
    const toolName = this.name;
    const id = randomUUID();
    const now = () => ({ id, timestamp: Date.now() });
    this.activityStream.emit({ ...now(), type: "tool_call_start", data: { toolName, arguments: args } });

    const [response, result] = await this.#invocations.run({ params: {} }, async () => {
      const answer = await this.#answer(args);
      return [answer, this.#toResult(answer)] as const;
    });
    if (response.success) {
      this.activityStream.emit({ ...now(), type: "tool_call_end", data: { toolName, success: true, result } });
    } else {
      this.activityStream.emit({ ...now(), type: "error", data: { toolName, error: response.error, result } });
    }
    return response;
  }

  /** Returns the first lines of a response for a compact view. */
  getResultPreview(result: ForeignResult, maxLines = 3): string[] {
    return getResultPreview(toResponse(result) ?? { success: false, error: "" }, maxLines);
  }

  /** Returns this tool for a worker's run, which validates arguments, requests approval and emits its own events. */
  toNamedTool(): NamedTool {
    const { name, description, parameters } = this.getFunctionDefinition().function;
    return {
      name,
      description,
      inputSchema: jsonSchema<Record<string, unknown>>(parameters as JSONSchema7),
      needsApproval: this.requiresConfirmation,
      execute: (args, context) =>
        this.#invocations.run({ params: {}, context }, async () => this.#toResult(await this.#perform(args, context))),
    };
  }

  /** Stores the arguments of this call for its error messages. */
  protected captureParams(params: Readonly<Record<string, unknown>>): void {
    const invocation = this.#invocations.getStore();
    if (invocation) invocation.params = params;
  }

  protected formatSuccessResponse(fields: Record<string, unknown>): ToolResponse {
    return formatSuccessResponse(fields);
  }

  /** Creates an error that names its call: `my_tool(param="value"): File not found`. */
  protected formatErrorResponse(
    message: string,
    errorType?: ToolErrorType | (string & {}),
    suggestion?: string,
  ): ToolResponse {
    return formatErrorResponse(this.#call(), message, errorType, suggestion);
  }

  /** Emits a chunk of output. In a worker's run, the event has the run's id of the call. */
  protected emitOutputChunk(callId: string, chunk: string): void {
    const context = this.#invocations.getStore()?.context;
    if (context) {
      context.output(chunk);
      return;
    }
    const data = { toolName: this.name, chunk };
    this.activityStream.emit({ id: callId, type: "tool_output_chunk", timestamp: Date.now(), data });
  }

  async #answer(args: Record<string, unknown>): Promise<ToolResponse> {
    try {
      return await this.#perform(args);
    } catch (thrown) {
      const { error } = resultOfError(thrown);
      return this.formatErrorResponse(error?.message ?? String(thrown), error?.type, error?.suggestion);
    }
  }

  async #perform(args: unknown, context?: ToolContext): Promise<ToolResponse> {
    const returned: ForeignResult | undefined = await this.executeImpl(args, context);
    const response = toResponse(returned);
    return response ?? this.formatErrorResponse("It did not return a response with `success` and `error`.");
  }

  #call() {
    return { tool: this.name, args: this.#invocations.getStore()?.params ?? {} };
  }

  #toResult(response: ToolResponse): DomainResult {
    const { success, error, error_type, suggestion, ...fields } = response;
    if (success) return toToolResult({ kind: "json", data: fields });

    // The caller adds the name of the call again when it reports the error.
    const prefix = formatErrorResponse(this.#call(), "").error;
    const message = error.startsWith(prefix) ? error.slice(prefix.length) : error;
    const failed = toToolResult({
      success: false,
      error: message || "It failed and gave no reason.",
      error_type,
      suggestion,
    });
    if (!failed.error || Object.keys(fields).length === 0) return failed;

    // The model needs the output of a failed command to correct it.
    const details = toToolResult({ kind: "json", data: fields });
    return {
      ...failed,
      llmContent: `${failed.llmContent}\n${details.llmContent}`,
      error: { ...failed.error, details: fields },
    };
  }
}

function toResponse(result: ForeignResult | undefined): ToolResponse | undefined {
  const { success, error = "" } = result ?? {};
  return typeof success === "boolean" && typeof error === "string" ? { ...result, success, error } : undefined;
}

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
    return sharedWorkspaces.getOrInsertComputed(this.activityStream, () => createMemoryWorkspace());
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
