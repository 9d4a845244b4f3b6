/** How long work that was told to stop may take to say what it got done, in milliseconds. */
const graceMs = 200;

export type AbandonableOutcome<T> = { abandoned: false; value: T } | { abandoned: true };

/**
 * Waits for work, but not for work that ignores its signal: soon after the signal it is abandoned, and what becomes of
 * it is nobody's concern. With a signal that is already aborted the work never starts.
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
