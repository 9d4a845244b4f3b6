import type { LoggedEvent } from "#domain/events.ts";
import type { Task } from "#domain/result.ts";
import type { RunOutcome, RunState, TokenUsage } from "#domain/run.ts";
import type { Snapshot } from "#runtime/apply-events.ts";

/** What a view says of a whole log, gathered event by event, so that a long one need not be read again. */
export interface RunSummary {
  /** What this run spent itself and what its children reported. */
  usage: Required<TokenUsage>;
  /** The newest list of tasks. */
  tasks: Task[];
  /** Why the model failed the last time it did. */
  failure: string | undefined;
  /** Why it was stopped, where no person asked for it. */
  stopped: string | undefined;
  /** The model's last words. */
  answer: string;
}

export const emptySummary: RunSummary = {
  usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 },
  tasks: [],
  failure: undefined,
  stopped: undefined,
  answer: "",
};

export function summarize(summary: RunSummary, { event }: Pick<LoggedEvent, "event">): RunSummary {
  switch (event.type) {
    case "model.answered":
      return { ...summary, usage: sum(summary.usage, event.usage), answer: event.text };
    case "child.finished":
      return { ...summary, usage: sum(summary.usage, event.usage) };
    case "model.failed":
      return { ...summary, failure: event.reason };
    case "run.stop":
      return { ...summary, stopped: event.reason };
    case "tool.finished":
      return event.result.value.kind === "task_list" && "tasks" in event.result.value
        ? { ...summary, tasks: event.result.value.tasks }
        : summary;
    case "message.received":
    case "sandbox.opened":
    case "sandbox.failed":
    case "calls.reviewed":
    case "approval.granted":
    case "approval.denied":
    case "approval.expired":
    case "question.answered":
    case "tool.invoked":
    case "run.resume":
    case "run.cancel":
    case "timer.due":
      return summary;
  }
}

function sum(usage: RunSummary["usage"], more: TokenUsage): RunSummary["usage"] {
  return {
    inputTokens: usage.inputTokens + more.inputTokens,
    outputTokens: usage.outputTokens + more.outputTokens,
    cachedInputTokens: usage.cachedInputTokens + (more.cachedInputTokens ?? 0),
  };
}

/** How a run ended, with the text of its answer; undefined while it goes on. */
export function outcomeOf(
  { context: { outcome } }: Snapshot,
  { answer }: Pick<RunSummary, "answer">,
): RunOutcome | undefined {
  return outcome?.kind === "answered" ? { kind: "answered", text: answer } : outcome;
}

/** One sentence about what a run is doing. */
export function activityOf(
  state: RunState,
  { context }: Pick<Snapshot, "context">,
  { failure = "it did not answer.", stopped }: Pick<RunSummary, "failure" | "stopped">,
): string {
  switch (state) {
    case "preparing":
      return "Opening the repository.";
    case "callingModel":
      return "Thinking.";
    case "retrying":
      return `Waiting to try the model again: ${failure}`;
    case "executing":
      return `Running ${runningTool(context) ?? "a tool"}.`;
    case "awaitingApproval":
      return "Waiting for a person to approve or deny.";
    case "awaitingAnswer":
      return "Waiting for a person's answer.";
    case "awaitingChild":
      return "Waiting for another worker.";
    case "idle":
      return "Waiting for the next sentence.";
    case "interrupted":
      return stopped
        ? `Stopped. ${stopped} When that is put right, it goes on with /resume.`
        : "Stopped. It goes on with /resume.";
    case "ended":
      return "Done.";
    case "reviewing":
    case "evaluatingAnswer":
    case "evaluatingCalls":
    case "checkingLimits":
      return "Deciding what to do next.";
  }
}

function runningTool({ openCalls: open }: Snapshot["context"]): string | undefined {
  return open.find(({ answeredBy, status }) => answeredBy === "tool" && status === "running")?.tool;
}
