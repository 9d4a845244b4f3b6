import { isUtf8 } from "node:buffer";
import { diffArrays } from "diff";
import type { Steps } from "#domain/async-work.ts";
import type { FileMode } from "#domain/preview.ts";
import type { DiffHunk } from "#domain/result.ts";
import { quotePath } from "#text/quoted-path.ts";

export interface FileVersion {
  content: Uint8Array;
  executable: boolean;
  /** A symbolic link, whose content is its target. */
  isLink?: boolean;
  /** A submodule, whose content is a line with its commit, as in `git diff`. */
  isSubmodule?: boolean;
  /** The id of the blob, or the commit of a submodule, if it is known. */
  oid?: string;
}

/** Formats the change of one file as `git diff` does, within the budget of a request. */
export function* diffFile(
  path: string,
  { before, after }: { before: FileVersion | undefined; after: FileVersion | undefined },
  budget?: DiffBudget,
): Steps<string> {
  const head = [`diff --git ${quotePath(`a/${path}`)} ${quotePath(`b/${path}`)}`, ...modeLines(before, after)];
  const from = before ? quotePath(`a/${path}`) : "/dev/null";
  const to = after ? quotePath(`b/${path}`) : "/dev/null";
  if (Buffer.from(before?.content ?? []).equals(after?.content ?? new Uint8Array())) return lines(head);
  if (isBinary(before) || isBinary(after)) return lines([...head, `Binary files ${from} and ${to} differ`]);

  const hunks = yield* diffLines(text(before), text(after), budget);
  return [
    lines([...head, `--- ${from}`, `+++ ${to}`]),
    ...hunks.map((hunk) => lines([hunkHeader(hunk)]) + hunk.lines.join("\n").concat("\n")),
  ].join("");
}

export function submoduleVersion(commit: string): FileVersion {
  const content = Buffer.from(`Subproject commit ${commit}\n`);
  return { content, executable: false, isSubmodule: true, oid: commit };
}

/** Returns the file mode as git stores it in a tree. */
export function modeOf({ executable, isLink, isSubmodule }: FileVersion): FileMode {
  if (isLink) return "120000";
  if (isSubmodule) return "160000";
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

const maxStepsInFile = 400_000;
const maxEditsInGap = 600;
/** The lines of a place are compared at most once for each edit that is searched for. */
const maxComparisonsInGap = 3_000_000;
/** The number of lines to work on in one step. */
const linesPerSlice = 2_000;
const contextLines = 3;
const noNewline = "\\ No newline at end of file";

/**
 * Compares two texts line by line. Lines that occur once in both are matched first (patience diff), and the gaps
 * between them are compared with Myers' algorithm within the budget. Takes linear time for any input, where
 * `structuredPatch` of the package diff takes seconds for two files of 10,000 different lines.
 */
export function* diffLines(before: string, after: string, budget = new DiffBudget()): Steps<DiffHunk[]> {
  const [old, now] = [yield* splitWithEndings(before), yield* splitWithEndings(after)];
  return yield* toHunks(yield* compareLines(old, now, budget), old, now);
}

/** Two texts without the lines that they share at both ends, apart from the context of a diff. */
interface DifferingPart {
  before: Buffer;
  after: Buffer;
  /** The number of lines before it. */
  skippedLines: number;
}

const lineFeed = 0x0a;

/** Finds the part of two texts that differs. Comparing only that part gives the same hunks in the time that the part takes. */
export function differingPart(before: Uint8Array, after: Uint8Array): DifferingPart {
  const [old, now] = [asBuffer(before), asBuffer(after)];
  const shorter = Math.min(old.length, now.length);
  const equal = equalBytes(shorter, (from, to) => old.compare(now, from, to, from, to) === 0);
  let start = lineStart(old, equal);
  for (let line = 0; line < contextLines; line++) start = lineStart(old, start - 1);
  const equalAtEnd = equalBytes(shorter - lineStart(old, equal), (from, to) => {
    return old.compare(now, now.length - to, now.length - from, old.length - to, old.length - from) === 0;
  });
  let end = old.length - equalAtEnd;
  // The first line of the equal bytes may be a part of a line.
  for (let line = 0; line <= contextLines; line++) end = old.indexOf(lineFeed, end) + 1 || old.length;
  let skippedLines = 0;
  for (let at = old.indexOf(lineFeed); at !== -1 && at < start; at = old.indexOf(lineFeed, at + 1)) skippedLines++;
  return {
    before: old.subarray(start, end),
    after: now.subarray(start, now.length - (old.length - end)),
    skippedLines,
  };
}

export function asBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}

/** Returns the start of the line with the byte at an index. */
function lineStart(text: Buffer, index: number): number {
  return index <= 0 ? 0 : text.lastIndexOf(lineFeed, index - 1) + 1;
}

