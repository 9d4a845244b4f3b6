import type { Steps } from "#domain/async-work.ts";
import { compareLines, type DiffBudget, internLines } from "#sandbox/diff-file.ts";

/** Lines of a text, from `start` to before `end`, that the other text replaced by `lines`. */
export interface LineChange {
  start: number;
  end: number;
  lines: string[];
}

/** Ranges of lines of both texts, without their ends. */
interface Region {
  oldStart: number;
  oldEnd: number;
  newStart: number;
  newEnd: number;
}

/** Lines that occur more often are not used to match the texts. */
const maxOccurrences = 64;
/** The number of lines to visit. The time grows with the square of the number of changes. */
const maxVisits = 20_000_000;
const visitsPerStep = 50_000;

/**
 * Compares two texts line by line with the histogram algorithm, which `git merge` uses, and moves changes between equal
 * lines as git does. The results are git's, except in regions whose common lines all occur often, and in texts of which
 * maxVisits are not enough: these are compared as by `compareLines`.
 */
export function* compareAsGitMerge(
  old: readonly string[],
  now: readonly string[],
  budget: DiffBudget,
): Steps<LineChange[]> {
  const numbers = new Map<string, number>();
  const [oldLines, newLines] = [yield* internLines(old, numbers), yield* internLines(now, numbers)];
  const sides = { old: new MarkedLines(oldLines), now: new MarkedLines(newLines) };
  const search = new CommonLines(oldLines, newLines, numbers.size);
  const regions: Region[] = [{ oldStart: 0, oldEnd: old.length, newStart: 0, newEnd: now.length }];
  for (let region = regions.pop(); region; region = regions.pop()) {
    const { oldStart, oldEnd, newStart, newEnd } = region;
    const common = oldStart < oldEnd && newStart < newEnd ? yield* search.find(region) : undefined;
    if (common === "often") {
      const edits = yield* compareLines(old.slice(oldStart, oldEnd), now.slice(newStart, newEnd), budget);
      markEdits(edits, region, sides);
    } else if (common === undefined) {
      sides.old.mark(oldStart, oldEnd);
      sides.now.mark(newStart, newEnd);
    } else {
      regions.push({ ...region, oldStart: common.oldEnd, newStart: common.newEnd });
      regions.push({ ...region, oldEnd: common.oldStart, newEnd: common.newStart });
    }
  }
  yield* moveChanges(sides.old, sides.now);
  yield* moveChanges(sides.now, sides.old);
  return toChanges(sides, now);
}

type Sides = Record<"old" | "now", MarkedLines>;

function markEdits(
  edits: Iterable<Record<"common" | "deleted" | "added", number>>,
  region: Region,
  sides: Sides,
): void {
  let { oldStart, newStart } = region;
  for (const { common, deleted, added } of edits) {
    sides.old.mark(oldStart + common, oldStart + common + deleted);
    sides.now.mark(newStart + common, newStart + common + added);
    oldStart += common + deleted;
    newStart += common + added;
  }
}

function toChanges({ old, now }: Sides, lines: readonly string[]): LineChange[] {
  const changes: LineChange[] = [];
  for (let [at, newAt] = [0, 0]; at < old.length || newAt < now.length; at++, newAt++) {
    const [start, newStart] = [at, newAt];
    while (old.isMarked(at)) at++;
    while (now.isMarked(newAt)) newAt++;
    if (at > start || newAt > newStart) changes.push({ start, end: at, lines: lines.slice(newStart, newAt) });
  }
  return changes;
}

/** Finds the lines by which a region is split: of those that occur least often, the longest sequence, as git's xhistogram.c. */
class CommonLines {
  readonly #old: Int32Array;
  readonly #now: Int32Array;
  /** By the number of a line: its first place in the region, how often it occurs there, and the region of both. */
  readonly #first: Int32Array;
  readonly #count: Int32Array;
  readonly #regionOf: Int32Array;
  /** The next place of the same line, by place; -1 for the last one. */
  readonly #next: Int32Array;
  #region = 0;
  #visits = 0;

