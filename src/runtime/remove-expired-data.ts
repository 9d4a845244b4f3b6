import { setTimeout as pause } from "node:timers/promises";
import type { Store } from "./store/store.ts";

/** The time that data is kept, in milliseconds. */
export interface Retention {
  /** The logs, files and approvals of runs, counted from the end of their tree. Undefined: forever. */
  runMs: number | undefined;
  /** The keys for detecting repeated deliveries. */
  deliveryMs: number;
}

/** The pause between two batches, so that other work is not delayed. */
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
