/** Returns the duration of the work in milliseconds. */
export async function timed(work: () => unknown): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** Returns the processor time of this process during the work, in milliseconds. */
export async function cpuTime(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Returns the smallest value that at least this share of the values does not exceed; NaN without values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** No further round starts after this time, so that a run on a busy machine ends. */
const maxDurationMs = 12_000;
const minRounds = 3;

/**
 * Measures every side once per round, starting each round with a different side, so that other load on the machine
 * affects all sides equally. Each side returns its own measurement, which excludes its setup.
 */
export async function interleaved<Name extends string>(
  rounds: number,
  sides: Record<Name, (round: number) => Promise<number>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(sides) as Name[];
  const found = Object.fromEntries(names.map((name): [Name, number[]] => [name, []])) as Record<Name, number[]>;
  const startedAt = performance.now();
  for (let round = 0; round < rounds; round += 1) {
    if (round >= minRounds && performance.now() - startedAt > maxDurationMs) break;
    for (const index of names.keys()) {
      const name = names[(index + round) % names.length] as Name;
      found[name].push(await sides[name](round));
    }
  }
  return found;
}
