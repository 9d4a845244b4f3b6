import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { LoggedEvent } from "#domain/events.ts";
import type { EventsPage, RunNode, RunTree } from "#runtime/views/run-view-reader.ts";
import { type Html, html, markupOf, trusted } from "#text/html.ts";
import { truncateLine } from "#text/truncate.ts";
import { formKeyField, type PageContext, type Viewer } from "./page-context.ts";
import { groupReads, renderEntry } from "./render-entry.ts";
import { renderTime } from "./render-numbers.ts";
import { pageTitle, partsOf, renderChild, shownApprovals, titleOf } from "./render-parts.ts";

/** The maximum number of entries per run that a page shows or loads at once. */
export const maxEntriesPerPage = 100;

export interface RunPage {
  tree: RunTree;
  /** The newest entries of each run, by its id. */
  transcripts: ReadonlyMap<string, EventsPage>;
  context: PageContext;
}

/** A page that holds one message and perhaps a link. */
export interface MessagePage {
  status: ContentfulStatusCode;
  message: string;
  link?: { href: string; text: string } | undefined;
}

/** Renders the page of a run. It is complete without JavaScript; the script only keeps it up to date. */
export function renderRunPage({ tree, transcripts, context }: RunPage): string {
  const [root, ...children] = tree.runs;
  if (!root) return renderMessagePage({ message: "Run not found." });
  const parts = new Map(partsOf(tree, context).map(({ id, markup }) => [id, markup]));
  const partMarkup = (id: string) => trusted(parts.get(id)?.() ?? "");
  const pending = shownApprovals(tree);
  const entries = (run: RunNode) => {
    const page = transcripts.get(run.spec.id) ?? { events: [], earlier: 0 };
    return html`${run.removedLog && html`<p class="small">${run.removedLog}</p>`}<ol class="transcript" id="entries-${run.spec.id}">${renderEntries(tree, run, page, context)}</ol>${partMarkup(`live-${run.spec.id}`)}`;
  };
  const body = html`${renderHeader(root, { context, status: partMarkup("status") })}
<main id="main" tabindex="-1" data-cursor="${cursorOf(tree)}" data-path="${context.path}">
<p id="notice" role="status"></p>
<p id="announcement" class="unseen" role="status"></p>
<div class="requests">
<div aria-live="polite">${partMarkup("outcome")}${partMarkup("questions")}</div>
<section id="approvals" aria-label="Waiting for approval">${pending.map(({ id }) => partMarkup(`approval-${id}`))}</section>
${partMarkup("plan")}
</div>
<div class="transcripts">
<section class="run" id="run-${root.spec.id}" aria-labelledby="transcript-title"><h2 id="transcript-title">Transcript</h2>${entries(root)}</section>
<div id="children">${children.map((run) => renderChild(run, html`${partMarkup(`state-${run.spec.id}`)}${entries(run)}`))}</div>
</div>
<aside aria-label="Run">
${partMarkup("commands")}
${partMarkup("workers")}
<section aria-labelledby="time-title">${partMarkup("timeline")}</section>
<section aria-labelledby="limits-title"><h2 id="limits-title">Limits</h2>${partMarkup("limits")}</section>
<details><summary>How a run works</summary>${partMarkup("chart")}</details>
</aside>
</main>`;
  const { viewer, path } = context;
  return renderDocument({ title: pageTitle(tree), body, script: true, viewer, path });
}

const maxTitleLength = 140;

function renderHeader({ spec }: RunNode, { context, status }: { context: PageContext; status: Html }): Html {
  const { origin, task, threadTitle, id, createdAt } = spec;
  const title = titleOf(spec);
  const isWhole = task === undefined || (task.trim() === title && title.length <= maxTitleLength);
  return html`<header>
<p class="place"><a href="${context.threadUrl}">${origin.owner}/${origin.repo}#${origin.thread}</a>${threadTitle !== title && html` ${threadTitle}`}</p>
<h1>${truncateLine(title, maxTitleLength)}</h1>
${status}
<div class="small">run <code>${id}</code>, started by ${origin.requestedBy} ${renderTime(createdAt, context.now)}</div>
${!isWhole && html`<details><summary>Task</summary><p class="task">${task}</p></details>`}
</header>`;
}

