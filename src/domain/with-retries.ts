import { setTimeout as wait } from "node:timers/promises";
import { OutageError } from "./errors.ts";

/** Milliseconds before each further try: under two minutes in all, which most hiccups of a server do not outlast. */
const standardPauses = [500, 2_000, 8_000, 30_000, 60_000];

interface Trying {
  signal?: AbortSignal | undefined;
  /** Milliseconds before each further try; their number bounds the tries. */
  pausesMs?: readonly number[];
}

/**
 * Does work that is safe to repeat, and does it again while the outside world fails in a way that may pass. Throws the
 * last failure, or the signal's reason.
 */
export async function withRetries<T>(
  work: () => Promise<T>,
  { signal, pausesMs = standardPauses }: Trying = {},
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const pause = pausesMs[tries];
      signal?.throwIfAborted();
      if (pause === undefined || !mayPass(error)) throw error;
      await wait(pause, undefined, { signal }).catch(() => signal?.throwIfAborted());
    }
  }
}

/** Octokit says 500 of a connection that broke, too. */
function mayPass(error: unknown): boolean {
  if (error instanceof OutageError) return true;
  const { status } = (error ?? {}) as { status?: unknown };
  return typeof status === "number" && status >= 500;
}
