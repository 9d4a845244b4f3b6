import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { Task } from "#domain/result.ts";
import { type OpenCall, phaseOf, type RunOutcome, type RunSpec, type RunState, type TokenUsage } from "#domain/run.ts";
import { retryDelay } from "#machines/worker-context.ts";
import { stateName } from "#runtime/apply-events.ts";
import type { EffectProblem, RunRow, StoredRun } from "#runtime/store/store.ts";

/** The parts of a view that are derived from the log, event by event, so that a log is read only once. */
export interface RunSummary {
  /** The usage of this run and of the children that have reported. */
  usage: Required<TokenUsage>;
  /** The newest task list. */
  tasks: Task[];
  /** The model's last failure. */
  failure: { reason: string; at: number; retryAfterMs: number | undefined } | undefined;
  /** The last stop, with a reason if no person requested it. */
  stop: { by: string; reason: string | undefined } | undefined;
  /** The text of the model's last answer, or the reason that the run ended. */
  answer: string;
  /** The run was ended from outside, so a model call in progress at that time no longer counts. */
  isClosed: boolean;
  /** The source of the last message: a thread by its number, or the run's pull request. Default: the run's own thread. */
  conversation: number | "pull request" | undefined;
  /** The model that a person chose. Default: the one the run started with. */
  model: string | undefined;
  /** The branch that the run started from; undefined until the repository was opened. */
  base: string | undefined;
  /** The result of the last completed checks, as a sentence. */
  checks: string | undefined;
  /** The use of the time between the first and the last event, oldest first. */
  timeline: readonly TimeSpan[];
}

/** A span of a run's time in which it waited for the model, ran tools, or waited for people. */
export interface TimeSpan {
  kind: "model" | "tools" | "people";
  from: number;
  to: number;
}

export const emptySummary: RunSummary = {
  usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 },
  tasks: [],
  failure: undefined,
  stop: undefined,
  answer: "",
  isClosed: false,
  conversation: undefined,
  model: undefined,
  base: undefined,
  checks: undefined,
  timeline: [],
};

export function summarize(summary: RunSummary, logged: Pick<LoggedEvent, "event" | "at">): RunSummary {
  return { ...addToSummary(summary, logged), timeline: extendTimeline(summary.timeline, logged) };
}

/** The limit per run. Longer timelines drop their oldest spans. */
const maxSpans = 400;

/** Returns the use of the time before an event, which depends on what the event completes. */
function extendTimeline(
  timeline: readonly TimeSpan[],
  { event, at }: Pick<LoggedEvent, "event" | "at">,
): readonly TimeSpan[] {
  const last = timeline.at(-1);
  const span: TimeSpan = { kind: spanKindOf(event), from: last?.to ?? at, to: at };
  if (last && last.kind === span.kind) return [...timeline.slice(0, -1), { ...last, to: at }];
  return [...timeline.slice(1 - maxSpans), span];
}

function spanKindOf(event: RunEvent): TimeSpan["kind"] {
  switch (event.type) {
    case "model.answered":
    case "model.failed":
    case "conversation.compacted":
    case "timer.due":
      return "model";
    case "guidance.read":
    case "sandbox.opened":
    case "sandbox.failed":
    case "calls.reviewed":
    case "tool.finished":
    case "child.finished":
      return "tools";
    case "message.received":
    case "approval.granted":
    case "approval.denied":
    case "approval.expired":
    case "question.answered":
    case "tool.invoked":
    case "pull_request.reviewed":
    case "pull_request.closed":
    case "pull_request.reopened":
    case "checks.completed":
    case "run.stop":
    case "run.resume":
    case "run.cancel":
    case "run.exit":
    case "retry.requested":
    case "conversation.cleared":
    case "model.changed":
    case "cost_limit.raised":
      return "people";
  }
}

