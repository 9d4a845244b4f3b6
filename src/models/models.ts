import type { ModelMessage, Telemetry } from "ai";
import type { ModelCall } from "#domain/events.ts";
import type { TokenUsage } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ServerSideTool } from "#domain/worker.ts";
import { closestMatch } from "#text/closest-match.ts";
import { matchesPattern } from "#text/path-pattern.ts";

export interface ModelRequest {
  /** `provider:model`. */
  model: string;
  instructions: string;
  messages: ModelMessage[];
  /** Sent to the model without `execute`: only the runtime executes tools. */
  tools: readonly NamedTool[];
  /** Tools that the provider runs, if it has them. They replace tools of the same name. */
  serverSideTools?: readonly ServerSideTool[];
  signal: AbortSignal;
  /** Receives the text as it arrives. */
  onText?: (delta: string) => void;
  /** Receives the arguments of tool calls as they arrive, as pieces of JSON. */
  onInput?: (piece: InputPiece) => void;
}

/** A piece of the arguments of a tool call, which are JSON. */
export interface InputPiece {
  callId: string;
  tool: string;
  delta: string;
}

export interface ModelAnswer extends ModelUsage {
  /** Includes the sources of the provider's own web searches. */
  text: string;
  /** All tool calls, including those of unknown tools and those with invalid JSON. */
  calls: ModelCall[];
  /** The assistant messages, to be sent back verbatim with the next request. Contains no tool messages. */
  messages: ModelMessage[];
  /** The provider's own web searches: a query or a URL each. */
  searches: string[];
  finishReason: string;
}

/** The price of a model call. */
export interface ModelUsage {
  usage: TokenUsage;
  /** US dollars; undefined if the price is unknown. */
  cost: number | undefined;
}

/** A model call failed. The message is written for people. */
export class ModelFailureError extends Error {
  override readonly name = "ModelFailureError";
  readonly retryable: boolean;
  /** The delay that the provider asked for. */
  readonly retryAfterMs: number | undefined;
  /** The usage of an answer that could not be used; undefined if it is unknown. */
  readonly used: ModelUsage | undefined;

  constructor(
    message: string,
    {
      retryable,
      retryAfterMs,
      used,
      cause,
    }: { retryable: boolean; retryAfterMs?: number; used?: ModelUsage; cause?: unknown },
  ) {
    super(message, { cause });
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
    this.used = used;
  }
}

/** Follows model calls, with callbacks of the AI SDK's telemetry. */
export interface ModelTelemetry
  extends Required<
    Pick<Telemetry, "onLanguageModelCallStart" | "onLanguageModelCallEnd" | "executeLanguageModelCall">
  > {
  /** A call has failed or was aborted. */
  onError(event: { callId: string; error: unknown }): void;
}

export interface Models {
  /** The model for workers that name none; undefined if none is configured. */
  readonly defaultModel: string | undefined;
  /** Explains why a model cannot be used and what to set; undefined if it can be used. */
  findModelProblem(model: string): string | undefined;
  /** Explains why the model's provider cannot run a tool with its settings; undefined if it can. */
  findToolProblem(model: string, tool: ServerSideTool): string | undefined;
  /** Calls a model once, without retries and without executing tools. Throws ModelFailureError, or the signal's reason if aborted. */
  call(request: ModelRequest): Promise<ModelAnswer>;
}

/** The providers of models, by the name before the colon. */
export const providerNames = ["anthropic", "openai", "google", "compatible"] as const;

export interface ModelName {
  /** `""` if the text has no colon. */
  provider: string;
  model: string;
}

/** Splits `provider:model` at the first colon. The model's own name may contain more colons. */
export function parseModelName(text: string): ModelName {
  const colon = text.indexOf(":");
  return colon < 0 ? { provider: "", model: text } : { provider: text.slice(0, colon), model: text.slice(colon + 1) };
}

/** True if `provider:model` matches a pattern such as `anthropic:*`, or there are no patterns. */
export function modelMatches(patterns: readonly string[] | undefined, model: string): boolean {
  return patterns === undefined || patterns.some((pattern) => matchesPattern(pattern, model));
}

/** Explains why a name cannot be that of a model in any configuration; undefined if it can. */
export function findModelNameProblem(name: string): string | undefined {
  const { provider, model } = parseModelName(name);
  if (!provider || !model) {
    return `"${name}" is not a model name. Write provider:model, such as ${providerNames[0]}:claude-haiku-4-5.`;
  }
  if (providerNames.some((known) => known === provider)) return undefined;
  const match = closestMatch(provider, providerNames);
  const advice = match ? `Did you mean ${match}:${model}?` : `The providers are ${providerNames.join(", ")}.`;
  return `Unknown provider ${provider} in the model name ${name}. ${advice}`;
}
