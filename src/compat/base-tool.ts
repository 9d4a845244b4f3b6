import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { type JSONSchema7, jsonSchema } from "ai";
import type { ToolErrorType } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { resultOfError } from "#toolsets/failed-result.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import { toToolResult } from "./to-tool-result.ts";
import type { FunctionDefinition } from "./tool-registry.ts";
import { formatErrorResponse, formatSuccessResponse, getResultPreview, type ToolResponse } from "./tool-response.ts";

/** One call of one tool: an instance may serve several at once. */
interface Invocation {
  params: Readonly<Record<string, unknown>>;
  /** Undefined for a call of `execute`. */
  context?: ToolContext;
}

/**
 * A tool as a class that tells of its calls and answers with a flat response. What the model may call is a NamedTool:
 * `ToolManager` and `ToolRegistry` take an instance as it is, everything else takes its `toNamedTool()`.
 */
export abstract class BaseTool {
  abstract readonly name: string;
  abstract readonly description: string;
  /** True when a person must agree before a model's call runs. `execute` is the program's own call and asks nobody. */
  abstract readonly requiresConfirmation: boolean;
  /** For a user interface that animates running calls: this tool shows itself. */
  readonly suppressExecutionAnimation: boolean = false;
  protected readonly activityStream: ToolEvents;
  readonly #invocations = new AsyncLocalStorage<Invocation>();

  constructor(activityStream: ToolEvents) {
    this.activityStream = activityStream;
  }

  /** Does the work. `context` has the sandbox and the abort signal of a run; a call of `execute` has none. */
  // biome-ignore lint/suspicious/noExplicitAny: each tool names the arguments it takes
  protected abstract executeImpl(args: any, context?: ToolContext): Promise<ToolResponse>;

  /** What a model is told. Default: a tool without parameters. */
  getFunctionDefinition(): FunctionDefinition {
    const parameters = { type: "object" as const, properties: {}, required: [] };
    return { type: "function", function: { name: this.name, description: this.description, parameters } };
  }

  /** Runs the tool with these arguments, unchecked, and tells the activity stream. Never rejects. */
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

  /** The first lines of a response, for a compact view. */
  getResultPreview(result: ToolResponse, maxLines = 3): string[] {
    return getResultPreview(result, maxLines);
  }

  /** The same tool for a worker's run, whose toolbox checks the arguments, asks, and tells of the call in its own events. */
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

  /** Remembers the arguments of this call for its error texts. */
  protected captureParams(params: Readonly<Record<string, unknown>>): void {
    const invocation = this.#invocations.getStore();
    if (invocation) invocation.params = params;
  }

  protected formatSuccessResponse(fields: Record<string, unknown>): ToolResponse {
    return formatSuccessResponse(fields);
  }

  /** An error that names its call: `my_tool(param="value"): File not found`. */
  protected formatErrorResponse(message: string, errorType?: ToolErrorType, suggestion?: string): ToolResponse {
    return formatErrorResponse(this.#call(), message, errorType, suggestion);
  }

  /** Streams a piece of output. In a worker's run it goes out under the run's own id of the call. */
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
    const response: Partial<ToolResponse> | undefined = await this.executeImpl(args, context);
    const { success, error = "" } = response ?? {};
    if (typeof success === "boolean" && typeof error === "string") return { ...response, success, error };
    return this.formatErrorResponse("It returned something else than a response with `success` and `error`.");
  }

  #call() {
    return { tool: this.name, args: this.#invocations.getStore()?.params ?? {} };
  }

  #toResult(response: ToolResponse): ToolResult {
    const { success, error, error_type, suggestion, ...fields } = response;
    if (success) return toToolResult({ kind: "json", data: fields });

    // A toolbox's error and a flat response both name the call: it must not be named twice.
    const named = formatErrorResponse(this.#call(), "").error;
    const message = error.startsWith(named) ? error.slice(named.length) : error;
    const failed = toToolResult({
      success: false,
      error: message || "It failed and did not say why.",
      error_type,
      suggestion,
    });
    if (!failed.error || Object.keys(fields).length === 0) return failed;

    // What a failed command printed is what the model needs to mend it.
    const details = toToolResult({ kind: "json", data: fields });
    return {
      ...failed,
      llmContent: `${failed.llmContent}\n${details.llmContent}`,
      error: { ...failed.error, details: fields },
    };
  }
}
