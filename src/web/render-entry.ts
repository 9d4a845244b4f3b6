import type { Approval } from "#domain/approval.ts";
import { describeChannel } from "#domain/channel.ts";
import type { LoggedEvent, ModelCall, RunEvent, Verdict } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { CallLine, RunNode } from "#runtime/views/run-view-reader.ts";
import { truncateText } from "#text/truncate.ts";
import { type Html, html } from "./html.ts";
import { describeOutcome, renderNumbers } from "./render-numbers.ts";
import { block, describeLines, renderJson, renderValue, renderWords } from "./render-value.ts";

/** What an entry may say beyond its own event. */
export interface EntryContext {
  lane: RunNode;
  /** The runs that this one started. */
  children: readonly RunNode[];
  approvals: readonly Approval[];
  /** Where its repository is in a browser. */
  repositoryUrl: string;
}

/** One event of a run as an entry of its transcript. Undefined for what only the machine cares about. */
export function renderEntry({ id, at, event }: LoggedEvent, context: EntryContext): Html | undefined {
  const entry = contentOf(event, context);
  if (!entry) return undefined;
  const { kind, who, body } = entry;
  const time = new Date(at).toISOString();
  return html`<li class="entry ${kind}" id="event-${id}"><p class="who"><span class="what">${who}</span> <time datetime="${time}">${time.slice(11, 19)}</time></p>${body}</li>`;
}

interface Entry {
  kind: "person" | "model" | "tool" | "failed" | "note";
  who: string | Html;
  body?: Html | undefined;
}

function contentOf(event: RunEvent, context: EntryContext): Entry | undefined {
  switch (event.type) {
    case "message.received":
      return renderSaid(event);
    case "sandbox.opened":
      return note(html`Opened <code>${event.branch}</code> at <code>${event.commit.slice(0, 7)}</code>`);
    case "sandbox.failed":
      return { kind: "failed", who: "The repository could not be opened", body: html`<p>${event.reason}</p>` };
    case "model.answered":
      return renderAnswer(event, context);
    case "model.failed":
      return { kind: "failed", who: "The model failed", body: html`<p>${event.reason}</p>` };
    case "calls.reviewed":
      return renderReview(event.verdicts, context);
    case "approval.granted":
      return renderGiven(event);
    case "approval.denied":
      return {
        kind: "person",
        who: html`⛔ <b>${event.by}</b> denied <code>${event.approvalId}</code>${describeChannel(event.via)}`,
        body: event.reason === undefined ? undefined : html`<p class="said">${event.reason}</p>`,
      };
    case "approval.expired":
      return note(html`⌛ <code>${event.approvalId}</code> expired without an answer`);
    case "question.answered":
      return {
        kind: "person",
        who: html`<b>${event.by}</b> answered${describeChannel(event.via)}`,
        body: html`<p class="said">${event.text}</p>`,
      };
    case "tool.finished":
      return renderResult(event, context.lane.calls.get(event.callId), context);
    case "tool.invoked":
      return renderResult(event, { tool: event.tool, args: "" }, context, event.by);
    case "child.finished":
      return renderChild(event, context);
    case "run.stop":
      return { kind: "person", who: html`⏸️ <b>${event.by}</b> stopped it${describeChannel(event.via)}` };
    case "run.resume":
      return { kind: "person", who: html`▶️ <b>${event.by}</b> resumed it${describeChannel(event.via)}` };
    case "run.cancel":
      return { kind: "person", who: html`⏹️ <b>${event.by}</b> cancelled it${describeChannel(event.via)}` };
    case "timer.due":
      return event.timer === "deadline" ? note("Its time is up") : note("Tries the model again");
  }
}

function note(who: string | Html): Entry {
  return { kind: "note", who };
}

/** Characters of what a person or a thread said. */
const longestSaid = 60_000;

function renderSaid({ kind, text, by, via }: Extract<RunEvent, { type: "message.received" }>): Entry {
  if (kind === "context") {
    const body = html`<details><summary>${describeLines(text)}, as the worker reads it</summary>${block(truncateText(text, longestSaid))}</details>`;
    return { kind: "note", who: "What it was told", body };
  }
  return {
    kind: "person",
    who: html`<b>${by}</b>${describeChannel(via)}`,
    body: html`<p class="said">${truncateText(text || "Work on this.", longestSaid)}</p>`,
  };
}

