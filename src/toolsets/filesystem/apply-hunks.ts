import type { Steps } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import { findLines, foldPunctuation, hasTypography } from "./match-text.ts";
import type { PatchHunk } from "./parse-patch.ts";

export interface AppliedHunks {
  text: string;
  /** The location of each hunk, in lines of the original text. */
  locations: HunkLocation[];
}

interface Line {
  text: string;
  /** The line ending; empty if the file ends without one. */
  ending: string;
}

/** Applies hunks, one per step. Unchanged lines keep their bytes, including line endings and byte order mark. */
export function* applyHunks(content: string, hunks: readonly PatchHunk[], path: string): Steps<AppliedHunks> {
  const mark = content.startsWith("\uFEFF") ? "\uFEFF" : "";
  const lines = parseLines(content.slice(mark.length));
  const ending = commonEnding(lines);
  const locator = new HunkLocator(
    lines.map(({ text }) => text),
    path,
  );
  const located: { hunk: PatchHunk; location: HunkLocation }[] = [];
  for (const hunk of hunks) {
    yield;
    located.push({ hunk, location: locator.locate(hunk) });
  }
  const ordered = located.toSorted((a, b) => a.location.at - b.location.at);
  const result: Line[] = [];
  let from = 0;
  for (const { hunk, location } of ordered) {
    const end = location.at + location.count;
    if (location.at < from) throw overlap(path, location);
    for (const line of lines.slice(from, location.at)) result.push(line);
    for (const line of newLines(lines.slice(location.at, end), hunk, ending)) result.push(line);
    from = end;
    const last = result.at(-1);
    if (hunk.endsWithoutNewline && from === lines.length && last) last.ending = "";
  }
  for (const line of lines.slice(from)) result.push(line);
  const joined = result.map(
    ({ text, ending: own }, index) => text + (own || (index < result.length - 1 ? ending : "")),
  );
  return { text: mark + joined.join(""), locations: located.map(({ location }) => location) };
}

function newLines(old: readonly Line[], hunk: PatchHunk, ending: string): Line[] {
  const lines: Line[] = [];
  let at = 0;
  for (const { mark, text, ending: given = ending } of hunk.lines) {
    const current = old[at];
    if (mark === "+") lines.push({ text, ending: given });
    else at++;
    // The file's own version of a context line is kept, since the patch may lack its trailing space.
    if (mark === " " && current) lines.push({ ...current });
  }
  return lines;
}

function parseLines(content: string): Line[] {
  const lines: Line[] = [];
  let from = 0;
  for (const match of content.matchAll(/\r\n|\n/g)) {
    lines.push({ text: content.slice(from, match.index), ending: match[0] });
    from = match.index + match[0].length;
  }
  if (from < content.length) lines.push({ text: content.slice(from), ending: "" });
  return lines;
}

function commonEnding(lines: readonly Line[]): string {
  const windows = lines.filter(({ ending }) => ending === "\r\n").length;
  return windows * 2 > lines.length ? "\r\n" : "\n";
}

function overlap(path: string, { at }: HunkLocation): ToolError {
  return new ToolError(`Two hunks of the patch for ${path} change the same lines, at line ${at + 1}.`, {
    code: "CONFLICT",
    suggestion: "Join them into one hunk.",
  });
}

/** The location of a hunk: it replaces `count` lines from index `at`, counted from 0. */
export interface HunkLocation {
  at: number;
  count: number;
}

/** Ways to compare lines, from exact to least strict. */
const folds: ((lines: readonly string[]) => readonly string[])[] = [
  (lines) => lines,
  (lines) => lines.map((line) => line.trimEnd()),
  (lines) => foldLines(lines).map((line) => line.trimEnd()),
];

/** Folds the punctuation of all lines at once. */
function foldLines(lines: readonly string[]): readonly string[] {
  const text = lines.join("\n");
  return hasTypography(text) ? foldPunctuation(text).split("\n") : lines;
}

/** Locates the hunks of a patch in the lines of a file. */
class HunkLocator {
  readonly #lines: readonly string[];
  readonly #path: string;
  readonly #folded: (readonly string[])[] = [];
  #loose: readonly string[] | undefined;

  constructor(lines: readonly string[], path: string) {
    this.#lines = lines;
    this.#path = path;
  }

