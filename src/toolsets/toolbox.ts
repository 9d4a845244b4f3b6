import type { Approval } from "#domain/approval.ts";
import type { ModelCall } from "#domain/events.ts";
import type { Preview } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import type { OpenCall } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";

/** The decision on one call before it runs. `args` are the validated arguments: what is shown, stored and executed. */
export type Review =
  /** `approvalId`: the approval for the session that covers it. */
  | { kind: "allow"; answeredBy: OpenCall["answeredBy"]; args: unknown; approvalId?: string }
  | { kind: "ask"; answeredBy: OpenCall["answeredBy"]; args: unknown; reason: string; preview: Preview | undefined }
  | { kind: "refuse"; result: ToolResult };

/** The context in which the runtime reviews and runs a call. */
export type CallContext = Pick<
  ToolContext,
  "abortSignal" | "messages" | "run" | "idempotencyKey" | "output" | "approved"
> & {
  /** Default: the model, which cannot call manual tools. */
  invokedBy?: "model" | "person";
};

/** A call to a tool that its caller may use, with arguments that the tool accepts. */
export interface PreparedCall {
  call: ModelCall;
  invokedBy: "model" | "person";
  tool: NamedTool;
  /** The arguments as the tool receives them, such as with text parsed into a date. */
  value: unknown;
  /** The arguments as they are shown, stored and compared. */
  args: unknown;
}

/** The tools of one run and the rules for calling them. */
export interface Toolbox {
  readonly tools: readonly NamedTool[];
  /** The tools the model is offered, in a stable order and with JSON Schemas. */
  readonly offered: readonly NamedTool[];
  /** The tool of this name or alias. */
  find(name: string): NamedTool | undefined;
  /**
   * Validates a call and decides whether it may run. `remembered` holds the approvals given for the session. Never
   * throws: an invalid call is refused with a result that tells the model how to correct it.
   */
  review(call: ModelCall, context: CallContext, remembered: readonly Approval[]): Promise<Review>;
  /**
   * Runs a call that was allowed; a call that was reviewed here is not validated again. Never throws: failures, timeouts
   * and interruptions are results.
   */
  execute(call: ModelCall, context: CallContext): Promise<ToolResult>;
  close(): Promise<void>;
}
