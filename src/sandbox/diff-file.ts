import { isUtf8 } from "node:buffer";
import { diffArrays } from "diff";
import type { DiffHunk } from "#domain/result.ts";

export interface FileVersion {
  content: Uint8Array;
  executable: boolean;
  /** A symbolic link, whose content is its target. */
  isLink?: boolean;
  /** The blob id, if it is known. */
  oid?: string;
}

/** Formats the change of one file as `git diff` does, within the budget of a request. */
export function diffFile(
  path: string,
  { before, after }: { before: FileVersion | undefined; after: FileVersion | undefined },
  budget?: DiffBudget,
): string {
  const head = [`diff --git ${quotePath(`a/${path}`)} ${quotePath(`b/${path}`)}`, ...modeLines(before, after)];
  const from = before ? quotePath(`a/${path}`) : "/dev/null";
  const to = after ? quotePath(`b/${path}`) : "/dev/null";
  if (Buffer.from(before?.content ?? []).equals(after?.content ?? new Uint8Array())) return lines(head);
  if (isBinary(before) || isBinary(after)) return lines([...head, `Binary files ${from} and ${to} differ`]);

  const hunks = diffLines(text(before), text(after), budget).flatMap((hunk) => [hunkHeader(hunk), ...hunk.lines]);
  return lines([...head, `--- ${from}`, `+++ ${to}`, ...hunks]);
}

/** Returns the file mode as git stores it in a tree. */
export function modeOf({ executable, isLink }: FileVersion): "100644" | "100755" | "120000" {
  if (isLink) return "120000";
  return executable ? "100755" : "100644";
}

/** Returns the mode lines of a diff header; empty if the mode did not change. */
export function modeLines(before: FileVersion | undefined, after: FileVersion | undefined): string[] {
  if (!before) return after ? [`new file mode ${modeOf(after)}`] : [];
  if (!after) return [`deleted file mode ${modeOf(before)}`];
  return modeOf(before) === modeOf(after) ? [] : [`old mode ${modeOf(before)}`, `new mode ${modeOf(after)}`];
}

/** True if there is a NUL byte near the start, as in git, or invalid UTF-8, which a text patch would not preserve. */
export function isBinary(version: FileVersion | undefined): boolean {
  if (!version) return false;
  return version.content.subarray(0, 8_000).includes(0) || !isUtf8(version.content);
}

function text(version: FileVersion | undefined): string {
  return Buffer.from(version?.content ?? []).toString("utf8");
}

/** Quotes a path as git does in a diff header. */
export function quotePath(name: string): string {
  return /["\\]/.test(name) ? JSON.stringify(name) : name;
}

function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join("");
}

/** Limits the work for all diffs of one request. Text beyond the limit is shown as replaced, and never left out. */
export class DiffBudget {
  #stepsLeft = 1_000_000;
  #stepsLeftInFile = maxStepsInFile;

  startFile(): void {
    this.#stepsLeftInFile = Math.min(this.#stepsLeft, maxStepsInFile);
  }

