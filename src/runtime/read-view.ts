import type { LoggedEvent } from "#events.ts";
import type { Task, ToolResult } from "#result.ts";
import type { RunOutcome, RunView, TokenUsage } from "#run.ts";
import { type Snapshot, stateName } from "./fold.ts";
import type { RunRow, Store } from "./store/store.ts";

/** A run and its children as people may see them, derived from the store alone. */
export async function readView(store: Store, runId: string): Promise<RunView | undefined> {
  const row = await store.run(runId);
  return row && viewOf(store, row);
}

async function viewOf(store: Store, row: RunRow): Promise<RunView> {
  const [log, children] = await Promise.all([store.log(row.spec.id), store.childrenOf(row.spec.id)]);
  const snapshot = row.snapshot as Snapshot;
  const { cost, steps, open } = snapshot.context;
  const state = stateName(snapshot);
  return {
    spec: row.spec,
    state,
    activity: activityOf(state, snapshot, log),
    tasks: tasksOf(log),
    steps,
    usage: usageOf(log),
    ...(cost > 0 ? { cost } : {}),
    openCalls: open,
    log: log.flatMap(lineOf),
    outcome: outcomeOf(snapshot, log),
    children: await Promise.all(children.map((child) => viewOf(store, child))),
    startedAt: row.spec.createdAt,
    updatedAt: row.updatedAt,
  };
}

function activityOf(state: string, { context }: Snapshot, log: readonly LoggedEvent[]): string {
  switch (state) {
    case "preparing":
      return "Opening the repository.";
    case "callingModel":
      return "Thinking.";
    case "retrying":
      return `Waiting to try the model again: ${lastFailure(log)}`;
    case "executing":
      return `Running ${runningTool(context) ?? "a tool"}.`;
    case "awaitingApproval":
      return "Waiting for a person to approve or deny.";
    case "awaitingAnswer":
      return "Waiting for a person's answer.";
    case "awaitingWorker":
      return "Waiting for another worker.";
    case "idle":
      return "Waiting for the next sentence.";
    case "interrupted":
      return "Stopped. It goes on with /resume.";
    case "ended":
      return "Done.";
    default:
      return "Deciding what to do next.";
  }
}

function runningTool({ open }: Snapshot["context"]): string | undefined {
  return open.find(({ as, status }) => as === "tool" && status === "running")?.tool;
}

function lastFailure(log: readonly LoggedEvent[]): string {
  const event = log.findLast((logged) => logged.event.type === "model.failed")?.event;
  return event?.type === "model.failed" ? event.reason : "it did not answer.";
}

function tasksOf(log: readonly LoggedEvent[]): Task[] {
  for (const { event } of log.toReversed()) {
    if (event.type !== "tool.finished") continue;
    if (event.result.value.kind === "task_list" && "tasks" in event.result.value) return event.result.value.tasks;
  }
  return [];
}

/** What this run spent itself and what its children reported. */
export function usageOf(log: readonly LoggedEvent[]): TokenUsage {
  const usage = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 };
  for (const { event } of log) {
    if (event.type !== "model.answered" && event.type !== "child.finished") continue;
    usage.inputTokens += event.usage.inputTokens;
    usage.outputTokens += event.usage.outputTokens;
    usage.cachedInputTokens += event.usage.cachedInputTokens ?? 0;
  }
  return usage;
}

/** How a run ended, with the text of its answer; undefined while it goes on. */
export function outcomeOf({ context: { end } }: Snapshot, log: readonly LoggedEvent[]): RunOutcome | undefined {
  if (end?.kind !== "answered") return end;
  const answer = log.findLast(({ event }) => event.type === "model.answered")?.event;
  return { kind: "answered", text: answer?.type === "model.answered" ? answer.text : "" };
}

function lineOf({ event }: LoggedEvent): string[] {
  switch (event.type) {
    case "sandbox.opened":
      return [`Opened ${event.branch} at ${event.commit.slice(0, 7)}`];
    case "model.answered":
      return [...(event.searches ?? []).map(describeSearch), ...(event.text ? [firstLine(event.text)] : [])];
    case "model.failed":
      return [`The model failed: ${event.reason}`];
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
    case "approval.given":
      return [`@${event.by} approved ${event.approvalId}`];
    case "approval.denied":
      return [`@${event.by} denied ${event.approvalId}${event.reason ? `: ${firstLine(event.reason)}` : ""}`];
    case "approval.expired":
      return [`${event.approvalId} expired`];
    case "person.answered":
      return [`@${event.by} answered`];
    case "child.finished":
      return [`A worker finished: ${event.outcome.kind}`];
    case "run.stop":
      return [`Stopped by @${event.by}`];
    case "run.resume":
      return [`Resumed by @${event.by}`];
    default:
      return [];
  }
}

function describeSearch(search: string): string {
  return `The model's provider searched the web: ${firstLine(search)}`;
}

function describeEnd({ tool, result }: { tool: string; result: ToolResult }): string {
  return `${tool}: ${result.error ? `failed, ${firstLine(result.error.message)}` : summaryOf(result)}`;
}

function summaryOf({ value, llmContent }: ToolResult): string {
  return value.summary ?? firstLine(llmContent);
}

function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}
