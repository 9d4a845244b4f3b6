/** Formats a number with its noun: `1 file`, `1,200 files`. */
export function pluralize(count: number, singular: string, plural = `${singular}s`): string {
  // Formatting by locale takes 20 µs or more.
  const digits = count < 1_000 ? count : count.toLocaleString("en-US");
  return `${digits} ${count === 1 ? singular : plural}`;
}

/** Shortens a count: `999`, `12.3K`, `1M`. Creating an `Intl.NumberFormat` for it takes 20 ms. */
export function compactCount(count: number): string {
  let [short, unit] = [count, ""];
  for (const next of ["K", "M", "B"]) {
    if (short < 999.95) break;
    [short, unit] = [short / 1_000, next];
  }
  return `${Math.round(short * 10) / 10}${unit}`;
}
