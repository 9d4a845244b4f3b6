import type { OpenGitHub } from "#domain/github.ts";
import type { Models } from "#models/models.ts";
import { openSandbox } from "#sandbox/open-sandbox.ts";
import { openToolbox } from "#toolsets/open-toolbox.ts";
import { type LentServices, openDesk } from "./active-run.ts";
import { createRuns } from "./create-runs.ts";
import type { Dispatch } from "./dispatch.ts";
import { effectHandlers } from "./effects/handlers.ts";
import type { FrontEnd } from "./front-end.ts";
import { createLiveOutput, type LiveOutput } from "./live-output.ts";
import { dispatchHere } from "./local-dispatch.ts";
import { createDrive } from "./run-scheduler.ts";
import type { Runs } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import type { Store } from "./store/store.ts";
import type { WorkerCatalog } from "./worker-catalog.ts";

export interface RuntimeOptions {
  store: Store;
  /** Who drives which run. Default: this process drives all of them. */
  dispatch?: Dispatch | undefined;
  models: Models;
  catalog: WorkerCatalog;
  openGitHub: OpenGitHub;
  frontEnd: FrontEnd;
  /** What the deployment lends to tools. */
  lent: LentServices;
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
  stop(graceMs: number): Promise<void>;
  /** How many runs are in memory at the moment. */
  awake(): number;
  idle(): Promise<void>;
}

/** How often runs that lost their wake-up are looked for. */
const sweepMs = 30_000;

/** The host that keeps runs alive over a store, a set of models and a front end. */
export function createRuntime(options: RuntimeOptions): Runtime {
  const { store, models, catalog, openGitHub, frontEnd, approvalMs, statusIntervalMs, onError } = options;
  const dispatch = options.dispatch ?? dispatchHere();
  const now = Date.now;
  const live = createLiveOutput();
  const drive = createDrive({
    store,
    handlers: effectHandlers({ store, models, frontEnd, catalog, now, approvalMs, statusIntervalMs }),
    openDesk: (runId) =>
      openDesk(runId, { store, openGitHub, openSandbox, openToolbox, catalog, lent: options.lent, live }),
    dispatch,
    now,
    onError,
  });
  const runs = createRuns({ store, drive, catalog, models, openGitHub, now, runsPerHour: options.runsPerHour });
  let sweep: NodeJS.Timeout | undefined;

  async function wakeAll(): Promise<void> {
    const time = now();
    await store.fireTimers(time);
    for (const runId of await store.awake(time)) drive.wake(runId);
    await drive.schedule();
  }

  async function start(): Promise<void> {
    const { open, nudge, letGo } = drive;
    await dispatch.start({ open, nudge, letGo, sweep: wakeAll });
    await wakeAll();
    sweep = setInterval(() => void wakeAll().catch((error) => onError(error, { runId: "" })), sweepMs);
  }

  async function stop(graceMs: number): Promise<void> {
    clearInterval(sweep);
    await dispatch.stop(() => drive.stop(graceMs));
  }

  return { runs, live, start, stop, awake: drive.awake, idle: drive.idle };
}
