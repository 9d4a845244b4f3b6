import type { RunState } from "#domain/run.ts";
import { phaseOf } from "#domain/run-phase.ts";
import type { RunNode } from "#runtime/views/run-view-reader.ts";

/** The states of the worker machine, as people read them. */
export const stateLabels: Record<RunState, string> = {
  preparing: "Starting",
  callingModel: "Waiting for the model",
  retrying: "Waiting to retry",
  evaluatingAnswer: "Reading the answer",
  reviewing: "Checking tool calls",
  evaluatingCalls: "Deciding about tool calls",
  executing: "Running tools",
  awaitingApproval: "Waiting for approval",
  awaitingAnswer: "Waiting for an answer",
  awaitingChild: "Waiting for another worker",
  checkingLimits: "Checking limits",
  awaitingBudget: "Waiting for a higher cost limit",
  idle: "Waiting for a message",
  interrupted: "Stopped",
  ended: "Ended",
};

interface RunStatus {
  label: string;
  icon: string;
  tone: "good" | "bad" | "waiting" | "busy" | "neutral";
}

/** The status of a run: its outcome, or its state while it is live. */
export function statusOf(run: Pick<RunNode, "outcome" | "state" | "pullRequest">): RunStatus {
  const phase = phaseOf(run);
  switch (phase) {
    case "answered":
      return { label: "Done", icon: "✅", tone: "good" };
    case "failed":
      return { label: "Failed", icon: "❌", tone: "bad" };
    case "limited":
      return { label: "Limit reached", icon: "🛑", tone: "bad" };
    case "cancelled":
      return { label: "Cancelled", icon: "⏹️", tone: "neutral" };
    case "awaitingReview":
      return { label: "Waiting for review", icon: "👀", tone: "waiting" };
    case "stopped":
      return { label: "Stopped", icon: "⏸️", tone: "neutral" };
    case "awaitingBudget":
      return { label: "Cost limit reached", icon: "💰", tone: "waiting" };
    case "awaitingMessage":
    case "awaitingAnswer":
      return { label: stateLabels[run.state], icon: "💬", tone: "waiting" };
    case "awaitingApproval":
      return { label: stateLabels[run.state], icon: "🔐", tone: "waiting" };
    case "starting":
    case "working":
    case "retrying":
    case "awaitingChild":
      return { label: stateLabels[run.state], icon: "⚙️", tone: "busy" };
  }
}
