import { setTimeout as wait } from "node:timers/promises";
import { OutageError } from "./errors.ts";

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
