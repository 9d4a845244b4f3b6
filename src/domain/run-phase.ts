import type { RunOutcome, RunState } from "./run.ts";

/** The phase of a run's life, as people distinguish it. Every view of a run maps it to its own words and icons. */
export type RunPhase =
  | RunOutcome["kind"]
  | "starting"
  | "working"
  | "retrying"
  | "awaitingApproval"
  | "awaitingAnswer"
  | "awaitingChild"
  | "awaitingBudget"
  | "awaitingReview"
  | "awaitingMessage"
  | "stopped";

/** Classifies a run by its outcome or, while it is live, by its state. A run with an open pull request waits for a review. */
export function phaseOf({
  outcome,
  state,
  pullRequest,
}: {
  outcome?: Pick<RunOutcome, "kind"> | undefined;
  state: RunState;
  pullRequest?: number | undefined;
}): RunPhase {
  if (outcome) return outcome.kind;
  switch (state) {
    case "preparing":
      return "starting";
    case "retrying":
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingChild":
    case "awaitingBudget":
      return state;
    case "idle":
      return pullRequest === undefined ? "awaitingMessage" : "awaitingReview";
    case "interrupted":
      return "stopped";
    case "callingModel":
    case "evaluatingAnswer":
    case "reviewing":
    case "evaluatingCalls":
    case "executing":
    case "checkingLimits":
    case "ended":
      return "working";
  }
}
