import { approvalStats, describeApprovalStats } from "#domain/approval.ts";
import { deferred } from "#domain/async-work.ts";
import type { LoggedEvent, ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { RunView } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { type RunRow, readable, type Store } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import { createStyle, type Style, visible } from "#terminal/style.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { truncateLine } from "#text/truncate.ts";
import { summarizeResult } from "#ui/result-layout.ts";
import type { CommandContext } from "./command-context.ts";
import { areChangesHandled, turnsOf } from "./saved-runs.ts";
import { findSavedRuns } from "./surroundings.ts";

const maxArguments = 200;

/** Returns the output of `golem log`: the runs of the checkout, or the transcript of one. */
export async function showLog(given: string | undefined, context: CommandContext): Promise<string> {
  const savedRuns = await findSavedRuns(context);
  const paint = createStyle(context.output);
  if (given !== undefined) return transcriptOf(await savedRuns.read(savedRuns.find(given)), paint);

  const runs = await Array.fromAsync(savedRuns.ids(), async (id) => describeRun(id, await savedRuns.read(id), paint));
  const lines = runs.flat();
  return lines.length > 0 ? `${lines.join("\n")}\n` : "No runs of this checkout are saved. Start one with golem run.\n";
}

async function describeRun(id: string, store: Store, paint: Style): Promise<string[]> {
  try {
    const turns = await turnsOf(store);
    const [first, last] = [turns[0], turns.at(-1)];
    const view = last && (await readView(store, last.spec.id));
    if (!first || !view) return [];
    const state = (await areChangesHandled(store)) ? "finished" : stateOf(view);
    const date = new Date(view.updatedAt).toISOString().slice(0, 16).replace("T", " ");
    const line = [paint("bold", id), date, oneLine(first.spec.worker.name), state, await taskOf(store, first)];
    return [line.join("  ")];
  } catch (error) {
    // A run written by a newer release must not hide the others.
    if (!(error instanceof UnreadableDataError)) throw error;
    return [`${paint("bold", id)}  ${visible(error.message)}`];
  } finally {
    await store.close();
  }
}

function stateOf({ state, outcome }: RunView): string {
  if (outcome) return "ended, changes not applied";
  if (state === "interrupted") return "interrupted";
  return state === "awaitingApproval" ? "waiting for approval" : "unfinished";
}

async function taskOf(store: Store, { spec }: RunRow): Promise<string> {
  const log = await store.log(spec.id);
  const message = log.find(({ event }) => event.type === "message.received")?.event;
  const [line = ""] = (message?.type === "message.received" ? message.text : "").trim().split("\n");
  return oneLine(line.slice(0, 80));
}

async function transcriptOf(store: Store, paint: Style): Promise<string> {
  await using _ = deferred(() => store.close());
  const lines = (await Array.fromAsync(await turnsOf(store), (turn) => linesOfRun(store, turn, paint))).flat();
  return lines.length > 0 ? `${lines.join("\n")}\n` : "This run was never started.\n";
}

/** Renders the events of a run. Child runs are below the calls that started them. */
async function linesOfRun(store: Store, { spec }: RunRow, paint: Style): Promise<string[]> {
  const children = (await store.childrenOf(spec.id)).map(readable);
  const calls = new Map<string, ModelCall>();
  const lines: string[] = [];
  for (const { event } of await store.log(spec.id)) {
    if (event.type === "model.answered") for (const call of event.calls) calls.set(call.callId, call);
    const answering = event.type === "child.finished" && children.find((child) => child.spec.id === event.childId);
    if (answering) lines.push(...(await linesOfRun(store, answering, paint)).map((line) => `  ${line}`));
    lines.push(...linesOfEvent(event, calls, paint));
  }
  const view = await readView(store, spec.id);
  const asked = (await store.approvalsOf(spec.rootId)).filter(({ runId }) => runId === spec.id);
  const stats = describeApprovalStats(approvalStats(asked));
  return [...lines, ...(view ? endOf(view, paint) : []), ...(stats === undefined ? [] : [paint("gray", stats)])];
}

function linesOfEvent(
  event: LoggedEvent["event"],
  calls: ReadonlyMap<string, ModelCall>,
  paint: Style,
): readonly string[] {
  switch (event.type) {
    case "message.received":
      return [paint("bold", `> ${visible(event.text)}`)];
    case "model.answered":
      return [
        ...(event.text.trim() === "" ? [] : [visible(event.text)]),
        ...(event.schemaProblem === undefined
          ? []
          : [paint("yellow", `The answer does not match the output schema. ${oneLine(event.schemaProblem)}`)]),
      ];
    case "conversation.compacted":
      return [paint("gray", "— the conversation up to here was summarized —")];
    case "model.failed":
      return [paint("yellow", `The step failed: ${oneLine(event.reason)}`)];
    case "calls.reviewed":
      return event.verdicts.flatMap((verdict) => {
        const { callId, tool } = verdict;
        if (verdict.kind === "refuse") return resultLines(tool, calls.get(callId)?.args, verdict.result, paint);
        return verdict.kind === "ask" ? [paint("yellow", `? ${callLine(tool, calls.get(callId)?.args)}`)] : [];
      });
    case "approval.granted":
      return [paint("green", `  approved${event.args === undefined ? "" : " with other arguments"}`)];
    case "approval.denied":
      return [paint("red", `  denied${event.reason ? `: ${oneLine(event.reason)}` : ""}`)];
    case "tool.finished":
      return resultLines(event.tool, calls.get(event.callId)?.args, event.result, paint);
    case "tool.invoked":
      return resultLines(event.tool, event.args, event.result, paint);
    case "question.answered":
      return [`? ${callLine("ask_user", calls.get(event.callId)?.args)}`, paint("bold", `> ${visible(event.text)}`)];
    case "child.finished": {
      const call = calls.get(event.callId);
      return [`● ${callLine(call?.tool ?? "worker", call?.args)}`, `└> ${event.outcome.kind}`];
    }
    case "pull_request.reviewed":
      return [paint("bold", `> ${visible(event.text)}`)];
    case "checks.completed":
    case "pull_request.closed":
      return [];
    case "run.stop":
      return [paint("yellow", `Interrupted.${event.reason ? ` ${oneLine(event.reason)}` : ""}`)];
    case "sandbox.failed":
      return [paint("red", oneLine(event.reason))];
    case "guidance.read":
    case "sandbox.opened":
    case "approval.expired":
    case "run.resume":
    case "run.cancel":
    case "run.exit":
    case "retry.requested":
    case "conversation.cleared":
    case "model.changed":
    case "cost_limit.raised":
    case "pull_request.reopened":
    case "timer.due":
      return [];
  }
}

function callLine(tool: string, args: unknown): string {
  const text = oneLine(JSON.stringify(args) ?? "");
  return `${oneLine(tool)} ${truncateLine(text, maxArguments)}`;
}

function resultLines(tool: string, args: unknown, result: ToolResult, paint: Style): string[] {
  const { error } = result;
  const line = `└> ${oneLine(error?.message ?? summarizeResult(result))}`;
  return [`● ${callLine(tool, args)}`, error ? paint("red", line) : line];
}

function endOf({ outcome }: RunView, paint: Style): string[] {
  return outcome && "reason" in outcome && outcome.reason ? [paint("red", oneLine(outcome.reason))] : [];
}
