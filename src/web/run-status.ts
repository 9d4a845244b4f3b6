import type { RunState } from "#domain/run.ts";
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
  idle: "Waiting for a message",
  interrupted: "Stopped",
  ended: "Ended",
};

export interface RunStatus {
  label: string;
  icon: string;
  tone: "good" | "bad" | "waiting" | "busy" | "neutral";
}

/** The status of a run: its outcome, or its state while it is live. */
export function statusOf({
  outcome,
  state,
  pullRequest,
}: Pick<RunNode, "outcome" | "state" | "pullRequest">): RunStatus {
  switch (outcome?.kind) {
    case "answered":
      return { label: "Done", icon: "✅", tone: "good" };
    case "failed":
      return { label: "Failed", icon: "❌", tone: "bad" };
    case "limited":
      return { label: "Limit reached", icon: "🛑", tone: "bad" };
    case "cancelled":
      return { label: "Cancelled", icon: "⏹️", tone: "neutral" };
    case undefined:
      if (state === "idle" && pullRequest !== undefined)
        return { label: "Waiting for review", icon: "👀", tone: "waiting" };
      return { label: stateLabels[state], ...appearanceOf(state) };
  }
}

function appearanceOf(state: RunState): Pick<RunStatus, "icon" | "tone"> {
  switch (state) {
    case "interrupted":
      return { icon: "⏸️", tone: "neutral" };
    case "idle":
    case "awaitingAnswer":
      return { icon: "💬", tone: "waiting" };
    case "awaitingApproval":
      return { icon: "🔐", tone: "waiting" };
    case "preparing":
    case "callingModel":
    case "retrying":
    case "evaluatingAnswer":
    case "reviewing":
    case "evaluatingCalls":
    case "executing":
    case "awaitingChild":
    case "checkingLimits":
    case "ended":
      return { icon: "⚙️", tone: "busy" };
  }
}
