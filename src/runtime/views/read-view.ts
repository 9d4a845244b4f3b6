import { describeChannel } from "#domain/channel.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { RunView } from "#domain/run.ts";
import { type Snapshot, stateName } from "#runtime/apply-events.ts";
import type { RunRow, Store } from "#runtime/store/store.ts";
import { activityOf, emptySummary, outcomeOf, summarize } from "./run-summary.ts";

/** A run and its children as people may see them, derived from the store alone. */
export async function readView(store: Store, runId: string): Promise<RunView | undefined> {
  const row = await store.findRun(runId);
  return row && viewOf(store, row);
}

async function viewOf(store: Store, row: RunRow): Promise<RunView> {
  const [log, children] = await Promise.all([store.log(row.spec.id), store.childrenOf(row.spec.id)]);
  const snapshot = row.snapshot as Snapshot;
  const { cost, steps, openCalls: open } = snapshot.context;
  const state = stateName(snapshot);
  const summary = log.reduce(summarize, emptySummary);
  return {
    spec: row.spec,
    state,
    activity: activityOf(state, snapshot, summary),
    tasks: summary.tasks,
    steps,
    usage: summary.usage,
    ...(cost > 0 ? { cost } : {}),
    openCalls: open,
    log: log.flatMap(lineOf),
    outcome: outcomeOf(snapshot, summary),
    children: await Promise.all(children.map((child) => viewOf(store, child))),
    startedAt: row.spec.createdAt,
    updatedAt: row.updatedAt,
  };
}

function lineOf({ event }: LoggedEvent): string[] {
  switch (event.type) {
    case "message.received":
      // Comments in the thread can be read there.
      return event.via ? [firstLine(`@${event.by} says${describeChannel(event.via)}: ${event.text}`)] : [];
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
    case "run.stop":
      return [event.reason ? `Stopped: ${event.reason}` : `Stopped by @${event.by}${describeChannel(event.via)}`];
    case "run.resume":
      return [`Resumed by @${event.by}${describeChannel(event.via)}`];
    case "sandbox.failed":
    case "run.cancel":
    case "timer.due":
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