/** Adds an event to everything but the timeline, which costs most and is shown by the run page alone. */
export function addToSummary(summary: RunSummary, { event, at }: Pick<LoggedEvent, "event" | "at">): RunSummary {
  switch (event.type) {
    case "model.answered":
      return {
        ...summary,
        usage: addTokens(summary.usage, event.usage),
        ...(!summary.isClosed && { answer: event.text }),
      };
    case "conversation.compacted":
    case "child.finished":
      return { ...summary, usage: addTokens(summary.usage, event.usage) };
    case "model.failed":
      return {
        ...summary,
        usage: event.usage ? addTokens(summary.usage, event.usage) : summary.usage,
        failure: { reason: event.reason, at, retryAfterMs: event.retryAfterMs },
      };
    case "run.stop":
      return { ...summary, stop: { by: event.by, reason: event.reason } };
    case "tool.finished":
      return event.result.value.kind === "task_list" && "tasks" in event.result.value
        ? { ...summary, tasks: event.result.value.tasks }
        : summary;
    case "pull_request.closed":
      return { ...summary, conversation: "pull request", answer: describeClosing(event), isClosed: true };
    case "run.exit":
      return { ...summary, answer: `@${event.by} ended this run.`, isClosed: true };
    case "model.changed":
      return { ...summary, model: event.model };
    case "message.received":
      // What the app asks of a run for a person, such as a merge of the base, is answered where the person asked.
      return event.kind === "comment" || event.thread ? { ...summary, conversation: event.thread } : summary;
    case "pull_request.reopened":
      return { ...summary, conversation: "pull request", isClosed: false };
    case "pull_request.reviewed":
      return { ...summary, conversation: "pull request" };
    case "checks.completed":
      return { ...summary, conversation: "pull request", checks: `${describeChecksResult(event)}.` };
    case "sandbox.opened":
      return { ...summary, base: event.branch };
    case "guidance.read":
    case "sandbox.failed":
    case "calls.reviewed":
    case "approval.granted":
    case "approval.denied":
    case "approval.expired":
    case "question.answered":
    case "tool.invoked":
    case "run.resume":
    case "run.cancel":
    case "retry.requested":
    case "conversation.cleared":
    case "cost_limit.raised":
    case "timer.due":
      return summary;
  }
}

export function describeChecksResult(event: Extract<RunEvent, { type: "checks.completed" }>): string {
  const result = event.passed ? "passed" : event.failedOnBase ? "failed as on the base branch" : "failed";
  return `Checks ${result} on ${event.commit.slice(0, 7)}`;
}

/** Returns the final message of a run whose pull request was merged or closed. GitHub links the commit. */
function describeClosing({ number, merged, by, commit }: Extract<RunEvent, { type: "pull_request.closed" }>): string {
  const how = merged ? "merged" : "closed";
  const at = commit === undefined ? "" : merged ? ` as ${commit}` : ` at ${commit}`;
  const next = merged ? "" : " Reopening it brings this run back.";
  return `Pull request #${number} was ${how} by @${by}${at}.${next}`;
}

function addTokens(usage: RunSummary["usage"], more: TokenUsage): RunSummary["usage"] {
  return {
    inputTokens: usage.inputTokens + more.inputTokens,
    outputTokens: usage.outputTokens + more.outputTokens,
    cachedInputTokens: usage.cachedInputTokens + (more.cachedInputTokens ?? 0),
  };
}

/** The parts of a view that are derived from the machine's snapshot. */
export interface RunProgress {
  state: RunState;
  /** A sentence about what the run is doing. */
  activity: string;
  steps: number;
  /** Input and output tokens, including those of children, which count towards the limit. */
  tokens: number;
  /** US dollars, for the calls whose price is known. */
  cost: number;
  /** Milliseconds in busy states so far, without the current one. */
  workedMs: number;
  /** The time at which the current busy state was entered; undefined while the run waits. */
  busySince: number | undefined;
  openCalls: OpenCall[];
  pullRequest: number | undefined;
  outcome: RunOutcome | undefined;
  /** Says that the log was removed; undefined if it is kept. */
  removedLog: string | undefined;
  /** The plan. In a run that has ended, no task is in progress. */
  tasks: Task[];
}

