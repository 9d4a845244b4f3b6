import type { Approval } from "#domain/approval.ts";
import type { RunView } from "#domain/run.ts";
import { code, inline, paragraphs } from "./markdown.ts";
import { headline, renderPending, renderStatus } from "./render-status.ts";

type Workers = readonly { name: string; description?: string }[];

/** The commands, and the workers one can start here. */
export function renderHelp(workers: Workers): string {
  return paragraphs(
    [
      "| command | what it does |",
      "|---|---|",
      "| `/run <worker> what to do` | starts a worker; the text may go on in the next lines |",
      "| `/approve`, `/approve <id>`, `/approve all` | lets a worker do what it asked; with `session`, equal calls too; one JSON object in a fenced block on the next lines replaces the arguments |",
      "| `/deny <id> why` | refuses, and tells the worker why |",
      "| `/stop` | stops the workers of this thread; `/resume` goes on, with your words if you add some |",
      "| `/cancel` | ends them for good |",
      "| `/tool <name> --option value`, `/t …`, `/<name> …` | runs a tool of the newest worker yourself, such as `/git_push`; `/tools` lists them, `/tool <name> -i` shows what one takes |",
      "| `/status` | what is going on, what waits, what it cost |",
      "| a plain comment | answers a worker's question, or steers it |",
    ].join("\n"),
    renderWorkers(workers),
    "Commands count from people with write access, on the first line of a new comment.",
  );
}

/** The workers one can start, each with its command. */
export function renderWorkers(workers: Workers): string {
  if (workers.length === 0) return "There are no workers here yet: add one as `.github/workers/<name>.worker`.";
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