type NavigationViewer = Viewer | Pick<Extract<Viewer, { kind: "signed-in" }>, "kind" | "login" | "formKey">;

function renderViewer(viewer: NavigationViewer | undefined, path: string): Html | undefined {
  if (viewer?.kind === "signed-out") return html`<a href="${viewer.signInPath}">Sign in</a>`;
  if (viewer?.kind !== "signed-in") return undefined;
  return html`<span>signed in as ${viewer.login}</span> <form method="post" action="/runs/-/sign-out" class="inline">${formKeyField(viewer.formKey)}<input type="hidden" name="to" value="${path}"><button class="link">Sign out</button></form>`;
}

/** The maximum number of characters of all transcripts on a page, so that phones can show it. */
const maxMarkupLength = 2_000_000;

/** Renders the newest entries that fit into the page, and a link to earlier ones. */
export function renderEntries(
  tree: RunTree,
  run: RunNode,
  { events, earlier }: EventsPage,
  context: PageContext,
): Html {
  const children = tree.runs.filter(({ spec }) => spec.parentId === run.spec.id);
  const entryContext = {
    run,
    children,
    approvals: tree.approvals,
    repositoryUrl: context.repositoryUrl,
    now: context.now,
  };
  const limit = maxMarkupLength / tree.runs.length;
  const entries: string[] = [];
  let [first, length] = [events.length, 0];
  while (first > 0 && length < limit) {
    first -= 1;
    const entry = markupOf(renderEntry(events[first] as LoggedEvent, entryContext));
    if (entry !== "") entries.unshift(entry);
    length += entry.length;
  }
  return html`${renderEarlier(run, { before: events[first]?.id, count: earlier + first }, context)}${groupReads(entries)}`;
}

function renderEarlier(
  { spec }: RunNode,
  { before, count }: { before: number | undefined; count: number },
  { path }: PageContext,
): Html | undefined {
  if (count === 0 || before === undefined) return undefined;
  const next = Math.min(count, maxEntriesPerPage);
  return html`<li class="earlier"><a href="${path}/entries/${spec.id}/${before}">Show ${next} of ${count} earlier entries</a></li>`;
}

/** Renders a page of earlier entries, for browsers without JavaScript. */
export function renderEntriesPage(tree: RunTree, run: RunNode, page: EventsPage, context: PageContext): string {
  const body = html`<header><h1>${run.spec.workerPath}</h1><p><a href="${context.path}">Back to the run</a></p></header>
<main id="main"><ol class="transcript">${renderEntries(tree, run, page, context)}</ol></main>`;
  const { viewer, path } = context;
  return renderDocument({ title: pageTitle(tree), body, script: false, viewer, path });
}

export function renderMessagePage({ message, link }: Pick<MessagePage, "message" | "link">): string {
  const body = html`<header><h1>Golem Forge</h1></header><main id="main" class="message"><p>${message}</p>${link && html`<p><a class="button" href="${link.href}">${link.text}</a></p>`}</main>`;
  return renderDocument({ title: "Golem Forge", body, script: false });
}

/** Returns the newest event of each transcript, as `run:event,run:event`. */
function cursorOf({ runs }: RunTree): string {
  return runs.map(({ spec, newest }) => `${spec.id}:${newest}`).join(",");
}

interface Document {
  title: string;
  body: Html;
  script: boolean;
  viewer?: NavigationViewer;
  /** The path to return to after signing out. */
  path?: string;
}

/** Renders a complete page with a link to the list of runs. */
export function renderDocument({ title, body, script, viewer, path = "" }: Document): string {
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
<link rel="stylesheet" href="/runs/-/assets/changes.css">
<link rel="stylesheet" href="/runs/-/assets/run.css">
${
  script &&
  html`<script type="module" src="/runs/-/assets/changes.js"></script>
<script type="module" src="/runs/-/assets/run.js"></script>`
}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<nav aria-label="Site"><a class="home" href="/runs">Golem Forge</a><span class="viewer small">${renderViewer(viewer, path)}</span></nav>
${body}
</body>
</html>
`);
}
