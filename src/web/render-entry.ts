import type { Approval } from "#domain/approval.ts";
import { describeChannel } from "#domain/channel.ts";
import type { LoggedEvent, ModelCall, RunEvent, Verdict } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { CallLine, RunNode } from "#runtime/views/run-view-reader.ts";
import { truncateText } from "#text/truncate.ts";
import { type Html, html } from "./html.ts";
import { describeOutcome, formatDollars, renderUsage } from "./render-numbers.ts";
import { describeLines, renderJson, renderMarkdownText, renderPre, renderValue } from "./render-value.ts";

/** What an entry needs besides its event. */
export interface EntryContext {
  run: RunNode;
  /** The runs started by this one. */
  children: readonly RunNode[];
  approvals: readonly Approval[];
  /** The repository in a browser. */
  repositoryUrl: string;
}

/** Renders an event as an entry of the transcript. Undefined for events that matter only to the machine. */
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
      return renderMessage(event);
    case "guidance.read":
      return note(`Read the guidance in ${event.files.map(({ path }) => path).join(", ")}`);
    case "sandbox.opened":
      return note(html`Opened <code>${event.branch}</code> at <code>${event.commit.slice(0, 7)}</code>`);
    case "sandbox.failed":
      return { kind: "failed", who: "The repository could not be opened", body: html`<p>${event.reason}</p>` };
    case "model.answered":
      return renderAnswer(event, context);
    case "conversation.compacted":
      return {
        kind: "note",
        who: "The conversation up to here was summarized. The model reads the summary instead",
        body: html`<p class="said">${event.summary}</p>`,
      };
    case "model.failed":
      return { kind: "failed", who: "The model request failed", body: html`<p>${event.reason}</p>` };
    case "calls.reviewed":
      return renderReview(event.verdicts, context);
    case "approval.granted":
      return renderApproved(event);
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
      return renderResult(event, context.run.calls.get(event.callId), context);
    case "tool.invoked":
      return renderResult(event, { tool: event.tool, args: "" }, context, event.by);
    case "child.finished":
      return renderChild(event, context);
    case "pull_request.reviewed":
      return {
        kind: "person",
        who: html`<b>${event.by}</b> ${event.requestsChanges ? "requested changes" : "reviewed the pull request"}`,
        body: html`<p class="said">${event.text}</p>`,
      };
    case "checks.completed":
      return note(html`Checks ${event.passed ? "passed" : "failed"} on <code>${event.commit.slice(0, 7)}</code>`);
    case "pull_request.closed":
      return { kind: "person", who: html`<b>${event.by}</b> ${event.merged ? "merged" : "closed"} #${event.number}` };
    case "pull_request.reopened":
      return { kind: "person", who: html`<b>${event.by}</b> reopened #${event.number}` };
    case "run.stop":
      return { kind: "person", who: html`⏸️ <b>${event.by}</b> stopped the run${describeChannel(event.via)}` };
    case "run.resume":
      return { kind: "person", who: html`▶️ <b>${event.by}</b> resumed the run${describeChannel(event.via)}` };
    case "run.cancel":
      return { kind: "person", who: html`⏹️ <b>${event.by}</b> cancelled the run${describeChannel(event.via)}` };
    case "run.exit":
      return { kind: "person", who: html`<b>${event.by}</b> ended the run${describeChannel(event.via)}` };
    case "retry.requested":
      return { kind: "person", who: html`🔁 <b>${event.by}</b> asked to try again${describeChannel(event.via)}` };
    case "conversation.cleared":
      return { kind: "person", who: html`🧹 <b>${event.by}</b> cleared the conversation${describeChannel(event.via)}` };
    case "model.changed":
      return {
        kind: "person",
        who: html`<b>${event.by}</b> changed the model to <code>${event.model}</code>${describeChannel(event.via)}`,
      };
    case "cost_limit.raised":
      return {
        kind: "person",
        who: html`<b>${event.by}</b> raised the cost limit to ${formatDollars(event.limit)}${describeChannel(event.via)}`,
      };
    case "timer.due":
      return event.timer === "deadline" ? note("The time limit was reached") : note("Trying the model again");
  }
}

function note(who: string | Html): Entry {
  return { kind: "note", who };
}

/** Characters of a message or a prompt. */
const maxMessageLength = 60_000;

function renderMessage({ kind, text, by, via }: Extract<RunEvent, { type: "message.received" }>): Entry {
  if (kind === "context") {
    const body = html`<details><summary>${describeLines(text)}</summary>${renderPre(truncateText(text, maxMessageLength))}</details>`;
    return { kind: "note", who: "Prompt", body };
  }
  return {
    kind: "person",
    who: html`<b>${by}</b>${describeChannel(via)}`,
    body: html`<p class="said">${truncateText(text || "Work on this.", maxMessageLength)}</p>`,
  };
}

