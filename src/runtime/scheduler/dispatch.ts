import { hasWork } from "#runtime/apply-events.ts";
import type { Store, StoredRun } from "#runtime/store/store.ts";

export type Processed = "finished" | "awaitsTurn";

/** Performs runs in this process for a dispatch. */
export interface DispatchTarget {
  /**
   * Performs a run, and resolves when it has nothing left to do. With a limit of runs, `isCounted` is false if the run only
   * had something to post: then it does not begin to work, and the result is `awaitsTurn` if it has to.
   */
  process(runId: string, isCounted: boolean): Promise<Processed>;
  /** Tells an active run that it has new events. Returns false when the run is not active in this process. */
  notify(runId: string): boolean;
  /** Called when another process performs the run from now on: aborts its effects and writes nothing more for it. */
  revokeLease(runId: string): void;
  /**
   * Shows in the status of a run that it is waiting for others, and performs nothing else of it. Returns false if the
   * status cannot be shown yet. This process has the run's lease meanwhile; `confirmLease` rejects when it has lost it.
   */
  showWaiting?(runId: string, reason: string, confirmLease: () => Promise<void>): Promise<boolean>;
  /** Fires timers that are due and wakes runs whose wake-up was lost. */
  sweep(): Promise<void>;
}

/**
 * Decides which process performs a run and its effects: only one process at a time. Processes that share a database
 * divide the runs among them, and take over the runs of a process that died. Wake-ups may be repeated, and a crash may
 * lose one; the sweep finds the run later.
 */
export interface Dispatch {
  /** Starts to give runs to this target. */
  attach(target: DispatchTarget): Promise<void>;
  /** Wakes a run that is not active in this process, wherever it is performed. Returns immediately. */
  wake(runId: string): void;
  /** Rejects with a LeaseLostError after a takeover. Asks the database if the last confirmation is too old. */
  confirmLease?(runId: string): Promise<void>;
  /** The name of this process among those that share the database, such as `replica 7`. */
  readonly name?: string;
  /** Undefined while the process takes part in the dispatch; otherwise a sentence for operators. */
  problem?(): string | undefined;
  /** Stops giving out runs, waits for `finish`, and releases the remaining runs. */
  detach(finish: () => Promise<void>): Promise<void>;
}

export interface RepositoryLimit {
  store: Pick<Store, "findRun" | "inbox">;
  /** The maximum number of active runs per repository. Runs that only have comments to post do not count. */
  runsPerRepository: number;
  onError: (error: unknown) => void;
}

/**
 * Creates the dispatch of a process that does not share its database: it performs every run, all at once or, with a limit,
 * in the order in which those of a repository were woken.
 */
export function localDispatch(limit?: RepositoryLimit): Dispatch {
  if (limit) return new LimitedDispatch(limit);
  let target: DispatchTarget | undefined;
  return {
    attach: async (given) => {
      target = given;
    },
    wake: (runId) => void target?.process(runId, true),
    detach: (finish) => finish(),
  };
}

interface WaitingRun {
  /** The status of a child is that of its root. */
  isRoot: boolean;
  /** On the monotonic clock of this process. */
  since: number;
}

/** The runs of a repository that have work. */
interface RepositoryRuns {
  active: number;
  /** Those that were woken first come first. */
  waiting: Map<string, WaitingRun>;
}

/** Runs that have waited for less time are about to start. */
const minWaitMs = 2_000;

class LimitedDispatch implements Dispatch {
  readonly #options: RepositoryLimit;
  readonly #positions: QueuePositions;
  readonly #active = new Map<string, { wakeRequested: boolean }>();
  readonly #repositories = new Map<string, RepositoryRuns>();
  #target: DispatchTarget | undefined;
  #isDetaching = false;

