import { formatPatch, type StructuredPatch } from "diff";
import type { DiffHunk, DiffResultValue } from "#domain/result.ts";
import { diffLines } from "#sandbox/diff-file.ts";
import { countLineEndings, numberLines, splitLines } from "./text-file.ts";

/** A change of a file's text; undefined if the file does not exist. */
export interface TextChange {
  path: string;
  before: string | undefined;
  after: string | undefined;
}

/** A change of a file's text with its hunks, computed once. */
export interface ComparedTexts extends TextChange {
  hunks: DiffHunk[];
  additions: number;
  deletions: number;
}

/** Longer originals are left out of the result, because the log keeps every result. */
const maxOriginalCharacters = 100_000;
/** The maximum number of changed lines, and of their characters, that the model is shown. */
const maxShownLines = 60;
const maxShownCharacters = 12_000;

/** Longer texts are not compared line by line, which would block the event loop. */
const maxComparedCharacters = 1_000_000;

/** Compares a file's text before and after a change. Texts that are too long have no hunks and count as replaced. */
export function compareTexts(change: TextChange): ComparedTexts {
  const { before = "", after = "" } = change;
  if (before.length + after.length > maxComparedCharacters && before !== after) {
    return { ...change, hunks: [], additions: countLineEndings(after), deletions: countLineEndings(before) };
  }
  const hunks = diffLines(before, after);
  const lines = hunks.flatMap((hunk) => hunk.lines);
  return {
    ...change,
    hunks,
    additions: lines.filter((line) => line.startsWith("+")).length,
    deletions: lines.filter((line) => line.startsWith("-")).length,
  };
}

/** Returns a unified diff for people; empty if nothing changes. */
export function unifiedDiff(change: TextChange | ComparedTexts): string {
  const { path, before, after, hunks } = "hunks" in change ? change : compareTexts(change);
  if (before === after) return "";
  const isTooLong = hunks.length === 0 && (before ?? "") !== (after ?? "");
  if (isTooLong) return `${path} is too long to compare: the diff of its change is left out.\n`;
  const patch: StructuredPatch = {
    oldFileName: before === undefined ? "/dev/null" : `a/${path}`,
    newFileName: after === undefined ? "/dev/null" : `b/${path}`,
    oldHeader: undefined,
    newHeader: undefined,
    hunks,
  };
  return formatPatch(patch).replace(/^=+\n/, "");
}

/** Returns the change as a result for people. */
export function diffResult(change: TextChange | ComparedTexts): DiffResultValue {
  const diff = "hunks" in change ? change : compareTexts(change);
  const { path, before, after, additions, deletions } = diff;
  const action = before === undefined ? "create" : after === undefined ? "delete" : "update";
  return {
    kind: "diff",
    path,
    ...(before !== undefined && before.length <= maxOriginalCharacters && { original: before }),
    modified: after ?? "",
    isNew: before === undefined,
    bytesWritten: Buffer.byteLength(after ?? ""),
    diff: unifiedDiff(diff),
    hunks: diff.hunks,
    stats: { additions, deletions, changes: additions + deletions },
    action,
    summary: `${verbs[action]} ${path} (+${additions} −${deletions})`,
  };
}

const verbs = { create: "Created", update: "Changed", delete: "Deleted" };

/** Returns the new state of the lines around a change, numbered as in read_file, unless there are too many. */
export function showChangedLines({ path, after = "", hunks }: ComparedTexts): string {
  const readAgain = `Read ${path} again before you change it further.`;
  const total = hunks.reduce((sum, hunk) => sum + hunk.newLines, 0);
  if (total === 0 || total > maxShownLines) return readAgain;

  const lines = splitLines(after);
  const parts = hunks.map(({ newStart, newLines }) => {
    const first = Math.max(newStart, 1);
    return numberLines(lines.slice(first - 1, first - 1 + newLines), first);
  });
  const shown = parts.join("\n     …\n");
  return shown.length > maxShownCharacters ? readAgain : `=== ${path} ===\n${shown}`;
}
