import { ModelFailure } from "./models.ts";

/** The time that a provider may stay silent, in milliseconds. */
export interface CallTimeouts {
  /** Until the answer begins. A local model may read a long prompt for minutes. */
  firstMs: number;
  /** Between two parts of the answer. */
  idleMs: number;
  /** For the whole call. */
  totalMs: number;
}

export interface CallWatch {
  /** Aborted with the caller's reason, or with a ModelFailure after a timeout. */
  signal: AbortSignal;
  /** Reports that a part of the answer has arrived. */
  recordActivity(): void;
  /** Ends the watch. The signal is no longer aborted. */
  stop(): void;
}

/** Watches one model call, and aborts it with the caller's signal or when the provider takes too long. */
export function watchCall(
  caller: AbortSignal,
  { firstMs, idleMs, totalMs }: CallTimeouts,
  provider: string,
): CallWatch {
  const controller = new AbortController();
  const timeOut = (message: string) => controller.abort(new ModelFailure(message, { retryable: true }));
  const onAbort = () => controller.abort(caller.reason);
  caller.addEventListener("abort", onAbort, { once: true });

  const total = setTimeout(
    () => timeOut(`${provider} had not finished its answer after ${formatDuration(totalMs)}.`),
    totalMs,
  );
  let idle = setTimeout(
    () => timeOut(`${provider} did not begin to answer within ${formatDuration(firstMs)}.`),
    firstMs,
  );
  let isStopped = false;
  return {
    signal: controller.signal,
    recordActivity() {
      if (isStopped) return;
      clearTimeout(idle);
      idle = setTimeout(
        () => timeOut(`${provider} stopped in the middle of its answer for ${formatDuration(idleMs)}.`),
        idleMs,
      );
    },
    stop() {
      isStopped = true;
      clearTimeout(idle);
      clearTimeout(total);
      caller.removeEventListener("abort", onAbort);
    },
  };
}

function formatDuration(milliseconds: number): string {
  if (milliseconds < 60_000) return `${milliseconds / 1_000} seconds`;
  const minutes = Math.round(milliseconds / 60_000);
  return minutes === 1 ? "a minute" : `${minutes} minutes`;
}
