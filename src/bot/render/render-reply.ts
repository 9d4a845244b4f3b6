import type { Approval } from "#domain/approval.ts";
import type { RunView } from "#domain/run.ts";
import { pluralize } from "#text/pluralize.ts";
import { noWorkerRunning, runCommands } from "#ui/run-commands.ts";
import { code, codeBlock, inline, paragraphs } from "./markdown.ts";
import { type CommentLinks, formatCost, headline, renderLinks, renderPending, renderStatus } from "./render-status.ts";

type Workers = readonly { name: string; description?: string }[];

/** Lists the commands and the workers that can be started here. */
export function renderHelp(workers: Workers): string {
  const rows = Object.values(runCommands).map(({ usage, help }) => `| \`/${usage}\` | ${help} |`);
  return paragraphs(
    ["| command | what it does |", "|---|---|", ...rows].join("\n"),
    "Any other comment answers a worker's question, or is passed on to the worker.",
    renderWorkers(workers),
    "Commands count only from people with write access, and only on the first line of a new comment.",
  );
}

/** Lists the workers that can be started, each with its command. */
export function renderWorkers(workers: Workers): string {
  if (workers.length === 0) return "This repository has no workers yet. Add one as `.github/workers/<name>.worker`.";
  const lines = workers
    .slice(0, 50)
    .map(({ name, description }) => `- ${code(`/run ${name}`)}${description ? ` — ${inline(description, 200)}` : ""}`);
  return ["Workers:", "", ...lines].join("\n");
}

/** Describes the runs of a thread: live ones in full, the others in one line each. */
export function renderStatusReply(
  views: readonly RunView[],
  pending: readonly Approval[],
  links: readonly CommentLinks[] = [],
): string {
  if (views.length === 0) return `${noWorkerRunning} \`/help\` lists the workers.`;
  const live = views.filter((view) => !view.outcome);
  const ended = views.filter((view) => view.outcome);
  const linksOf = (view: RunView) => links[views.indexOf(view)] ?? {};
  return paragraphs(
    ...live.map((view) =>
      renderStatus(
        view,
        pending.filter(({ rootId }) => rootId === view.spec.id),
        linksOf(view),
      ),
    ),
    live.length === 0 && renderPending(pending),
    ended.map((view) => `- ${headline(view)} (${nameOf(view, linksOf(view))})`).join("\n"),
  );
}

function nameOf({ spec, pullRequest }: RunView, links: CommentLinks): string {
  const run = links.page ? `[run ${spec.id}](${links.page})` : `run ${code(spec.id)}`;
  return pullRequest === undefined ? run : `${run}, [#${pullRequest}](${links.pullRequest})`;
}

/** The number of steps that `/log` shows. */
const maxLogLines = 40;

/** Lists the latest steps of a run, with a link to all of them. */
export function renderLogReply(view: RunView, links: CommentLinks): string {
  const lines = view.log.slice(-maxLogLines).map((line) => line.slice(0, 300).replace(/\s+/g, " "));
  const left = view.log.length - lines.length;
  return paragraphs(
    `### ${headline(view)}`,
    lines.length === 0 ? "It has done nothing yet." : codeBlock(lines.join("\n"), "text", 10_000),
    left > 0 && `${pluralize(left, "earlier step is", "earlier steps are")} not shown.`,
    renderLinks(view, links),
  );
}

export function renderCosts(views: readonly RunView[]): string {
  if (views.length === 0) return noWorkerRunning;
  const rows = views.map(({ spec, cost, steps, tokens }) => {
    const { worker, id, usualCost } = spec;
    const spent =
      cost === undefined
        ? "not priced; the cost limit does not apply"
        : `${formatCost(cost)} of ${formatCost(worker.limits.cost)}`;
    const usual = usualCost === undefined ? "unknown" : formatCost(usualCost);
    return `| ${inline(worker.name)}, run ${code(id)} | ${spent} | ${usual} | ${steps} | ${tokens} |`;
  });
  const total = views.reduce((sum, { cost = 0 }) => sum + cost, 0);
  return paragraphs(
    ["| run | cost | usual cost | steps | tokens |", "|---|---|---|---|---|", ...rows].join("\n"),
    total > 0 && views.length > 1 && `Together: ${formatCost(total)}`,
  );
}

/** Lists the models that a run may use, each with its command. */
export function renderModels({ current, available }: { current: string; available: readonly string[] }): string {
  const others = available.filter((model) => model !== current).map((model) => `- ${code(`/model ${model}`)}`);
  return paragraphs(
    `The worker uses ${code(current)}.`,
    others.length === 0
      ? "No other model with a known price may be used here."
      : ["It may also use:", "", ...others].join("\n"),
  );
}

/** Says that nobody reads something before a paused worker continues. */
export function renderPaused(worker: string, what: string): string {
  return `${inline(worker)} is paused. It reads ${what} when someone comments \`/resume\`.`;
}
