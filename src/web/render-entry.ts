import { type Approval, describeChannel } from "#domain/approval.ts";
import type { LoggedEvent, RunEvent, Verdict } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { CallLine, RunNode } from "#runtime/views/run-view-reader.ts";
import { type Html, html, trusted } from "#text/html.ts";
import { truncateLine, truncateText } from "#text/truncate.ts";
import { summarizeResult } from "#ui/result-layout.ts";
import { describeOutcome, describeSpan, formatDollars, renderTime, renderUsage } from "./render-numbers.ts";
import {
  describeLines,
  describeTasks,
  renderJson,
  renderMarkdownText,
  renderPre,
  valueToHtml,
} from "./value-to-html.ts";

/** The data that an entry needs in addition to its event. */
export interface EntryContext {
  run: RunNode;
  /** The runs started by this one. */
  children: readonly RunNode[];
  approvals: readonly Approval[];
  /** The repository in a browser. */
  repositoryUrl: string;
  now: number;
}

/** Renders an event as an entry of the transcript. Returns undefined for events that matter only to the machine. */
export function renderEntry({ id, at, event }: LoggedEvent, context: EntryContext): Html | undefined {
  const entry = contentOf(event, context);
  if (!entry) return undefined;
  const { kind, who, body, details } = entry;
  const line = html`<span class="what">${who}</span> ${renderTime(at, context.now)}`;
  const content = details
    ? html`<details ${details.isOpen ? html`open` : ""}><summary class="who">${line}</summary>${details.content}</details>`
    : html`<p class="who">${line}</p>${body}`;
  return html`<li class="entry ${kind}" id="event-${id}">${content}</li>`;
}

/** True for an entry of a read-only tool call. Such entries are grouped. */
function isReadEntry(markup: string): boolean {
  return markup.startsWith('<li class="entry read"');
}

/** Groups consecutive entries of read-only calls. */
export function groupReads(entries: readonly string[]): Html[] {
  const groups: string[][] = [];
  for (const entry of entries) {
    const last = groups.at(-1);
    if (last?.[0] !== undefined && isReadEntry(last[0]) && isReadEntry(entry)) last.push(entry);
    else groups.push([entry]);
  }
  return groups.map((group) =>
    group.length < minGroupLength
      ? html`${group.map(trusted)}`
      : html`<li class="reads"><details><summary class="count">📄 ${group.length} read-only calls</summary><ol class="transcript">${group.map(trusted)}</ol></details></li>`,
  );
}

const minGroupLength = 3;

