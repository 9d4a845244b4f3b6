/** Milliseconds that work gets after its signal was aborted to report what it has done. */
const graceMs = 200;

export type AbandonableOutcome<T> = { abandoned: false; value: T } | { abandoned: true };

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
