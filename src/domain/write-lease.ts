import { AsyncLocalStorage } from "node:async_hooks";

/** This process may no longer write: another one has taken over the work. */
export class LeaseLostError extends Error {
  override readonly name = "LeaseLostError";

  constructor() {
    super("Another process has taken over, so nothing more is written for this.");
  }
}

type ConfirmLease = () => Promise<void>;

const leases = new AsyncLocalStorage<ConfirmLease>();

/** Calls `work`, whose writes to GitHub are sent only while `confirm` resolves. */
export function withLease<Result>(confirm: ConfirmLease, work: () => Promise<Result>): Promise<Result> {
  return leases.run(confirm, work);
}

/**
 * Call this right before a write is sent: a process that was suspended does not notice how long, and another one may have
 * sent the same write meanwhile. Rejects with a LeaseLostError then. When it resolves, everything that was stored before is
 * durable. Resolves at once outside `withLease`.
 */
export async function confirmLease(): Promise<void> {
  await leases.getStore()?.();
}

/**
 * Starts measuring time. The returned function gives the milliseconds since then, those of a suspended process and of a
 * suspended machine included.
 */
export function startStopwatch(): () => number {
  const [wall, monotonic] = [Date.now(), performance.now()];
  return () => Math.max(Date.now() - wall, performance.now() - monotonic);
}
