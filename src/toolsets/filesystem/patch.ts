import { ToolError } from "#domain/errors.ts";

interface PatchLine {
  mark: " " | "+" | "-";
  text: string;
}

/** A piece of a file's change: what stands there and what shall stand there, as one list of marked lines. */
export interface Hunk {
  lines: PatchLine[];
  /** First old line, from 1, as the patch says; it may be stale. */
  oldStart?: number;
  /** A line above the place that names it, such as the head of a function. */
  anchor?: string;
  /** The new text ends without a line ending. */
  endsWithoutNewline?: boolean;
}

/** The change of one file. */
export type FilePatch =
  | { kind: "update"; path: string; moveTo?: string; hunks: Hunk[] }
  | { kind: "create"; path: string; hunks: Hunk[] }
  | { kind: "delete"; path: string };

/** The lines of a side of a hunk: `-` what stands there, `+` what shall. */
export function sideOf({ lines }: Hunk, side: "-" | "+"): string[] {
  return lines.filter(({ mark }) => mark === " " || mark === side).map(({ text }) => text);
}

export function badPatch(message: string): ToolError {
  return new ToolError(`The patch cannot be read: ${message}`, {
    code: "INVALID_ARGUMENTS",
    suggestion:
      "Give a unified diff (--- a/path, +++ b/path, @@ -1,2 +1,2 @@, lines marked with space, - or +) or a patch from *** Begin Patch to *** End Patch.",
  });
}
