import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { OpenCall } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";

/** What policy says of one call, before it runs. */
export type Review =
  | { kind: "allow"; answeredBy: OpenCall["answeredBy"]; args: unknown }
  | { kind: "ask"; answeredBy: OpenCall["answeredBy"]; args: unknown; reason: string; preview: string | undefined }
  | { kind: "refuse"; result: ToolResult };

/** A call with the context the runtime runs it in. */
export type CallContext = Pick<ToolContext, "abortSignal" | "messages" | "run" | "idempotencyKey" | "output"> & {
  /** Who asks for the call; default: the model, which reaches no manual tool. */
  invokedBy?: "model" | "person";
};

/** The tools of one run, with the rules around them. */
export interface Toolbox {
  readonly tools: readonly NamedTool[];
  /** What the model is offered; stable in order, schemas converted once. */
  readonly offered: readonly NamedTool[];
  /** The tool of this name or alias. */
  find(name: string): NamedTool | undefined;
  /**
   * Validates the arguments and asks the tool and its policy. `remembered` holds approvals a person gave for the
   * whole session. Never throws: what is wrong with a call is a refusal that tells the model how to do better.
   */
  review(
    call: ModelCall,
    context: CallContext,
    remembered: readonly { tool: string; args: unknown }[],
  ): Promise<Review>;
  /** Runs a call that was allowed. Never throws: failures, timeouts and interruptions are results. */
  execute(call: ModelCall, context: CallContext): Promise<ToolResult>;
  close(): Promise<void>;
}
