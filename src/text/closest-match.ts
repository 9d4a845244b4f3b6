import { distance } from "fastest-levenshtein";

/** The known word closest to the one given, when it is close enough to be a slip of the hand. */
export function closestMatch(word: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, far: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.far - b.far);
  const best = ranked[0];
  return best && best.far <= Math.max(2, Math.floor(word.length / 3)) ? best.candidate : undefined;
}
