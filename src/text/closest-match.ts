import { distance } from "fastest-levenshtein";

/** Longer words are not treated as typos. */
const maxLength = 200;

/** Only so many words are compared, which takes 30 ms if they are long: a folder may have a hundred thousand files. */
const maxCompared = 5_000;

/** The known word that is closest to a misspelled one; undefined if none is close. */
export function closestMatch(word: string, known: readonly string[]): string | undefined {
  if (word.length > maxLength) return undefined;

  const maxEdits = Math.max(2, Math.floor(word.length / 3));
  const [best] = known
    .filter(({ length }) => Math.abs(length - word.length) <= maxEdits)
    .slice(0, maxCompared)
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits);
  return best && best.edits <= maxEdits ? best.candidate : undefined;
}

/** Returns a sentence with the known word that is closest, after a space: ` Did you mean --model?`. Empty if none is close. */
export function didYouMean(word: string, known: readonly string[], prefix = ""): string {
  const near = closestMatch(word, known);
  return near === undefined ? "" : ` Did you mean ${prefix}${near}?`;
}