function renderAnswer(
  event: Extract<RunEvent, { type: "model.answered" }>,
  { run, repositoryUrl }: EntryContext,
): Entry {
  const { text, calls, searches = [], usage, cost } = event;
  const body = html`${text.trim() !== "" && renderMarkdownText(text, repositoryUrl)}${searches
    .slice(0, maxCalls)
    .map(
      (search) => html`<p class="search">🔎 The model's provider searched the web: ${search}</p>`,
    )}${renderCalls(calls)}`;
  const numbers = renderUsage({ usage, cost: cost ?? 0 });
  // An answer that only calls tools is one line.
  if (text.trim() === "" && searches.length === 0)
    return { kind: "note", who: html`<span title="${numbers}">${run.spec.worker.name}</span>`, body };
  return { kind: "model", who: html`<b title="${numbers}">${run.spec.worker.name}</b>`, body };
}

/** Of one answer. */
const maxCalls = 40;
const maxArgumentsLength = 12_000;

/** The arguments of all calls, folded: each call has a row of its own once it has a result. */
function renderCalls(calls: readonly ModelCall[]): Html | undefined {
  if (calls.length === 0) return undefined;
  const names = [...new Set(calls.map(({ tool }) => tool))].slice(0, 5).join(", ");
  const rest = calls.length - maxCalls;
  return html`<details class="calls"><summary>${calls.length === 1 ? "1 tool call" : `${calls.length} tool calls`}: <code>${names}</code></summary>${calls
    .slice(0, maxCalls)
    .map(
      ({ tool, args, parseError }) =>
        html`<p class="small"><code>${tool}</code></p>${renderPre(truncateText(parseError ?? JSON.stringify(args, null, 2) ?? "", maxArgumentsLength))}`,
    )}${rest > 0 && html`<p>… ${rest} more calls</p>`}</details>`;
}

function renderReview(verdicts: readonly Verdict[], { approvals }: EntryContext): Entry | undefined {
  const lines = verdicts.flatMap((verdict) => {
    if (verdict.kind === "allow") return [];
    if (verdict.kind === "refuse") {
      return [html`<p class="bad">Refused <code>${verdict.tool}</code>: ${verdict.result.error?.message ?? ""}</p>`];
    }
    const reason = approvals.find(({ id }) => id === verdict.approvalId)?.reason ?? "";
    return [
      html`<p>🔐 <code>${verdict.approvalId}</code> Approval requested for <code>${verdict.tool}</code>. ${reason}</p>`,
    ];
  });
  return lines.length > 0 ? { kind: "note", who: "Approval check", body: html`${lines}` } : undefined;
}

function renderApproved({ by, approvalId, via, args }: Extract<RunEvent, { type: "approval.granted" }>): Entry {
  return {
    kind: "person",
    who: html`✅ <b>${by}</b> approved <code>${approvalId}</code>${describeChannel(via)}`,
    body:
      args === undefined
        ? undefined
        : html`<details><summary>with edited arguments</summary>${renderJson(args)}</details>`,
  };
}

/** Longer results are folded. */
const maxOpenLines = 12;

/** One row for a tool call: its arguments, result and duration, with the details folded. */
function renderResult(
  { tool, result }: { tool: string; result: ToolResult },
  call: CallLine | undefined,
  { repositoryUrl }: EntryContext,
  by?: string,
): Entry {
  const { error, value, llmContent, durationMs = 0 } = result;
  const problem =
    error && html`<p class="bad">${error.message}</p>${error.suggestion && html`<p>${error.suggestion}</p>`}`;
  const body = html`${problem}${(!error || value.kind !== "text") && renderValue(value, repositoryUrl)}`;
  const summary = error ? "failed" : (value.summary ?? firstLine(llmContent));
  const isOpen = error !== undefined || (value.kind === "diff" && lengthOf(value) <= maxOpenLines);
  const duration = durationMs < 100 ? "" : ` · ${(durationMs / 1000).toFixed(1)} s`;
  const title = html`${by !== undefined && html`<b>${by}</b> ran `}<span aria-hidden="true">${error ? "✗" : iconOf(tool)}</span> <code>${tool}</code> <span class="arguments">${call?.args ?? ""}</span>`;
  return {
    kind: error ? "failed" : "tool",
    who: title,
    body: html`<details ${isOpen ? html`open` : ""}><summary>${linkPullRequests(summary, repositoryUrl)}${duration}</summary>${body}</details>`,
  };
}

/** Turns the addresses of this repository's pull requests into links. */
function linkPullRequests(text: string, repositoryUrl: string): Html {
  const prefix = `${repositoryUrl}/pull/`;
  const [first = "", ...rest] = text.split(prefix);
  return html`${first}${rest.map((part) => {
    const number = /^\d*/.exec(part)?.[0] ?? "";
    const url = `${prefix}${number}`;
    return html`<a href="${url}" rel="noopener">${url}</a>${part.slice(number.length)}`;
  })}`;
}

function iconOf(tool: string): string {
  if (/search|grep|find/.test(tool)) return "🔎";
  if (/^(read|list|view|git_(log|diff|status|show))/.test(tool)) return "📄";
  if (/write|edit|delete|move|patch/.test(tool)) return "✏️";
  if (/shell|run|test|exec/.test(tool)) return "💻";
  if (/pull_request|push|commit|branch|merge/.test(tool)) return "🔀";
  return /task/.test(tool) ? "📋" : "🔧";
}

function lengthOf(value: ToolResult["value"]): number {
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
  const answer = outcome.kind === "answered" ? outcome.text : "";
  return {
    kind: outcome.kind === "answered" ? "tool" : "failed",
    who: html`${link}: ${describeOutcome(outcome)}`,
    body: html`${answer.trim() !== "" && html`<details><summary>Answer</summary>${renderMarkdownText(answer, repositoryUrl)}</details>`}<p class="numbers">${renderUsage({ usage, cost: cost ?? 0 })}</p>`,
  };
}

function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}