interface Entry {
  kind: "person" | "model" | "tool" | "read" | "failed" | "note";
  who: string | Html;
  body?: Html | undefined;
  /** Collapsed content below the line, in place of a body. */
  details?: { content: Html; isOpen: boolean };
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
      return { kind: "failed", who: "The step failed", body: html`<p>${event.reason}</p>` };
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
      return renderResult(event, describeInput(event.args), context, event.by);
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
      return { kind: "person", who: html`⏸️ <b>${event.by}</b> paused the run${describeChannel(event.via)}` };
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

/** The maximum number of characters of a message or a prompt. */
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

/** Renders an answer. One that only calls tools has no entry, because each of its calls has one. */
function renderAnswer(
  event: Extract<RunEvent, { type: "model.answered" }>,
  { run, repositoryUrl }: EntryContext,
): Entry | undefined {
  const { text, searches = [], schemaProblem, usage, cost } = event;
  if (text.trim() === "" && searches.length === 0 && schemaProblem === undefined) return undefined;
  const body = html`${text.trim() !== "" && renderMarkdownText(text, repositoryUrl)}${searches
    .slice(0, maxSearches)
    .map((search) => html`<p class="search">🔎 The model's provider searched the web: ${search}</p>`)}${
    schemaProblem !== undefined &&
    html`<p class="bad">The answer does not match the output schema. ${schemaProblem}</p>`
  }`;
  const numbers = renderUsage({ usage, cost: cost ?? 0 });
  return { kind: "model", who: html`<b title="${numbers}">${run.spec.worker.name}</b>`, body };
}

/** The limit for one answer. */
const maxSearches = 40;

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

/** The maximum number of characters of a call's arguments in its row, which leaves room for the result. */
const maxArgumentsLength = 100;
/** The maximum number of lines of a change that is shown expanded. */
const maxOpenLines = 12;

/** Renders a tool call as one row: icon, name, arguments, result and duration, with collapsed details. */
function renderResult(
  { tool, result }: { tool: string; result: ToolResult },
  call: Pick<CallLine, "args" | "input"> | undefined,
  { repositoryUrl }: EntryContext,
  by?: string,
): Entry {
  const { error, value, durationMs = 0 } = result;
  const problem =
    error && html`<p class="bad">${error.message}</p>${error.suggestion && html`<p>${error.suggestion}</p>`}`;
  const { icon, isRead } = kindOf(tool);
  const tasks = value.kind === "task_list" && "tasks" in value ? describeTasks(value.tasks) : undefined;
  const summary = error ? "failed" : (tasks ?? summarizeResult(result));
  const { shown, links } = separatePullRequests(summary, repositoryUrl);
  const duration = durationMs < 100 ? "" : ` · ${describeSpan(durationMs)}`;
  const input = call && call.input !== "" && call.input !== "{}";
  return {
    kind: error ? "failed" : isRead && by === undefined ? "read" : "tool",
    who: html`<span aria-hidden="true">${error ? "✗" : icon}</span> ${by !== undefined && html`<b>${by}</b> ran `}<code>${tool}</code> <span class="arguments">${tasks === undefined && truncateLine(call?.args ?? "", maxArgumentsLength)}</span> <span class="result">${shown}${duration}</span>`,
    details: {
      isOpen: error !== undefined || links.length > 0 || (value.kind === "diff" && lengthOf(value) <= maxOpenLines),
      content: html`${links}${problem}${(!error || value.kind !== "text") && valueToHtml(value, repositoryUrl)}${input && html`<details class="small"><summary>Arguments</summary>${renderPre(call.input)}</details>`}`,
    },
  };
}

function describeInput(args: unknown): Pick<CallLine, "args" | "input"> {
  const input = JSON.stringify(args, null, 2) ?? "";
  return { args: truncateText(input.replaceAll(/\s+/g, " "), 200), input: truncateText(input, 4_000) };
}

/** Takes the URLs of this repository's pull requests out of a row, whose summary must not contain links, and links them. */
function separatePullRequests(text: string, repositoryUrl: string): { shown: string; links: Html[] } {
  const prefix = `${repositoryUrl}/pull/`;
  const [first = "", ...rest] = text.split(prefix);
  const numbers = rest.map((part) => /^\d*/.exec(part)?.[0] ?? "");
  const after = rest.map((part, index) => part.slice(numbers[index]?.length));
  return {
    shown: [first.replace(/: $/, ""), ...after].join(""),
    links: numbers.map((number) => html`<p><a href="${prefix}${number}" rel="noopener">${prefix}${number}</a></p>`),
  };
}

function kindOf(tool: string): { icon: string; isRead: boolean } {
  // Tools of MCP servers have the server's name in front, so they are not taken for tools that only read.
  if (/^(web_)?(search|grep|glob|find)/.test(tool)) return { icon: "🔎", isRead: true };
  if (/^(read|list|view|git_(log|diff|status|show))/.test(tool)) return { icon: "📄", isRead: true };
  if (/write_tasks|task/.test(tool)) return { icon: "📋", isRead: false };
  if (/write|edit|delete|move|patch/.test(tool)) return { icon: "✏️", isRead: false };
  if (/shell|run|test|exec/.test(tool)) return { icon: "💻", isRead: false };
  if (/pull_request|push|commit|branch|merge/.test(tool)) return { icon: "🔀", isRead: false };
  return { icon: "🔧", isRead: false };
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
