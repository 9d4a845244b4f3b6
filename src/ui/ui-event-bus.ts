import type { ResultValue } from "#domain/result.ts";
import type { ManualToolInfo } from "./manual-tool.ts";

export type EventHandler<Data> = (data: Data) => unknown;
export type Unsubscribe = () => void;

/** Carries events between the runtime and a front end, in the order in which they are emitted. */
export type UIEventBus = ReturnType<typeof createUIEventBus>;

interface Subscription {
  event: EventName;
  handler: EventHandler<never>;
}

/** Creates a bus. Errors of handlers are passed to `onHandlerError`, by default to the console. */
export function createUIEventBus({
  onHandlerError = (event, error) => console.error(`Error in event handler for "${event}":`, error),
}: {
  onHandlerError?: (event: EventName, error: unknown) => void;
} = {}) {
  let subscriptions: Subscription[] = [];

  return {
    /** Calls all handlers of the event synchronously. A handler that throws does not affect the others. */
    emit<Name extends EventName>(event: Name, data: AllEvents[Name]): void {
      for (const subscription of subscriptions) {
        if (subscription.event !== event) continue;
        try {
          const answer = subscription.handler(data as never);
          if (answer instanceof Promise) answer.catch((error) => onHandlerError(event, error));
        } catch (error) {
          onHandlerError(event, error);
        }
      }
    },
    /** Returns a function that ends this subscription. */
    on<Name extends EventName>(event: Name, handler: EventHandler<AllEvents[Name]>): Unsubscribe {
      const subscription: Subscription = { event, handler };
      subscriptions = [...subscriptions, subscription];
      return () => {
        subscriptions = subscriptions.filter((other) => other !== subscription);
      };
    },
    /** Ends every subscription to one event. */
    off(event: EventName): void {
      subscriptions = subscriptions.filter((subscription) => subscription.event !== event);
    },
    /** Ends every subscription. */
    clear(): void {
      subscriptions = [];
    },
  };
}

export interface Message {
  role: "user" | "assistant" | "system";
  content: string;
  /** Milliseconds since 1970. */
  timestamp?: number;
}

export interface WorkerInfo {
  id: string;
  /** 0 for the root. */
  depth: number;
  task: string;
}

export interface DiffFileSummary {
  path: string;
  operation: "create" | "update" | "delete";
  additions: number;
  deletions: number;
}

export type StatusType = "info" | "warning" | "error";
export type ApprovalType = "tool_call" | "file_write" | "command";
export type ApprovalRisk = "low" | "medium" | "high";
export type ToolResultStatus = "success" | "error" | "interrupted";
export type WorkerStatus = "pending" | "running" | "complete" | "error";

/** Events that the runtime emits to be displayed. */
export interface DisplayEvents {
  message: { message: Message };
  streaming: { requestId: string; delta: string; done: boolean };
  status: { type: StatusType; message: string };
  toolStarted: { toolCallId: string; toolName: string; args: Record<string, unknown>; workerId?: string };
  toolResult: {
    toolCallId: string;
    toolName: string;
    args?: Record<string, unknown>;
    status: ToolResultStatus;
    value?: ResultValue | undefined;
    error?: string | undefined;
    durationMs?: number;
  };
  workerUpdate: {
    workerId: string;
    task: string;
    status: WorkerStatus;
    parentId?: string | undefined;
    depth: number;
    model?: string | undefined;
    tools?: string[] | undefined;
  };
  /** Answered by `approvalResponse` with the same request id. */
  approvalRequired: {
    requestId: string;
    type: ApprovalType;
    description: string;
    details?: unknown;
    risk: ApprovalRisk;
    workerPath?: WorkerInfo[];
  };
  /** A request for approval or input is no longer wanted. An answer to it has no effect. */
  requestWithdrawn: { requestId: string };
  manualToolsAvailable: { tools: ManualToolInfo[] };
  diffSummary: { requestId: string; summaries: DiffFileSummary[] };
  diffContent: {
    requestId: string;
    path: string;
    original?: string | undefined;
    modified: string;
    isNew: boolean;
  };
  /** Answered by `userInput` with the same request id. */
  inputPrompt: { requestId: string; prompt: string };
  sessionEnd: { reason: "completed" | "error" | "interrupted"; message?: string | undefined };
  contextUsage: { tokensUsed: number; tokenLimit: number; exceeded: boolean };
}

/** Events that front ends emit for a person's actions. */
export interface ActionEvents {
  userInput: { requestId: string; content: string };
  approvalResponse: {
    requestId: string;
    approved: boolean | "always" | "session";
    reason?: string;
    /** Arguments to use instead of the requested ones. */
    modifiedArgs?: Record<string, unknown>;
  };
  /** A message for the running worker, which reads it before its next step. */
  userMessage: { content: string };
  manualToolInvoke: { toolName: string; args: Record<string, unknown> };
  interrupt: { reason?: string };
  getDiff: { requestId: string; path: string };
  /** A command for the runtime: `/clear` the conversation, `/model name`, or `/revoke [id]`. */
  command: { name: "clear" | "model" | "revoke"; args: string[] };
}

export type AllEvents = DisplayEvents & ActionEvents;
export type EventName = keyof AllEvents;
