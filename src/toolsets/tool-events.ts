import type { ToolResult } from "#domain/result.ts";

/** The names of the events of a call. */
export const ToolEventType = {
  TOOL_CALL_START: "tool_call_start",
  TOOL_CALL_END: "tool_call_end",
  TOOL_OUTPUT_CHUNK: "tool_output_chunk",
  ERROR: "error",
} as const;
export type ToolEventType = (typeof ToolEventType)[keyof typeof ToolEventType];

/** What each event carries besides the tool's name. */
export interface ToolEventData {
  tool_call_start: { toolName: string; arguments: unknown };
  tool_output_chunk: { toolName: string; chunk: string };
  tool_call_end: { toolName: string; success: true; result: ToolResult };
  error: { toolName: string; error: string; result?: ToolResult };
}

/** Something that happened to one call. `id` is the call's, `timestamp` milliseconds since 1970. */
export type ToolEvent<Type extends ToolEventType = ToolEventType> = {
  [One in Type]: { id: string; type: One; timestamp: number; data: ToolEventData[One] };
}[Type];

interface Subscription {
  type: string;
  handler: (event: ToolEvent) => unknown;
}

/** A bus for the events of tool calls. A handler that throws stops neither the others nor the call. */
export class ToolEvents {
  #subscriptions: Subscription[] = [];
  readonly #onHandlerError: (error: unknown) => void;

  constructor({
    onHandlerError = (error) => console.error("A handler of tool events failed:", error),
  }: {
    onHandlerError?: (error: unknown) => void;
  } = {}) {
    this.#onHandlerError = onHandlerError;
  }

  /** Hears one type of event, or all with `*`. The function it returns ends this subscription and no other. */
  subscribe<Type extends ToolEventType>(type: Type, handler: (event: ToolEvent<Type>) => unknown): () => void;
  subscribe(type: "*", handler: (event: ToolEvent) => unknown): () => void;
  subscribe(type: string, handler: (event: never) => unknown): () => void {
    const subscription: Subscription = { type, handler: handler as (event: ToolEvent) => unknown };
    this.#subscriptions = [...this.#subscriptions, subscription];
    return () => {
      this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
    };
  }

  /** Tells those who listen to its type, then those who listen to all. */
  emit(event: ToolEvent): void {
    const heard = this.#subscriptions;
    for (const { handler } of heard.filter(({ type }) => type === event.type)) this.#tell(handler, event);
    for (const { handler } of heard.filter(({ type }) => type === "*")) this.#tell(handler, event);
  }

  #tell(handler: Subscription["handler"], event: ToolEvent): void {
    try {
      const answer = handler(event);
      if (answer instanceof Promise) answer.catch(this.#onHandlerError);
    } catch (error) {
      this.#onHandlerError(error);
    }
  }
}
