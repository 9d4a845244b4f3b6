import type { ToolResult } from "#domain/result.ts";

export const ToolEventType = {
  TOOL_CALL_START: "tool_call_start",
  TOOL_CALL_END: "tool_call_end",
  TOOL_OUTPUT_CHUNK: "tool_output_chunk",
  ERROR: "error",
} as const;
export type ToolEventType = (typeof ToolEventType)[keyof typeof ToolEventType];

export interface ToolEventData {
  tool_call_start: { toolName: string; arguments: unknown };
  tool_output_chunk: { toolName: string; chunk: string };
  tool_call_end: { toolName: string; success: true; result: ToolResult };
  error: { toolName: string; error: string; result?: ToolResult };
}

/** An event of a tool call. `id` is the ID of the call, `timestamp` is in milliseconds since 1970. */
export type ToolEvent<Type extends ToolEventType = ToolEventType> = {
  [One in Type]: { id: string; type: One; timestamp: number; data: ToolEventData[One] };
}[Type];

interface Subscription {
  type: string;
  handler: (event: ToolEvent) => unknown;
}

/** An event bus for tool calls. A handler that throws affects neither the other handlers nor the call. */
export class ToolEvents {
  #subscriptions: Subscription[] = [];
  readonly #onHandlerError: (error: unknown) => void;

  constructor({
    onHandlerError = (error) => console.error("A tool event handler failed:", error),
  }: {
    onHandlerError?: (error: unknown) => void;
  } = {}) {
    this.#onHandlerError = onHandlerError;
  }

  /** Subscribes to one type of event, or to all with `*`. Returns a function that ends this subscription. */
  subscribe<Type extends ToolEventType>(type: Type, handler: (event: ToolEvent<Type>) => unknown): () => void;
  subscribe(type: "*", handler: (event: ToolEvent) => unknown): () => void;
  subscribe(type: string, handler: (event: never) => unknown): () => void {
    const subscription: Subscription = { type, handler: handler as (event: ToolEvent) => unknown };
    this.#subscriptions = [...this.#subscriptions, subscription];
    return () => {
      this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
    };
  }

  /** Calls the handlers of the event type, then the handlers of all events. */
  emit(event: ToolEvent): void {
    const subscriptions = this.#subscriptions;
    for (const { handler } of subscriptions.filter(({ type }) => type === event.type)) this.#notify(handler, event);
    for (const { handler } of subscriptions.filter(({ type }) => type === "*")) this.#notify(handler, event);
  }

  #notify(handler: Subscription["handler"], event: ToolEvent): void {
    try {
      const returned = handler(event);
      if (returned instanceof Promise) returned.catch(this.#onHandlerError);
    } catch (error) {
      this.#onHandlerError(error);
    }
  }
}
