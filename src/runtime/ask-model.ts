import type { LoggedEvent, RunEvent } from "#events.ts";
import { ModelFailure, type ModelRequest, type Models } from "#models/models.ts";
import { fitTranscript } from "./fit-transcript.ts";
import { transcript } from "./transcript.ts";

interface Asked extends Pick<ModelRequest, "model" | "instructions" | "tools" | "signal" | "onText"> {
  log: readonly LoggedEvent[];
  /** What the conversation may take of the model's context, in estimated tokens. */
  maxTokens: number;
}

/** One call of the model over everything the log holds, as the event it came to. Throws the signal's reason when aborted. */
export async function askModel(
  models: Models,
  { log, maxTokens, ...request }: Asked,
): Promise<Extract<RunEvent, { type: "model.answered" | "model.failed" }>> {
  const seen = log.at(-1)?.id ?? 0;
  try {
    const answer = await models.call({ ...request, messages: fitTranscript(transcript(log), maxTokens) });
    return { type: "model.answered", ...answer, seen };
  } catch (error) {
    if (!(error instanceof ModelFailure) || request.signal.aborted) throw error;
    const { message: reason, retryable, retryAfterMs } = error;
    return { type: "model.failed", reason, retryable, retryAfterMs };
  }
}
