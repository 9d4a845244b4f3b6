import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import { OutageError } from "./errors.ts";

/** Runs tasks one at a time, in the order they were added. A task that fails does not stop the next one. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** Starts the task when every task added before it has ended, and settles as the task does. */
  run<Result>(task: () => Result | Promise<Result>): Promise<Result> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when every task added so far has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/** Milliseconds before each retry. Less than two minutes in total, longer than most temporary failures. */
const defaultDelaysMs = [500, 2_000, 8_000, 30_000, 60_000];

interface RetryOptions {
  signal?: AbortSignal | undefined;
  /** Milliseconds before each retry; their number limits the retries. */
  delaysMs?: readonly number[];
}

/** Calls an idempotent operation again while it fails with temporary errors. Throws the last error, or the signal's reason. */
export async function withRetries<T>(
  operation: () => Promise<T>,
  { signal, delaysMs = defaultDelaysMs }: RetryOptions = {},
): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await operation();
    } catch (error) {
      const delay = delaysMs[retries];
      signal?.throwIfAborted();
      if (delay === undefined || !isTemporary(error)) throw error;
      await wait(delay, undefined, { signal }).catch(() => signal?.throwIfAborted());
    }
  }
}

/** True for an error that the same request may not meet later. Octokit also reports a broken connection as status 500. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof OutageError) return true;
  const { status } = (error ?? {}) as { status?: unknown };
  return typeof status === "number" && status >= 500;
}

/** Milliseconds that work gets after its signal was aborted to report what it has done. */
const graceMs = 200;

type AbandonableOutcome<T> = { abandoned: false; value: T } | { abandoned: true };

/**
 * Waits for work until shortly after its signal is aborted. Work that ignores the signal is abandoned, and its later
 * result or failure is ignored. If the signal is already aborted, the work does not start.
 */
export async function abandonOnAbort<T>(
  work: () => T | Promise<T>,
  signal: AbortSignal,
): Promise<AbandonableOutcome<T>> {
  if (signal.aborted) return { abandoned: true };

  const working = Promise.resolve().then(work);
  working.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  const { promise: abandoned, resolve } = Promise.withResolvers<AbandonableOutcome<T>>();
  const abandon = () => {
    timer = setTimeout(() => resolve({ abandoned: true }), graceMs);
  };
  signal.addEventListener("abort", abandon, { once: true });
  try {
    return await Promise.race([
      working.then((value): AbandonableOutcome<T> => ({ abandoned: false, value })),
      abandoned,
    ]);
  } finally {
    signal.removeEventListener("abort", abandon);
    clearTimeout(timer);
  }
}

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
    await nextTurn();
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

/** Rejects with the signal's reason as soon as it is aborted, without waiting for the work. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Calls a function at the end of the block, as in `await using _ = deferred(() => store.close())`. */
export function deferred<Result>(end: () => Result): { [Symbol.dispose](): Result; [Symbol.asyncDispose](): Result } {
  return { [Symbol.dispose]: end, [Symbol.asyncDispose]: end };
}
