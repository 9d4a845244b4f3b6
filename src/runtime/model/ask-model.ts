import type { ModelMessage } from "ai";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import { ModelFailure, type ModelRequest, type Models } from "#models/models.ts";
import { estimateToolTokens } from "#models/offer-tools.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { compactConversation } from "./compact-conversation.ts";
import { findStuck } from "./find-stuck.ts";
import { fitTranscript } from "./fit-transcript.ts";
import { buildTranscript } from "./transcript.ts";

interface AskModelOptions
  extends Pick<ModelRequest, "model" | "instructions" | "tools" | "serverSideTools" | "signal" | "onText" | "onInput"> {
  log: readonly LoggedEvent[];
  /** The largest conversation, in estimated tokens. */
  maxTokens: number;
  find: Toolbox["find"];
  /** Called with the request right before it is sent. */
  onCall?: (request: ModelRequest) => void;
}

type Answer = Extract<RunEvent, { type: "conversation.compacted" | "model.answered" | "model.failed" }>;

/**
 * Calls the model with the conversation in the log, and returns the events that follow: its answer, after a summary where
 * the conversation has become long. The model is not called when the run is stuck or when the conversation does not fit.
 * Throws the signal's reason when aborted.
 */
export async function askModel(
  models: Models,
  { log, maxTokens, find, onCall, ...request }: AskModelOptions,
): Promise<Answer[]> {
  const lastSeenId = log.at(-1)?.id ?? 0;
  const stuck = findStuck(log, find);
  if (stuck) return [{ type: "model.failed", reason: stuck, retryable: false }];

  const announced = (messages: ModelMessage[]): ModelRequest => {
    onCall?.({ ...request, messages });
    return { ...request, messages };
  };
  const events: Answer[] = [];
  try {
    const available = maxTokens - estimateTokens(request.instructions) - (await estimateToolTokens(request.tools));
    const summary = await compactConversation(models, log, { maxTokens: available, call: announced });
    if (summary) events.push(summary);
    const event = summary && { id: lastSeenId + 1, runId: "", at: 0, event: summary };
    const messages = fitTranscript(buildTranscript(event ? [...log, event] : log), available);
    if (!messages) return [...events, { type: "model.failed", reason: describeTooLong(maxTokens), retryable: false }];
    const answer = await models.call(announced(messages));
    return [...events, { type: "model.answered", ...answer, lastSeenId }];
  } catch (error) {
    if (!(error instanceof ModelFailure) || request.signal.aborted) throw error;
    const { message: reason, retryable, retryAfterMs } = error;
    return [...events, { type: "model.failed", reason, retryable, retryAfterMs }];
  }
}

function describeTooLong(maxTokens: number): string {
  return `The conversation, with the worker's instructions and tools, is longer than the ${maxTokens.toLocaleString("en-US")} tokens that this worker's max_context_tokens allows. Start again with a smaller task, or raise it.`;
}
