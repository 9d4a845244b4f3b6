import type { OpenGitHub } from "#domain/github.ts";
import type { Models } from "#models/models.ts";
import type { WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { openSandbox } from "#sandbox/open-sandbox.ts";
import { openToolbox } from "#toolsets/open-toolbox.ts";
import { openActiveRun, type SharedServices } from "./active-run.ts";
import { createRuns } from "./create-runs.ts";
import type { Dispatch } from "./dispatch.ts";
import { effectHandlers } from "./effects/handlers.ts";
import type { FrontEnd } from "./front-end.ts";
import { createLiveOutput, type LiveOutput } from "./live-output.ts";
import { localDispatch } from "./local-dispatch.ts";
import { createRunScheduler } from "./run-scheduler.ts";
import type { Runs } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import type { Store } from "./store/store.ts";

export interface RuntimeOptions {
  store: Store;
  /** Who drives which run. Default: this process drives all of them. */
  dispatch?: Dispatch | undefined;
  models: Models;
  catalog: WorkerCatalog;
  openGitHub: OpenGitHub;
  frontEnd: FrontEnd;
  /** What the deployment lends to tools. */
  services: SharedServices;
  approvalMs: number;
  statusIntervalMs: number;
  runsPerHour: RunsOptions["runsPerHour"];
  /** Failures that no run can report, and those that are tried again. */
  onError: (error: unknown, about: { runId: string; kind?: string }) => void;
}

export interface Runtime {
  readonly runs: Runs;
  /** What is printed and said in this process, for those who watch. */
  readonly live: LiveOutput;
  /** Goes on with every run that has something to do. */
  start(): Promise<void>;
  /** Finishes what is in hand, waiting this long at most; the rest goes on at the next start. */
  shutDown(graceMs: number): Promise<void>;
  /** How many runs are in memory at the moment. */
  activeRuns(): number;
  idle(): Promise<void>;
}

/** How often runs that lost their wake-up are looked for. */
const sweepMs = 30_000;

/** The host that keeps runs alive over a store, a set of models and a front end. */
export function createRuntime(options: RuntimeOptions): Runtime {
  const { store, models, catalog, openGitHub, frontEnd, approvalMs, statusIntervalMs, onError } = options;
  const dispatch = options.dispatch ?? localDispatch();
  const now = Date.now;
  const live = createLiveOutput();
  const scheduler = createRunScheduler({
    store,
    handlers: effectHandlers({ store, models, frontEnd, catalog, now, approvalMs, statusIntervalMs }),
    openActiveRun: (runId) =>
      openActiveRun(runId, { store, openGitHub, openSandbox, openToolbox, catalog, services: options.services, live }),
    dispatch,
    now,
    onError,
  });
  const runs = createRuns({ store, scheduler, catalog, models, openGitHub, now, runsPerHour: options.runsPerHour });
  let sweep: NodeJS.Timeout | undefined;

  async function wakeAll(): Promise<void> {
    const time = now();
    await store.fireTimers(time);
    for (const runId of await store.dueRuns(time)) scheduler.wake(runId);
    await scheduler.schedule();
  }

  async function start(): Promise<void> {
    const { process, notify, revokeLease } = scheduler;
    await dispatch.attach({ process, notify, revokeLease, sweep: wakeAll });
    await wakeAll();
    sweep = setInterval(() => void wakeAll().catch((error) => onError(error, { runId: "" })), sweepMs);
  }

  async function stop(graceMs: number): Promise<void> {
    clearInterval(sweep);
    await dispatch.detach(() => scheduler.drain(graceMs));
  }

  return { runs, live, start, shutDown: stop, activeRuns: scheduler.activeRuns, idle: scheduler.idle };
}
