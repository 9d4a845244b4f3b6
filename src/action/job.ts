import { readFile } from "node:fs/promises";
import type { Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { createThreads, type Threads } from "#bot/create-bot.ts";
import {
  findMissedComments,
  findMissedFeedback,
  findMissedReopenings,
  keyOfEvent,
  nextPullRequests,
} from "#bot/deliveries/find-missed-events.ts";
import { updateTriggers } from "#bot/deliveries/handle-triggers.ts";
import { type GitHubEvent, storeEvent } from "#bot/deliveries/receive-delivery.ts";
import { jobTokens } from "#bot/github/installation-tokens.ts";
import { openGitHubAs } from "#bot/github/open-github.ts";
import { postComment } from "#bot/github/post-comment.ts";
import { RepositoryApi } from "#bot/github/repository-api.ts";
import { pullRequestSetting } from "#bot/github/repository-client.ts";
import { RestClient } from "#bot/github/rest-client.ts";
import { inline } from "#bot/render/markdown.ts";
import type { ActionConfig } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { actionsLogin, type GitHub, type RepositoryRef } from "#domain/github.ts";
import { LeaseLostError, withLease } from "#domain/work-context.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { createModels } from "#models/create-models.ts";
import { statusEffect } from "#runtime/apply-events.ts";
import { createRuntime, type Runtime, runtimeOptionsOf } from "#runtime/create-runtime.ts";
import type { Runs } from "#runtime/runs.ts";
import type { RunObserver } from "#runtime/scheduler/run-observer.ts";
import { openWorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { type GitStore, openGitStore } from "#runtime/store/git/open-git-store.ts";

/** `waiting`: all runs are waiting or have ended. `lost`: another job has taken over. `interrupted`: the job was cancelled. */
export type JobOutcome = "waiting" | "lost" | "interrupted";

/** The ref that holds the runs of a repository. */
const stateRef = "refs/golem-forge/state";

/** The interval at which a running job looks for new comments. */
const commentIntervalMs = 15_000;
/** A job waits for work that is due within this time. The rest is left to a later job, which may start hours later. */
const maxIdleMs = 5 * 60_000;
/** The time a new job waits for the lease of an earlier one that is still running or has died. */
const maxLeaseWaitMs = 15 * 60_000;
/** The first job of a repository reads the events of this time before it. */
const firstLookBackMs = 10 * 60_000;
/** The default time for which logs and files of ended runs are kept. */
const defaultRunMs = 90 * 24 * 60 * 60_000;
const cancelGraceMs = 4_000;
const readUntilNote = "comments read until";
const polledNote = "pull request asked about last";
/** The maximum number of pull requests checked in one job. */
const maxReportedPulls = 5;
/** The beginning of the name of a note, which holds the commit whose waiting workflows were reported. */
const workflowsNote = "workflows of #";

interface JobOptions {
  log: JobLog;
  signal: AbortSignal;
  /** The runs that this process had performed when other jobs took over. */
  lostRuns: ReadonlySet<string>;
}

interface Parts extends JobOptions {
  config: ActionConfig;
  repository: RepositoryRef;
  state: GitStore;
  rest: RestClient;
  api: RepositoryApi;
  threads: Threads;
  runtime: Runtime;
  executors: ReturnType<typeof createExecutors>;
  /** Runs that could not open a pull request because the repository's settings forbid it. */
  runsWithoutPullRequest: Set<string>;
}

/** One job of GitHub Actions: the App without a server, for one repository and one event. */
export class Job {
  readonly #parts: Parts;
  #readAt = 0;

  static async open(config: ActionConfig, { log, signal, lostRuns }: JobOptions): Promise<Job> {
    const { job, github } = config;
    const models = createModels(config.models);
    const modelProblem = models.defaultModel && models.findModelProblem(models.defaultModel);
    if (modelProblem) throw new UserError(`GOLEM_FORGE_MODEL: ${modelProblem}`);
    const { owner, repo, token } = job;
    const repository = { installationId: 0, repositoryId: job.repositoryId, owner, repo };
    const cloneUrl = `${github.webUrl}/${owner}/${repo}.git`;
    const tokens = jobTokens(token, { owner, repo, cloneUrl });
    const rest = new RestClient({
      apiUrl: github.apiUrl,
      writeIntervalMs: github.writeIntervalMs,
      createAppToken: async () => token,
      warn: log.info,
    });
    const api = new RepositoryApi({ rest, tokens, repository, apiUrl: github.apiUrl });
    const state = await openGitStore({
      url: cloneUrl,
      token: async () => token,
      ref: stateRef,
      secret: config.state.secret,
      scope: String(job.repositoryId),
      holder: `${github.webUrl}/${owner}/${repo}/actions/runs/${job.runId} (attempt ${job.attempt})`,
      leaseMs: config.state.leaseMs,
      maxWaitMs: maxLeaseWaitMs,
      onWaiting: (holder) => log.info(`Waiting for another job: ${holder}`),
      onError: (error) => log.error("The runs could not be saved yet.", error),
    });
    const identity = {
      appId: undefined,
      ownLogin: async () => actionsLogin,
      isOwnCheck: ({ app, name }: { app: { slug?: string | undefined } | null; name: string }) =>
        app?.slug === "github-actions" && name === job.name,
    };
    const openGitHub = openGitHubAs(identity, tokens, rest, config);
    let runtime: Runtime | undefined;
    const runs = () => {
      if (!runtime) throw new Error("A run was asked for before the runtime was created.");
      return runtime.runs;
    };
    const threads = createThreads({
      config,
      appId: undefined,
      openGitHub,
      runs,
      deliveries: state.store,
      log,
      confirmLease: () => state.confirmLease(),
    });
    const executors = createExecutors(config.executors);
    const runsWithoutPullRequest = new Set<string>();
    runtime = createRuntime({
      ...runtimeOptionsOf(config, executors),
      // Limited by default, because every job loads all stored data.
      retention: { ...config.retention, runMs: config.retention.runMs ?? defaultRunMs },
      store: state.store,
      dispatch: state.dispatch,
      models,
      catalog: await openWorkerCatalog(config.workersDirectory),
      openGitHub,
      frontEnd: threads.frontEnd,
      observers: [pullRequestObserver(runsWithoutPullRequest)],
      onError: (error, about) => {
        if (!(error instanceof LeaseLostError)) log.error(`A step of run ${about.runId} failed.`, error);
      },
    });
    return new Job({
      config,
      log,
      signal,
      lostRuns,
      repository,
      state,
      rest,
      api,
      threads,
      runtime,
      executors,
      runsWithoutPullRequest,
    });
  }

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Resolves when this job has no more work, its state is saved and its lease released. */
  async run(): Promise<JobOutcome> {
    let outcome: JobOutcome;
    try {
      outcome = await this.#work();
    } finally {
      await this.#close();
    }
    // It may notice only now that its event was not saved, and that what it sent last may have arrived late.
    return outcome === "waiting" && this.#parts.state.isLost ? "lost" : outcome;
  }

  async #work(): Promise<JobOutcome> {
    const { config, state, signal, runtime, threads, repository } = this.#parts;
    if (signal.aborted) return "interrupted";
    const cancelled = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    const work = async (): Promise<JobOutcome> => {
      const { ownerId, owner, repo, repositoryId } = config.job;
      await runtime.runs.reportLocation({ ...repository, repositoryId, ownerId, owner, repo, at: Date.now() });
      await this.#store(await readEvent(config.job, repository));
      await this.#findMissed();
      await this.#showLostRuns();
      await runtime.start();
      threads.processor.start();
      if (["schedule", "workflow_dispatch"].includes(config.job.eventName)) {
        await updateTriggers(repository, threads.services);
      }
      await this.#untilEverythingWaits();
      return "waiting";
    };
    const working = work().catch((error): JobOutcome => {
      if (error instanceof LeaseLostError) return "lost";
      throw error;
    });
    return Promise.race([
      working,
      state.lost.then((): JobOutcome => "lost"),
      cancelled.then((): JobOutcome => "interrupted"),
    ]);
  }

  get lostRuns(): ReadonlySet<string> {
    return this.#parts.state.lostRuns;
  }

  /** A status that this process was sending when another job took over may have replaced a newer one of that job. */
  async #showLostRuns(): Promise<void> {
    const { lostRuns, state } = this.#parts;
    const runs = await Promise.all([...lostRuns].map((id) => state.store.findRun(id)));
    const roots = new Set(runs.flatMap((run) => (run ? [run.rootId] : [])));
    await state.store.ingest({ events: [], effects: [...roots].map(statusEffect) });
  }

  /** Stops all work in progress, saves the state and releases the lease for the next job. */
  async #close(): Promise<void> {
    const { config, state, threads, runtime, executors, rest, log } = this.#parts;
    await threads.stop();
    await runtime.shutDown(Math.min(cancelGraceMs, config.shutdownGraceMs));
    await executors.close();
    await state.store.close().catch((error) => {
      if (!(error instanceof LeaseLostError)) throw error;
    });
    log.info(
      `Requests to GitHub's REST API: ${rest.requests} of 1,000 in an hour. Pushes of the saved runs: ${state.publishes}.`,
    );
  }

  async #untilEverythingWaits(): Promise<void> {
    const { state } = this.#parts;
    const { store } = state;
    for (;;) {
      await this.#settle();
      const dueAt = (await store.nextDueAt()) ?? Number.POSITIVE_INFINITY;
      const deliveryInMs = (await store.nextDeliveryInMs()) ?? Number.POSITIVE_INFINITY;
      const waitMs = Math.min(dueAt - Date.now(), deliveryInMs);
      if (waitMs > maxIdleMs) {
        await withLease(
          () => state.confirmLease(),
          () => this.#report(),
        );
        // Comments that arrived meanwhile are handled by this job.
        if (!(await this.#findComments())) return;
      } else {
        await pause(Math.min(Math.max(waitMs, 50), commentIntervalMs));
      }
    }
  }

  /** Comments in threads on the settings that people have to change on GitHub before runs can continue. */
  async #report(): Promise<void> {
    const { state, threads, runtime, api, repository, runsWithoutPullRequest, log } = this.#parts;
    const github = threads.services.openGitHub(repository);
    for (const runId of runsWithoutPullRequest) {
      runsWithoutPullRequest.delete(runId);
      log.annotate(pullRequestSetting);
      const run = await state.store.findRun(runId);
      const thread = run?.unreadable ? undefined : run?.spec.origin.thread;
      const body = `### ⚙️ A setting is missing\n\n${pullRequestSetting}`;
      if (thread !== undefined) await postComment(github, { thread, name: "setting/pull-requests", body });
    }
    await reportWaitingWorkflows({ api, github, runs: runtime.runs, repository, notes: state.notes });
  }

  /** Resolves when no delivery and no run has work left. Looks for new comments meanwhile. */
  async #settle(): Promise<void> {
    const { threads, runtime } = this.#parts;
    const settled = async () => {
      await threads.processor.idle();
      await runtime.idle();
      return true;
    };
    for (const settling = settled(); ; ) {
      const timer = new AbortController();
      const later = pause(commentIntervalMs, false, { signal: timer.signal }).catch(() => false);
      const isSettled = await Promise.race([settling, later]);
      timer.abort();
      if (isSettled) return;
      await this.#findComments();
    }
  }

  async #store(event: GitHubEvent | undefined): Promise<boolean> {
    const { threads, state, log } = this.#parts;
    if (!event) return false;
    const outcome = await storeEvent(event, { scope: threads.services, store: state.store, log: log.info });
    if (outcome === "stored") threads.processor.notify();
    return outcome === "stored";
  }

  /** Stores deliveries that no job has received: GitHub drops events when too many jobs wait, and jobs may die. */
  async #findMissed(): Promise<void> {
    const { repository, api, state, runtime } = this.#parts;
    const isKnown = (key: string) => state.store.hasDelivery(key);
    const open = await runtime.runs.listOpenPullRequests(repository);
    const numbers = nextPullRequests(open, Number(state.notes.get(polledNote) ?? 0));
    const closed = await runtime.runs.listClosedPullRequests(repository);
    const missed = [
      ...(await findMissedFeedback({ api, repository, isKnown }, numbers)),
      ...(await findMissedReopenings({ api, repository, isKnown }, closed)),
    ];
    for (const event of missed) await this.#store(event);
    if (numbers.length > 0) state.notes.set(polledNote, String(numbers.at(-1)));
    await this.#findComments();
  }

  /** Stores comments that no event has reported yet. Returns true if there were any. */
  async #findComments(): Promise<boolean> {
    const { repository, api, state } = this.#parts;
    if (Date.now() - this.#readAt < commentIntervalMs / 2) return false;
    this.#readAt = Date.now();
    const isKnown = (key: string) => state.store.hasDelivery(key);
    const { events, readUntil } = await findMissedComments({ api, repository, isKnown }, this.#readUntil());
    let hasStored = false;
    for (const event of events) hasStored = (await this.#store(event)) || hasStored;
    state.notes.set(readUntilNote, readUntil);
    return hasStored;
  }

  #readUntil(): string {
    const { notes } = this.#parts.state;
    return notes.get(readUntilNote) ?? `${new Date(Date.now() - firstLookBackMs).toISOString().slice(0, 19)}Z`;
  }
}

