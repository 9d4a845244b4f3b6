import { distance } from "fastest-levenshtein";
import {
  alignWithPlace,
  type Folding,
  findLines,
  foldPunctuation,
  foldText,
  hasTypography,
  reindent,
  translateIndentation,
} from "./match-text.ts";

/** The rule that found the place, from exact to least strict. */
type MatchedBy =
  | "exact text"
  | "line endings"
  | "trailing space"
  | "punctuation"
  | "indentation"
  | "first and last line";

/** A place in the content, in UTF-16 units, and its new text. */
export interface Replacement extends Place {
  text: string;
}

interface Place {
  start: number;
  end: number;
}

export type EditMatch =
  | { kind: "found"; by: MatchedBy; replacements: Replacement[] }
  /** Several places match, so none is chosen. At most 20 line numbers, from 1. */
  | { kind: "ambiguous"; by: MatchedBy; lines: number[] }
  /** The lines equal to the old text's first line, at most 20. */
  | { kind: "none"; lines: number[] };

export interface WantedEdit {
  oldText: string;
  newText: string;
  /** Replaces every place instead of requiring a single one. */
  all?: boolean;
}

const maxListedPlaces = 20;
const minAnchoredLines = 3;
const minAnchoredSimilarity = 0.8;
/** The cost of comparing texts is the product of their lengths. */
const maxAnchoredCharacters = 20_000;
/** The search stops after examining this many places with similar lines. */
const maxCandidates = 1_000;

/**
 * Finds the place of an edit: the exact text, or the only place that differs just in line endings, then trailing space,
 * then typographic punctuation, then indentation, then a block with the same first and last line. The first step that
 * finds anything decides. Never chooses among several places.
 */
export function matchEdit(content: string, wanted: WantedEdit): EditMatch {
  const edit = content.startsWith("\uFEFF") ? withoutMark(wanted) : wanted;
  if (edit.oldText === "") return { kind: "none", lines: [] };

  for (const find of findersFor(content, edit.oldText)) {
    const match = find(content, edit);
    if (match) return match;
  }
  return { kind: "none", lines: linesLike(content, edit.oldText) };
}

/** Removes the byte order mark, which belongs to the file, not to its text. */
function withoutMark({ oldText, newText, all }: WantedEdit): WantedEdit {
  return { oldText: oldText.replace(/^\uFEFF(?=.)/s, ""), newText: newText.replace(/^\uFEFF/, ""), all };
}

type Finder = (content: string, edit: WantedEdit) => EditMatch | undefined;

/** Returns the steps that can find anything. A text without trailing space, for example, has none to ignore. */
function findersFor(content: string, oldText: string): Finder[] {
  if (oldText.trim() === "") return [findExact];
  const either = (test: (text: string) => boolean) => test(content) || test(oldText);
  const hasTrailingSpace = either((text) => /[ \t](?:\r?\n|$)/.test(text));
  const hasPunctuation = either(hasTypography);
  return [
    // Lines that differ only in their line endings look the same to the model.
    either((text) => text.includes("\r\n")) ? foldedFinder("line endings") : findExact,
    ...(hasTrailingSpace ? [foldedFinder("trailing space", { trailingSpace: true })] : []),
    ...(hasPunctuation ? [foldedFinder("punctuation", { trailingSpace: true, punctuation: true })] : []),
    findByIndentation,
    findByEnds,
  ];
}

function findExact(content: string, edit: WantedEdit): EditMatch | undefined {
  const starts = edit.all ? occurrences(content, edit.oldText) : overlapping(content, edit.oldText);
  const places = starts.map((start) => ({
    // A place never starts between the two characters of a line ending.
    start: content[start] === "\n" && content[start - 1] === "\r" ? start - 1 : start,
    end: start + edit.oldText.length,
  }));
  return settle(content, { by: "exact text", places, edit });
}

function foldedFinder(by: MatchedBy, { trailingSpace = false, punctuation = false }: Partial<Folding> = {}): Finder {
  return (content, edit) => {
    const haystack = foldText(content, { trailingSpace, punctuation });
    const needle = foldText(edit.oldText, { trailingSpace, punctuation }).text;
    if (needle.trim() === "") return undefined;
    const starts = edit.all ? occurrences(haystack.text, needle) : overlapping(haystack.text, needle);
    // If trailing space was dropped from the old text, the match must end at the end of a line, not inside one.
    const mustEndLine = trailingSpace && /[ \t\u00A0]$/.test(edit.oldText);
    const places = starts.flatMap((at): Place[] => {
      const [start, end] = [haystack.originOf(at), haystack.originOf(at + needle.length)];
      if (start === undefined || end === undefined) return [];
      return mustEndLine && (haystack.text[at + needle.length] ?? "\n") !== "\n" ? [] : [{ start, end }];
    });
    const isExact = places.every(({ start, end }) => content.slice(start, end) === edit.oldText);
    return settle(content, { by: isExact ? "exact text" : by, places, edit });
  };
}

interface Line extends Place {
  /** The line without its line ending. */
  text: string;
}

function locateLines(content: string): Line[] {
  const lines: Line[] = [];
  let start = content.startsWith("\uFEFF") ? 1 : 0;
  for (const match of content.matchAll(/\r\n|\n/g)) {
    lines.push({ start, end: match.index, text: content.slice(start, match.index) });
    start = match.index + match[0].length;
  }
  if (start < content.length) lines.push({ start, end: content.length, text: content.slice(start) });
  return lines;
}

interface Block {
  lines: string[];
  /** The old text ended with a line ending, so the place must too. */
  endsLine: boolean;
}

function blockOf(text: string): Block {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n/);
  const endsLine = lines.length > 1 && lines.at(-1) === "";
  return { lines: endsLine ? lines.slice(0, -1) : lines, endsLine };
}

