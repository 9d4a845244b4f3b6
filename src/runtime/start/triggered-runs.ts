import { LRUCache } from "lru-cache";
import { type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite, type GitHub, GitHubRefusalError } from "#domain/github.ts";
import { scheduleTrigger } from "#domain/run.ts";
import type { UnreadableDataError } from "#domain/stored-data.ts";
import { matchesEvent, matchesPaths } from "#domain/trigger.ts";
import { hourMs } from "#domain/work-context.ts";
import { stateName } from "#runtime/apply-events.ts";
import { readSettings } from "#runtime/run-environment.ts";
import type { Runs, ThreadPause, ThreadRef } from "#runtime/runs.ts";
import type { RunsOptions } from "#runtime/runs-options.ts";
import { dividePaused, findReadingProblem } from "#runtime/service/run-requests.ts";
import { type RunRow, readable, type Store, type StoredRun } from "#runtime/store/store.ts";
import { matchesPattern } from "#text/path-pattern.ts";
import { pluralize } from "#text/pluralize.ts";
import type { RunStarter } from "./start-run.ts";
import { type InvalidFile, orInvalid, type WorkerTriggers } from "./worker-catalog.ts";

type TriggeredEvent = Parameters<Runs["startTriggered"]>[0];

/** Events come in bursts, and most repositories have no triggers. */
const cacheMs = 60_000;

