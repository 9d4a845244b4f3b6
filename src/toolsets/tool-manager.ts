import { randomUUID } from "node:crypto";
import { ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { ApprovalController } from "#ui/approval-controller.ts";
import { createToolbox } from "./create-toolbox.ts";
import { failedResult } from "./failed-result.ts";
import { ToolEvents } from "./tool-events.ts";
import { type ClassTool, type FunctionDefinition, ToolRegistry } from "./tool-registry.ts";
import { type ToolResponse, toToolResponse } from "./tool-response.ts";
import type { CallContext, Review, Toolbox } from "./toolbox.ts";
import type { FinishedCall } from "./toolset.ts";

export interface ToolManagerOptions {
  /** Hears each call start, print, end and fail. */
  events?: ToolEvents;
  /** Decides what needs approval. Default: all of it is denied. */
  approvals?: ApprovalController;
  /** The files the tools see. Default: none, and a tool that reaches for them is told so. */
  workspace?: Workspace;
  /** What a model reads of one result, in estimated tokens. */
  maxResultTokens?: number;
}

export interface CallOptions {
  /** Default: a new one. */
  callId?: string;
  abortSignal?: AbortSignal;
  /** Default: the model, which reaches no manual tool. */
  invokedBy?: "model" | "person";
}

/** Tools with the rules of a run around them, for a program that has no run: it keeps its own history and turns. */
export class ToolManager {
  readonly #registry: ToolRegistry;
  readonly #options: ToolManagerOptions;
  readonly #toolbox: Promise<Toolbox>;
  #history: FinishedCall[] = [];
  #turn = 1;

  constructor(tools: Iterable<NamedTool | ClassTool>, given: ToolManagerOptions | ToolEvents = {}) {
    const options = given instanceof ToolEvents ? { events: given } : given;
    this.#registry = new ToolRegistry(tools);
    this.#options = options;
    const { workspace = noWorkspace, events, maxResultTokens } = options;
    this.#toolbox = createToolbox({
      tools: this.#registry.list(),
      workspace,
      history: () => this.#history,
      ...(events && { events }),
      ...(maxResultTokens !== undefined && { maxResultTokens }),
    });
    // Whoever calls a tool hears of it.
    this.#toolbox.catch(() => {});
  }

  /** The tool of this name or alias. */
  getTool(name: string): NamedTool | undefined {
    return this.#registry.get(name);
  }

  /** What a model of the OpenAI kind is told. */
  getFunctionDefinitions(): FunctionDefinition[] {
    return this.#registry.toOpenAIFunctions().map((definition) => ({ type: "function", function: definition }));
  }

  /** Checks, asks and runs one call. Rejects only when a tool's schema cannot be understood. */
  async call(tool: string, args: unknown, options: CallOptions = {}): Promise<ToolResult> {
    const toolbox = await this.#toolbox;
    const call: ModelCall = { callId: options.callId ?? randomUUID(), tool, args };
    const context = this.#context(call, options);

    const review = await toolbox.review(call, context, []);
    const result = review.kind === "refuse" ? review.result : await this.#run(toolbox, { call, context, review });
    this.#history.push({ ...call, result, step: context.run.step });
    return result;
  }

  /** The same, as one flat response told apart by `success`. */
  async executeTool(tool: string, args: Record<string, unknown>, options?: CallOptions): Promise<ToolResponse> {
    return toToolResponse(await this.call(tool, args, options), { tool, args });
  }

  /** Begins another turn: what was called in the last one may be called again. */
  clearCurrentTurn(): void {
    this.#turn++;
  }

  /** Forgets every call. */
  clearState(): void {
    this.#history = [];
    this.#turn++;
  }

  async #run(
    toolbox: Toolbox,
    { call, context, review }: { call: ModelCall; context: CallContext; review: Exclude<Review, { kind: "refuse" }> },
  ): Promise<ToolResult> {
    if (review.kind === "allow") return toolbox.execute(call, context);

    const args = review.args as Record<string, unknown>;
    const request = { toolName: call.tool, toolArgs: args, description: review.reason };
    const decision = await this.#options.approvals?.requestApproval(request, { signal: context.abortSignal });
    if (decision?.approved !== true) return denied(call.tool, decision?.note);

    const { modifiedArgs } = decision;
    const result = await toolbox.execute({ ...call, args: modifiedArgs ?? args }, context);
    return modifiedArgs ? { ...result, llmContent: `${changed(modifiedArgs)}\n\n${result.llmContent}` } : result;
  }

  #context(call: ModelCall, { abortSignal, invokedBy }: CallOptions): CallContext {
    return {
      abortSignal: abortSignal ?? new AbortController().signal,
      messages: [],
      run: { id: "embedded", worker: "The program", depth: 0, step: this.#turn },
      idempotencyKey: call.callId,
      output: () => {},
      ...(invokedBy && { invokedBy }),
    };
  }
}

function denied(tool: string, note: string | undefined): ToolResult {
  const message = `[DENIED] ${tool} was denied${note ? `: ${note}` : "."}`;
  return failedResult(message, { code: "DENIED", suggestion: "Do not call it again the same way." });
}

function changed(args: unknown): string {
  return `A person changed the arguments before approving. What ran: ${JSON.stringify(args)}`;
}

const noWorkspace = new Proxy({} as Workspace, {
  get() {
    throw new ToolError("There is no sandbox here.", { code: "UNAVAILABLE" });
  },
});
