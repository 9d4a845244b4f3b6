import { describeChannel } from "#domain/approval.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import { isScheduled, nothingToDo, type RunView } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { foldForward } from "#runtime/read-log.ts";
import type { EffectProblem, Store, StoredRun } from "#runtime/store/store.ts";
import { firstLine } from "#text/truncate.ts";
import { summarizeResult } from "#ui/result-layout.ts";
import {
  addToSummary,
  currentSpec,
  describeChecksResult,
  emptySummary,
  progressOf,
  type RunSummary,
} from "./run-summary.ts";

/**
 * Returns a run and its descendants as shown to people; undefined if the run does not exist or nothing of it can be
 * shown. `logOf` reads the log of the run itself, for callers that have most of it in memory.
 */
export async function readView(
  store: Store,
  runId: string,
  logOf: () => Promise<readonly LoggedEvent[]> = () => store.log(runId),
): Promise<RunView | undefined> {
  const run = await store.findRun(runId);
  return run && viewOf(store, run, logOf);
}

async function viewOf(
  store: Store,
  run: StoredRun,
  logOf: () => Promise<readonly LoggedEvent[]> = () => store.log(run.id),
): Promise<RunView | undefined> {
  const [{ log, problem }, children] = await Promise.all([readLog(store, run.id, logOf), store.childrenOf(run.id)]);
  const { summary, lines } = shownOf(log);
  const spec = currentSpec(run, summary);
  if (!spec) return undefined;
  const { state, activity, tasks, steps, tokens, cost, openCalls, pullRequest, outcome, removedLog } = progressOf(
    run,
    summary,
    problem,
  );
  const views = await Promise.all(children.map((child) => viewOf(store, child)));
  return {
    spec,
    state,
    activity,
    tasks,
    steps,
    usage: summary.usage,
    tokens,
    ...(cost > 0 ? { cost } : {}),
    openCalls,
    ...(pullRequest === undefined ? {} : { pullRequest }),
    replyThread: summary.conversation === "pull request" ? pullRequest : summary.conversation,
    log: [...(removedLog === undefined ? [] : [removedLog]), ...lines],
    outcome,
    children: views.filter((view) => view !== undefined),
    startedAt: spec.createdAt,
    updatedAt: run.updatedAt,
  };
}

const shownOf = foldForward(
  (): { summary: RunSummary; lines: string[] } => ({ summary: emptySummary, lines: [] }),
  (shown, logged) => {
    shown.summary = addToSummary(shown.summary, logged);
    shown.lines.push(...lineOf(logged));
  },
);

/** Leaves out a log that cannot be read, and returns the reason. */
async function readLog(
  store: Store,
  runId: string,
  logOf: () => Promise<readonly LoggedEvent[]>,
): Promise<{ log: readonly LoggedEvent[]; problem?: EffectProblem | undefined }> {
  try {
    return { log: await logOf(), problem: await store.effectProblem(runId) };
  } catch (error) {
    if (!(error instanceof UnreadableDataError)) throw error;
    return { log: [], problem: { kind: "unreadable", reason: error.message } };
  }
}

function lineOf({ event }: LoggedEvent): string[] {
  switch (event.type) {
    case "message.received":
      // Comments in the thread can be read there.
      return event.via ? [firstLine(`@${event.by} says${describeChannel(event.via)}: ${event.text}`)] : [];
    case "guidance.read":
      return [`Read the guidance in ${event.files.map(({ path }) => path).join(", ")}`];
    case "sandbox.opened":
      return [`Opened ${event.branch} at ${event.commit.slice(0, 7)}`];
    case "model.answered":
      return [
        ...(event.searches ?? []).map((search) => `The model's provider searched the web: ${firstLine(search)}`),
        ...(event.text ? [firstLine(event.text)] : []),
        ...(event.schemaProblem === undefined ? [] : [firstLine(`Not a valid answer: ${event.schemaProblem}`)]),
      ];
    case "conversation.compacted":
      return ["Summarized the conversation so far"];
    case "model.failed":
      return [`The step failed: ${event.reason}`];
    case "tool.finished":
      return [describeEnd(event)];
    case "tool.invoked":
      return [`@${event.by} ran ${describeEnd(event)}`];
    case "calls.reviewed":
      return event.verdicts.flatMap((verdict) =>
        verdict.kind === "refuse"
          ? [`${verdict.tool}: refused, ${firstLine(verdict.result.error?.message ?? "")}`]
          : [],
      );
    case "approval.granted":
      return [`@${event.by} approved ${event.approvalId}${describeChannel(event.via)}`];
    case "approval.denied":
      return [
        `@${event.by} denied ${event.approvalId}${describeChannel(event.via)}${event.reason ? `: ${firstLine(event.reason)}` : ""}`,
      ];
    case "approval.expired":
      return [`${event.approvalId} expired`];
    case "question.answered":
      return [`@${event.by} answered${describeChannel(event.via)}`];
    case "child.finished":
      return [`A worker finished: ${event.outcome.kind}`];
    case "pull_request.reviewed":
      return [`@${event.by} ${event.requestsChanges ? "requested changes" : "reviewed the pull request"}`];
    case "checks.completed":
      return [describeChecksResult(event)];
    case "pull_request.closed":
      return [`@${event.by} ${event.merged ? "merged" : "closed"} #${event.number}`];
    case "pull_request.reopened":
      return [`@${event.by} reopened #${event.number}`];
    case "run.exit":
      return [`@${event.by} ended the run${describeChannel(event.via)}`];
    case "retry.requested":
      return [`@${event.by} asked to try again${describeChannel(event.via)}`];
    case "conversation.cleared":
      return [`@${event.by} cleared the conversation${describeChannel(event.via)}`];
    case "model.changed":
      return [`@${event.by} changed the model to ${event.model}${describeChannel(event.via)}`];
    case "cost_limit.raised":
      return [`@${event.by} raised the cost limit to $${event.limit.toFixed(2)}${describeChannel(event.via)}`];
    case "run.stop":
      return [event.reason ? `Paused: ${event.reason}` : `Paused by @${event.by}${describeChannel(event.via)}`];
    case "run.resume":
      return [`Resumed by @${event.by}${describeChannel(event.via)}`];
    case "sandbox.failed":
    case "run.cancel":
    case "timer.due":
      return [];
  }
}

function describeEnd({ tool, result }: { tool: string; result: ToolResult }): string {
  return `${tool}: ${result.error ? `failed, ${firstLine(result.error.message)}` : summarizeResult(result)}`;
}

/** True for a scheduled run with nothing to show: it has asked for nothing yet, or found nothing to do. */
export function isQuiet({ spec, outcome, openCalls, pullRequest, children }: RunView): boolean {
  if (!isScheduled(spec.origin) || pullRequest !== undefined) return false;
  if (outcome)
    return outcome.kind === "answered" && outcome.text.trim().replace(/\.$/, "") === nothingToDo.slice(0, -1);
  const asksPeople = openCalls.some(
    ({ status, answeredBy }) => status === "awaitingApproval" || answeredBy === "person",
  );
  return !asksPeople && children.every((child) => child.openCalls.every(({ status }) => status !== "awaitingApproval"));
}
