import { setTimeout as pause } from "node:timers/promises";
import { type DeploymentConfig, isListedRepository } from "#config/config.ts";
import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import { DatabaseError } from "#domain/errors.ts";
import type { OpenGitHub } from "#domain/github.ts";
import { cautiousClock } from "#domain/work-context.ts";
import type { Models } from "#models/models.ts";
import { createRedactor } from "#text/redact.ts";
import { createSanitizer } from "#text/sanitize.ts";
import type { FrontEnd } from "./front-end.ts";
import { createGitHubEnvironment, type GitHubEnvironmentOptions, type SharedServices } from "./github-environment.ts";
import type { RunEnvironment } from "./run-environment.ts";
import type { Runs } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import { openActiveRun } from "./scheduler/active-run.ts";
import { type Dispatch, localDispatch } from "./scheduler/dispatch.ts";
import { createLiveOutput, type LiveOutput } from "./scheduler/live-output.ts";
import { combineObservers, type RunObserver } from "./scheduler/run-observer.ts";
import { RunScheduler } from "./scheduler/run-scheduler.ts";
import { RunService } from "./service/run-service.ts";
import { type Store, StoreClosedError } from "./store/store.ts";

export interface RunHostOptions {
  store: Store;
  /** Decides which process executes a run. Default: this one executes all. */
  dispatch?: Dispatch | undefined;
  models: Models;
  environment: RunEnvironment;
  frontEnd: FrontEnd;
  observers?: readonly RunObserver[];
  /** Default: a new one, see `RunHost.live`. */
  live?: LiveOutput;
  approvalMs: number;
  statusIntervalMs: number;
  /** Default: everything is kept. */
  retention?: Retention;
  /** Undefined for a program that runs its own workers. */
  policy?: DeploymentPolicy;
  /** Called with failures that cannot be reported by a run, and with those that are retried. */
  onError: (error: unknown, about: { runId: string; kind?: string }) => void;
}

/** Executes runs with a store, models, an environment and a front end. */
export type RunHost = ReturnType<typeof createRunHost>;

/** The time between two sweeps for runs whose wake-up was lost. */
const sweepIntervalMs = 30_000;
/** The time until the next sweep after the database could not be used. */
const databaseRetryMs = 2_000;

export function createRunHost(options: RunHostOptions) {
  const { store, models, environment, frontEnd, approvalMs, statusIntervalMs, policy, onError } = options;
  const dispatch = options.dispatch ?? localDispatch();
  const now = Date.now;
  let cautious = cautiousClock();
  const cautiousNow = () => cautious();
  const observer = combineObservers(options.observers ?? []);
  /** The output of running tools and model calls in this process. */
  const live = options.live ?? createLiveOutput();
  const { catalog } = environment;
  let retry: NodeJS.Timeout | undefined;
  let isStopping = false;
  const report: RunHostOptions["onError"] = (error, about) => {
    // An effect that outlasts the time for stopping is performed again after the next start.
    if (isStopping && error instanceof StoreClosedError) return;
    onError(error, about);
    if (!(error instanceof DatabaseError) || isStopping) return;
    clearTimeout(retry);
    retry = setTimeout(sweepRuns, databaseRetryMs).unref();
  };
  const scheduler = new RunScheduler({
    store,
    // Only runs need the handlers and the AI SDK, which are a quarter of the program.
    loadHandlers: async () => {
      const { effectHandlers } = await import("./effects/handlers.ts");
      return effectHandlers({ store, models, frontEnd, catalog, observer, now, approvalMs, statusIntervalMs, policy });
    },
    openActiveRun: (runId) => openActiveRun(runId, { store, environment, live }),
    dispatch,
    observer,
    now,
    cautiousNow,
    onError: report,
  });
  let sweep: NodeJS.Timeout | undefined;
  const removal = new AbortController();
  let removing: Promise<void> | undefined;

  async function wakeAll(): Promise<void> {
    const time = now();
    await store.bringForward(time);
    await store.fireTimers(time, cautiousNow());
    for (const runId of await store.dueRuns(time)) scheduler.wake(runId);
    await scheduler.schedule(time);
  }

  function sweepRuns(): void {
    wakeAll().catch((error) => report(error, { runId: "" }));
  }

  /** Resumes every run that has something to do. */
  async function start(): Promise<void> {
    cautious = cautiousClock(await store.latestTime());
    await dispatch.attach({
      process: (runId, isCounted) => scheduler.process(runId, isCounted),
      notify: (runId) => scheduler.notify(runId),
      revokeLease: (runId) => scheduler.revokeLease(runId),
      showWaiting: (runId, reason, confirmLease) => scheduler.showWaiting(runId, reason, confirmLease),
      sweep: wakeAll,
    });
    await wakeAll();
    sweep = setInterval(sweepRuns, sweepIntervalMs);
    // A program may exit without disposing of the host.
    sweep.unref();
    if (options.retention) {
      removing = removeExpiredData(store, options.retention, {
        signal: removal.signal,
        now: cautiousNow,
        onError: (error) => onError(error, { runId: "" }),
      });
    }
  }

  /** Waits at most this long for running effects. The others are resumed at the next start. */
  async function shutDown(graceMs: number): Promise<void> {
    isStopping = true;
    clearInterval(sweep);
    clearTimeout(retry);
    removal.abort();
    await removing;
    await dispatch.detach(() => scheduler.drain(graceMs));
  }

  return { scheduler, live, start, shutDown, activeRuns: () => scheduler.activeRuns(), idle: () => scheduler.idle() };
}