interface WaitingWorkflowsOptions {
  api: RepositoryApi;
  github: GitHub;
  runs: Pick<Runs, "listOpenPullRequests">;
  repository: RepositoryRef;
  notes: GitStore["notes"];
}

/** Comments once per commit on workflows that wait for approval, as those of a job's commits do. */
async function reportWaitingWorkflows({
  api,
  github,
  runs,
  repository,
  notes,
}: WaitingWorkflowsOptions): Promise<void> {
  const pulls = await runs.listOpenPullRequests(repository);
  const noteOf = (number: number) => `${workflowsNote}${number}`;
  for (const note of notes.keys()) {
    if (note.startsWith(workflowsNote) && !pulls.some((number) => noteOf(number) === note)) {
      notes.delete(note);
    }
  }
  for (const number of pulls.slice(-maxReportedPulls)) {
    const pull = await github.getPullRequest(number);
    const note = noteOf(number);
    if (!pull || pull.state === "closed" || notes.get(note) === pull.head.commit) continue;
    const { workflow_runs: waiting } = await api.call("GET /repos/{owner}/{repo}/actions/runs", {
      head_sha: pull.head.commit,
      status: "action_required",
    });
    if (waiting.length === 0) continue;
    const names = [...new Set(waiting.map(({ name }) => inline(name ?? "a workflow")))].sort();
    const body = `### ⏸️ Checks are waiting for approval\n\nGitHub does not automatically start workflows for pull requests from GitHub Actions. Someone with write access has to click **Approve and run** on this pull request. These are waiting: ${names.map((name) => `**${name}**`).join(", ")}.`;
    await postComment(github, { thread: number, name: `workflows/${pull.head.commit}`, body });
    notes.set(note, pull.head.commit);
  }
}

