import type { Context } from "hono";
import { UserError } from "#domain/errors.ts";
import type { RepositoryRef } from "#domain/github.ts";
import type { DailyCost } from "#runtime/store/store.ts";
import { costsToCsv, type Days, readDays, sumBy } from "#runtime/views/daily-costs.ts";
import { type Html, html } from "#text/html.ts";
import { type FindRunServices, signInPath } from "./find-run.ts";
import { costsPath, listPath, mayRead } from "./list-runs.ts";
import type { RateLimit } from "./rate-limit.ts";
import { formatDollars } from "./render-numbers.ts";
import { renderDocument } from "./render-page.ts";
import { PageError } from "./responses.ts";
import type { Session } from "./sessions.ts";

export const costsCsvPath = "/costs.csv";

/** The maximum number of rows on the page. The CSV has all of them. */
const maxRows = 500;
/** The maximum number of repositories, since each needs a request to GitHub for the person's permission. */
const maxRepositories = 100;

type CostServices = FindRunServices & { viewLimit: RateLimit };

/** Shows the model costs in the repositories that the signed-in person can read. */
export async function showCosts(services: CostServices, c: Context): Promise<Response> {
  const { session, days, costs, isPartial } = await findCosts(services, c);
  const total = costs.reduce((sum, { cost }) => sum + cost, 0);
  const query = new URLSearchParams({ ...days }).toString();
  const body = html`<header><h1>Costs</h1><p><a href="${listPath}">Runs</a></p></header><main id="main" class="list">
${renderForm(days)}
<p>${formatDollars(total)} from ${days.from} to ${days.to}. Days are in UTC; calls of models without a known price count as $0. <a href="${costsCsvPath}?${query}">Download as CSV</a></p>
${isPartial && html`<p>Only the ${maxRepositories} repositories with the largest cost are shown.</p>`}
${costs.length > 0 ? renderCosts(costs) : html`<p>No model was called in these days for repositories that you can read.</p>`}
</main>`;
  const viewer = {
    kind: "signed-in",
    login: session.login,
    formKey: services.sessions?.formKey(session) ?? "",
  } as const;
  return c.html(renderDocument({ title: "Costs · Golem Forge", body, script: false, viewer, path: costsPath }));
}

/** Sends the same costs as CSV. */
export async function downloadCosts(services: CostServices, c: Context): Promise<Response> {
  const { days, costs } = await findCosts(services, c);
  return c.body(costsToCsv(costs), 200, {
    "content-type": "text/csv; charset=utf-8",
    "content-disposition": `attachment; filename="golem-forge-costs-${days.from}-${days.to}.csv"`,
  });
}

interface FoundCosts {
  session: Session;
  days: Days;
  costs: DailyCost[];
  /** True if repositories with smaller costs were left out. */
  isPartial: boolean;
}

async function findCosts(services: CostServices, c: Context): Promise<FoundCosts> {
  const session = await services.sessions?.current(c);
  if (!services.sessions) {
    throw new PageError(403, "Sign-in is not set up here, so costs are not shown. Use golem costs on the server.");
  }
  if (!session) {
    const link = { href: signInPath(costsPath), text: "Sign in with GitHub" };
    throw new PageError(401, "Sign in to see the costs of the repositories that you can read.", link);
  }
  if (!services.viewLimit.allows(`costs of ${session.login}`)) {
    throw new PageError(429, "Too many requests in one minute. Wait a moment.");
  }
  const days = daysIn(c, services.now());
  const all = await services.views().readCosts(days);
  const ranked = sumBy(all, keyOf).slice(0, maxRepositories);
  const readable = new Set<string>();
  for (const { name } of ranked) {
    const repository = all.find((cost) => keyOf(cost) === name)?.repository;
    if (repository && (await mayRead(services, repository, session))) readable.add(name);
  }
  const isPartial = new Set(all.map(keyOf)).size > ranked.length;
  return { session, days, costs: all.filter((cost) => readable.has(keyOf(cost))), isPartial };
}

function daysIn(c: Context, now: number): Days {
  try {
    return readDays({ from: c.req.query("from"), to: c.req.query("to") }, now);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new PageError(400, error.message, { href: costsPath, text: "Show the last 30 days" });
  }
}

function renderForm({ from, to }: Days): Html {
  return html`<form class="filters" method="get" action="${costsPath}">
<div><label for="from">From</label><input id="from" type="date" name="from" value="${from}"></div>
<div><label for="to">To</label><input id="to" type="date" name="to" value="${to}"></div>
<div class="submit"><button class="primary">Show</button></div>
</form>`;
}

function renderCosts(costs: readonly DailyCost[]): Html {
  const rows = costs
    .slice(0, maxRows)
    .map(
      (cost) =>
        html`<tr><td>${cost.day}</td><td>${nameOf(cost.repository)}</td><td>${cost.worker}</td><td>${cost.runs}</td><td>${cost.modelCalls}</td><td>${cost.inputTokens}</td><td>${cost.outputTokens}</td><td>${formatDollars(cost.cost)}</td></tr>`,
    );
  return html`${renderSums(
    "Repository",
    sumBy(costs, ({ repository }) => nameOf(repository)),
  )}
${renderSums(
  "Worker",
  sumBy(costs, ({ worker }) => worker),
)}
<h2>By day</h2>
<div class="table" tabindex="0"><table><thead><tr><th>Day</th><th>Repository</th><th>Worker</th><th>Runs</th><th>Model calls</th><th>Tokens in</th><th>Tokens out</th><th>Cost</th></tr></thead><tbody>${rows}</tbody></table></div>
${costs.length > maxRows && html`<p>${costs.length - maxRows} more rows are in the CSV.</p>`}`;
}

const maxSums = 20;

function renderSums(name: string, sums: readonly { name: string; cost: number }[]): Html {
  const rows = sums
    .slice(0, maxSums)
    .map(({ name, cost }) => html`<tr><td>${name}</td><td>${formatDollars(cost)}</td></tr>`);
  return html`<h2>By ${name.toLowerCase()}</h2>
<div class="table" tabindex="0"><table><thead><tr><th>${name}</th><th>Cost</th></tr></thead><tbody>${rows}</tbody></table></div>`;
}

function nameOf({ owner, repo }: RepositoryRef): string {
  return `${owner}/${repo}`;
}

function keyOf({ repository }: DailyCost): string {
  return repository.repositoryId === undefined ? nameOf(repository).toLowerCase() : String(repository.repositoryId);
}
