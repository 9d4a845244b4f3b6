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

/** A long computation, which pauses after each short step. */
export type Steps<Result> = Generator<undefined, Result>;

/** Runs a computation, and lets other work run from time to time. */
export async function runInTurns<Result>(steps: Steps<Result>, loop = new EventLoopYielder()): Promise<Result> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (loop.isDue) await loop.turn();
  }
}

/** Runs a computation where nothing else waits. */
export function runAtOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
