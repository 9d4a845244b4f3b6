import { setTimeout as pause } from "node:timers/promises";
import type { Store } from "./store/store.ts";

/** How long data is kept, in milliseconds. */
export interface Retention {
  /** The logs, files and approvals of runs, after their tree has ended. Undefined: always. */
  runMs: number | undefined;
  /** The keys by which a repeated delivery is recognized. */
  deliveryMs: number;
}

/** Between two batches, so that other work is never held up. */
const batchIntervalMs = 100;
const checkIntervalMs = 10 * 60_000;

/** Removes expired data in the background, in small batches, until the signal is aborted. */
export async function removeExpiredData(
  store: Pick<Store, "removeExpired">,
  { runMs, deliveryMs }: Retention,
  { signal, onError }: { signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    const now = Date.now();
    const expired = {
      runsEndedBefore: runMs === undefined ? undefined : now - runMs,
      deliveriesBefore: now - deliveryMs,
    };
    const hasMore = await store.removeExpired(expired).catch((error) => {
      if (!signal.aborted) onError(error);
      return false;
    });
    const delayMs = hasMore ? batchIntervalMs : checkIntervalMs;
    await pause(delayMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
