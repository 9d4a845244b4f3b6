import type { LoggedEvent } from "#domain/events.ts";
import type { Task } from "#domain/result.ts";
import type { OpenCall, RunOutcome, RunState, TokenUsage } from "#domain/run.ts";
import type { WorkerSnapshot } from "#machines/worker-snapshot.ts";
import { stateName } from "#runtime/apply-events.ts";
import type { EffectProblem, StoredRun } from "#runtime/store/store.ts";

/** The parts of a view that come from the log. They are collected event by event, so that a log is read only once. */
export interface RunSummary {
  /** The usage of this run and of the children that have reported. */
  usage: Required<TokenUsage>;
  /** The newest task list. */
  tasks: Task[];
  /** The reason of the model's last failure. */
  failure: string | undefined;
  /** The reason of the last stop, when no person requested it. */
  stopReason: string | undefined;
  /** The text of the model's last answer. */
  answer: string;
  /** Where the last message came from: a thread by its number, or the run's pull request. Default: the run's own thread. */
  conversation: number | "pull request" | undefined;
}

export const emptySummary: RunSummary = {
  usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 },
  tasks: [],
  failure: undefined,
  stopReason: undefined,
  answer: "",
  conversation: undefined,
};

export function summarize(summary: RunSummary, { event }: Pick<LoggedEvent, "event">): RunSummary {
  switch (event.type) {
    case "model.answered":
      return { ...summary, usage: addUsage(summary.usage, event.usage), answer: event.text };
    case "conversation.compacted":
    case "child.finished":
      return { ...summary, usage: addUsage(summary.usage, event.usage) };
    case "model.failed":
      return { ...summary, failure: event.reason };
    case "run.stop":
      return { ...summary, stopReason: event.reason };
    case "tool.finished":
      return event.result.value.kind === "task_list" && "tasks" in event.result.value
        ? { ...summary, tasks: event.result.value.tasks }
        : summary;
    case "pull_request.closed": {
      const how = event.merged ? "merged" : "closed";
      return {
        ...summary,
        conversation: "pull request",
        answer: `Pull request #${event.number} was ${how} by @${event.by}.`,
      };
    }
    case "message.received":
      return event.kind === "comment" ? { ...summary, conversation: event.thread } : summary;
    case "pull_request.reviewed":
    case "checks.completed":
      return { ...summary, conversation: "pull request" };
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

function addUsage(usage: RunSummary["usage"], more: TokenUsage): RunSummary["usage"] {
  return {
    inputTokens: usage.inputTokens + more.inputTokens,
    outputTokens: usage.outputTokens + more.outputTokens,
    cachedInputTokens: usage.cachedInputTokens + (more.cachedInputTokens ?? 0),
  };
}

/** The parts of a view that come from the machine's snapshot. */
export interface RunProgress {
  state: RunState;
  /** One sentence about what the run is doing. */
  activity: string;
  steps: number;
  /** Input and output tokens, including those of children: the number that counts against the limit. */
  tokens: number;
  /** US dollars, for the calls whose price is known. */
  cost: number;
  /** Milliseconds in busy states, without the current one. */
  workedMs: number;
  /** When the current busy state was entered; undefined while the run waits. */
  busySince: number | undefined;
  openCalls: OpenCall[];
  pullRequest: number | undefined;
  outcome: RunOutcome | undefined;
}

/** Describes a run. One that cannot be read, or has data that cannot be read, is shown as stopped with the reason. */
export function progressOf(run: StoredRun, summary: RunSummary, problem: EffectProblem | undefined): RunProgress {
  if (run.unreadable) return { ...stopped(run.unreadable.message), ...noProgress };

  const { snapshot } = run;
  const { steps, tokens, cost, openCalls, outcome } = snapshot.context;
  const state = stateName(snapshot);
  return {
    ...(problem?.kind === "unreadable"
      ? stopped(problem.reason)
      : { state, activity: problem?.reason ?? activityOf(state, openCalls, summary) }),
    steps,
    tokens,
    cost,
    workedMs: snapshot.workedMs,
    busySince: snapshot.busySince,
    openCalls,
    pullRequest: snapshot.context.pullRequest,
    outcome: toOutcome(outcome, summary.answer),
  };
}

const noProgress = {
  steps: 0,
  tokens: 0,
  cost: 0,
  workedMs: 0,
  busySince: undefined,
  openCalls: [],
  pullRequest: undefined,
  outcome: undefined,
};

function stopped(reason: string): Pick<RunProgress, "state" | "activity"> {
  return { state: "interrupted", activity: `Stopped. ${reason}` };
}

function toOutcome(outcome: WorkerSnapshot["context"]["outcome"], answer: string): RunOutcome | undefined {
  return outcome?.kind === "answered" ? { kind: "answered", text: answer } : outcome;
}

function activityOf(
  state: RunState,
  openCalls: readonly OpenCall[],
  { failure = "it did not answer.", stopReason }: Pick<RunSummary, "failure" | "stopReason">,
): string {
  switch (state) {
    case "preparing":
      return "Opening the repository.";
    case "callingModel":
      return "Thinking.";
    case "retrying":
      return `Waiting to try the model again: ${failure}`;
    case "executing":
      return `Running ${runningTool(openCalls) ?? "a tool"}.`;
    case "awaitingApproval":
      return "Waiting for an approval.";
    case "awaitingAnswer":
      return "Waiting for an answer.";
    case "awaitingChild":
      return "Waiting for another worker.";
    case "idle":
      return "Waiting for the next message.";
    case "interrupted":
      return stopReason
        ? `Stopped. ${stopReason} When this is resolved, continue with /resume.`
        : "Stopped. Continue with /resume.";
    case "ended":
      return "Done.";
    case "reviewing":
    case "evaluatingAnswer":
    case "evaluatingCalls":
    case "checkingLimits":
      return "Deciding what to do next.";
  }
}

function runningTool(openCalls: readonly OpenCall[]): string | undefined {
  return openCalls.find(({ answeredBy, status }) => answeredBy === "tool" && status === "running")?.tool;
}
