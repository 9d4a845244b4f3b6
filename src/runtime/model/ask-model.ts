import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import { ModelFailure, type ModelRequest, type Models } from "#models/models.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { findStuck } from "./find-stuck.ts";
import { fitTranscript } from "./fit-transcript.ts";
import { transcript } from "./transcript.ts";

interface Asked
  extends Pick<ModelRequest, "model" | "instructions" | "tools" | "serverSideTools" | "signal" | "onText"> {
  log: readonly LoggedEvent[];
  /** What the conversation may take of the model's context, in estimated tokens. */
  maxTokens: number;
  find: Toolbox["find"];
  /** Called with the request right before it is sent. */
  onCall?: (request: ModelRequest) => void;
}

/**
 * One call of the model over everything the log holds, as the event it came to. It is not asked when the run goes in
 * circles, or when the conversation does not fit. Throws the signal's reason when aborted.
 */
export async function askModel(
  models: Models,
  { log, maxTokens, find, onCall, ...request }: Asked,
): Promise<Extract<RunEvent, { type: "model.answered" | "model.failed" }>> {
  const seen = log.at(-1)?.id ?? 0;
  const stuck = findStuck(log, find);
  if (stuck) return { type: "model.failed", reason: stuck, retryable: false };

  const messages = fitTranscript(transcript(log), maxTokens);
  if (!messages) {
    const reason = `The conversation has become longer than the ${maxTokens.toLocaleString("en-US")} tokens this worker can remember (max_context_tokens). Start again with a smaller task.`;
    return { type: "model.failed", reason, retryable: false };
  }
  try {
    onCall?.({ ...request, messages });
    const answer = await models.call({ ...request, messages });
    return { type: "model.answered", ...answer, lastSeenId: seen };
  } catch (error) {
    if (!(error instanceof ModelFailure) || request.signal.aborted) throw error;
    const { message: reason, retryable, retryAfterMs } = error;
    return { type: "model.failed", reason, retryable, retryAfterMs };
  }
}