/** Counts the bytes that are equal, from an end of two texts, by comparing ranges of growing distance to this end. */
function equalBytes(max: number, isEqual: (from: number, to: number) => boolean): number {
  const bytesAtOnce = 65_536;
  let from = 0;
  while (from < max && isEqual(from, Math.min(max, from + bytesAtOnce))) from = Math.min(max, from + bytesAtOnce);
  // The first difference is in the next range.
  let [low, high] = [from, Math.min(max, from + bytesAtOnce)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (isEqual(from, middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Moves hunks of a part to their place in the whole text. */
export function moveHunks(
  hunks: readonly DiffHunk[],
  { skippedLines }: Pick<DifferingPart, "skippedLines">,
): DiffHunk[] {
  return hunks.map((hunk) => ({
    ...hunk,
    oldStart: hunk.oldStart + skippedLines,
    newStart: hunk.newStart + skippedLines,
  }));
}

/** Compares lines and returns the edits that turn the old lines into the new ones. */
export function* compareLines(
  old: readonly string[],
  now: readonly string[],
  budget = new DiffBudget(),
): Steps<Edit[]> {
  budget.startFile();
  const { start, end } = commonEnds(old, now);
  // Comparing numbers takes the same time for lines of any length.
  const numbers = new Map<string, number>();
  const [oldLines, newLines] = [
    yield* internLines(old.slice(start, old.length - end), numbers),
    yield* internLines(now.slice(start, now.length - end), numbers),
  ];
  const anchors = yield* matchUnique(oldLines, newLines, numbers.size);
  const edits = [unchanged(start)];
  let [oldAt, newAt] = [0, 0];
  for (const anchor of [...anchors, { old: oldLines.length, now: newLines.length }]) {
    yield;
    const gap = [oldLines.subarray(oldAt, anchor.old), newLines.subarray(newAt, anchor.now)] as const;
    addEdits(edits, [...editsInGap(...gap, budget), unchanged(1)]);
    [oldAt, newAt] = [anchor.old + 1, anchor.now + 1];
  }
  // The last anchor is the end, which is not a line.
  addEdits(edits, [unchanged(end - 1)]);
  return edits;
}

/** Adds edits, joining those without changes. */
function addEdits(edits: Edit[], more: readonly Edit[]): void {
  for (const { common, deleted, added } of more) {
    const last = edits.at(-1);
    if (last && last.deleted + last.added === 0) Object.assign(last, { common: last.common + common, deleted, added });
    else edits.push({ common, deleted, added });
  }
}

/** Gives equal lines the same number. */
export function* internLines(lines: readonly string[], numbers: Map<string, number>): Steps<Int32Array> {
  const numbered = new Int32Array(lines.length);
  for (const [at, line] of lines.entries()) {
    if (at % linesPerSlice === 0) yield;
    const known = numbers.get(line) ?? numbers.size;
    if (known === numbers.size) numbers.set(line, known);
    numbered[at] = known;
  }
  return numbered;
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
export function* splitWithEndings(text: string): Steps<string[]> {
  const lines: string[] = [];
  for (let start = 0; start < text.length; ) {
    if (lines.length % linesPerSlice === 0) yield;
    const end = text.indexOf("\n", start) + 1 || text.length;
    lines.push(text.slice(start, end));
    start = end;
  }
  return lines;
}

interface Anchor {
  old: number;
  now: number;
}

/** Matches the lines that occur once in both texts, as many as are in the same order. */
function* matchUnique(old: Int32Array, now: Int32Array, count: number): Steps<Anchor[]> {
  const [inOld, inNew] = [positionsOf(old, count), positionsOf(now, count)];
  // For each length, the last anchor of the longest sequence in the same order that ends earliest.
  const ends: { anchor: Anchor; previous: (typeof ends)[number] | undefined }[] = [];
  for (let at = 0; at < old.length; at++) {
    if (at % linesPerSlice === 0) yield;
    const line = old[at] ?? 0;
    const found = inNew[line] ?? -1;
    if (inOld[line] !== at || found < 0) continue;
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle]?.anchor.now ?? 0) < found) low = middle + 1;
      else high = middle;
    }
    ends[low] = { anchor: { old: at, now: found }, previous: ends[low - 1] };
  }
  const anchors: Anchor[] = [];
  for (let end = ends.at(-1); end; end = end.previous) anchors.push(end.anchor);
  return anchors.reverse();
}

/** Returns where each line is: -1 if it is nowhere, and -2 if it is in several places. */
function positionsOf(lines: Int32Array, count: number): Int32Array {
  const positions = new Int32Array(count).fill(-1);
  for (const [at, line] of lines.entries()) positions[line] = positions[line] === -1 ? at : -2;
  return positions;
}

function editsInGap(old: Int32Array, now: Int32Array, budget: DiffBudget): Edit[] {
  const { start, end } = commonEnds(old, now);
  const [oldGap, newGap] = [old.subarray(start, old.length - end), now.subarray(start, now.length - end)];
  return [unchanged(start), ...compareGap(oldGap, newGap, budget), unchanged(end)];
}

/** Counts the lines that two texts share at their start and at their end. */
function commonEnds<T>(old: ArrayLike<T>, now: ArrayLike<T>): { start: number; end: number } {
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

function compareGap(old: Int32Array, now: Int32Array, budget: DiffBudget): Edit[] {
  const replaced = { common: 0, deleted: old.length, added: now.length };
  const isOneLine = old.length === 1 && now.length === 1;
  if (isOneLine || old.length === 0 || now.length === 0) return [replaced];

  const maxEdits = budget.maxEdits(old.length + now.length);
  const changes = maxEdits > 0 && diffArrays([...old], [...now], { maxEditLength: maxEdits });
  budget.spend(
    changes ? changes.reduce((sum, { added, removed, count }) => sum + (added || removed ? count : 0), 0) : maxEdits,
  );
  if (!changes) return [replaced];
  return changes.map(({ added, removed, count }) => ({
    common: added || removed ? 0 : count,
    deleted: removed ? count : 0,
    added: added ? count : 0,
  }));
}

/** Joins edits into hunks with surrounding lines. */
function* toHunks(edits: readonly Edit[], old: readonly string[], now: readonly string[]): Steps<DiffHunk[]> {
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
    for (let at = oldAt; at < oldAt + edit.deleted; at++) {
      if (at % linesPerSlice === 0) yield;
      addLine(hunk, "-", old[at] ?? "");
    }
    for (let at = newAt; at < newAt + edit.added; at++) {
      if (at % linesPerSlice === 0) yield;
      addLine(hunk, "+", now[at] ?? "");
    }
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
