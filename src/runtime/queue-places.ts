interface QueuePlacesOptions {
  /** The maximum number of active runs per repository. */
  runsPerRepository: number;
  /** Returns the root runs to show, with their places among the waiting runs of their repositories, counted from 1. */
  findWaiting(): Promise<readonly { runId: string; place: number }[]>;
  /** Shows the reason in the status of a waiting run. Returns false if the run no longer waits. */
  show(runId: string, reason: string): Promise<boolean>;
  onError(error: unknown): void;
}

const intervalMs = 2_000;
/** Later places are shown as the queue moves up. */
const maxShown = 50;

/** Shows the place in the queue in the status of each run that waits for other runs of its repository. */
export class QueuePlaces {
  readonly #options: QueuePlacesOptions;
  readonly #shown = new Map<string, number>();
  #showingAll: Promise<void> | undefined;
  #showing: { runId: string; done: Promise<unknown> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: QueuePlacesOptions) {
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
    for (const { runId, place } of waiting) {
      if (this.#isStopped) return;
      if (this.#shown.get(runId) !== place) await this.#show(runId, place);
    }
  }

  async #show(runId: string, place: number): Promise<void> {
    const { runsPerRepository: most, show } = this.#options;
    const active = most === 1 ? "one run is active at a time" : `${most} runs are active at a time`;
    const reason = `Waiting for its turn: place ${place} in the queue of this repository, where ${active}.`;
    const shown = show(runId, reason);
    this.#showing = { runId, done: shown.catch(() => undefined) };
    try {
      if (await shown) this.#shown.set(runId, place);
    } finally {
      this.#showing = undefined;
    }
  }
}
