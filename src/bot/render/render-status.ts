import type { Approval } from "#domain/approval.ts";
import type { RunView } from "#domain/run.ts";
import { code, codeBlock, details, inline, moreItems, paragraphs } from "./markdown.ts";
import { renderTasks } from "./render-tasks.ts";

const maxLogLines = 200;
const maxChildren = 20;

/** The living comment of a run: what it is doing, what it waits for, what it cost so far, how to stop it, and its web page. */
export function renderStatus(view: RunView, pending: readonly Approval[], link?: string): string {
  return paragraphs(
    `### ${headline(view)}`,
    !view.outcome && inline(view.activity),
    view.tasks.length > 0 && renderTasks(view.tasks),
    renderChildren(view.children),
    renderPending(pending),
    renderNumbers(view),
    renderLog(view.log),
    renderHints(view),
    link && `[${view.outcome ? "See the whole run" : "Watch this run"}](${link})`,
  );
}

/** One line on where a run stands. */
export function headline(view: RunView): string {
  const worker = `**${inline(view.spec.worker.name)}**`;
  switch (view.outcome?.kind) {
    case "answered":
      return `✅ ${worker} is done`;
    case "failed":
      return `❌ ${worker} failed`;
    case "limited":
      return `🛑 ${worker} reached a limit`;
    case "cancelled":
      return `⏹️ ${worker} was cancelled by ${inline(view.outcome.by)}`;
  }
  if (view.state === "idle" && view.pullRequest !== undefined) return `✅ ${worker} is done and waits for a review`;
  switch (view.state) {
    case "interrupted":
      return `⏸️ ${worker} is stopped`;
    case "idle":
    case "awaitingAnswer":
      return `💬 ${worker} is waiting for you`;
    case "awaitingApproval":
      return `🔐 ${worker} is waiting for approval`;
    case "preparing":
    case "callingModel":
    case "retrying":
    case "evaluatingAnswer":
    case "reviewing":
    case "evaluatingCalls":
    case "executing":
    case "awaitingChild":
    case "checkingLimits":
    case "ended":
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
  return [...lines, ...moreItems(children.length - maxChildren, "workers").map((line) => indent + line)].join("\n");
}

/** The approvals that wait for somebody, with what to type. */
export function renderPending(pending: readonly Approval[]): string | undefined {
  if (pending.length === 0) return undefined;
  const lines = pending
    .slice(0, 20)
    .map(
      ({ id, workerPath, tool }) =>
        `- ${inline(workerPath)} → ${code(tool)}: ${code(`/approve ${id}`)} or ${code(`/deny ${id} reason`)}`,
    );
  return ["**Waiting for approval**", "", ...lines, ...moreItems(pending.length - 20, "approvals")].join("\n");
}

function renderNumbers(view: RunView): string {
  return `<sub>${numbersOf(view)} · ${inline(view.spec.model)} · run ${code(view.spec.id)}</sub>`;
}

function numbersOf({ steps, usage, cost }: RunView): string {
  const tokens = `${short(usage.inputTokens)} tokens in, ${short(usage.outputTokens)} out`;
  const money = cost === undefined ? "" : ` · \\$${cost.toFixed(cost < 1 ? 3 : 2)}`;
  return `${steps} ${steps === 1 ? "step" : "steps"} · ${tokens}${money}`;
}

function short(count: number): string {
  return new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

function renderLog(log: readonly string[]): string | undefined {
  if (log.length === 0) return undefined;
  const left = log.length - maxLogLines;
  const lines = log.slice(-maxLogLines).map((line) => line.slice(0, 300).replace(/\s+/g, " "));
  const all = left > 0 ? [`… ${left} earlier lines`, ...lines] : lines;
  return details(
    `Log (${log.length} ${log.length === 1 ? "line" : "lines"})`,
    codeBlock(all.join("\n"), "text", 15_000),
  );
}

function renderHints({ outcome, state }: RunView): string | undefined {
  if (outcome) return undefined;
  if (state === "interrupted")
    return "`/resume` continues, `/resume and use the other file` continues with your instructions, `/cancel` ends the run.";
  return "`/stop` pauses the run, `/cancel` ends it, `/status` shows details. Other comments are passed to the worker.";
}