export interface RuntimeOptions
  extends Omit<RunHostOptions, "environment" | "policy">,
    Pick<GitHubEnvironmentOptions, "catalog" | "services" | "policy"> {
  openGitHub: OpenGitHub;
  runsPerHour: RunsOptions["runsPerHour"];
}

/** Returns the part of a runtime's options that a deployment configures. */
export function runtimeOptionsOf(
  config: DeploymentConfig,
  executors: SharedServices["executors"],
): Pick<RuntimeOptions, "services" | "approvalMs" | "statusIntervalMs" | "runsPerHour" | "retention" | "policy"> {
  const { secrets, web, approvalTimeoutMs: approvalMs, statusIntervalMs, runsPerHour, retention, policy } = config;
  const customToolsFrom = (owner: string, repo: string) => isListedRepository(config.customToolsFrom, owner, repo);
  const services = {
    sanitize: createSanitizer(secrets),
    redact: createRedactor(secrets),
    executors,
    web,
    customToolsFrom,
  };
  return { services, approvalMs, statusIntervalMs, runsPerHour, retention, policy };
}

export type Runtime = ReturnType<typeof createRuntime>;

/** Creates the host of runs on GitHub, with the operations of front ends. */
export function createRuntime(options: RuntimeOptions) {
  const { store, models, catalog, openGitHub, runsPerHour, policy } = options;
  const host = createRunHost({ ...options, environment: createGitHubEnvironment(options) });
  const { scheduler } = host;
  const runs: Runs = new RunService({
    store,
    scheduler,
    catalog,
    models,
    openGitHub,
    now: Date.now,
    runsPerHour,
    policy,
  });
  return { ...host, runs };
}

/** The time that data is kept, in milliseconds. */
export interface Retention {
  /** The logs, files and approvals of runs, counted from the end of their tree. Undefined: forever. */
  runMs: number | undefined;
  /** The keys for detecting repeated deliveries. */
  deliveryMs: number;
}

/** The pause between two batches, so that other work is not delayed. */
const batchIntervalMs = 100;
const checkIntervalMs = 10 * 60_000;

/** Removes expired data in the background, in small batches, until the signal is aborted. */
export async function removeExpiredData(
  store: Pick<Store, "removeExpired">,
  { runMs, deliveryMs }: Retention,
  { signal, now, onError }: { signal: AbortSignal; now: () => number; onError: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    const time = now();
    const expired = {
      runsEndedBefore: runMs === undefined ? undefined : time - runMs,
      deliveriesBefore: time - deliveryMs,
    };
    const hasMore = await store.removeExpired(expired).catch((error) => {
      if (!signal.aborted) onError(error);
      return false;
    });
    const delayMs = hasMore ? batchIntervalMs : checkIntervalMs;
    await pause(delayMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
