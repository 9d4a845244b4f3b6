interface ToolArguments {
  toolName: string;
  toolArgs: Record<string, unknown>;
}

interface Totals {
  totalIterations: number;
  totalToolCalls: number;
  durationMs: number;
}

/** The data of a runtime event. Iterations are the model calls of one run, counted from 1. */
export type RuntimeEventData =
  | { type: "execution_start"; workerName: string; model: string }
  | {
      type: "message_send";
      iteration: number;
      messages: { role: "system" | "user" | "assistant" | "tool"; content: unknown }[];
      toolCount: number;
    }
  | {
      type: "response_receive";
      iteration: number;
      text?: string;
      toolCalls: { id: string; name: string; args: Record<string, unknown> }[];
      /** Tokens. */
      usage: { input: number; output: number };
    }
  | ({ type: "approval_request"; description: string } & ToolArguments)
  | {
      type: "approval_decision";
      toolName: string;
      approved: boolean;
      /** True if an earlier approval for the session applied. */
      cached: boolean;
      remember: "none" | "session";
    }
  /** `toolIndex` counts the `toolTotal` calls of one answer, from 1. */
  | ({
      type: "tool_call_start";
      iteration: number;
      toolIndex: number;
      toolTotal: number;
      toolCallId: string;
    } & ToolArguments)
  | {
      type: "tool_call_end";
      iteration: number;
      toolCallId: string;
      toolName: string;
      /** The output for the model, shortened for display. */
      output: string;
      truncated: boolean;
      durationMs: number;
    }
  | { type: "tool_call_error"; iteration: number; toolCallId: string; toolName: string; error: string }
  | ({
      type: "execution_end";
      success: true;
      response: string;
      totalTokens: { input: number; output: number };
      /** US dollars; undefined if the price is unknown. */
      cost?: number;
    } & Totals)
  | ({ type: "execution_error"; success: false; error: string } & Totals);

/** An event for tracing a worker, passed to `onEvent` of a WorkerRuntime. */
export type RuntimeEvent = RuntimeEventData & {
  timestamp: Date;
  /** 0 for the root worker. */
  depth: number;
  /** Worker names from the root to the worker of the event. */
  workerPath: string[];
};

/** Receives the events of a worker and its child runs. Its errors are written to the console. */
export type RuntimeEventCallback = (event: RuntimeEvent) => unknown;
