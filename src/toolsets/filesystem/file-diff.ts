import { diffArrays, formatPatch, type StructuredPatch, type StructuredPatchHunk } from "diff";
import type { z } from "zod";
import type { DiffResultValue } from "#domain/result.ts";
import { numberLines, splitLines } from "./text-file.ts";

/** A change of one file's text; undefined stands for no file. */
export interface TextChange {
  path: string;
  before: string | undefined;
  after: string | undefined;
}

/** A change of one file's text, compared once. */
export interface ComparedTexts extends TextChange {
  hunks: StructuredPatchHunk[];
  additions: number;
  deletions: number;
}

const contextLines = 3;
/** Milliseconds for finding the smallest difference. After that, everything between the common ends counts as changed. */
const maxCompareMs = 100;
/** A longer original is left out of the result, because the log keeps every result. */
const maxOriginalCharacters = 100_000;
/** Up to this many changed lines are shown to the model. */
const maxShownLines = 60;

/** Compares a file's text before and after a change. The time is linear in the length of the texts. */
export function compareTexts(change: TextChange): ComparedTexts {
  const before = withEndings(change.before ?? "");
  const after = withEndings(change.after ?? "");
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const shorter = Math.min(before.length, after.length) - start;
  while (end < shorter && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;

  const edits = compareLines(before.slice(start, before.length - end), after.slice(start, after.length - end));
  const hunks = hunksOf(edits, { before, start });
  const lines = hunks.flatMap((hunk) => hunk.lines);
  return {
    ...change,
    hunks,
    additions: lines.filter((line) => line.startsWith("+")).length,
    deletions: lines.filter((line) => line.startsWith("-")).length,
  };
}

/** The lines of a text with their endings. */
function withEndings(text: string): string[] {
  const lines = text.split(/(?<=\n)/);
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

/** A run of lines that both texts have, or that one of them has. */
interface Edit {
  mark: " " | "-" | "+";
  lines: string[];
}

function compareLines(before: string[], after: string[]): Edit[] {
  const changes = diffArrays(before, after, { timeout: maxCompareMs });
  if (!changes) {
    return [
      { mark: "-", lines: before },
      { mark: "+", lines: after },
    ];
  }
  return changes.map(({ added, removed, value }) => ({ mark: added ? "+" : removed ? "-" : " ", lines: value }));
}

/** Groups edits into hunks with context, where the first edit begins at line `start`, counted from 0. */
function hunksOf(
  edits: readonly Edit[],
  { before, start }: { before: string[]; start: number },
): StructuredPatchHunk[] {
  const hunks: StructuredPatchHunk[] = [];
  let [oldLine, newLine] = [start, start];
  let current: StructuredPatchHunk | undefined;
  let oldEnd = 0;

  for (const { mark, lines } of edits) {
    if (mark !== " ") {
      const lead = Math.min(contextLines, oldLine);
      if (!current || oldLine - oldEnd > 2 * contextLines) {
        if (current) addContext(current, before.slice(oldEnd, oldEnd + contextLines));
        const context = before.slice(oldLine - lead, oldLine);
        current = { oldStart: oldLine - lead + 1, oldLines: 0, newStart: newLine - lead + 1, newLines: 0, lines: [] };
        hunks.push(current);
        addContext(current, context);
      } else {
        addContext(current, before.slice(oldEnd, oldLine));
      }
      for (const line of lines) addLine(current, mark, line);
    }
    if (mark !== "+") oldLine += lines.length;
    if (mark !== "-") newLine += lines.length;
    if (mark !== " ") oldEnd = oldLine;
  }
  if (current) addContext(current, before.slice(oldEnd, oldEnd + contextLines));
  return hunks;
}

function addContext(hunk: StructuredPatchHunk, lines: readonly string[]): void {
  for (const line of lines) addLine(hunk, " ", line);
}

function addLine(hunk: StructuredPatchHunk, mark: Edit["mark"], line: string): void {
  if (mark !== "+") hunk.oldLines++;
  if (mark !== "-") hunk.newLines++;
  hunk.lines.push(`${mark}${line.replace(/\n$/, "")}`);
  if (!line.endsWith("\n")) hunk.lines.push("\\ No newline at end of file");
}

/** A unified diff for people, empty where nothing changes. */
export function unifiedDiff(change: TextChange | ComparedTexts): string {
  const { path, before, after, hunks } = "hunks" in change ? change : compareTexts(change);
  if (hunks.length === 0 && before !== undefined && after !== undefined) return "";
  const patch: StructuredPatch = {
    oldFileName: before === undefined ? "/dev/null" : `a/${path}`,
    newFileName: after === undefined ? "/dev/null" : `b/${path}`,
    oldHeader: undefined,
    newHeader: undefined,
    hunks,
  };
  return formatPatch(patch).replace(/^=+\n/, "");
}

/** The change as a result for people. */
export function diffResult(change: TextChange | ComparedTexts): z.infer<typeof DiffResultValue> {
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

/** The lines around a change in their new state, numbered as read_file numbers them, unless there are too many. */
export function showChangedLines({ path, after = "", hunks }: ComparedTexts): string {
  const total = hunks.reduce((sum, hunk) => sum + hunk.newLines, 0);
  if (total === 0 || total > maxShownLines) return `Read ${path} again before you change it further.`;

  const lines = splitLines(after);
  const parts = hunks.map(({ newStart, newLines }) => {
    const first = Math.max(newStart, 1);
    return numberLines(lines.slice(first - 1, first - 1 + newLines), first);
  });
  return `=== ${path} ===\n${parts.join("\n     …\n")}`;
}
