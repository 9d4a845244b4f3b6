import type { Approval } from "#domain/approval.ts";
import type { RunView } from "#domain/run.ts";
import { runCommands } from "#ui/run-commands.ts";
import { code, inline, paragraphs } from "./markdown.ts";
import { headline, renderPending, renderStatus } from "./render-status.ts";

type Workers = readonly { name: string; description?: string }[];

/** The commands, and the workers that can be started here. */
export function renderHelp(workers: Workers): string {
  const rows = Object.values(runCommands).map(({ usage, help }) => `| \`/${usage}\` | ${help} |`);
  return paragraphs(
    ["| command | what it does |", "|---|---|", ...rows].join("\n"),
    "Any other comment answers a worker's question, or is passed on to the worker.",
    renderWorkers(workers),
    "Commands count only from people with write access, and only on the first line of a new comment.",
  );
}

/** The workers that can be started, each with its command. */
export function renderWorkers(workers: Workers): string {
  if (workers.length === 0) return "This repository has no workers yet. Add one as `.github/workers/<name>.worker`.";
  const lines = workers
    .slice(0, 50)
    .map(({ name, description }) => `- ${code(`/run ${name}`)}${description ? ` — ${inline(description, 200)}` : ""}`);
  return ["Workers:", "", ...lines].join("\n");
}

/** Where the runs of a thread stand: the live ones in full, the others in a line. */
export function renderStatusReply(views: readonly RunView[], pending: readonly Approval[]): string {
  if (views.length === 0) return "Nothing was started in this thread yet. `/help` lists the workers.";
  const live = views.filter((view) => !view.outcome);
  const ended = views.filter((view) => view.outcome);
  return paragraphs(
    ...live.map((view) =>
      renderStatus(
        view,
        pending.filter(({ rootId }) => rootId === view.spec.id),
      ),
    ),
    live.length === 0 && renderPending(pending),
    ended.map((view) => `- ${headline(view)} (run ${code(view.spec.id)})`).join("\n"),
  );
}
