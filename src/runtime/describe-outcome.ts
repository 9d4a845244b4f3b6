import type { RunOutcome } from "#domain/run.ts";

/** The end of a run in words for another worker. */
export function describeOutcome(outcome: RunOutcome): string {
  switch (outcome.kind) {
    case "answered":
      return outcome.text || "It finished without saying anything.";
    case "failed":
      return `It failed: ${outcome.reason}`;
    case "limited":
      return `It was stopped by a limit (${outcome.limit}): ${outcome.reason}`;
    case "cancelled":
      return `It was cancelled by @${outcome.by}.`;
  }
}