/** Describes a run. A run that cannot be read, or that has unreadable data, is shown as paused with the reason. */
export function progressOf(run: StoredRun, summary: RunSummary, problem: EffectProblem | undefined): RunProgress {
  if (run.unreadable) return { ...paused(run.unreadable.message), ...noProgress, tasks: summary.tasks };

  const { snapshot } = run;
  const removedLog = describeRemovedLog(run);
  const { steps, tokens, cost, openCalls, pullRequest, outcome, consecutiveFailures } = snapshot.context;
  const state = stateName(snapshot);
  const progress = { state, openCalls, pullRequest, consecutiveFailures };
  return {
    ...(problem?.kind === "unreadable"
      ? paused(problem.reason)
      : { state, activity: problem?.reason ?? activityOf(progress, summary) }),
    steps,
    tokens,
    cost,
    workedMs: snapshot.workedMs,
    busySince: snapshot.busySince,
    openCalls,
    pullRequest,
    outcome: outcome?.kind === "answered" ? { kind: "answered", text: removedLog ?? summary.answer } : outcome,
    removedLog,
    tasks: outcome ? summary.tasks.map(withoutProgress) : summary.tasks,
  };
}

function withoutProgress(task: Task): Task {
  return task.status === "in_progress" ? { ...task, status: "pending" } : task;
}

/** Says that the log of a run was removed; undefined if it is kept. */
export function describeRemovedLog({ logRemovedAt }: Pick<RunRow, "logRemovedAt">): string | undefined {
  if (logRemovedAt === undefined) return undefined;
  const date = new Date(logRemovedAt).toISOString().slice(0, 10);
  return `The log of this run was removed on ${date}, because this server keeps logs for a limited time.`;
}

/** Returns the spec of a run with the changes that people made since it started: its model and its cost limit. */
export function currentSpec(run: StoredRun, { model }: RunSummary): RunSpec | undefined {
  if (run.unreadable) return run.displaySpec;
  const { spec, snapshot } = run;
  const { limits } = snapshot.context;
  return { ...spec, model: model ?? spec.model, worker: { ...spec.worker, limits } };
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
  removedLog: undefined,
};

function paused(reason: string): Pick<RunProgress, "state" | "activity"> {
  return { state: "interrupted", activity: `Paused. ${reason}` };
}

interface ActiveRun {
  state: RunState;
  openCalls: readonly OpenCall[];
  pullRequest: number | undefined;
  /** The number of failed model calls since the last answer. */
  consecutiveFailures: number;
}

function activityOf(
  run: ActiveRun,
  { failure, stop, checks }: Pick<RunSummary, "failure" | "stop" | "checks">,
): string {
  const phase = phaseOf(run);
  switch (phase) {
    case "starting":
      return "Opening the repository.";
    case "retrying":
      return `Waiting to try the model again: ${describeFailure(run, failure)}`;
    case "awaitingApproval":
      return "Waiting for approval.";
    case "awaitingAnswer":
      return "Waiting for an answer.";
    case "awaitingChild":
      return "Waiting for another worker.";
    case "awaitingBudget":
      return "The cost limit is used up. Raise it with /approve +$2, or end the run with /cancel.";
    case "awaitingReview":
      return `Waiting for review of #${run.pullRequest}.${checks ? ` ${checks}` : ""}`;
    case "awaitingMessage":
      return "Waiting for the next message.";
    case "paused":
      return stop?.reason
        ? `Paused. ${stop.reason} When this is resolved, continue with /resume.`
        : `Paused${stop ? ` by @${stop.by}` : ""}. Continue it with /resume.`;
    case "working":
      return workOf(run, failure);
    case "answered":
    case "failed":
    case "limited":
    case "cancelled":
      return "Done.";
  }
}

/** Returns the reason of the model's last failure and the time of the next try. */
function describeFailure({ consecutiveFailures }: ActiveRun, failure: RunSummary["failure"]): string {
  if (!failure) return "it did not answer.";
  const retryAt = failure.at + retryDelay(consecutiveFailures - 1, failure);
  return `${failure.reason} The next try is at ${new Date(retryAt).toISOString().slice(11, 19)} UTC.`;
}

function workOf({ state, openCalls, consecutiveFailures }: ActiveRun, failure: RunSummary["failure"]): string {
  if (state === "callingModel") {
    return consecutiveFailures > 0 && failure ? `Trying the model again: ${failure.reason}` : "Thinking.";
  }
  if (state === "executing") return `Running ${runningTool(openCalls) ?? "a tool"}.`;
  return state === "ended" ? "Done." : "Deciding what to do next.";
}

function runningTool(openCalls: readonly OpenCall[]): string | undefined {
  return openCalls.find(({ answeredBy, status }) => answeredBy === "tool" && status === "running")?.tool;
}
