import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import { ModelFailure, type ModelRequest, type Models } from "#models/models.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { findStuck } from "./find-stuck.ts";
import { fitTranscript } from "./fit-transcript.ts";
import { buildTranscript } from "./transcript.ts";

interface AskModelOptions
  extends Pick<ModelRequest, "model" | "instructions" | "tools" | "serverSideTools" | "signal" | "onText"> {
  log: readonly LoggedEvent[];
  /** The largest conversation, in estimated tokens. */
  maxTokens: number;
  find: Toolbox["find"];
  /** Called with the request right before it is sent. */
  onCall?: (request: ModelRequest) => void;
}

/**
 * Calls the model once with the conversation in the log, and returns the event that follows. The model is not called when
 * the run is stuck or when the conversation does not fit. Throws the signal's reason when aborted.
 */
export async function askModel(
  models: Models,
  { log, maxTokens, find, onCall, ...request }: AskModelOptions,
): Promise<Extract<RunEvent, { type: "model.answered" | "model.failed" }>> {
  const lastSeenId = log.at(-1)?.id ?? 0;
  const stuck = findStuck(log, find);
  if (stuck) return { type: "model.failed", reason: stuck, retryable: false };

  const messages = fitTranscript(buildTranscript(log), maxTokens);
  if (!messages) {
    const reason = `The conversation is longer than the ${maxTokens.toLocaleString("en-US")} tokens that this worker's max_context_tokens allows. Start again with a smaller task.`;
    return { type: "model.failed", reason, retryable: false };
  }
  try {
    onCall?.({ ...request, messages });
    const answer = await models.call({ ...request, messages });
    return { type: "model.answered", ...answer, lastSeenId };
  } catch (error) {
    if (!(error instanceof ModelFailure) || request.signal.aborted) throw error;
    const { message: reason, retryable, retryAfterMs } = error;
    return { type: "model.failed", reason, retryable, retryAfterMs };
  }
}
