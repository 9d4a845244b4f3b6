import type { Steps } from "#domain/async-work.ts";
import { DiffBudget, splitWithEndings } from "#sandbox/diff-file.ts";
import { compareAsGitMerge, type LineChange } from "./histogram-diff.ts";

export interface MergedText {
  content: Buffer;
  /** False when both sides changed the same lines; the content then has conflict markers. */
  clean: boolean;
}

/** The names of both sides in conflict markers. */
export interface MergeLabels {
  ours: string;
  theirs: string;
  /** 1 or more between merge bases, whose markers are longer the deeper they are. */
  level?: number;
}

const binaryCheckBytes = 8_000;

/**
 * Merges three versions of a text line by line, with the same results as `git merge`: adjacent changes conflict unless
 * they are equal. Returns undefined if one version is binary. Written by hand because node-diff3 took 39 s for 20,000
 * lines with 500 different ones, and places changes elsewhere than git.
 */
export function* mergeFile(
  { ours, base, theirs }: Record<"ours" | "base" | "theirs", Uint8Array>,
  labels: MergeLabels,
): Steps<MergedText | undefined> {
  if ([ours, base, theirs].some((content) => content.subarray(0, binaryCheckBytes).includes(0))) return undefined;

  const lines = yield* linesOf(base);
  const budget = new DiffBudget();
  const [own, other] = [
    yield* compareAsGitMerge(lines, yield* linesOf(ours), budget),
    yield* compareAsGitMerge(lines, yield* linesOf(theirs), budget),
  ];
  const pieces: Piece[] = [];
  let at = 0;
  for (const region of regionsOf(own, other)) {
    yield;
    pieces.push({ kind: "same", lines: lines.slice(at, region.start) });
    const [left, right] = [applyChanges(lines, region, region.own), applyChanges(lines, region, region.other)];
    at = region.end;
    if (region.own.length === 0) pieces.push({ kind: "changed", lines: right });
    else if (region.other.length === 0) pieces.push({ kind: "changed", lines: left });
    else if (left.join("") === right.join("")) pieces.push({ kind: "same", lines: left });
    else pieces.push(...(yield* splitConflict(left, right, budget)));
  }
  const merged = joinConflicts([...pieces, { kind: "same", lines: lines.slice(at) }]);
  const clean = merged.every(({ kind }) => kind !== "conflict");
  const ending = [ours, base, theirs].every(usesCarriageReturns) ? "\r\n" : "\n";
  return { content: Buffer.from(merged.map((piece) => writePiece(piece, labels, ending)).join(""), "latin1"), clean };
}

/** Lines that are in both sides, that one side changed, or that both changed differently. */
type Piece = { kind: "same" | "changed"; lines: string[] } | { kind: "conflict"; left: string[]; right: string[] };

/** Separates the lines of a conflict that are in both sides. */
function* splitConflict(left: string[], right: string[], budget: DiffBudget): Steps<Piece[]> {
  if (left.length === 0 || right.length === 0) return [{ kind: "conflict", left, right }];
  const pieces: Piece[] = [];
  let at = 0;
  for (const { start, end, lines } of yield* compareAsGitMerge(left, right, budget)) {
    pieces.push({ kind: "same", lines: left.slice(at, start) });
    pieces.push({ kind: "conflict", left: left.slice(start, end), right: lines });
    at = end;
  }
  return [...pieces, { kind: "same", lines: left.slice(at) }];
}

const maxLinesBetween = 3;

/** Makes one conflict of those that only a few lines separate. Changes the pieces. */
function joinConflicts(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = [];
  for (const piece of pieces) {
    const [before, between] = [joined.at(-2), joined.at(-1)];
    const isNear = between?.kind === "same" && between.lines.length <= maxLinesBetween;
    if (piece.kind === "same" && between?.kind === "same") append(between.lines, piece.lines);
    else if (piece.kind === "conflict" && before?.kind === "conflict" && isNear) {
      for (const side of ["left", "right"] as const) append(before[side], between.lines, piece[side]);
      joined.pop();
    } else joined.push(piece);
  }
  return joined;
}

function append(lines: string[], ...more: readonly string[][]): void {
  for (const added of more) for (const line of added) lines.push(line);
}

/** Splits into lines with one character for each byte, since a text may have any encoding. */
function linesOf(content: Uint8Array): Steps<string[]> {
  return splitWithEndings(Buffer.from(content).toString("latin1"));
}

/** True if the first line ends with a carriage return, or if there is none. */
function usesCarriageReturns(content: Uint8Array): boolean {
  const end = content.indexOf(0x0a);
  return end === -1 ? content.length === 0 : content[end - 1] === 0x0d;
}

interface Region {
  start: number;
  end: number;
  own: LineChange[];
  other: LineChange[];
}

/** Returns the changes of both sides, each with all that touch it. */
function* regionsOf(own: readonly LineChange[], other: readonly LineChange[]): Generator<Region> {
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
  changes: readonly LineChange[],
): string[] {
  const parts: (readonly string[])[] = [];
  let at = region.start;
  for (const { start, end, lines } of changes) {
    parts.push(base.slice(at, start), lines);
    at = end;
  }
  return [...parts, base.slice(at, region.end)].flat();
}

/** Returns the lines of a piece; those of a conflict between markers. */
function writePiece(piece: Piece, { ours, theirs, level = 0 }: MergeLabels, ending: string): string {
  if (piece.kind !== "conflict") return piece.lines.join("");
  const marker = (character: string, label = "") =>
    Buffer.from(character.repeat(7 + 2 * level) + label).toString("latin1") + ending;
  const closed = (text: string) => (text === "" || text.endsWith("\n") ? text : `${text}${ending}`);
  const [left, right] = [piece.left.join(""), piece.right.join("")];
  return marker("<", ` ${ours}`) + closed(left) + marker("=") + closed(right) + marker(">", ` ${theirs}`);
}
