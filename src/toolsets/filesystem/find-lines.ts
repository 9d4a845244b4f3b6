/**
 * Where a block of lines stands in others, overlapping places included, as indexes from 0. Linear in both lengths
 * (Knuth, Morris and Pratt), so that a file of equal lines costs no more than another.
 */
export function findLines(lines: readonly string[], block: readonly string[], limit = Number.POSITIVE_INFINITY) {
  const places: number[] = [];
  if (block.length === 0) return places;
  const fallbacks = fallbacksOf(block);
  let matched = 0;
  for (let at = 0; at < lines.length && places.length < limit; at++) {
    while (matched > 0 && block[matched] !== lines[at]) matched = fallbacks[matched - 1] ?? 0;
    if (block[matched] === lines[at]) matched++;
    if (matched === block.length) {
      places.push(at - block.length + 1);
      matched = fallbacks[matched - 1] ?? 0;
    }
  }
  return places;
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
