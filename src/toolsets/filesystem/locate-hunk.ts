import { ToolError } from "#domain/errors.ts";
import { findLines } from "./find-lines.ts";
import { foldPunctuation } from "./fold-punctuation.ts";
import { type Hunk, sideOf } from "./patch.ts";

/** Where a hunk applies: it takes the place of `count` lines from index `at`, counted from 0. */
export interface HunkLocation {
  at: number;
  count: number;
}

const folds: ((line: string) => string)[] = [
  (line) => line,
  (line) => line.trimEnd(),
  (line) => foldPunctuation(line).trimEnd(),
];

/**
 * Finds the place of a hunk by its old lines, exactly, then without trailing space, then without typographic
 * punctuation. Line numbers and anchors only choose among places whose text fits; where none chooses, a ToolError
 * lists them all.
 */
export function locateHunk(lines: readonly string[], hunk: Hunk, path: string): HunkLocation {
  const old = sideOf(hunk, "-");
  if (old.length === 0) return placeInsertion(lines, hunk, path);
  for (const fold of folds) {
    const places = findLines(lines.map(fold), old.map(fold));
    const chosen = choose(places, lines, hunk);
    if (chosen !== undefined) return { at: chosen, count: old.length };
    if (places.length > 0) throw ambiguous(places, path);
  }
  throw new ToolError(`The patch does not fit ${path}: it has no lines like ${JSON.stringify(old.slice(0, 3))}.`, {
    code: "NO_MATCH",
    suggestion: `Call read_file with ${JSON.stringify({ path })} and make the patch from the lines as they are now.`,
  });
}

function choose(places: readonly number[], lines: readonly string[], { oldStart, anchor }: Hunk): number | undefined {
  if (places.length < 2) return places[0];
  if (oldStart !== undefined && places.includes(oldStart - 1)) return oldStart - 1;
  if (anchor === undefined) return undefined;

  const anchors = anchorsIn(lines, anchor);
  const [from] = anchors;
  if (from === undefined || anchors.length > 1) return undefined;
  const below = places.filter((place) => place > from);
  const inBlock = below.filter((place) => isInBlock(lines, from, place));
  const [only] = inBlock.length > 0 ? inBlock : below;
  return (inBlock.length || below.length) === 1 ? only : undefined;
}

function anchorsIn(lines: readonly string[], anchor: string): number[] {
  return lines.flatMap((line, index) => (line.trim() === anchor.trim() ? [index] : []));
}

/** True when everything between the anchor and the place is indented deeper than the anchor. */
function isInBlock(lines: readonly string[], anchor: number, place: number): boolean {
  const indent = (line: string) => line.length - line.trimStart().length;
  const depth = indent(lines[anchor] ?? "");
  return lines.slice(anchor + 1, place).every((line) => line.trim() === "" || indent(line) > depth);
}

function placeInsertion(lines: readonly string[], { oldStart, anchor }: Hunk, path: string): HunkLocation {
  if (lines.length === 0) return { at: 0, count: 0 };
  const anchors = anchor === undefined ? [] : anchorsIn(lines, anchor);
  if (anchors.length === 1 && anchors[0] !== undefined) return { at: anchors[0] + 1, count: 0 };
  if (anchors.length > 1) throw ambiguous(anchors, path);
  if (oldStart !== undefined && anchor === undefined && oldStart <= lines.length) return { at: oldStart, count: 0 };
  throw new ToolError(`The patch adds lines to ${path} without saying where.`, {
    code: "NO_MATCH",
    suggestion: "Include the unchanged line before the new ones, marked with a space.",
  });
}

function ambiguous(places: readonly number[], path: string): ToolError {
  const numbers = places.slice(0, 20).map((place) => place + 1);
  return new ToolError(`The patch fits ${path} at several places: lines ${numbers.join(", ")}.`, {
    code: "AMBIGUOUS_MATCH",
    suggestion: "Include more unchanged lines around the change.",
    details: { lines: numbers },
  });
}
