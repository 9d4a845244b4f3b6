import { ToolError } from "#domain/errors.ts";

interface PatchLine {
  mark: " " | "+" | "-";
  text: string;
}

/** One part of a file's change, with its old and new lines as a list of marked lines. */
export interface PatchHunk {
  lines: PatchLine[];
  /** The first old line, from 1, according to the patch. It may be stale. */
  oldStart?: number;
  /** Lines above the hunk that locate it, outermost first, such as the headers of a class and of a method. */
  anchors?: string[];
  /** True if the old lines are the last ones of the file. */
  isAtEnd?: boolean;
  /** True if the new text ends without a line ending. */
  endsWithoutNewline?: boolean;
}

/** The change of one file. `executable` is undefined if the patch does not change the mode. */
export type FilePatch =
  | { kind: "update"; path: string; moveTo?: string; hunks: PatchHunk[]; executable?: boolean }
  | { kind: "create"; path: string; hunks: PatchHunk[]; executable?: boolean }
  | { kind: "copy"; path: string; to: string; hunks: PatchHunk[]; executable?: boolean }
  | { kind: "delete"; path: string; hunks: PatchHunk[] };

/** Returns the lines of one side of a hunk: `-` for old, `+` for new. */
export function sideOf({ lines }: PatchHunk, side: "-" | "+"): string[] {
  return lines.filter(({ mark }) => mark === " " || mark === side).map(({ text }) => text);
}

/** Removes blank context lines at the end of a hunk, which may belong to the text around the patch. */
export function trimBlankEnd(hunk: PatchHunk): void {
  while (hunk.lines.at(-1)?.mark === " " && hunk.lines.at(-1)?.text === "") hunk.lines.pop();
}

export function invalidPatch(problem: string): ToolError {
  return new ToolError(`The patch is not valid: ${problem}`, {
    code: "INVALID_ARGUMENTS",
    suggestion:
      "Give a unified diff (--- a/path, +++ b/path, @@ -1,2 +1,2 @@, lines marked with space, - or +) or a patch from *** Begin Patch to *** End Patch.",
  });
}
