/** Lines as read_file shows them: the number six wide, a tab, the text. */
export function numberLines(lines: readonly string[], first: number): string {
  return lines.map((line, index) => `${String(first + index).padStart(6)}\t${line}`).join("\n");
}

/** The heading over a file's lines. `first` and `last` count from 1. */
export function lineHeading(path: string, { first, last, total }: { first: number; last: number; total: number }) {
  const shown =
    first === 1 && last >= total
      ? `[${total} line${total === 1 ? "" : "s"}]`
      : `[Showing lines ${first}-${last} of ${total} total lines]`;
  return `=== ${path} ===\n${shown}`;
}
