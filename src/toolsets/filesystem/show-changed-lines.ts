import { hunksOf } from "./file-diff.ts";
import { numberLines } from "./number-lines.ts";
import { splitLines } from "./text-file.ts";

const shownLines = 60;

/** The lines around a change as they are now, numbered as read_file numbers them; nothing where there are too many. */
export function showChangedLines(path: string, before: string, after: string): string {
  const hunks = hunksOf({ path, before, after })?.hunks ?? [];
  const total = hunks.reduce((sum, hunk) => sum + hunk.newLines, 0);
  if (total === 0 || total > shownLines) return `Read ${path} again before you change it further.`;

  const lines = splitLines(after);
  const parts = hunks.map(({ newStart, newLines }) => {
    const first = Math.max(newStart, 1);
    return numberLines(lines.slice(first - 1, first - 1 + newLines), first);
  });
  return `=== ${path} ===\n${parts.join("\n     …\n")}`;
}
