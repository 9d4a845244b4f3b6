import type { ModelMessage } from "ai";
import type { ModelCall } from "#domain/events.ts";
import type { TokenUsage } from "#domain/run.ts";
import type { ServerSideTool } from "#domain/server-side-tool.ts";
import type { NamedTool } from "#domain/tool.ts";

export interface ModelRequest {
  /** `provider:model`. */
  model: string;
  instructions: string;
  messages: ModelMessage[];
  /** Offered without `execute`: the model asks, the runtime acts. */
  tools: readonly NamedTool[];
  /** Run by the provider itself while it answers, where it can; an offered tool of the same name stands back then. */
  serverSideTools?: readonly ServerSideTool[];
  signal: AbortSignal;
  /** Text as it arrives, for whoever is watching. */
  onText?: (delta: string) => void;
}

export interface ModelAnswer {
  /** With the pages that the provider found by itself, where it names any. */
  text: string;
  /** Every call the model made, also those for tools that do not exist or with arguments that are no JSON. */
  calls: ModelCall[];
  /** The assistant messages to send back verbatim next time; never a tool message. */
  messages: ModelMessage[];
  /** What the provider looked up by itself, a query or an address each. */
  searches: string[];
  usage: TokenUsage;
  /** US dollars; undefined where the price is not known. */
  cost: number | undefined;
  finishReason: string;
}

/** The provider failed: the message is a sentence for people. */
export class ModelFailure extends Error {
  override readonly name = "ModelFailure";
  readonly retryable: boolean;
  /** How long the provider asked us to wait. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    { retryable, retryAfterMs, cause }: { retryable: boolean; retryAfterMs?: number; cause?: unknown },
  ) {
    super(message, { cause });
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The language models this deployment can reach. */
export interface Models {
  /** The model to use when a worker names none; undefined when none is configured. */
  readonly defaultModel: string | undefined;
  /** Why this model cannot be used here, as a sentence that says what to set; undefined when it can. */
  findModelProblem(model: string): string | undefined;
  /** Why its provider does not run this tool, or not as it is set up; undefined when it does. */
  findToolProblem(model: string, tool: ServerSideTool): string | undefined;
  /** One call, no retries, nothing executed. Throws ModelFailure, or the signal's reason when aborted. */
  call(request: ModelRequest): Promise<ModelAnswer>;
}
