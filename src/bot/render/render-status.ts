import type { Approval } from "#domain/approval.ts";
import { phaseOf, type RunView } from "#domain/run.ts";
import { compactCount, pluralize } from "#text/pluralize.ts";
import { code, codeBlock, details, inline, moreItems, paragraphs } from "./markdown.ts";
import { tasksToMarkdown } from "./value-to-markdown.ts";

const maxLogLines = 200;
const maxChildren = 20;

/** Renders a run's status: its activity, open requests, cost, a link to its page, and how to stop it. */
export function renderStatus(
  view: RunView,
  pending: readonly Approval[],
  links: CommentLinks = {},
  costWarningPercent = 80,
): string {
  return paragraphs(
    `### ${headline(view)}`,
    // The headline says that a request is open. The list of requests names it.
    !view.outcome && phaseOf(view) !== "awaitingApproval" && inline(view.activity),
    view.tasks.length > 0 && tasksToMarkdown(view.tasks),
    renderChildren(view.children),
    renderPending(pending),
    renderUsualCost(view),
    renderCostWarning(view, costWarningPercent),
    `<sub>${numbersOf(view)} · ${inline(view.spec.model)} · run ${code(view.spec.id)}</sub>`,
    renderLog(view.log),
    renderHints(view),
    renderLinks(view, links),
  );
}

/** The URLs that belong to a run. */
export interface CommentLinks {
  /** The URL of the run's page. */
  page?: string | undefined;
  pullRequest?: string | undefined;
}

/** Links to the pull request and the page. GitHub would not link a plain number: references are disabled. */
export function renderLinks({ pullRequest, outcome }: RunView, links: CommentLinks): string | undefined {
  const name = `Pull request #${pullRequest}`;
  const parts = [
    ...(pullRequest === undefined ? [] : [links.pullRequest ? `[${name}](${links.pullRequest})` : name]),
    ...(links.page ? [`[${outcome ? "See the whole run" : "Watch this run"}](${links.page})`] : []),
  ];
  return parts.length > 0 ? parts.join(" · ") : undefined;
}

/** Summarizes the phase of a run in one line. */
export function headline(view: RunView): string {
  const worker = `**${inline(view.spec.worker.name)}**`;
  const phase = phaseOf(view);
  switch (phase) {
    case "answered":
      return `✅ ${worker} is done`;
    case "failed":
      return `❌ ${worker} failed`;
    case "limited":
      return `🛑 ${worker} reached a limit`;
    case "cancelled":
      return `⏹️ ${worker} was cancelled by ${inline(view.outcome?.kind === "cancelled" ? view.outcome.by : "")}`;
    case "awaitingReview":
      return `✅ ${worker} is done and is waiting for review`;
    case "awaitingBudget":
      return `💰 ${worker} has used up its cost limit`;
    case "paused":
      return `⏸️ ${worker} is paused`;
    case "awaitingMessage":
    case "awaitingAnswer":
      return `💬 ${worker} is waiting for you`;
    case "awaitingApproval":
      return `🔐 ${worker} is waiting for approval`;
    case "starting":
    case "working":
    case "retrying":
    case "awaitingChild":
      return `⚙️ ${worker} is working`;
  }
}

function renderChildren(children: readonly RunView[], depth = 0): string | undefined {
  if (children.length === 0) return undefined;
  const indent = "  ".repeat(depth);
  const lines = children.slice(0, maxChildren).flatMap((child) => {
    const doing = child.outcome ? "" : ` — ${inline(child.activity, 200)}`;
    const line = `${indent}- ${headline(child)}${doing} (${numbersOf(child)})`;
    const below = depth < 8 ? renderChildren(child.children, depth + 1) : undefined;
    return below ? [line, below] : [line];
  });
  return [...lines, ...moreItems(children.length - maxChildren, "worker").map((line) => indent + line)].join("\n");
}

/** Lists the pending approvals with the commands that answer them. */
export function renderPending(pending: readonly Approval[]): string | undefined {
  if (pending.length === 0) return undefined;
  const lines = pending
    .slice(0, 20)
    .map(
      ({ id, workerPath, tool, reason }) =>
        `- ${inline(workerPath)} → ${code(tool)}: ${code(`/approve ${id}`)} or ${code(`/deny ${id} reason`)}. ${inline(reason, 200)}`,
    );
  return ["**Waiting for approval**", "", ...lines, ...moreItems(pending.length - 20, "approval")].join("\n");
}

function numbersOf({ steps, usage, cost }: RunView): string {
  const tokens = `${compactCount(usage.inputTokens)} tokens in, ${compactCount(usage.outputTokens)} out`;
  const money =
    cost === undefined ? (steps > 0 ? " · not priced; the cost limit does not apply" : "") : ` · ${formatCost(cost)}`;
  return `${pluralize(steps, "step")} · ${tokens}${money}`;
}

/** Says what runs of this worker usually cost, while the run itself has cost nothing yet. */
function renderUsualCost({ spec: { worker, usualCost }, cost, outcome }: RunView): string | undefined {
  if (usualCost === undefined || cost !== undefined || outcome) return undefined;
  return `Runs of this worker have cost ${formatCost(usualCost)} in this repository (median); this one stops at ${formatCost(worker.limits.cost)}.`;
}

/** Warns that most of the cost limit is used up, until the run waits at it or has ended. */
function renderCostWarning(
  { spec: { worker }, state, cost = 0, outcome }: RunView,
  percent: number,
): string | undefined {
  const { cost: limit } = worker.limits;
  if (outcome || state === "awaitingBudget" || cost < (limit * percent) / 100) return undefined;
  const share = Math.floor((cost / limit) * 100);
  return `⚠️ ${share}% of the cost limit is used: ${formatCost(cost)} of ${formatCost(limit)}. At the limit the run waits until someone raises it.`;
}

/** Formats US dollars for Markdown, where two plain dollar signs in a line would be a formula. */
export function formatCost(dollars: number): string {
  return `\\$${dollars.toFixed(dollars < 1 ? 3 : 2)}`;
}

function renderLog(log: readonly string[]): string | undefined {
  if (log.length === 0) return undefined;
  const left = log.length - maxLogLines;
  const lines = log.slice(-maxLogLines).map((line) => line.slice(0, 300).replace(/\s+/g, " "));
  const all = left > 0 ? [`… ${pluralize(left, "earlier line")}`, ...lines] : lines;
  return details(`Log (${pluralize(log.length, "line")})`, codeBlock(all.join("\n"), "text", 15_000));
}

function renderHints(view: RunView): string | undefined {
  if (view.outcome) return undefined;
  if (view.state === "interrupted")
    return "`/resume` continues, `/resume and use the other file` continues with your instructions, `/cancel` ends the run.";
  return `\`/stop\` pauses the run, \`/cancel\` ends it, \`/status\` shows details. ${describeComments(view)}`;
}

function describeComments(view: RunView): string {
  const phase = phaseOf(view);
  if (phase === "awaitingApproval") return "The worker reads other comments once the request is answered.";
  if (phase === "awaitingAnswer") return "Any other comment answers the question.";
  return "Other comments are passed to the worker.";
}
