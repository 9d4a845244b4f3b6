/** Words as one line of a POSIX shell, each of them exactly itself. */
export function shellWords(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
}
