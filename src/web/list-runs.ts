import type { Context } from "hono";
import { isListedRepository } from "#config/config.ts";
import type { RepositoryRef } from "#domain/github.ts";
import { phaseOf, type RunPhase } from "#domain/run.ts";
import type { ListedRun } from "#runtime/views/run-view-reader.ts";
import { type Html, html, trusted } from "#text/html.ts";
import { type FindRunServices, signInPath } from "./find-run.ts";
import type { RateLimit } from "./rate-limit.ts";
import { describeCost, isUnpriced, renderTime } from "./render-numbers.ts";
import { renderDocument } from "./render-page.ts";
import { renderBadge, titleOf } from "./render-parts.ts";
import { PageError } from "./responses.ts";
import type { Session } from "./sessions.ts";

export const listPath = "/runs";
export const costsPath = "/costs";

const runsPerPage = 30;
/** A request reads at most this many runs. Older ones are on the next page. */
const maxScanned = 600;
const batchSize = 100;

const stateNames = {
  waiting: "Waiting for people",
  working: "Working",
  paused: "Paused",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
} as const;
type StateName = keyof typeof stateNames;

const textFields = ["worker", "repository", "person", "text"] as const;
type Filters = Partial<Record<(typeof textFields)[number], string>> & { state?: StateName | undefined };

interface RunList {
  runs: ListedRun[];
  /** The run to continue after; undefined at the end. */
  next: { id: string; createdAt: number } | undefined;
}

/** Shows the runs of the repositories that the signed-in person can read, newest first. */
export async function showRuns(services: FindRunServices & { viewLimit: RateLimit }, c: Context): Promise<Response> {
  const { sessions, links, github, now, viewLimit } = services;
  const session = await sessions?.current(c);
  if (!sessions || !session) {
    return c.html(renderWelcome(sessions !== undefined));
  }
  if (!viewLimit.allows(`list of ${session.login}`)) {
    throw new PageError(429, "Too many requests in one minute. Wait a moment.");
  }
  const filters = readFilters(c);
  const list = await findRuns(services, { session, filters, before: readCursor(c) });
  const rows = list.runs.map((run) =>
    renderRow(run, { path: links.pathOf(run.spec.id), webUrl: github.webUrl, now: now() }),
  );
  const body = html`<header><h1>Runs</h1><p><a href="${costsPath}">Costs</a></p></header><main id="main" class="list">
${renderForm(filters)}
${rows.length > 0 ? html`<ul class="runs">${rows}</ul>` : html`<p>${isEmpty(filters) ? "There are no runs in repositories that you can read. Comment /run followed by a worker's name on an issue to start one." : "No run matches."}</p>`}
${list.next && html`<p><a class="button" href="${listPath}?${queryOf(filters, list.next)}">Older runs</a></p>`}
</main>`;
  const viewer = { kind: "signed-in", login: session.login, formKey: sessions.formKey(session) } as const;
  return c.html(renderDocument({ title: "Runs · Golem Forge", body, script: false, viewer, path: listPath }));
}

function renderWelcome(canSignIn: boolean): string {
  const body = html`<header><h1>Golem Forge</h1></header><main id="main" class="message">
<p>Golem Forge is running. Comment <code>/run</code> followed by a worker's name on an issue; the run page is linked from its status comment.</p>
${canSignIn ? html`<p><a class="button primary" href="${signInPath(listPath)}">Sign in with GitHub</a> to see the runs of the repositories that you can read.</p>` : html`<p>Sign-in is not set up here, so runs are not listed.</p>`}
</main>`;
  return renderDocument({ title: "Golem Forge", body, script: false });
}

function readFilters(c: Context): Filters {
  const filters: Filters = {};
  const state = c.req.query("state") ?? "";
  if (isStateName(state)) filters.state = state;
  for (const name of textFields) {
    const value = (c.req.query(name) ?? "").trim().slice(0, 100);
    if (value !== "") filters[name] = value;
  }
  return filters;
}

function isStateName(name: string): name is StateName {
  return Object.hasOwn(stateNames, name);
}

function isEmpty(filters: Filters): boolean {
  return Object.keys(filters).length === 0;
}

function readCursor(c: Context): RunList["next"] {
  const [, createdAt, id] = /^(\d{1,15})-([a-z0-9-]{1,40})$/.exec(c.req.query("before") ?? "") ?? [];
  return createdAt !== undefined && id !== undefined ? { createdAt: Number(createdAt), id } : undefined;
}

