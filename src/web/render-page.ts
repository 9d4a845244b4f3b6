import type { LoggedEvent } from "#domain/events.ts";
import type { EventsPage, RunNode, RunTree } from "#runtime/views/run-view-reader.ts";
import { type Html, html, markupOf, trusted } from "./html.ts";
import type { PageContext } from "./page-context.ts";
import type { MessagePage } from "./page-error.ts";
import { renderEntry } from "./render-entry.ts";
import { pageTitle, partsOf, renderLane } from "./render-parts.ts";

/** How many entries a page shows of each run, and brings at one time. */
export const maxEntriesPerPage = 100;

export interface RunPage {
  tree: RunTree;
  /** The newest entries of each run, by its id. */
  transcripts: ReadonlyMap<string, EventsPage>;
  context: PageContext;
  /** The issue's or pull request's; undefined when it cannot be read. */
  threadTitle: string | undefined;
}

/** The page of a run with everything on it: what works without a script, and what a script then keeps up to date. */
export function renderRunPage({ tree, transcripts, context, threadTitle }: RunPage): string {
  const [root, ...children] = tree.runs;
  if (!root) return renderMessagePage({ message: "Run not found." });
  const markups = new Map(partsOf(tree, context).map(({ id, markup }) => [id, markup]));
  const put = (id: string) => trusted(markups.get(id)?.() ?? "");
  const pending = tree.approvals.filter(({ status }) => status === "pending");
  const entries = (lane: RunNode) => {
    const page = transcripts.get(lane.spec.id) ?? { events: [], earlier: 0 };
    return html`<ol class="transcript" id="entries-${lane.spec.id}">${renderEntries(tree, lane, page, context)}</ol>${put(`live-${lane.spec.id}`)}`;
  };
  const { origin, worker } = root.spec;
  const place = `${origin.owner}/${origin.repo}#${origin.thread}`;
  const body = html`<header>
<p class="place"><a href="${context.threadUrl}">${place}</a>${threadTitle !== undefined && html` ${threadTitle}`}</p>
<h1>${worker.name}</h1>
<div class="small">asked by ${origin.requestedBy} · run <code>${root.spec.id}</code> ${renderWho(context)}</div>
${root.spec.task !== undefined && html`<p class="task">${root.spec.task}</p>`}
</header>
<main data-cursor="${cursorOf(tree)}" data-path="${context.path}">
<p id="notice" role="status"></p>
<section id="approvals" aria-label="Waiting for approval">${pending.map(({ id }) => put(`approval-${id}`))}</section>
<aside aria-label="How it stands">
<div aria-live="polite">${put("now")}</div>
${put("commands")}
<section aria-label="Limits">${put("limits")}</section>
<section aria-label="State chart">${put("chart")}</section>
</aside>
<div class="transcripts">
<section class="lane" id="run-${root.spec.id}" aria-labelledby="transcript-title"><h2 id="transcript-title">Transcript</h2>${entries(root)}</section>
<div id="lanes">${children.map((lane) => renderLane(lane, html`${put(`state-${lane.spec.id}`)}${entries(lane)}`))}</div>
</div>
</main>`;
  return renderDocument({ title: pageTitle(tree), body, script: true });
}

function renderWho({ viewer, path }: PageContext): Html | undefined {
  if (viewer.kind === "signed-out") return html`· <a href="${viewer.signInPath}">Sign in</a>`;
  if (viewer.kind !== "signed-in") return undefined;
  return html`· signed in as ${viewer.login} <form method="post" action="/runs/-/sign-out" class="inline"><input type="hidden" name="form" value="${viewer.formKey}"><input type="hidden" name="to" value="${path}"><button class="link">Sign out</button></form>`;
}

/** Characters of all transcripts on a page: a phone has to show them. */
const mostMarkup = 2_000_000;

/** The newest of these entries that a page has room for, with the way to those before them. */
export function renderEntries(
  tree: RunTree,
  lane: RunNode,
  { events, earlier }: EventsPage,
  context: PageContext,
): Html {
  const children = tree.runs.filter(({ spec }) => spec.parentId === lane.spec.id);
  const about = { lane, children, approvals: tree.approvals, repositoryUrl: context.repositoryUrl };
  const room = mostMarkup / tree.runs.length;
  const entries: string[] = [];
  let [first, taken] = [events.length, 0];
  while (first > 0 && taken < room) {
    first -= 1;
    const entry = markupOf(renderEntry(events[first] as LoggedEvent, about));
    entries.unshift(entry);
    taken += entry.length;
  }
  return html`${renderEarlier(lane, { before: events[first]?.id, count: earlier + first }, context)}${entries.map(trusted)}`;
}

function renderEarlier(
  { spec }: RunNode,
  { before, count }: { before: number | undefined; count: number },
  { path }: PageContext,
): Html | undefined {
  if (count === 0 || before === undefined) return undefined;
  const next = Math.min(count, maxEntriesPerPage);
  return html`<li class="earlier"><a href="${path}/entries/${spec.id}/${before}">Show ${next} earlier of ${count}</a></li>`;
}

/** A page of earlier entries alone, for browsers without a script. */
export function renderEntriesPage(tree: RunTree, lane: RunNode, page: EventsPage, context: PageContext): string {
  const body = html`<header><h1>${lane.spec.workerPath}</h1><p><a href="${context.path}">Back to the run</a></p></header>
<main><ol class="transcript">${renderEntries(tree, lane, page, context)}</ol></main>`;
  return renderDocument({ title: pageTitle(tree), body, script: false });
}

/** A page that holds one message and perhaps a link. */
export function renderMessagePage({ message, link }: Pick<MessagePage, "message" | "link">): string {
  const body = html`<header><h1>Golem Forge</h1></header><main class="message"><p>${message}</p>${link && html`<p><a class="button" href="${link.href}">${link.text}</a></p>`}</main>`;
  return renderDocument({ title: "Golem Forge", body, script: false });
}

/** How far each transcript was shown: `run:event,run:event`. */
export function cursorOf({ runs: lanes }: RunTree): string {
  return lanes.map(({ spec, newest }) => `${spec.id}:${newest}`).join(",");
}

function renderDocument({ title, body, script }: { title: string; body: Html; script: boolean }): string {
  return markupOf(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="/runs/-/assets/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/runs/-/assets/run.css">
${script && html`<script type="module" src="/runs/-/assets/run.js"></script>`}
</head>
<body>
${body}
</body>
</html>
`);
}