  /** The maximum number of added and deleted lines to search for in a place with this number of lines. */
  maxEdits(lines: number): number {
    return Math.floor(Math.min(Math.sqrt(this.#stepsLeftInFile), maxEditsInGap, maxComparisonsInGap / lines));
  }

  /** The time to find edits grows with the square of their number. */
  spend(edits: number): void {
    this.#stepsLeft = Math.max(0, this.#stepsLeft - edits ** 2);
    this.#stepsLeftInFile = Math.max(0, this.#stepsLeftInFile - edits ** 2);
  }
}

/** Lines that both texts have, followed by old lines that new lines replace. */
export interface Edit {
  common: number;
  deleted: number;
  added: number;
}

/** More changed lines are shown as replaced: they would be compared in one turn of the event loop. */
const maxComparedLines = 100_000;
const maxStepsInFile = 400_000;
const maxEditsInGap = 600;
/** The lines of a place are compared at most once for each edit that is searched for. */
const maxComparisonsInGap = 3_000_000;
const contextLines = 3;
const noNewline = "\\ No newline at end of file";

/**
 * Compares two texts line by line. Lines that occur once in both are matched first (patience diff), and the gaps
 * between them are compared with Myers' algorithm within the budget. Takes linear time for any input, where
 * `structuredPatch` of the package diff takes seconds for two files of 10,000 different lines.
 */
export function diffLines(before: string, after: string, budget = new DiffBudget()): DiffHunk[] {
  const [old, now] = [splitWithEndings(before), splitWithEndings(after)];
  return toHunks(compareLines(old, now, budget), old, now);
}

/** Compares lines and returns the edits that turn the old lines into the new ones. */
export function compareLines(old: readonly string[], now: readonly string[], budget: DiffBudget): Edit[] {
  const { start, end } = commonEnds(old, now);
  const changed = compareChanged(old.slice(start, old.length - end), now.slice(start, now.length - end), budget);
  return [unchanged(start), ...changed, unchanged(end)];
}

function compareChanged(old: readonly string[], now: readonly string[], budget: DiffBudget): Edit[] {
  if (old.length + now.length > maxComparedLines) return [replaced(old, now)];
  budget.startFile();
  // Comparing numbers takes the same time for lines of any length.
  const numbers = new Map<string, number>();
  const numberOf = (line: string) => {
    const known = numbers.get(line);
    if (known !== undefined) return known;
    numbers.set(line, numbers.size);
    return numbers.size - 1;
  };
  return findEdits(old.map(numberOf), now.map(numberOf), budget);
}

/** Formats the header of a hunk, such as `@@ -1,3 +1,4 @@`. */
export function hunkHeader({ oldStart, oldLines, newStart, newLines }: DiffHunk): string {
  return `@@ -${range(oldStart, oldLines)} +${range(newStart, newLines)} @@`;
}

function range(start: number, count: number): string {
  // For an empty range, git gives the line before it.
  if (count === 0) return `${start - 1},0`;
  return count === 1 ? String(start) : `${start},${count}`;
}

/** Splits into lines that keep their line ends, so that a missing final newline counts as a change. */
export function splitWithEndings(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function findEdits(old: readonly number[], now: readonly number[], budget: DiffBudget): Edit[] {
  const edits: Edit[] = [];
  let [oldAt, newAt] = [0, 0];
  for (const anchor of [...matchUnique(old, now), { old: old.length, now: now.length }]) {
    edits.push(...editsInGap(old.slice(oldAt, anchor.old), now.slice(newAt, anchor.now), budget));
    edits.push(unchanged(1));
    [oldAt, newAt] = [anchor.old + 1, anchor.now + 1];
  }
  // The last anchor is the end, which is not a line.
  edits.pop();
  return edits;
}

interface Anchor {
  old: number;
  now: number;
}

/** Matches the lines that occur once in both texts, as many as are in the same order. */
function matchUnique(old: readonly number[], now: readonly number[]): Anchor[] {
  const positions = new Map<number, { old: number; now: number; isUnique: boolean }>();
  for (const [at, line] of old.entries()) {
    const known = positions.get(line);
    if (known) known.isUnique = false;
    else positions.set(line, { old: at, now: -1, isUnique: true });
  }
  for (const [at, line] of now.entries()) {
    const known = positions.get(line);
    if (!known) continue;
    if (known.now !== -1) known.isUnique = false;
    known.now = at;
  }
  const unique = [...positions.values()].filter(({ now, isUnique }) => isUnique && now !== -1);
  return longestIncreasing(unique.sort((a, b) => a.old - b.old));
}

/** Returns the longest subsequence with increasing positions in the new text. */
function longestIncreasing(anchors: readonly Anchor[]): Anchor[] {
  // For each length, the last anchor of the subsequence that ends earliest.
  const ends: { anchor: Anchor; previous: (typeof ends)[number] | undefined }[] = [];
  for (const anchor of anchors) {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle]?.anchor.now ?? 0) < anchor.now) low = middle + 1;
      else high = middle;
    }
    ends[low] = { anchor, previous: ends[low - 1] };
  }
  const found: Anchor[] = [];
  for (let end = ends.at(-1); end; end = end.previous) found.push(end.anchor);
  return found.reverse();
}

