import { randomUUID } from "node:crypto";
import { settingsPath } from "#config/repository-settings.ts";
import { UserError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import { isScheduled, nothingToDo, type RunOrigin, type RunSpec, shortId } from "#domain/run.ts";
import { hourMs, logContext } from "#domain/work-context.ts";
import { initialRun } from "#runtime/apply-events.ts";
import { remainingBudget } from "#runtime/daily-budget.ts";
import { readSettings } from "#runtime/run-environment.ts";
import type { Runs } from "#runtime/runs.ts";
import type { RunsOptions } from "#runtime/runs-options.ts";
import { type NewEvent, type RunLimit, RunLimitError, readable } from "#runtime/store/store.ts";
import { pluralize } from "#text/pluralize.ts";
import { cleanText } from "#text/untrusted.ts";
import { admitWorker } from "./admit-worker.ts";
import { composeBriefing, maxTitleLength, readBriefedIssue } from "./briefing.ts";

/** The number of earlier runs whose costs are compared. */
const maxComparedRuns = 20;

/** Starts workers on issues and pull requests, within the limits of people and repositories. */
export class RunStarter {
  readonly #options: RunsOptions;

  constructor(options: RunsOptions) {
    this.#options = options;
  }

  async start({
    origin,
    worker: named,
    text,
    seen,
    deliveryId,
    maxCost = Number.POSITIVE_INFINITY,
  }: Parameters<Runs["startRun"]>[0]): Promise<RunSpec> {
    const { store, scheduler, catalog, models, openGitHub, now, policy } = this.#options;
    const id = shortId(deliveryId ?? randomUUID(), 8);
    const known = await store.findRun(id);
    if (known) return readable(known).spec;

    await this.#checkRate(origin);
    const github = openGitHub(origin);
    const name = named ?? (await this.#defaultWorker(github));
    const pull = await findPullRequest(github, origin);
    const { worker, source, model } = await admitWorker(name, {
      catalog,
      models,
      repository: github,
      policy,
      isFork: pull.isFork,
    });
    const budget = await remainingBudget(this.#options, origin);
    const usualCost = await this.#usualCost(origin, worker.name);
    const task = cleanText(text).text.trim();
    const issue = await readBriefedIssue(github, origin, seen);
    const briefing = await composeBriefing(github, issue, { before: seen?.at ?? new Date(now()), seen, worker, task });
    // A pull request without a description still has changes to work on.
    const isEmpty = [task, issue.title, issue.body].every((text) => cleanText(text).text.trim() === "");
    if (isEmpty && !origin.isPullRequest && origin.trigger === undefined && !worker.allow_empty_input) {
      throw new UserError(`${worker.name} needs a task. Write it after the command, or in the issue.`);
    }

    const { delivery } = logContext();
    const spec: RunSpec = {
      id,
      rootId: id,
      depth: 0,
      workerPath: worker.name,
      worker: { ...worker, limits: { ...worker.limits, cost: Math.min(worker.limits.cost, budget, maxCost) } },
      workerSource: source,
      model,
      origin,
      ...(task ? { task } : {}),
      threadTitle: cleanText(issue.title).text.trim().slice(0, maxTitleLength).toWellFormed(),
      ...pull,
      ...(usualCost === undefined ? {} : { usualCost }),
      ...(delivery === undefined ? {} : { delivery }),
      createdAt: now(),
    };
    const events: NewEvent[] = [
      { runId: id, event: { type: "message.received", kind: "context", ...briefing, by: issue.author } },
      { runId: id, event: taskMessage(origin, task) },
    ];
    const run = initialRun(spec, { pausesAtCostLimit: true });
    try {
      await store.ingest({ deliveryId, run, limits: this.#limitsOf(origin), events });
    } catch (error) {
      if (error instanceof RunLimitError) throw limitReached(origin, error);
      throw error;
    }
    scheduler.wake(id);
    return spec;
  }

  async #defaultWorker(github: GitHub): Promise<string> {
    const { default_worker: name } = await readSettings(github);
    if (name !== undefined) return name;
    const names = (await this.#options.catalog.list(github)).map((worker) => worker.name);
    if (names.includes("main")) return "main";
    throw new UserError(
      `No default worker is set here. Comment \`/run <worker>\` with one of ${names.join(", ")}, or set \`default_worker\` in ${settingsPath}.`,
    );
  }

  /** Returns the median cost of the worker's latest runs in this repository, in US dollars; undefined if no price was known. */
  async #usualCost({ repositoryId }: RunOrigin, worker: string): Promise<number | undefined> {
    if (repositoryId === undefined) return undefined;
    const costs = await this.#options.store.costsOfWorker({ repositoryId, worker, limit: maxComparedRuns });
    return costs.sort((a, b) => a - b)[Math.floor(costs.length / 2)];
  }

  /** Throws a UserError if no more runs may be started in this hour. */
  async #checkRate(origin: RunOrigin): Promise<void> {
    for (const limit of this.#limitsOf(origin)) {
      const count = await this.#options.store.countRuns(limit);
      if (count >= limit.max) throw limitReached(origin, { limit, count });
    }
  }

  #limitsOf(origin: RunOrigin): RunLimit[] {
    const { requestedBy, repositoryId, owner, repo } = origin;
    const { now, runsPerHour } = this.#options;
    const since = now() - hourMs;
    const where = repositoryId === undefined ? { owner, repo } : { repositoryId };
    return [
      ...(isScheduled(origin) ? [] : [{ requestedBy, since, max: runsPerHour.person }]),
      { ...where, since, max: runsPerHour.repository },
    ];
  }
}

function limitReached(
  { requestedBy, owner, repo }: RunOrigin,
  { limit, count }: Pick<RunLimitError, "limit" | "count">,
): UserError {
  const exceeded =
    limit.requestedBy === undefined
      ? `${pluralize(count, "run was", "runs were")} started in ${owner}/${repo}`
      : `@${requestedBy} has started ${pluralize(count, "run")}`;
  return new UserError(`${exceeded} in the last hour, which is the limit. Try again later.`);
}

/** Returns the task as a message. A trigger's task comes from the maintainers, not from the person who caused the event. */
function taskMessage(origin: RunOrigin, task: string): NewEvent["event"] {
  const { trigger, requestedBy: by, requestedById: byId } = origin;
  if (trigger === undefined) return { type: "message.received", kind: "request", text: task, by, byId };
  const quiet = isScheduled(origin) ? `\nIf there is nothing to do, answer with exactly: ${nothingToDo}` : "";
  const text = `The repository's maintainers set you up to be started by this event: ${trigger}.\n${task || "Do your work on this."}${quiet}`;
  return { type: "message.received", kind: "prompt", text, by };
}

/** Returns the branches of the pull request that a run may push to: not those of a fork, nor the default branch. */
async function findPullRequest(
  github: GitHub,
  { isPullRequest, thread }: RunOrigin,
): Promise<Pick<RunSpec, "pullRequestBranch" | "pullRequestBase" | "isFork">> {
  if (!isPullRequest) return {};

  const pull = await github.getPullRequest(thread);
  if (!pull) throw new UserError(`Pull request #${thread} was not found.`);
  if (pull.head.fromFork) return { isFork: true };
  if (pull.state === "closed") return {};
  const { defaultBranch } = await github.getRepository();
  if (pull.head.branch === defaultBranch) return {};
  return { pullRequestBranch: pull.head.branch, pullRequestBase: pull.base.branch };
}
