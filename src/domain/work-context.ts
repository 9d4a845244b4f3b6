import { AsyncLocalStorage } from "node:async_hooks";
import type { RunSpec } from "./run.ts";

/** The fields of every log line that is written during some work. */
export interface LogContext {
  run?: string;
  rootRun?: string;
  worker?: string;
  /** `owner/repo`. */
  repository?: string;
  /** GitHub's id of the webhook delivery that is processed, or that started the run. */
  delivery?: string;
}

const contexts = new AsyncLocalStorage<LogContext>();

/** Calls `work`, whose log lines carry these fields. */
export function withLogContext<Result>(fields: LogContext, work: () => Result): Result {
  return contexts.run({ ...contexts.getStore(), ...fields }, work);
}

/** Returns the fields of a log line that is written now. The logger adds the line's own fields to them. */
export function logContext(): LogContext {
  return { ...contexts.getStore() };
}

export function logFieldsOf({ id, rootId, worker, origin, delivery }: RunSpec): LogContext {
  return {
    run: id,
    ...(rootId !== id && { rootRun: rootId }),
    worker: worker.name,
    repository: `${origin.owner}/${origin.repo}`,
    ...(delivery !== undefined && { delivery }),
  };
}

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
 * Confirms the lease right before a write is sent. While this process was suspended, another one may have sent the same
 * write; then this rejects with a LeaseLostError. When it resolves, all earlier changes in the store are durable. Resolves
 * immediately outside of `withLease`.
 */
export async function confirmLease(): Promise<void> {
  await leases.getStore()?.();
}

export const hourMs = 60 * 60_000;
export const dayMs = 24 * hourMs;

/** Both clocks are read at the same time, so smaller differences are rounding. */
const clockJumpMs = 1_000;
const acceptJumpAfterMs = 10 * 60_000;

/**
 * Returns a clock for what cannot be undone. When the clock of the machine is set forward, this one continues as before for
 * ten minutes, since that may have been a mistake. The minutes count from the next call, so call it at least once a minute.
 * `since`: a time that has passed, such as the newest one stored. That the clock was ahead of it at the start may be a
 * mistake, too, so this one continues from there.
 */
export function cautiousClock(since = Number.POSITIVE_INFINITY): () => number {
  let [wall, monotonic] = [Date.now(), performance.now()];
  let aheadMs = Math.max(0, wall - since);
  let acceptAt = monotonic + acceptJumpAfterMs;
  return () => {
    const sinceMs = performance.now() - monotonic;
    const jumpMs = Date.now() - wall - sinceMs;
    wall += sinceMs + jumpMs;
    monotonic += sinceMs;
    if (monotonic >= acceptAt) aheadMs = 0;
    if (Math.abs(jumpMs) > clockJumpMs) aheadMs = Math.max(0, aheadMs + jumpMs);
    if (jumpMs > clockJumpMs) acceptAt = monotonic + acceptJumpAfterMs;
    return wall - aheadMs;
  };
}

/** Starts a stopwatch, which returns the elapsed milliseconds, including time during which the machine slept. */
export function startStopwatch(): () => number {
  const [wall, monotonic] = [Date.now(), performance.now()];
  return () => Math.max(Date.now() - wall, performance.now() - monotonic);
}
