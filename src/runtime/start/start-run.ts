import { randomUUID } from "node:crypto";
import { UserError } from "#domain/errors.ts";
import type { RunOrigin, RunSpec } from "#domain/run.ts";
import { initialRun } from "#runtime/apply-events.ts";
import type { Runs } from "#runtime/runs.ts";
import type { RunsOptions } from "#runtime/runs-options.ts";
import { shortId } from "#runtime/short-id.ts";
import type { NewEvent } from "#runtime/store/store.ts";
import { cleanText } from "#text/untrusted.ts";
import { admitWorker } from "./admit-worker.ts";
import { briefing } from "./briefing.ts";

/** Puts a worker to work on an issue or pull request, within the limits of people and repositories; see `Runs.start`. */
export function createStartRun({
  store,
  scheduler,
  catalog,
  models,
  openGitHub,
  now,
  runsPerHour,
  policy,
}: RunsOptions): Runs["startRun"] {
  let entering: Promise<unknown> = Promise.resolve();

  async function start({
    origin,
    worker: name,
    text,
    seen,
    deliveryId,
  }: Parameters<Runs["startRun"]>[0]): Promise<RunSpec> {
    const id = shortId(deliveryId ?? randomUUID(), 8);
    const known = await store.findRun(id);
    if (known) return known.spec;

    await checkRate(origin);
    const github = openGitHub(origin);
    const { worker, source, model } = await admitWorker(name, {
      catalog,
      models,
      repository: github,
      model: models.defaultModel,
      policy,
    });
    const budget = await remainingBudget(origin);
    const task = cleanText(text).text.trim();
    const found = await github.getIssue(origin.thread);
    if (!found) throw new UserError(`#${origin.thread} cannot be read.`);
    // What was changed between the command and now is not what the person saw.
    const issue = seen ? { ...found, title: seen.title, body: seen.body } : found;
    const about = await briefing(github, issue, seen?.at ?? new Date(now()));
    if (task === "" && issue.body.trim() === "" && !worker.allow_empty_input) {
      throw new UserError(
        `${worker.name} needs something to do: write it behind the command, or into the ${origin.isPullRequest ? "description" : "issue"}.`,
      );
    }

    const createdAt = now();
    const spec: RunSpec = {
      id,
      rootId: id,
      depth: 0,
      workerPath: worker.name,
      worker: { ...worker, limits: { ...worker.limits, cost: Math.min(worker.limits.cost, budget) } },
      workerSource: source,
      model,
      origin,
      ...(task ? { task } : {}),
      createdAt,
    };
    const events: NewEvent[] = [
      { runId: id, event: { type: "message.received", kind: "context", text: about, by: issue.author } },
      { runId: id, event: { type: "message.received", kind: "request", text: task, by: origin.requestedBy } },
    ];
    await enter(spec, () => store.ingest({ deliveryId, run: initialRun(spec), events }));
    scheduler.wake(id);
    return spec;
  }

  /** Counting and writing are two steps: one after the other for all, so that fifty at once are not all the first. */
  function enter({ id, origin }: RunSpec, write: () => Promise<unknown>): Promise<unknown> {
    const entered = entering.then(async () => {
      if (await store.findRun(id)) return;
      await checkRate(origin);
      await write();
    });
    entering = entered.catch(() => undefined);
    return entered;
  }

  /** US dollars that are left of the day's budget. Throws a UserError when nothing is. */
  async function remainingBudget({ repositoryId, owner, repo }: RunOrigin): Promise<number> {
    const since = now() - 24 * 60 * 60_000;
    const [own, all] = await Promise.all([
      repositoryId === undefined ? 0 : store.costOfRuns({ repositoryId, since }),
      store.costOfRuns({ since }),
    ]);
    const { repository, total } = policy.cost_per_day;
    if (own >= repository) {
      throw new UserError(
        `Runs on ${owner}/${repo} have cost $${own.toFixed(2)} in the last 24 hours; the deployment allows $${repository}. Try again later.`,
      );
    }
    if (all >= total)
      throw new UserError(`This deployment has spent its budget of the last 24 hours ($${total}). Try again later.`);
    return Math.min(repository - own, total - all);
  }

  async function checkRate({ requestedBy, repositoryId, owner, repo }: RunOrigin): Promise<void> {
    const since = now() - 60 * 60_000;
    const [own, all] = await Promise.all([
      store.countRuns({ requestedBy, since }),
      store.countRuns(repositoryId === undefined ? { owner, repo, since } : { repositoryId, since }),
    ]);
    const isOwn = own >= runsPerHour.person;
    if (!isOwn && all < runsPerHour.repository) return;
    const [who, count] = isOwn ? [`@${requestedBy}`, own] : [`The people of ${owner}/${repo}`, all];
    throw new UserError(`${who} started ${count} runs in the last hour, which is the limit here. Try again later.`);
  }

  return start;
}