function renderAnswer(
  event: Extract<RunEvent, { type: "model.answered" }>,
  { lane, repositoryUrl }: EntryContext,
): Entry {
  const { text, calls, searches = [], usage, cost } = event;
  const rest = calls.length - shownCalls;
  const body = html`${text.trim() !== "" && renderWords(text, repositoryUrl)}${searches
    .slice(0, shownCalls)
    .map(
      (search) => html`<p class="search">🔎 Its provider searched the web: ${search}</p>`,
    )}${calls.slice(0, shownCalls).map(renderCall)}${rest > 0 && html`<p>… ${rest} more calls</p>`}<p class="numbers">${renderNumbers({ usage, cost: cost ?? 0 })}</p>`;
  return { kind: "model", who: html`<b>${lane.spec.worker.name}</b>`, body };
}

/** What is shown of one answer: calls, and characters of each one's arguments. */
const shownCalls = 40;
const longestArguments = 12_000;

function renderCall({ tool, args, parseError: unreadable }: ModelCall): Html {
  const shown = block(truncateText(unreadable ?? JSON.stringify(args, null, 2) ?? "", longestArguments));
  return html`<details class="call"><summary>calls <code>${tool}</code></summary>${shown}</details>`;
}

function renderReview(verdicts: readonly Verdict[], { approvals }: EntryContext): Entry | undefined {
  const lines = verdicts.flatMap((verdict) => {
    if (verdict.kind === "allow") return [];
    if (verdict.kind === "refuse") {
      return [html`<p class="bad">Refused: <code>${verdict.tool}</code>. ${verdict.result.error?.message ?? ""}</p>`];
    }
    const reason = approvals.find(({ id }) => id === verdict.approvalId)?.reason ?? "";
    return [
      html`<p>🔐 <a href="#approval-${verdict.approvalId}"><code>${verdict.approvalId}</code></a> asks for <code>${verdict.tool}</code>. ${reason}</p>`,
    ];
  });
  return lines.length > 0 ? { kind: "note", who: "Before anything runs", body: html`${lines}` } : undefined;
}

function renderGiven({ by, approvalId, via, args }: Extract<RunEvent, { type: "approval.granted" }>): Entry {
  return {
    kind: "person",
    who: html`✅ <b>${by}</b> approved <code>${approvalId}</code>${describeChannel(via)}`,
    body:
      args === undefined
        ? undefined
        : html`<details><summary>with these arguments instead</summary>${renderJson(args)}</details>`,
  };
}

/** Lines of a result that need no tap to be seen. */
const openLines = 12;

function renderResult(
  { tool, result }: { tool: string; result: ToolResult },
  call: CallLine | undefined,
  { repositoryUrl }: EntryContext,
  by?: string,
): Entry {
  const { error, value, llmContent, durationMs } = result;
  const shown = error
    ? html`<p class="bad">${error.message}</p>${error.suggestion && html`<p>${error.suggestion}</p>`}`
    : undefined;
  const body = html`${shown}${(!error || value.kind !== "text") && renderValue(value, repositoryUrl)}`;
  const summary = error ? "failed" : (value.summary ?? firstLine(llmContent));
  const isOpen = error !== undefined || value.kind === "task_list" || sizeOf(value) <= openLines;
  const took = durationMs === undefined ? "" : ` · ${(durationMs / 1000).toFixed(1)} s`;
  return {
    kind: error ? "failed" : "tool",
    who: html`${by !== undefined && html`<b>${by}</b> ran `}<code>${tool}</code> <span class="arguments">${call?.args ?? ""}</span>`,
    body: html`<details ${isOpen ? html`open` : ""}><summary>${error ? "✗" : "✓"} ${summary}${took}</summary>${body}</details>`,
  };
}

function sizeOf(value: ToolResult["value"]): number {
  const text = "content" in value ? value.content : "diff" in value ? value.diff : undefined;
  return (text ?? JSON.stringify(value, null, 1)).split("\n").length;
}

function renderChild(
  { callId, outcome, usage, cost }: Extract<RunEvent, { type: "child.finished" }>,
  { children, repositoryUrl }: EntryContext,
): Entry {
  const child = children.find(({ spec }) => spec.parentCallId === callId);
  const name = child?.spec.worker.name ?? "A worker";
  const link = child ? html`<a href="#run-${child.spec.id}">${name}</a>` : name;
  const words = outcome.kind === "answered" ? outcome.text : "";
  return {
    kind: outcome.kind === "answered" ? "tool" : "failed",
    who: html`${link}: ${describeOutcome(outcome)}`,
    body: html`${words.trim() !== "" && html`<details><summary>Its answer</summary>${renderWords(words, repositoryUrl)}</details>`}<p class="numbers">${renderNumbers({ usage, cost: cost ?? 0 })}</p>`,
  };
}

function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}
