import type { RunView } from "#domain/run.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { closeMarkdown, truncateMarkdown, truncateText } from "#text/truncate.ts";
import { code, inline, paragraphs, quote } from "./markdown.ts";
import { formatCost, type RunLinks, renderLinks } from "./render-status.ts";

/** How a run ended, in a comment of its own. */
export function renderOutcome(view: RunView, links: RunLinks = {}): string {
  const worker = view.spec.worker.name;
  const name = `**${inline(worker)}**`;
  const again = `To try again, comment ${code(commandOf(view))}`;
  switch (view.outcome?.kind) {
    case "answered":
      // The answer comes last: whatever it leaves open, nothing of ours stands behind it.
      return paragraphs(`### ✅ ${name}`, renderLinks(view, links), answerOf(view.outcome.text));
    case "failed":
      return paragraphs(
        `### ❌ ${name} failed`,
        quote(view.outcome.reason),
        `${again}, with a word on what to do differently if you like.`,
      );
    case "limited":
      return paragraphs(
        `### 🛑 ${name} reached its limit of ${inline(view.outcome.limit)}`,
        quote(view.outcome.reason),
        `${again}. Its limits stand under \`limits:\` in its \`.worker\` file.`,
      );
    case "cancelled":
      return paragraphs(`### ⏹️ ${name} was cancelled by ${inline(view.outcome.by)}`, `${again}.`);
    case undefined:
      return paragraphs(`### ⚙️ ${name} is still working`);
  }
}

/** Renders an answer of a run that stays: a chat, or a run with an open pull request. */
export function renderAnswer({ spec, pullRequest }: RunView, text: string): string {
  const sign = pullRequest === undefined ? "💬" : "✅";
  return paragraphs(`### ${sign} **${inline(spec.worker.name)}**`, answerOf(text));
}

/** Says that a run has used up its cost limit, and how it continues. */
export function renderBudget({ spec: { worker }, cost = 0 }: RunView): string {
  return paragraphs(
    `### 💰 **${inline(worker.name)}** has used up its cost limit`,
    `It has cost ${formatCost(cost)} of ${formatCost(worker.limits.cost)} and waits. Nothing is lost.`,
    "To raise the limit of this run and continue, comment `/approve +$2` with the amount you want to add. To end the run, comment `/cancel`.",
  );
}

/** The command as it was given; what stood below its first line is left out. */
function commandOf({ spec: { worker, task = "" } }: RunView): string {
  return truncateText(`/run ${worker.name} ${task.split("\n", 1)[0]}`.trim(), 300);
}

function answerOf(text: string): string {
  return (
    closeMarkdown(truncateMarkdown(showHidden(truncateText(text, 200_000)).trim(), 50_000)) ||
    "It is done, and has nothing to say."
  );
}
