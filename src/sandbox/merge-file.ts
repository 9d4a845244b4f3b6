import { isUtf8 } from "node:buffer";
import { compareLines, DiffBudget, type Edit, splitWithEndings } from "./diff-file.ts";

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
export function mergeFile(
  { ours, base, theirs }: Record<"ours" | "base" | "theirs", Uint8Array>,
  names: { ours: string; theirs: string },
): MergedText | undefined {
  if ([ours, base, theirs].some((content) => content.includes(0) || !isUtf8(content))) return undefined;

  const budget = new DiffBudget();
  const lines = splitWithEndings(Buffer.from(base).toString("utf8"));
  const changesBy = (side: Uint8Array) => {
    const sideLines = splitWithEndings(Buffer.from(side).toString("utf8"));
    return toChanges(compareLines(lines, sideLines, budget), sideLines);
  };
  const [own, other] = [changesBy(ours), changesBy(theirs)];
  const merged: string[] = [];
  let clean = true;
  let at = 0;
  while (own.length + other.length > 0) {
    const region = takeRegion(own, other);
    merged.push(...lines.slice(at, region.start));
    const [left, right] = [applyChanges(lines, region, region.own), applyChanges(lines, region, region.other)];
    at = region.end;
    if (region.own.length === 0 || region.other.length === 0 || left.join("") === right.join("")) {
      merged.push(...(region.own.length === 0 ? right : left));
      continue;
    }
    clean = false;
    merged.push(...conflict(left, right, names));
  }
  merged.push(...lines.slice(at));
  return { content: merged.join(""), clean };
}

function toChanges(edits: readonly Edit[], lines: readonly string[]): Change[] {
  const changes: Change[] = [];
  let [baseAt, at] = [0, 0];
  for (const { common, deleted, added } of edits) {
    baseAt += common;
    at += common;
    if (deleted + added === 0) continue;
    const last = changes.at(-1);
    // A deletion and an addition at the same place are one change.
    if (last?.end === baseAt && common === 0) {
      last.end += deleted;
      last.lines.push(...lines.slice(at, at + added));
    } else changes.push({ start: baseAt, end: baseAt + deleted, lines: lines.slice(at, at + added) });
    baseAt += deleted;
    at += added;
  }
  return changes;
}

/** Takes the next change, with all changes of both sides that touch it. */
function takeRegion(own: Change[], other: Change[]) {
  const start = Math.min(own[0]?.start ?? Number.POSITIVE_INFINITY, other[0]?.start ?? Number.POSITIVE_INFINITY);
  const region = { start, end: start, own: [] as Change[], other: [] as Change[] };
  for (;;) {
    const touchesOwn = own[0] !== undefined && own[0].start <= region.end;
    const changes = touchesOwn ? own : other;
    const next = changes[0];
    if (!next || next.start > region.end) return region;
    changes.shift();
    (touchesOwn ? region.own : region.other).push(next);
    region.end = Math.max(region.end, next.end);
  }
}

/** Returns the lines of a region with one side's changes. */
function applyChanges(
  base: readonly string[],
  region: { start: number; end: number },
  changes: readonly Change[],
): string[] {
  const lines: string[] = [];
  let at = region.start;
  for (const { start, end, lines: replacement } of changes) {
    lines.push(...base.slice(at, start), ...replacement);
    at = end;
  }
  return [...lines, ...base.slice(at, region.end)];
}

/** Returns the lines of both sides between markers, without their common start and end. */
function conflict(
  left: readonly string[],
  right: readonly string[],
  names: { ours: string; theirs: string },
): string[] {
  const shorter = Math.min(left.length, right.length);
  let start = 0;
  while (start < shorter && left[start] === right[start]) start++;
  let end = 0;
  while (end < shorter - start && left.at(-1 - end) === right.at(-1 - end)) end++;
  return [
    ...left.slice(0, start),
    `<<<<<<< ${names.ours}\n`,
    closed(left.slice(start, left.length - end)),
    "=======\n",
    closed(right.slice(start, right.length - end)),
    `>>>>>>> ${names.theirs}\n`,
    ...left.slice(left.length - end),
  ];
}

function closed(lines: readonly string[]): string {
  const text = lines.join("");
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}
