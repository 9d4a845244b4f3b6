/** Milliseconds. */
export async function timed(work: () => unknown): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** The smallest value that this share of all does not exceed; NaN when there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** A machine that is busy with other things gets fewer rounds, and not an endless run. */
const patienceMs = 12_000;
const fewestRounds = 3;

/**
 * Measures every side once in each round, and begins each round with another one, so that whatever else the machine
 * does meets all of them alike. A side gives its own number, and so leaves out what it has to prepare.
 */
export async function interleaved<Name extends string>(
  rounds: number,
  sides: Record<Name, (round: number) => Promise<number>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(sides) as Name[];
  const found = Object.fromEntries(names.map((name): [Name, number[]] => [name, []])) as Record<Name, number[]>;
  const begun = performance.now();
  for (let round = 0; round < rounds; round += 1) {
    if (round >= fewestRounds && performance.now() - begun > patienceMs) break;
    for (const index of names.keys()) {
      const name = names[(index + round) % names.length] as Name;
      found[name].push(await sides[name](round));
    }
  }
  return found;
}
