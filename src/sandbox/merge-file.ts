import { isUtf8 } from "node:buffer";
import { commonEnds, compareLines, DiffBudget, type Edit, splitWithEndings } from "./diff-file.ts";
import type { Steps } from "./event-loop.ts";

export interface MergedText {
  content: string;
  /** False when both sides changed the same lines; the content then has conflict markers. */
  clean: boolean;
}

/** Lines of the base, from `start` to before `end`, that one side replaced. */
interface Change {
  start: number;
  end: number;
  lines: string[];
}

/**
 * Merges three versions of a text line by line, with the same results as `git merge-file`: adjacent changes conflict
 * unless they are equal. Returns undefined if one version is binary. Takes linear time, where node-diff3 took 39 s for
 * 20,000 lines with 500 different ones.
 */
export function* mergeFile(
  { ours, base, theirs }: Record<"ours" | "base" | "theirs", Uint8Array>,
  names: { ours: string; theirs: string },
): Steps<MergedText | undefined> {
  if ([ours, base, theirs].some((content) => content.includes(0) || !isUtf8(content))) return undefined;

  const lines = yield* linesOf(base);
  const budget = new DiffBudget();
  const [own, other] = [
    yield* changesBy(yield* linesOf(ours), lines, budget),
    yield* changesBy(yield* linesOf(theirs), lines, budget),
  ];
  const merged: string[] = [];
  let clean = true;
  let at = 0;
  for (const region of regionsOf(own, other)) {
    yield;
    merged.push(textOf(lines, at, region.start));
    const [left, right] = [applyChanges(lines, region, region.own), applyChanges(lines, region, region.other)];
    at = region.end;
    if (region.own.length === 0 || region.other.length === 0 || left.join("") === right.join("")) {
      merged.push((region.own.length === 0 ? right : left).join(""));
      continue;
    }
    clean = false;
    merged.push(conflict(left, right, names));
  }
  merged.push(textOf(lines, at, lines.length));
  return { content: merged.join(""), clean };
}

function linesOf(content: Uint8Array): Steps<string[]> {
  return splitWithEndings(Buffer.from(content).toString("utf8"));
}

function* changesBy(side: readonly string[], base: readonly string[], budget: DiffBudget): Steps<Change[]> {
  const changes = yield* toChanges(yield* compareLines(base, side, budget), side);
  let limit = base.length;
  for (const change of changes.toReversed()) {
    yield;
    slideDown(change, base, limit);
    limit = change.start;
  }
  return changes;
}

/**
 * Moves an insertion or deletion down as far as the result stays the same, as git does: a paragraph with a blank line
 * before it becomes one with a blank line after it. The place decides if it touches a change of the other side.
 */
function slideDown(change: Change, base: readonly string[], limit: number): void {
  const { start, end, lines } = change;
  if (lines.length > 0 && end > start) return;
  const length = Math.max(lines.length, end - start);
  const moved = lines.length > 0 ? lines : base.slice(start, end);
  const lineAt = (at: number) => (at < length ? moved[at] : base[end + at - length]);
  let count = 0;
  while (end + count < limit && base[end + count] === lineAt(count)) count += 1;
  change.start += count;
  change.end += count;
  if (lines.length > 0) change.lines = [...lines, ...base.slice(end, end + count)].slice(count);
}

function textOf(lines: readonly string[], start: number, end: number): string {
  return lines.slice(start, end).join("");
}

function* toChanges(edits: readonly Edit[], lines: readonly string[]): Steps<Change[]> {
  const changes: Change[] = [];
  let [baseAt, at] = [0, 0];
  for (const { common, deleted, added } of edits) {
    baseAt += common;
    at += common;
    if (deleted + added === 0) continue;
    yield;
    const last = changes.at(-1);
    // A deletion and an addition at the same place are one change.
    if (last?.end === baseAt && common === 0) {
      last.end += deleted;
      last.lines = last.lines.concat(lines.slice(at, at + added));
    } else changes.push({ start: baseAt, end: baseAt + deleted, lines: lines.slice(at, at + added) });
    baseAt += deleted;
    at += added;
  }
  return changes;
}

interface Region {
  start: number;
  end: number;
  own: Change[];
  other: Change[];
}

/** Returns the changes of both sides, each with all that touch it. */
function* regionsOf(own: readonly Change[], other: readonly Change[]): Generator<Region> {
  let [ownAt, otherAt] = [0, 0];
  for (;;) {
    const starts = [own[ownAt], other[otherAt]].flatMap((change) => (change ? [change.start] : []));
    if (starts.length === 0) return;
    const start = Math.min(...starts);
    const region: Region = { start, end: start, own: [], other: [] };
    for (;;) {
      const [mine, yours] = [own[ownAt], other[otherAt]];
      if (mine && mine.start <= region.end) {
        region.own.push(mine);
        region.end = Math.max(region.end, mine.end);
        ownAt += 1;
      } else if (yours && yours.start <= region.end) {
        region.other.push(yours);
        region.end = Math.max(region.end, yours.end);
        otherAt += 1;
      } else break;
    }
    yield region;
  }
}

/** Returns the lines of a region with one side's changes. */
function applyChanges(
  base: readonly string[],
  region: { start: number; end: number },
  changes: readonly Change[],
): string[] {
  const parts: (readonly string[])[] = [];
  let at = region.start;
  for (const { start, end, lines } of changes) {
    parts.push(base.slice(at, start), lines);
    at = end;
  }
  return [...parts, base.slice(at, region.end)].flat();
}

/** Returns the lines of both sides between markers, without their common start and end. */
function conflict(left: readonly string[], right: readonly string[], names: { ours: string; theirs: string }): string {
  const { start, end } = commonEnds(left, right);
  return [
    textOf(left, 0, start),
    `<<<<<<< ${names.ours}\n`,
    closed(textOf(left, start, left.length - end)),
    "=======\n",
    closed(textOf(right, start, right.length - end)),
    `>>>>>>> ${names.theirs}\n`,
    textOf(left, left.length - end, left.length),
  ].join("");
}

function closed(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}
