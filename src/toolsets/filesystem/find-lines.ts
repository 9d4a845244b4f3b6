/**
 * Returns the indexes, from 0, at which a block of lines occurs in others, overlapping occurrences included. Takes linear
 * time (Knuth, Morris and Pratt), also in a file of equal lines.
 */
export function findLines(
  lines: readonly string[],
  block: readonly string[],
  limit = Number.POSITIVE_INFINITY,
): number[] {
  const found: number[] = [];
  if (block.length === 0) return found;
  const fallbacks = fallbacksOf(block);
  let matched = 0;
  for (let at = 0; at < lines.length && found.length < limit; at++) {
    while (matched > 0 && block[matched] !== lines[at]) matched = fallbacks[matched - 1] ?? 0;
    if (block[matched] === lines[at]) matched++;
    if (matched === block.length) {
      found.push(at - block.length + 1);
      matched = fallbacks[matched - 1] ?? 0;
    }
  }
  return found;
}

function fallbacksOf(block: readonly string[]): number[] {
  const fallbacks = [0];
  let matched = 0;
  for (let at = 1; at < block.length; at++) {
    while (matched > 0 && block[matched] !== block[at]) matched = fallbacks[matched - 1] ?? 0;
    if (block[matched] === block[at]) matched++;
    fallbacks.push(matched);
  }
  return fallbacks;
}
