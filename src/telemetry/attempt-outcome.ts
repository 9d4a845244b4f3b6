import { OutageError } from "#domain/errors.ts";
import { Postponed } from "#runtime/effects/effect-handler.ts";

/** Names the outcome of an attempt at an effect that threw. */
export function attemptOutcome(error: unknown, signal: AbortSignal): "interrupted" | "postponed" | "failed" {
  if (signal.aborted) return "interrupted";
  if (error instanceof Postponed || (error instanceof OutageError && error.retryAt !== undefined)) return "postponed";
  return "failed";
}