const loosely = (line: string) => foldPunctuation(line.trim());

function findByIndentation(content: string, edit: WantedEdit): EditMatch | undefined {
  const lines = locateLines(content);
  const block = blockOf(edit.oldText);
  const wanted = block.lines.map(loosely);
  const found = findLines(
    lines.map(({ text }) => loosely(text)),
    wanted,
  );
  const places: Place[] = [];
  const texts: string[] = [];
  let free = 0;
  let failures = 0;
  for (const at of found) {
    if (edit.all && at < free) continue;
    if (failures > maxCandidates) return undefined;
    const fileLines = lines.slice(at, at + wanted.length).map(({ text }) => text);
    const translate = translateIndentation(block.lines, fileLines, edit.newText);
    if (!translate) {
      failures++;
      continue;
    }
    places.push(placeOf(lines, at, wanted.length, block, content));
    texts.push(reindent(edit.newText, translate));
    free = at + wanted.length;
    if (!edit.all && places.length === maxListedPlaces) break;
  }
  return settle(content, { by: "indentation", places, edit, texts });
}

function findByEnds(content: string, edit: WantedEdit): EditMatch | undefined {
  const block = blockOf(edit.oldText);
  const wanted = block.lines.map(loosely);
  const [first, last] = [wanted[0], wanted.at(-1)];
  if (wanted.length < minAnchoredLines || !first || !last || edit.oldText.length > maxAnchoredCharacters) {
    return undefined;
  }

  const lines = locateLines(content);
  const loose = lines.map(({ text }) => loosely(text));
  const slack = Math.max(1, Math.floor(wanted.length / 5));
  const candidates: { at: number; count: number }[] = [];
  let examined = 0;
  for (let at = loose.indexOf(first); at !== -1 && candidates.length < 2; at = loose.indexOf(first, at + 1)) {
    if (++examined > maxCandidates) return undefined;
    for (let count = Math.max(minAnchoredLines, wanted.length - slack); count <= wanted.length + slack; count++) {
      if (loose[at + count - 1] === last) candidates.push({ at, count });
    }
  }
  const [only] = candidates;
  if (candidates.length !== 1 || !only) return undefined;
  const middle = loose.slice(only.at + 1, only.at + only.count - 1).join("\n");
  if (similarity(wanted.slice(1, -1).join("\n"), middle) < minAnchoredSimilarity) return undefined;

  const place = placeOf(lines, only.at, only.count, block, content);
  const translate = translateIndentation(block.lines.slice(0, 1), [lines[only.at]?.text ?? ""], edit.newText);
  const text = translate ? reindent(edit.newText, translate) : edit.newText;
  return settle(content, { by: "first and last line", places: [place], edit, texts: [text] });
}

function similarity(a: string, b: string): number {
  const longer = Math.max(a.length, b.length);
  if (longer > maxAnchoredCharacters) return 0;
  return longer === 0 ? 1 : 1 - distance(a, b) / longer;
}

function placeOf(lines: readonly Line[], at: number, count: number, { endsLine }: Block, content: string): Place {
  const last = lines[at + count - 1];
  const end = endsLine ? (lines[at + count]?.start ?? content.length) : (last?.end ?? content.length);
  return { start: lines[at]?.start ?? 0, end };
}

interface Findings {
  by: MatchedBy;
  places: readonly Place[];
  edit: WantedEdit;
  /** The text for each place. Default: the new text, indented like the place. */
  texts?: readonly string[];
}

function settle(content: string, { by, places, edit, texts }: Findings): EditMatch | undefined {
  if (places.length === 0) return undefined;
  if (places.length > 1 && !edit.all) {
    const lines = places.slice(0, maxListedPlaces).map(({ start }) => lineAt(content, start));
    return { kind: "ambiguous", by, lines };
  }
  const usualEnding = dominantEnding(content);
  const replacements = places.map((place, index) => {
    const text = texts?.[index] ?? alignWithPlace(content, place, edit);
    // Uses the line endings of the place, otherwise those of the file. A file without any takes them as given.
    const ending = /\r?\n/.exec(content.slice(place.start, place.end))?.[0] ?? usualEnding;
    return { ...place, text: ending === undefined ? text : text.replace(/\r\n|\n/g, ending) };
  });
  return { kind: "found", by, replacements };
}

function dominantEnding(content: string): string | undefined {
  const all = content.match(/\r?\n/g) ?? [];
  if (all.length === 0) return undefined;
  return all.filter((ending) => ending === "\r\n").length * 2 > all.length ? "\r\n" : "\n";
}

/** Returns the line number, from 1, of a position in the text. */
function lineAt(content: string, index: number): number {
  let line = 1;
  for (let at = content.indexOf("\n"); at !== -1 && at < index; at = content.indexOf("\n", at + 1)) line++;
  return line;
}

function occurrences(text: string, part: string): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) starts.push(at);
  return starts;
}

/** Finds overlapping occurrences, which count as different places. A few are enough to refuse. */
function overlapping(text: string, part: string): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at !== -1 && starts.length < maxListedPlaces; at = text.indexOf(part, at + 1)) {
    starts.push(at);
  }
  return starts;
}

function linesLike(content: string, oldText: string): number[] {
  const first = oldText
    .split("\n")
    .map(loosely)
    .find((line) => line !== "");
  if (!first) return [];
  return locateLines(content)
    .flatMap(({ text }, index) => (loosely(text) === first ? [index + 1] : []))
    .slice(0, maxListedPlaces);
}

export function applyReplacements(content: string, replacements: readonly Replacement[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end, text } of replacements) {
    parts.push(content.slice(from, start), text);
    from = end;
  }
  parts.push(content.slice(from));
  return parts.join("");
}