  constructor(old: Int32Array, now: Int32Array, numbers: number) {
    [this.#old, this.#now] = [old, now];
    [this.#first, this.#count, this.#regionOf] = [
      new Int32Array(numbers),
      new Int32Array(numbers),
      new Int32Array(numbers),
    ];
    this.#next = new Int32Array(old.length);
  }

  /** Returns undefined if the region has no common lines, and "often" if they cannot be used. */
  *find(region: Region): Steps<Region | "often" | undefined> {
    this.#scan(region);
    let best: Region | undefined;
    let [lowest, hasCommon] = [maxOccurrences + 1, false];
    let nextStep = this.#visits + visitsPerStep;
    for (let at = region.newStart; at < region.newEnd; ) {
      if (this.#visits > maxVisits) return "often";
      if (this.#visits > nextStep) {
        yield;
        nextStep = this.#visits + visitsPerStep;
      }
      this.#visits++;
      const line = this.#now[at] ?? 0;
      let next = at + 1;
      const isCommon = this.#regionOf[line] === this.#region;
      hasCommon ||= isCommon;
      let place = isCommon && (this.#count[line] ?? 0) <= lowest ? (this.#first[line] ?? -1) : -1;
      while (place !== -1) {
        const { found, occurrences } = this.#extend(region, place, at);
        next = Math.max(next, found.newEnd);
        const isLonger = found.oldEnd - found.oldStart > (best ? best.oldEnd - best.oldStart : 1);
        if (isLonger || occurrences < lowest) [best, lowest] = [found, occurrences];
        place = this.#next[place] ?? -1;
        while (place !== -1 && place < found.oldEnd) place = this.#next[place] ?? -1;
      }
      at = next;
    }
    return hasCommon && lowest > maxOccurrences ? "often" : best;
  }

  #scan({ oldStart, oldEnd }: Region): void {
    this.#region++;
    this.#visits += oldEnd - oldStart;
    for (let at = oldEnd - 1; at >= oldStart; at--) {
      const line = this.#old[at] ?? 0;
      const isKnown = this.#regionOf[line] === this.#region;
      this.#next[at] = isKnown ? (this.#first[line] ?? -1) : -1;
      this.#count[line] = isKnown ? (this.#count[line] ?? 0) + 1 : 1;
      this.#first[line] = at;
      this.#regionOf[line] = this.#region;
    }
  }

  /** Extends a common line to the sequence around it, and returns how often its rarest line occurs. */
  #extend(region: Region, place: number, at: number): { found: Region; occurrences: number } {
    const [old, now] = [this.#old, this.#now];
    const countAt = (index: number) => this.#count[old[index] ?? 0] ?? 0;
    let [oldStart, newStart, oldEnd, newEnd] = [place, at, place + 1, at + 1];
    let occurrences = countAt(place);
    while (oldStart > region.oldStart && newStart > region.newStart && old[oldStart - 1] === now[newStart - 1]) {
      oldStart--;
      newStart--;
      occurrences = Math.min(occurrences, countAt(oldStart));
    }
    while (oldEnd < region.oldEnd && newEnd < region.newEnd && old[oldEnd] === now[newEnd]) {
      occurrences = Math.min(occurrences, countAt(oldEnd));
      oldEnd++;
      newEnd++;
    }
    this.#visits += oldEnd - oldStart;
    return { found: { oldStart, oldEnd, newStart, newEnd }, occurrences };
  }
}

/** The lines of a text, of which those that changed are marked. */
class MarkedLines {
  readonly #lines: Int32Array;
  readonly #marks: Uint8Array;

  constructor(lines: Int32Array) {
    this.#lines = lines;
    this.#marks = new Uint8Array(lines.length);
  }

  get length(): number {
    return this.#lines.length;
  }

  isMarked(at: number): boolean {
    return this.#marks[at] === 1;
  }

  mark(start: number, end: number): void {
    this.#marks.fill(1, start, end);
  }

  /** Moves a group of marked lines by one line, if it stays the same change. Joins it with the group that it then touches. */
  slide(group: Group, by: 1 | -1): boolean {
    const [from, to] = by === 1 ? [group.start, group.end] : [group.end - 1, group.start - 1];
    if (to < 0 || to >= this.length || this.#lines[from] !== this.#lines[to]) return false;
    this.#marks[from] = 0;
    this.#marks[to] = 1;
    group.start += by;
    group.end += by;
    this.#grow(group);
    return true;
  }

  /** Returns the group of marked lines at the start, which may be empty. There is one between any two unmarked lines. */
  first(): Group {
    return this.#grow({ start: 0, end: 0 });
  }

  /** Moves to the next or previous group. */
  move(group: Group, by: 1 | -1): boolean {
    const place = by === 1 ? group.end + 1 : group.start - 1;
    if (place < 0 || place > this.length) return false;
    [group.start, group.end] = [place, place];
    this.#grow(group);
    return true;
  }

  #grow(group: Group): Group {
    while (this.isMarked(group.start - 1)) group.start--;
    while (this.isMarked(group.end)) group.end++;
    return group;
  }
}

interface Group {
  start: number;
  end: number;
}

/**
 * Moves each change between equal lines next to a change of the other text if possible, and otherwise down, as git's
 * `xdl_change_compact`. The place decides whether it touches a change of the other side.
 */
function* moveChanges(lines: MarkedLines, others: MarkedLines): Steps<void> {
  const [group, other] = [lines.first(), others.first()];
  do {
    yield;
    if (group.start === group.end) continue;
    let [size, highestEnd, meetsOther] = [0, 0, false];
    do {
      size = group.end - group.start;
      while (lines.slide(group, -1)) others.move(other, -1);
      highestEnd = group.end;
      meetsOther = other.end > other.start;
      while (lines.slide(group, 1)) {
        others.move(other, 1);
        meetsOther ||= other.end > other.start;
      }
    } while (size !== group.end - group.start);
    if (group.end === highestEnd || !meetsOther) continue;
    while (other.start === other.end) {
      lines.slide(group, -1);
      others.move(other, -1);
    }
  } while (lines.move(group, 1) && others.move(other, 1));
}