/** Starts the workers whose triggers match an event. */
export class TriggeredRuns {
  readonly #starter: RunStarter;
  readonly #options: RunsOptions;
  readonly #known = new LRUCache<string, ReturnType<typeof readTriggers>>({
    max: 1_000,
    ttl: cacheMs,
  });

  constructor(starter: RunStarter, options: RunsOptions) {
    this.#starter = starter;
    this.#options = options;
  }

  async start(event: TriggeredEvent): ReturnType<Runs["startTriggered"]> {
    const { origin } = event;
    const github = this.#options.openGitHub(origin);
    const { machineUser, workers } = await this.#triggersOf(github);
    const matching = workers.filter(({ on }) => matchesEvent(on, event, machineUser));
    if (matching.length === 0) return { problems: [] };

    if (origin.isPullRequest) {
      // On a fork's pull request, the fork's owner controls the files that the worker would read.
      if ((await github.getPullRequest(origin.thread))?.head.fromFork !== false) return { problems: [] };
    }
    const hasPaths = matching.some(({ on }) => on.pull_request?.paths);
    const files = hasPaths && origin.isPullRequest ? await github.listChangedFiles(origin.thread) : [];
    const { requestedBy, requestedById } = origin;
    const withPaths = matching.filter((trigger) => matchesPaths(trigger.on, files));
    if (withPaths.length === 0) return { problems: [] };
    const isWriter = canWrite(await github.getPermission(requestedBy, requestedById));
    const isTrusted = isWriter && !(await event.isViaApp?.());
    const { outsiders } = this.#options.policy;
    const mayStart = ({ worker }: WorkerTriggers) =>
      isTrusted || outsiders.workers.some((pattern) => matchesPattern(pattern, worker));
    const starting = withPaths.filter(mayStart);
    const pause = starting.length > 0 ? await findThreadPause(this.#options, origin) : undefined;
    if (pause) return { problems: [], pause };

    const problems: string[] = [];
    for (const trigger of starting) {
      const problem = await this.#startOne(trigger, event, isTrusted);
      if (problem) problems.push(problem);
    }
    return { problems: isTrusted ? problems : [] };
  }

  async listSchedules(...[repository, options]: Parameters<Runs["listSchedules"]>): ReturnType<Runs["listSchedules"]> {
    const { workers, invalidFiles } = await this.#triggersOf(this.#options.openGitHub(repository), options);
    const schedules = workers.flatMap(({ worker, on }) =>
      (on.schedule ?? []).map((schedule) => ({ worker, schedule })),
    );
    return { schedules, invalidFiles };
  }

  async startScheduled({
    repository,
    worker,
    schedule,
    deliveryId,
  }: Parameters<Runs["startScheduled"]>[0]): ReturnType<Runs["startScheduled"]> {
    const { openGitHub, policy } = this.#options;
    const github = openGitHub(repository);
    const issue = await github.getIssue(schedule.issue);
    // Closing the issue pauses its schedule.
    if (issue && (issue.state === "closed" || issue.locked)) return undefined;
    if (!policy.schedules.workers.some((pattern) => matchesPattern(pattern, worker))) {
      throw new UserError(`The policy of this deployment does not allow ${worker} to run on a schedule.`);
    }
    const pause = await findThreadPause(this.#options, { ...repository, thread: schedule.issue });
    if (pause) return pause;
    const requestedBy = await github.ownLogin();
    const origin = { ...repository, thread: schedule.issue, isPullRequest: issue?.isPullRequest ?? false, requestedBy };
    const started = {
      origin: { ...origin, trigger: `${scheduleTrigger}${schedule.cron}` },
      worker,
      text: schedule.task,
    };
    await this.#starter.start({ ...started, deliveryId, maxCost: policy.schedules.cost });
    return undefined;
  }

  /** Starts a worker. Returns the reason if it was not started and people should know. */
  async #startOne(
    { worker, on }: WorkerTriggers,
    event: TriggeredEvent,
    isTrusted: boolean,
  ): Promise<string | undefined> {
    const trigger = `${event.event}: ${event.type}`;
    try {
      if (await this.#isBusy(worker, event)) return undefined;
      await this.#starter.start({
        origin: { ...event.origin, trigger },
        worker,
        text: on.task ?? "",
        seen: event.seen,
        deliveryId: `${event.deliveryId} ${worker}`,
        ...(isTrusted ? {} : { maxCost: this.#options.policy.outsiders.cost }),
      });
      return undefined;
    } catch (error) {
      // What GitHub refuses with 403 is asked again when the delivery is processed again.
      if (!(error instanceof UserError) || (error instanceof GitHubRefusalError && error.status === 403)) throw error;
      return `${worker} was not started by \`${trigger}\`: ${error.message}`;
    }
  }

  /** True while the worker is working on the thread. Throws a UserError if events have started too many runs there. */
  async #isBusy(worker: string, { origin }: TriggeredEvent): Promise<boolean> {
    const { store, now, policy } = this.#options;
    const runs = (await store.runsOfThread(origin)).flatMap((run) => (run.unreadable ? [] : [run]));
    const isActive = runs.some(
      ({ spec, status, snapshot }) =>
        spec.worker.name === worker && status !== "done" && !["idle", "interrupted"].includes(stateName(snapshot)),
    );
    if (isActive) return true;
    const recent = runs.filter(({ spec }) => spec.origin.trigger !== undefined && spec.createdAt > now() - hourMs);
    if (recent.length < policy.triggered_runs_per_hour) return false;
    throw new UserError(
      `Events started ${pluralize(recent.length, "run")} here in the last hour, which is the limit. Comment \`/run ${worker}\` to start it anyway.`,
    );
  }

  #triggersOf(
    github: GitHub,
    { isChanged = false }: { isChanged?: boolean | undefined } = {},
  ): ReturnType<typeof readTriggers> {
    const { installationId, repositoryId, owner, repo } = github.repository;
    const key = `${installationId}/${repositoryId ?? `${owner}/${repo}`}`.toLowerCase();
    const known = this.#known.get(key);
    if (known && !isChanged) return known;
    const reading = readTriggers(github, this.#options, isChanged ? { maxAgeMs: 0 } : {});
    this.#known.set(key, reading);
    reading.catch(() => this.#known.delete(key));
    return reading;
  }
}

/** Reads the triggers of the default branch; those of the settings come first. Invalid settings trigger nothing. */
async function readTriggers(
  github: GitHub,
  { catalog }: Pick<RunsOptions, "catalog">,
  options: { maxAgeMs?: number },
): Promise<{ machineUser: string | undefined; workers: WorkerTriggers[]; invalidFiles: InvalidFile[] }> {
  const [settings, files] = await Promise.all([
    orInvalid(settingsPath, readSettings(github, options)),
    catalog.triggers(github, options),
  ]);
  const { workers: fromFiles, invalidFiles } = files;
  if ("problem" in settings) return { machineUser: undefined, workers: [], invalidFiles: [settings, ...invalidFiles] };
  const fromSettings = Object.entries(settings.on).map(([worker, on]) => ({ worker, on }));
  const named = new Set(fromSettings.map(({ worker }) => worker.toLowerCase()));
  const workers = [...fromSettings, ...fromFiles.filter(({ worker }) => !named.has(worker.toLowerCase()))];
  const allowed = workers.filter(({ worker }) => isAllowed(worker, settings));
  return { machineUser: settings.machine_user, workers: allowed, invalidFiles };
}

function isAllowed(worker: string, { workers }: RepositorySettings): boolean {
  return !workers || workers.some((allowed) => allowed.toLowerCase() === worker.toLowerCase());
}

/**
 * Finds a run of the thread that a person has paused, or may have paused if this release cannot read it. It keeps events and
 * schedules from starting workers in this thread, until the run is resumed or cancelled, or a person starts another one.
 */
async function findThreadPause(
  { store }: Pick<RunsOptions, "store">,
  thread: ThreadRef,
): Promise<ThreadPause | undefined> {
  const roots = await store.runsOfThread(thread);
  const startedAt = Math.max(0, ...roots.map((run) => (run.unreadable ? 0 : startedByPersonAt(run))));
  for (const run of roots.filter(({ status }) => status !== "done")) {
    const pause = await findPause(store, run, startedAt);
    if (pause) return pause;
  }
  return undefined;
}

function startedByPersonAt({ spec }: RunRow): number {
  return spec.origin.trigger === undefined ? spec.createdAt : 0;
}

async function findPause(store: Store, run: StoredRun, startedAt: number): Promise<ThreadPause | undefined> {
  const { events, unreadable } = await store.commandsOf(run.id);
  // With a reason, the app has stopped it, perhaps after a person.
  const last = events.findLast(({ event }) => event.type !== "run.stop" || event.reason === undefined);
  // A run that cannot be read is cancelled as soon as it can.
  if (last?.event.type === "run.cancel") return undefined;
  const problem = unreadable ?? (await findReadingProblem(store, run));
  if (problem) return unreadablePause(run.id, problem);
  if (last?.event.type !== "run.stop" || last.at < startedAt) return undefined;
  const { paused } = await dividePaused(store, [run]);
  if (paused.length === 0) return undefined;
  const { name } = readable(run).spec.worker;
  return {
    key: `paused/${run.id}/${last.id}`,
    text: `@${last.event.by} paused ${name} in this thread, so events and schedules start no worker here. \`/resume\` continues ${name}, \`/cancel\` ends it, and \`/run\` starts another worker; after any of these, events start workers again.`,
  };
}

function unreadablePause(runId: string, { message }: UnreadableDataError): ThreadPause {
  return {
    key: `unreadable/${runId}`,
    text: `${message} Somebody may have paused this run, so events and schedules start no worker in this thread until it can be read. \`/run\` starts one now. \`/cancel\` ends all runs here, this one as soon as it can be read, and events start workers again.`,
  };
}
