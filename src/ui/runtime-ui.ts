import { randomUUID } from "node:crypto";
import type { ResultValue } from "#domain/result.ts";
import type { ManualToolInfo } from "./manual-tool.ts";
import type {
  ActionEvents,
  ApprovalRisk,
  ApprovalType,
  DiffFileSummary,
  Message,
  StatusType,
  ToolResultStatus,
  UIEventBus,
  WorkerInfo,
  WorkerStatus,
} from "./ui-event-bus.ts";

export interface WaitOptions {
  signal?: AbortSignal;
  /** Milliseconds. Default: five minutes for approvals, ten minutes for input. */
  timeoutMs?: number;
}

export interface ApprovalAsked {
  type: ApprovalType;
  description: string;
  risk: ApprovalRisk;
  details?: unknown;
  workerPath?: WorkerInfo[];
}

export type ApprovalResult =
  | { approved: true | "always" | "session"; modifiedArgs?: Record<string, unknown> }
  | { approved: false; reason?: string };

export type RuntimeUI = ReturnType<typeof createRuntimeUI>;

/** Creates the runtime's side of a bus: emits display events, and waits for responses with the same request id. */
export function createRuntimeUI(bus: UIEventBus) {
  /** Resolves to true if the person approves. Requests may be concurrent. Rejects on timeout or abort. */
  function requestApproval(asked: ApprovalAsked, options?: WaitOptions): Promise<boolean>;
  /** The same with positional arguments. Resolves to the kind of approval, or to the reason of a denial. */
  function requestApproval(
    type: ApprovalType,
    description: string,
    details: unknown,
    risk: ApprovalRisk,
    workerPath: WorkerInfo[],
    options?: WaitOptions,
  ): Promise<ApprovalResult>;
  async function requestApproval(
    asked: ApprovalAsked | ApprovalType,
    second?: string | WaitOptions,
    details?: unknown,
    risk?: ApprovalRisk,
    workerPath?: WorkerInfo[],
    options?: WaitOptions,
  ): Promise<boolean | ApprovalResult> {
    if (typeof asked === "object") return (await ask(bus, asked, second as WaitOptions | undefined)).approved !== false;
    const description = second as string;
    return ask(
      bus,
      { type: asked, description, details, risk: risk as ApprovalRisk, workerPath: workerPath ?? [] },
      options,
    );
  }

  function showStatus(status: { type: StatusType; message: string }): void;
  function showStatus(type: StatusType, message: string): void;
  function showStatus(status: StatusType | { type: StatusType; message: string }, message = ""): void {
    bus.emit("status", typeof status === "string" ? { type: status, message } : status);
  }

  return {
    bus,
    requestApproval,
    showStatus,
    showMessage: (message: Message) => bus.emit("message", { message }),
    startStreaming: (requestId: string) => bus.emit("streaming", { requestId, delta: "", done: false }),
    appendStreaming: (requestId: string, delta: string) => bus.emit("streaming", { requestId, delta, done: false }),
    endStreaming: (requestId: string) => bus.emit("streaming", { requestId, delta: "", done: true }),
    showToolStarted: (toolCallId: string, toolName: string, args: Record<string, unknown>, workerId?: string) =>
      bus.emit("toolStarted", { toolCallId, toolName, args, ...(workerId !== undefined && { workerId }) }),
    showToolResult: (
      toolCallId: string,
      toolName: string,
      args: Record<string, unknown>,
      status: ToolResultStatus,
      durationMs: number,
      value?: ResultValue,
      error?: string,
    ) => bus.emit("toolResult", { toolCallId, toolName, args, status, durationMs, value, error }),
    updateWorker: (
      workerId: string,
      task: string,
      status: WorkerStatus,
      parentId?: string,
      depth = 0,
      model?: string,
      tools?: string[],
    ) => bus.emit("workerUpdate", { workerId, task, status, parentId, depth, model, tools }),
    showManualTools: (tools: ManualToolInfo[]) => bus.emit("manualToolsAvailable", { tools }),
    showDiffSummary: (requestId: string, summaries: DiffFileSummary[]) =>
      bus.emit("diffSummary", { requestId, summaries }),
    showDiffContent: (
      requestId: string,
      path: string,
      original: string | undefined,
      modified: string,
      isNew: boolean,
    ) => bus.emit("diffContent", { requestId, path, original, modified, isNew }),
    endSession: (reason: "completed" | "error" | "interrupted", message?: string) =>
      bus.emit("sessionEnd", { reason, message }),
    updateContextUsage: (tokensUsed: number, tokenLimit: number) =>
      bus.emit("contextUsage", { tokensUsed, tokenLimit, exceeded: tokensUsed > tokenLimit }),
    /** Resolves to the person's input. Rejects on timeout or abort. */
    getUserInput: async (prompt = "> ", options: WaitOptions = {}): Promise<string> => {
      const { content } = await answer(bus, {
        event: "userInput",
        name: "User input request",
        ask: (requestId) => bus.emit("inputPrompt", { requestId, prompt }),
        options: { timeoutMs: 10 * 60_000, ...options },
      });
      return content;
    },
    onInterrupt: (handler: (reason?: string) => void) => bus.on("interrupt", ({ reason }) => handler(reason)),
    onManualToolInvoke: (handler: (toolName: string, args: Record<string, unknown>) => void) =>
      bus.on("manualToolInvoke", ({ toolName, args }) => handler(toolName, args)),
    onGetDiff: (handler: (requestId: string, path: string) => void) =>
      bus.on("getDiff", ({ requestId, path }) => handler(requestId, path)),
  };
}

async function ask(
  bus: UIEventBus,
  { workerPath = [], ...asked }: ApprovalAsked,
  options: WaitOptions = {},
): Promise<ApprovalResult> {
  const { approved, reason, modifiedArgs } = await answer(bus, {
    event: "approvalResponse",
    name: "Approval request",
    ask: (requestId) => bus.emit("approvalRequired", { requestId, ...asked, workerPath }),
    options: { timeoutMs: 5 * 60_000, ...options },
  });
  if (approved === true || approved === "always" || approved === "session") {
    return { approved, ...(modifiedArgs !== undefined && { modifiedArgs }) };
  }
  return { approved: false, ...(reason !== undefined && { reason }) };
}

interface Question<Name extends "userInput" | "approvalResponse"> {
  event: Name;
  name: string;
  ask(requestId: string): void;
  options: WaitOptions;
}

/** Waits for the response with the id of this question, and ignores others. */
async function answer<Name extends "userInput" | "approvalResponse">(
  bus: UIEventBus,
  { event, name, ask, options: { signal, timeoutMs } }: Question<Name>,
): Promise<ActionEvents[Name]> {
  if (signal?.aborted) throw new Error(`${name} aborted`);

  const requestId = randomUUID();
  const { promise, resolve, reject } = Promise.withResolvers<ActionEvents[Name]>();
  const abort = () => reject(new Error(`${name} aborted`));
  const timer = setTimeout(() => reject(new Error(`${name} timed out`)), timeoutMs);
  signal?.addEventListener("abort", abort, { once: true });
  const unsubscribe = bus.on(event, (given) => {
    if (given.requestId === requestId) resolve(given as ActionEvents[Name]);
  });
  try {
    ask(requestId);
    return await promise;
  } catch (error) {
    bus.emit("requestWithdrawn", { requestId });
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    unsubscribe();
  }
}