/** Adds the runs that could not open a pull request because the repository's settings forbid it. */
function pullRequestObserver(runs: Set<string>): RunObserver {
  return {
    effectCompleted: ({ runId }, { events = [] }) => {
      const failures = events.map(({ event }) =>
        event.type === "tool.finished" ? event.result.error?.message : undefined,
      );
      if (failures.some((message) => message?.includes(pullRequestSetting))) runs.add(runId);
    },
  };
}

/** Reads the event of the job from the file that the runner wrote. */
async function readEvent(
  { eventName, eventPath, runId }: ActionConfig["job"],
  { installationId }: RepositoryRef,
): Promise<GitHubEvent | undefined> {
  const payload: unknown = JSON.parse(await readFile(eventPath, "utf8"));
  if (payload === null || typeof payload !== "object") return undefined;
  const key = keyOfEvent(eventName, payload);
  // Webhooks of an App include its installation; events of jobs do not.
  const action = "action" in payload ? payload.action : undefined;
  const event = { ...payload, action, installation: { id: installationId } };
  return { key, id: `${eventName} of job ${runId}`, name: eventName, payload: event };
}

export type JobLog = ReturnType<typeof createJobLog>;

/** Writes a job's log. The runner executes commands in the output, so no other text may look like one. */
export function createJobLog(output: Writable, redact: (text: string) => string) {
  const write = (message: string) => {
    for (const line of redact(message).split(/\r\n|[\n\r\u2028\u2029]/)) {
      output.write(`golem: ${line.replaceAll("##[", "## [")}\n`);
    }
  };
  return {
    info: write,
    error: (message: string, error: unknown): void =>
      write(`${message}\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}`),
    /** Writes an error that GitHub shows on the page of the job. */
    annotate: (message: string): void => {
      const escaped = redact(message).replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
      output.write(`::error title=Golem Forge::${escaped}\n`);
    },
  };
}
