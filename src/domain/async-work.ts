import { setTimeout as wait } from "node:timers/promises";
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

/** Octokit also reports a broken connection as status 500. */
function isTemporary(error: unknown): boolean {
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
