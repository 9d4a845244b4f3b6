import { setImmediate } from "node:timers/promises";

/** Lets other work run from time to time during a long computation. */
export class EventLoopYielder {
  readonly #everyMs: number;
  readonly #signal: AbortSignal | undefined;
  #yieldedAt = performance.now();

  /** `signal` ends the computation at the next turn. */
  constructor({ everyMs = 15, signal }: { everyMs?: number; signal?: AbortSignal | undefined } = {}) {
    this.#everyMs = everyMs;
    this.#signal = signal;
  }

  /** Checked first, because awaiting each time would take longer than the work. */
  get isDue(): boolean {
    return performance.now() - this.#yieldedAt > this.#everyMs;
  }

  async turn(): Promise<void> {
    this.#signal?.throwIfAborted();
    await setImmediate();
    this.#yieldedAt = performance.now();
  }
}