  /**
   * Finds the location of a hunk by its old lines: exactly, then ignoring trailing space, then ignoring typographic
   * punctuation. Anchors restrict the locations, and line numbers choose among them. Throws a ToolError if there is no
   * location below the anchors, or more than one.
   */
  locate(hunk: PatchHunk): HunkLocation {
    const old = hunk.lines.filter(({ mark }) => mark !== "+").map(({ text }) => text);
    const anchors = this.#findAnchors(hunk.anchors ?? []);
    if (old.length === 0) return this.#locateInsertion(hunk, anchors);

    let isAboveAnchor = false;
    for (const [index, fold] of folds.entries()) {
      this.#folded[index] ??= fold(this.#lines);
      const found = findLines(this.#folded[index], fold(old)).filter(
        (at) => !hunk.isAtEnd || at + old.length === this.#lines.length,
      );
      const allowed = anchors ? this.#below(anchors, found) : found;
      const chosen = allowed.length > 1 ? allowed.find((at) => at + 1 === hunk.oldStart) : allowed[0];
      if (chosen !== undefined) return { at: chosen, count: old.length };
      if (allowed.length > 1) throw this.#ambiguous(allowed);
      isAboveAnchor ||= found.length > 0;
    }
    throw this.#noMatch(hunk, old, isAboveAnchor);
  }

  /** Returns the lines on which the last of nested anchors occurs; undefined for a hunk without anchors. */
  #findAnchors(anchors: readonly string[]): number[] | undefined {
    let found: number[] | undefined;
    for (const anchor of anchors) {
      const all = this.#linesLike(anchor);
      const outer = found;
      found = outer ? outer.flatMap((line) => all.find((candidate) => candidate > line) ?? []) : all;
      if (found.length === 0) throw this.#missingAnchor(anchor);
    }
    return found && [...new Set(found)];
  }

  /** Returns the lines equal to the anchor, ignoring surrounding space; otherwise the only line that starts with it. */
  #linesLike(anchor: string): number[] {
    const wanted = foldPunctuation(anchor).trim();
    this.#loose ??= foldLines(this.#lines).map((line) => line.trim());
    const loose = this.#loose;
    const equal = loose.flatMap((line, index) => (line === wanted ? [index] : []));
    if (equal.length > 0) return equal;
    const beginning = loose.flatMap((line, index) => (line.startsWith(wanted) ? [index] : []));
    return beginning.length === 1 ? beginning : [];
  }

  /** Returns the locations at or below an anchor, limited to those inside the anchor's block if there are any. */
  #below(anchors: readonly number[], found: readonly number[]): number[] {
    const below = found.filter((at) => anchors.some((anchor) => at >= anchor));
    const inBlock = below.filter((at) => anchors.some((anchor) => at >= anchor && this.#isInBlock(anchor, at)));
    return inBlock.length > 0 ? inBlock : below;
  }

  /** True if everything between the anchor and the location is indented more deeply than the anchor. */
  #isInBlock(anchor: number, at: number): boolean {
    const indent = (line: string) => line.length - line.trimStart().length;
    const depth = indent(this.#lines[anchor] ?? "");
    return this.#lines.slice(anchor + 1, at).every((line) => line.trim() === "" || indent(line) > depth);
  }

  #locateInsertion({ oldStart, isAtEnd }: PatchHunk, anchors: number[] | undefined): HunkLocation {
    if (this.#lines.length === 0) return { at: 0, count: 0 };
    if (isAtEnd) return { at: this.#lines.length, count: 0 };
    if (anchors && anchors.length > 1) throw this.#ambiguous(anchors);
    const [anchor] = anchors ?? [];
    if (anchor !== undefined) return { at: anchor + 1, count: 0 };
    if (oldStart !== undefined && oldStart <= this.#lines.length) return { at: oldStart, count: 0 };
    throw new ToolError(`The patch adds lines to ${this.#path} without saying where.`, {
      code: "NO_MATCH",
      suggestion: "Include the unchanged line before the new ones, marked with a space.",
    });
  }

  #missingAnchor(anchor: string): ToolError {
    return new ToolError(`${this.#path} has no line ${JSON.stringify(anchor.trim())}, which a hunk has after @@.`, {
      code: "NO_MATCH",
      suggestion: `Call read_file with ${JSON.stringify({ path: this.#path })} and put a line of the file after @@, or nothing.`,
    });
  }

  #noMatch({ anchors }: PatchHunk, old: readonly string[], isAboveAnchor: boolean): ToolError {
    const lines = JSON.stringify(old.slice(0, 3));
    const place = isAboveAnchor ? ` below ${JSON.stringify(anchors?.at(-1)?.trim())}` : "";
    return new ToolError(`The patch does not match ${this.#path}: there are no lines like ${lines}${place}.`, {
      code: "NO_MATCH",
      suggestion: `Call read_file with ${JSON.stringify({ path: this.#path })} and make the patch from the lines as they are now.`,
    });
  }

  #ambiguous(found: readonly number[]): ToolError {
    const numbers = found.slice(0, 20).map((at) => at + 1);
    return new ToolError(`The patch matches ${this.#path} in several places: lines ${numbers.join(", ")}.`, {
      code: "AMBIGUOUS_MATCH",
      suggestion: "Include more unchanged lines around the change.",
      details: { lines: numbers },
    });
  }
}