function queryOf(filters: Filters, next: { id: string; createdAt: number }): string {
  return new URLSearchParams({ ...filters, before: `${next.createdAt}-${next.id}` }).toString();
}

async function findRuns(
  services: FindRunServices,
  { session, filters, before }: { session: Session; filters: Filters; before: RunList["next"] },
): Promise<RunList> {
  const runs: ListedRun[] = [];
  let next = before;
  for (let scanned = 0; scanned < maxScanned; scanned += batchSize) {
    const batch = await services.views().listRuns({ before: next, limit: batchSize });
    for (const run of batch) {
      next = { id: run.spec.id, createdAt: run.spec.createdAt };
      if (!matches(run, filters) || !(await mayRead(services, run.spec.origin, session))) continue;
      runs.push(run);
      if (runs.length === runsPerPage) return { runs, next };
    }
    if (batch.length < batchSize) return { runs, next: undefined };
  }
  return { runs, next };
}

/** Returns true if the app serves a repository and the person can read it. Throws a PageError if GitHub does not answer. */
export async function mayRead(
  { github, access }: FindRunServices,
  repository: RepositoryRef,
  session: Session,
): Promise<boolean> {
  if (github.repositories && !isListedRepository(github.repositories, repository.owner, repository.repo)) return false;
  if (!(await access.isPrivate(repository))) return true;
  const permission = await access.permissionOf(repository, session);
  if (permission === "unknown") {
    throw new PageError(503, "GitHub did not answer, so your access could not be checked. Try again in a moment.", {
      href: listPath,
      text: "Try again",
    });
  }
  return permission !== "none";
}

function matches(run: ListedRun, { state, worker, repository, person, text }: Filters): boolean {
  const { id, origin, worker: definition, task = "", threadTitle = "" } = run.spec;
  const has = (value: string, part: string | undefined) =>
    part === undefined || value.toLowerCase().includes(part.toLowerCase());
  return (
    (state === undefined || stateOf(phaseOf(run)) === state) &&
    has(definition.name, worker) &&
    has(`${origin.owner}/${origin.repo}`, repository) &&
    has(origin.requestedBy, person?.replace(/^@/, "")) &&
    has(`${task} ${threadTitle} ${id} #${origin.thread} ${origin.owner}/${origin.repo} ${definition.name}`, text)
  );
}

function stateOf(phase: RunPhase): StateName {
  switch (phase) {
    case "starting":
    case "working":
    case "retrying":
    case "awaitingChild":
      return "working";
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingBudget":
    case "awaitingReview":
    case "awaitingMessage":
      return "waiting";
    case "paused":
      return "paused";
    case "answered":
      return "done";
    case "failed":
    case "limited":
      return "failed";
    case "cancelled":
      return "cancelled";
  }
}

const fieldLabels = { worker: "Worker", repository: "Repository", person: "Started by", text: "Text" } as const;

function renderForm(filters: Filters): Html {
  const options = Object.entries(stateNames).map(
    ([name, label]) => html`<option value="${name}"${filters.state === name && trusted(" selected")}>${label}</option>`,
  );
  return html`<form class="filters" method="get" action="${listPath}" role="search">
<div><label for="filter-state">State</label><select id="filter-state" name="state"><option value="">Any</option>${options}</select></div>
${textFields.map((name) => html`<div><label for="filter-${name}">${fieldLabels[name]}</label><input id="filter-${name}" name="${name}" value="${filters[name] ?? ""}" maxlength="100"></div>`)}
<div class="submit"><button class="primary">Filter</button>${!isEmpty(filters) && html` <a href="${listPath}">Clear</a>`}</div>
</form>`;
}

function renderRow(run: ListedRun, { path, webUrl, now }: { path: string; webUrl: string; now: number }): Html {
  const { origin, worker, createdAt } = run.spec;
  const { owner, repo, thread, isPullRequest, requestedBy } = origin;
  const repositoryUrl = `${webUrl}/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}`;
  return html`<li>${renderBadge(run)}<div><a class="title" href="${path}">${titleOf(run.spec)}</a>
<p class="small"><a href="${repositoryUrl}/${isPullRequest ? "pull" : "issues"}/${thread}">${owner}/${repo}#${thread}</a> · ${worker.name} · started by ${requestedBy} ${renderTime(createdAt, now)}${run.pullRequest !== undefined && html` · <a href="${repositoryUrl}/pull/${run.pullRequest}">pull request #${run.pullRequest}</a>`}</p></div>
<span class="small cost">${run.tokens > 0 && (isUnpriced(run) ? "not priced" : describeCost(run))}</span></li>`;
}
