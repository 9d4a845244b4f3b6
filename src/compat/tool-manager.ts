import { randomUUID } from "node:crypto";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { CallContext, CallReview } from "#toolsets/review-call.ts";
import { ToolEvents } from "#toolsets/tool-events.ts";
import { failedResult, interruptedResult } from "#toolsets/tool-result.ts";
import { createToolbox, type Toolbox } from "#toolsets/toolbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import type { ApprovalController } from "#ui/approval-controller.ts";
import type { ForeignTool } from "./adapt-tool.ts";
import { onlyWith } from "./class-tools.ts";
import { type DisplayResult, DisplayTool, toDisplayResult } from "./display-tool.ts";
import { type ToolResponse, toToolResponse } from "./foreign-results.ts";
import { type FunctionDefinition, ToolRegistry } from "./tool-registry.ts";

export interface ToolManagerOptions {
  /** Receives the events of each call: start, output, end and failure. */
  events?: ToolEvents;
  /** Decides calls that need approval. Default: they are denied. */
  approvals?: ApprovalController;
  /** The files that tools see. Default: none; a tool that uses them fails with `UNAVAILABLE`. */
  workspace?: Workspace;
  /** The maximum length of one result for the model, in estimated tokens. */
  maxResultTokens?: number;
}

export interface CallOptions {
  /** Default: a new id. */
  callId?: string;
  abortSignal?: AbortSignal;
  /** Default: the model, which cannot call manual tools. */
  invokedBy?: "model" | "person";
}

/** Runs tools by the rules of a worker's run, for a program without a run. Keeps its own history and counts turns. */
export class ToolManager<T extends ForeignTool = ForeignTool> {
  readonly #registry: ToolRegistry<T>;
  readonly #options: ToolManagerOptions;
  readonly #toolbox: Promise<Toolbox>;
  #history: FinishedCall[] = [];
  #turn = 1;

  constructor(tools: Iterable<T>, given: ToolManagerOptions | ToolEvents = {}) {
    const options = given instanceof ToolEvents ? { events: given } : given;
    this.#registry = new ToolRegistry(tools);
    this.#options = options;
    const { workspace = noWorkspace, events, maxResultTokens } = options;
    this.#toolbox = createToolbox({
      tools: this.#registry.namedTools(),
      workspace,
      history: () => this.#history,
      ...(events && { events }),
      ...(maxResultTokens !== undefined && { maxResultTokens }),
    });
    // The first call reports the error.
    this.#toolbox.catch(() => {});
  }

  /** Every finished call since the last `clearState`, oldest first. */
  get history(): readonly FinishedCall[] {
    return this.#history;
  }

  /** Returns the given tool with this name or alias. */
  getTool(name: string): T | undefined {
    return this.#registry.get(name);
  }

  /** Returns function definitions for OpenAI-compatible models. */
  getFunctionDefinitions(): FunctionDefinition[] {
    return this.#registry.toOpenAIFunctions().map((definition) => ({ type: "function", function: definition }));
  }

  /** Validates one call, requests approval if it needs one, and runs it. Rejects only if a tool's schema is invalid. */
  async call(tool: string, args: unknown, options: CallOptions = {}): Promise<ToolResult> {
    const toolbox = await this.#toolbox;
    const call: ModelCall = { callId: options.callId ?? randomUUID(), tool, args };
    const context = this.#context(call, options);

    const review = await toolbox.review(call, context, []);
    const result = review.kind === "refuse" ? review.result : await this.#run(toolbox, { call, context, review });
    this.#history.push({ ...call, result, step: context.run.step });
    return result;
  }

  /** Like `call`, but resolves to a flat response with a `success` field. */
  async executeTool(tool: string, args: Record<string, unknown>, options?: CallOptions): Promise<ToolResponse> {
    return toToolResponse(await this.call(tool, args, options), { tool, args });
  }

  /** Starts the next turn, in which calls of the last turn may be repeated. */
  clearCurrentTurn(): void {
    this.#turn++;
  }

  clearState(): void {
    this.#history = [];
    this.#turn++;
  }

  async #run(
    toolbox: Toolbox,
    {
      call,
      context,
      review,
    }: { call: ModelCall; context: CallContext; review: Exclude<CallReview, { kind: "refuse" }> },
  ): Promise<ToolResult> {
    if (review.kind === "allow") return toolbox.execute(call, context);

    const { abortSignal } = context;
    const args = review.args as Record<string, unknown>;
    const request = { toolName: call.tool, toolArgs: args, description: review.reason, stepId: call.callId };
    const decision = await this.#options.approvals?.requestApproval(request, { signal: abortSignal });
    if (abortSignal.aborted) return interruptedResult(call.tool, { started: false });
    if (decision?.approved !== true) return denied(call.tool, decision?.note);
    if (!decision.modifiedArgs) return toolbox.execute({ ...call, args }, context);

    const changed: ModelCall = { ...call, args: decision.modifiedArgs };
    const changedReview = await toolbox.review(changed, context, []);
    if (changedReview.kind === "refuse") return changedReview.result;
    const result = await toolbox.execute({ ...changed, args: changedReview.args }, context);
    const note = `A person changed the arguments before approving. What ran: ${JSON.stringify(changedReview.args)}`;
    return { ...result, llmContent: `${note}\n\n${result.llmContent}` };
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
  return failedResult(message, {
    code: "DENIED",
    suggestion: "Do not repeat the same call; continue without it or ask what to do instead.",
  });
}

const noWorkspace = onlyWith<Workspace>(
  {},
  "sandbox",
  "Pass a workspace to the ToolManager, such as createMemoryWorkspace().",
);

/** Runs tools by name. Each result has a text for the model and a display for people. */
export class ToolExecutor {
  readonly #manager: ToolManager;

  constructor(tools: Iterable<ForeignTool>, options: ToolManagerOptions = {}) {
    this.#manager = new ToolManager(tools, options);
  }

  /** Never rejects if a tool fails: failures are results with an error. */
  async execute(toolName: string, params: Record<string, unknown>, context?: ToolContext): Promise<DisplayResult> {
    const tool = this.#manager.getTool(toolName);
    // No review for a class tool: the program itself decided to call it.
    if (tool instanceof DisplayTool) return tool.execute(params, context);
    if (!tool) return toDisplayResult(failedResult(`Unknown tool: ${toolName}.`, { code: "UNKNOWN_TOOL" }));
    return toDisplayResult(await this.#manager.call(toolName, params));
  }
}
