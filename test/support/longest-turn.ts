import { setImmediate } from "node:timers/promises";

/** Resolves to the longest time for which the work blocked the event loop, in milliseconds of CPU. */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let isDone = false;
  // What the work does before its first pause counts, too.
  const done = Promise.resolve()
    .then(work)
    .finally(() => {
      isDone = true;
    });
  while (!isDone) {
    const before = process.threadCpuUsage();
    await setImmediate();
    const { user, system } = process.threadCpuUsage(before);
    longest = Math.max(longest, (user + system) / 1_000);
  }
  await done;
  return longest;
}