function editsInGap(old: number[], now: number[], budget: DiffBudget): Edit[] {
  const { start, end } = commonEnds(old, now);
  const [oldGap, newGap] = [old.slice(start, old.length - end), now.slice(start, now.length - end)];
  return [unchanged(start), ...compareGap(oldGap, newGap, budget), unchanged(end)];
}

/** Counts the items that two lists share at their start and at their end. */
function commonEnds<T>(old: readonly T[], now: readonly T[]): { start: number; end: number } {
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) start++;
  let end = 0;
  while (end < shorter - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  return { start, end };
}

function unchanged(lines: number): Edit {
  return { common: lines, deleted: 0, added: 0 };
}

function compareGap(old: number[], now: number[], budget: DiffBudget): Edit[] {
  if (old.length === 0 || now.length === 0) return [replaced(old, now)];

  const maxEdits = budget.maxEdits(old.length + now.length);
  const changes = diffArrays(old, now, { maxEditLength: maxEdits });
  budget.spend(
    changes ? changes.reduce((sum, { added, removed, count }) => sum + (added || removed ? count : 0), 0) : maxEdits,
  );
  return (
    changes?.map(({ added, removed, count }) => ({
      common: added || removed ? 0 : count,
      deleted: removed ? count : 0,
      added: added ? count : 0,
    })) ?? [replaced(old, now)]
  );
}

function replaced(old: readonly unknown[], now: readonly unknown[]): Edit {
  return { common: 0, deleted: old.length, added: now.length };
}

/** Joins edits into hunks with surrounding lines. */
function toHunks(edits: readonly Edit[], old: readonly string[], now: readonly string[]): DiffHunk[] {
  const hunks: DiffHunk[] = [];
  let hunk: DiffHunk | undefined;
  let [oldAt, newAt] = [0, 0];
  /** Common lines since the last change. */
  let common = 0;
  const addContext = (target: DiffHunk, from: number, count: number) => {
    for (const line of old.slice(from, from + count)) addLine(target, " ", line);
    target.oldLines += count;
    target.newLines += count;
  };
  for (const edit of edits) {
    common += edit.common;
    oldAt += edit.common;
    newAt += edit.common;
    if (edit.deleted + edit.added === 0) continue;

    if (hunk && common <= 2 * contextLines) addContext(hunk, oldAt - common, common);
    else {
      if (hunk) addContext(hunk, oldAt - common, contextLines);
      const context = Math.min(common, contextLines);
      hunk = { oldStart: oldAt - context + 1, oldLines: 0, newStart: newAt - context + 1, newLines: 0, lines: [] };
      hunks.push(hunk);
      addContext(hunk, oldAt - context, context);
    }
    for (let at = oldAt; at < oldAt + edit.deleted; at++) addLine(hunk, "-", old[at] ?? "");
    for (let at = newAt; at < newAt + edit.added; at++) addLine(hunk, "+", now[at] ?? "");
    hunk.oldLines += edit.deleted;
    hunk.newLines += edit.added;
    oldAt += edit.deleted;
    newAt += edit.added;
    common = 0;
  }
  if (hunk) addContext(hunk, oldAt - common, Math.min(common, contextLines));
  return hunks;
}

function addLine({ lines }: DiffHunk, mark: " " | "-" | "+", line: string): void {
  if (line.endsWith("\n")) lines.push(mark + line.slice(0, -1));
  else lines.push(mark + line, noNewline);
}