  constructor(options: RepositoryLimit) {
    this.#options = options;
    const { runsPerRepository, onError } = options;
    this.#positions = new QueuePositions({
      runsPerRepository,
      findWaiting: async () => this.#findWaiting(),
      show: (runId, reason) => this.#showWaiting(runId, reason),
      onError,
    });
  }

  async attach(target: DispatchTarget): Promise<void> {
    this.#target = target;
    this.#positions.start();
  }

  wake(runId: string): void {
    const active = this.#active.get(runId);
    if (active) active.wakeRequested = true;
    else void this.#enqueue(runId).catch(this.#options.onError);
  }

  async detach(finish: () => Promise<void>): Promise<void> {
    this.#isDetaching = true;
    await this.#positions.stop();
    await finish();
  }

  async #enqueue(runId: string): Promise<void> {
    const run = await this.#options.store.findRun(runId);
    if (!run) return;
    const hasWork = await this.#hasWork(run);
    if (this.#active.has(runId) || this.#isDetaching) return;
    const { owner, repo, repositoryId } = (run.unreadable ? run.displaySpec : run.spec)?.origin ?? {};
    const repository = String(repositoryId ?? `${owner}/${repo}`);
    const runs = this.#repositories.getOrInsertComputed(repository, () => ({ active: 0, waiting: new Map() }));
    if (hasWork) {
      const { since = performance.now() } = runs.waiting.get(runId) ?? {};
      runs.waiting.set(runId, { isRoot: run.rootId === runId, since });
    } else {
      // It may have waited for its turn, and been stopped meanwhile.
      runs.waiting.delete(runId);
      void this.#process(runId, undefined).catch(this.#options.onError);
    }
    this.#startWaiting(repository);
  }

  async #hasWork(run: StoredRun): Promise<boolean> {
    if (run.unreadable) return false;
    // Performing the run reports events that cannot be read.
    const inbox = await this.#options.store.inbox(run.id).catch(() => []);
    return hasWork(run, inbox);
  }

  #startWaiting(repository: string): void {
    const runs = this.#repositories.get(repository);
    if (!runs) return;
    for (const runId of runs.waiting.keys()) {
      if (this.#isDetaching || runs.active >= this.#options.runsPerRepository) return;
      runs.waiting.delete(runId);
      runs.active++;
      const done = () => {
        runs.active--;
        this.#startWaiting(repository);
      };
      void this.#process(runId, done).catch(this.#options.onError);
    }
    if (runs.active === 0) this.#repositories.delete(repository);
  }

  /** `onEnd` is undefined for a run that only has comments to post. */
  async #process(runId: string, onEnd: (() => void) | undefined): Promise<void> {
    const active = { wakeRequested: false };
    this.#active.set(runId, active);
    let processed: Processed | undefined;
    try {
      await this.#positions.settled(runId);
      do {
        active.wakeRequested = false;
        processed = await this.#target?.process(runId, onEnd !== undefined);
      } while (active.wakeRequested && processed !== "awaitsTurn" && !this.#isDetaching);
    } finally {
      this.#active.delete(runId);
      onEnd?.();
    }
    if (processed === "awaitsTurn") await this.#enqueue(runId);
  }

  #findWaiting(): { runId: string; position: number }[] {
    return [...this.#repositories.values()]
      .flatMap(({ waiting }) => [...waiting].map(([runId, run], index) => ({ runId, position: index + 1, ...run })))
      .filter(({ isRoot, since }) => isRoot && performance.now() - since >= minWaitMs)
      .sort((a, b) => a.since - b.since);
  }

  async #showWaiting(runId: string, reason: string): Promise<boolean> {
    if (![...this.#repositories.values()].some(({ waiting }) => waiting.has(runId))) return false;
    return (await this.#target?.showWaiting?.(runId, reason, async () => {})) ?? false;
  }
}

interface QueuePositionsOptions {
  /** The maximum number of active runs per repository. */
  runsPerRepository: number;
  /** Returns the root runs to show, with their positions among the waiting runs of their repositories, counted from 1. */
  findWaiting(): Promise<readonly { runId: string; position: number }[]>;
  /** Shows the reason in the status of a waiting run. Returns false if it could not be shown yet, or the run no longer waits. */
  show(runId: string, reason: string): Promise<boolean>;
  onError(error: unknown): void;
}

const intervalMs = 2_000;
/** Later positions are shown as the queue moves up. */
const maxShown = 50;

/** Shows the position in the queue in the status of each run that waits for other runs of its repository. */
export class QueuePositions {
  readonly #options: QueuePositionsOptions;
  readonly #shown = new Map<string, number>();
  #showingAll: Promise<void> | undefined;
  #showing: { runId: string; done: Promise<unknown> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: QueuePositionsOptions) {
    this.#options = options;
  }

  start(): void {
    const showAll = () => {
      this.#showingAll ??= this.#showAll()
        .catch(this.#options.onError)
        .finally(() => {
          this.#showingAll = undefined;
        });
    };
    this.#timer = setInterval(showAll, intervalMs);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#showingAll;
  }

  /** Resolves when the status of this run is not being written, so that the run can be performed. */
  async settled(runId: string): Promise<void> {
    if (this.#showing?.runId === runId) await this.#showing.done;
  }

  async #showAll(): Promise<void> {
    const waiting = (await this.#options.findWaiting()).slice(0, maxShown);
    for (const runId of this.#shown.keys()) {
      if (!waiting.some((run) => run.runId === runId)) this.#shown.delete(runId);
    }
    for (const { runId, position } of waiting) {
      if (this.#isStopped) return;
      if (this.#shown.get(runId) === position) continue;
      await this.#show(runId, position).catch((error: unknown) => {
        // Others must not wait for it, and GitHub is not asked again before the position changes.
        this.#shown.set(runId, position);
        this.#options.onError(error);
      });
    }
  }

  async #show(runId: string, position: number): Promise<void> {
    const { runsPerRepository: most, show } = this.#options;
    const active = most === 1 ? "one run is active at a time" : `${most} runs are active at a time`;
    const reason = `Waiting for its turn: position ${position} in the queue of this repository, where ${active}.`;
    const shown = show(runId, reason);
    this.#showing = { runId, done: shown.catch(() => undefined) };
    try {
      if (await shown) this.#shown.set(runId, position);
    } finally {
      this.#showing = undefined;
    }
  }
}
