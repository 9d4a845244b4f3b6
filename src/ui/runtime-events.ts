interface ToolArguments {
  toolName: string;
  toolArgs: Record<string, unknown>;
}

interface Totals {
  totalIterations: number;
  totalToolCalls: number;
  durationMs: number;
}

/** What is being told, without when. Iterations are calls of the model within one run, counted from 1. */
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
      /** It was approved for the session before, and nobody was asked. */
      cached: boolean;
      remember: "none" | "session";
    }
  /** `toolIndex` of the `toolTotal` calls of one answer, counted from 1. */
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
      /** What the model reads, shortened for display. */
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
      /** US dollars; undefined where the price is not known. */
      cost?: number;
    } & Totals)
  | ({ type: "execution_error"; success: false; error: string } & Totals);

/** What happened to a worker, for whoever traces it: `onEvent` of a WorkerRuntime. */
export type RuntimeEvent = RuntimeEventData & {
  timestamp: Date;
  /** 0 for the root worker. */
  depth: number;
  /** The workers from the root to the one this is about. */
  workerPath: string[];
};

/** Hears what happens to a worker and those it calls. What it throws changes nothing. */
export type RuntimeEventCallback = (event: RuntimeEvent) => void;
