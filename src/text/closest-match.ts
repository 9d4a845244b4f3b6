import { distance } from "fastest-levenshtein";

/** Longer words are not treated as typos. */
const maxLength = 200;

/** The known word that is closest to a misspelled one; undefined if none is close. */
export function closestMatch(word: string, known: readonly string[]): string | undefined {
  if (word.length > maxLength) return undefined;

  const [best] = known
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits);
  return best && best.edits <= Math.max(2, Math.floor(word.length / 3)) ? best.candidate : undefined;
}
