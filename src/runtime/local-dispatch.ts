import type { Dispatch, DispatchTarget } from "./dispatch.ts";
import { QueuePlaces } from "./queue-places.ts";
import type { Store } from "./store/store.ts";

export interface RunLimit {
  store: Pick<Store, "findRun">;
  /** The maximum number of active runs per repository. */
  runsPerRepository: number;
  onError: (error: unknown) => void;
}

/**
 * Creates the dispatch of a process that does not share its database: it performs every run, all at once or, with a limit,
 * in the order in which those of a repository were woken.
 */
export function localDispatch(limit?: RunLimit): Dispatch {
  if (limit) return new LimitedDispatch(limit);
  let target: DispatchTarget | undefined;
  return {
    attach: async (given) => {
      target = given;
    },
    wake: (runId) => void target?.process(runId),
    detach: (finish) => finish(),
  };
}

interface WaitingRun {
  repository: string;
  /** The status of a child is that of its root. */
  isRoot: boolean;
  /** On the monotonic clock of this process. */
  since: number;
}

interface ActiveRun {
  repository: string;
  wakeRequested: boolean;
}

/** Runs that have waited for less time are about to start. */
const minWaitMs = 2_000;

class LimitedDispatch implements Dispatch {
  readonly #store: RunLimit["store"];
  readonly #runsPerRepository: number;
  readonly #onError: RunLimit["onError"];
  readonly #places: QueuePlaces;
  readonly #active = new Map<string, ActiveRun>();
  /** Those that were woken first come first. */
  readonly #waiting = new Map<string, WaitingRun>();
  #target: DispatchTarget | undefined;
  #isDetaching = false;

  constructor({ store, runsPerRepository, onError }: RunLimit) {
    this.#store = store;
    this.#runsPerRepository = runsPerRepository;
    this.#onError = onError;
    this.#places = new QueuePlaces({
      runsPerRepository,
      findWaiting: async () => this.#findWaiting(),
      show: (runId, reason) => this.#showWaiting(runId, reason),
      onError,
    });
  }

  async attach(target: DispatchTarget): Promise<void> {
    this.#target = target;
    this.#places.start();
  }

  wake(runId: string): void {
    const active = this.#active.get(runId);
    if (active) active.wakeRequested = true;
    else void this.#enqueue(runId).catch(this.#onError);
  }

  async detach(finish: () => Promise<void>): Promise<void> {
    this.#isDetaching = true;
    await this.#places.stop();
    await finish();
  }

  async #enqueue(runId: string): Promise<void> {
    const run = await this.#store.findRun(runId);
    if (!run || this.#active.has(runId) || this.#waiting.has(runId)) return;
    const { owner, repo, repositoryId } = (run.unreadable ? run.displaySpec : run.spec)?.origin ?? {};
    const repository = String(repositoryId ?? `${owner}/${repo}`);
    this.#waiting.set(runId, { repository, isRoot: run.rootId === runId, since: performance.now() });
    this.#startWaiting();
  }

  #startWaiting(): void {
    if (this.#isDetaching) return;
    const active = Map.groupBy(this.#active.values(), ({ repository }) => repository);
    const used = new Map([...active].map(([repository, runs]) => [repository, runs.length]));
    for (const [runId, { repository }] of this.#waiting) {
      const runs = used.get(repository) ?? 0;
      if (runs >= this.#runsPerRepository) continue;
      used.set(repository, runs + 1);
      this.#waiting.delete(runId);
      void this.#process(runId, repository).catch(this.#onError);
    }
  }

  async #process(runId: string, repository: string): Promise<void> {
    const active: ActiveRun = { repository, wakeRequested: false };
    this.#active.set(runId, active);
    try {
      await this.#places.settled(runId);
      do {
        active.wakeRequested = false;
        await this.#target?.process(runId);
      } while (active.wakeRequested && !this.#isDetaching);
    } finally {
      this.#active.delete(runId);
      this.#startWaiting();
    }
  }

  #findWaiting(): { runId: string; place: number }[] {
    const lengths = new Map<string, number>();
    return [...this.#waiting].flatMap(([runId, { repository, isRoot, since }]) => {
      const place = (lengths.get(repository) ?? 0) + 1;
      lengths.set(repository, place);
      return isRoot && performance.now() - since >= minWaitMs ? [{ runId, place }] : [];
    });
  }

  async #showWaiting(runId: string, reason: string): Promise<boolean> {
    if (!this.#waiting.has(runId)) return false;
    await this.#target?.showWaiting?.(runId, reason, async () => {});
    return true;
  }
}
