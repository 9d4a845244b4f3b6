import { distance } from "fastest-levenshtein";
import { findLines } from "./find-lines.ts";
import { foldPunctuation } from "./fold-punctuation.ts";

/** How the place was recognised, from exact to least strict. */
type MatchedBy =
  | "exact text"
  | "line endings"
  | "trailing space"
  | "punctuation"
  | "indentation"
  | "first and last line";

/** A place in the content, in UTF-16 units, and what to put there. */
export interface Replacement {
  start: number;
  end: number;
  text: string;
}

export type EditMatch =
  | { kind: "found"; by: MatchedBy; replacements: Replacement[] }
  /** More than one place fits, so none is chosen. Line numbers from 1, at most 20. */
  | { kind: "ambiguous"; by: MatchedBy; lines: number[] }
  /** Lines where the old text's first line stands, at most 20. */
  | { kind: "none"; lines: number[] };

export interface WantedEdit {
  oldText: string;
  newText: string;
  /** Every place instead of the only one. */
  all?: boolean;
}

const listedPlaces = 20;
const anchoredMinLines = 3;
const anchoredSimilarity = 0.8;
// Comparing costs the product of both lengths.
const anchoredMaxLength = 20_000;

/**
 * Finds where an edit belongs: the exact text, or the only place that differs in nothing but line endings, then
 * trailing space, then typographic punctuation, then indentation, then one block with the same first and last line.
 * The first step that finds anything decides. Never chooses among several places.
 */
export function matchEdit(content: string, wanted: WantedEdit): EditMatch {
  const edit = content.startsWith("\uFEFF") ? withoutMark(wanted) : wanted;
  if (edit.oldText === "") return { kind: "none", lines: [] };

  const isBlank = edit.oldText.trim() === "";
  const finders = isBlank ? [findExact] : [findExact, ...normalisedFinders, findShifted, findAnchored];
  for (const find of finders) {
    const match = find(content, edit);
    if (match) return match;
  }
  return { kind: "none", lines: linesLike(content, edit.oldText) };
}

// The mark belongs to the file, not to the text in it.
function withoutMark({ oldText, newText, all }: WantedEdit): WantedEdit {
  return { oldText: oldText.replace(/^\uFEFF(?=.)/s, ""), newText: newText.replace(/^\uFEFF/, ""), all };
}

type Finder = (content: string, edit: WantedEdit) => EditMatch | undefined;

function findExact(content: string, edit: WantedEdit): EditMatch | undefined {
  const starts = edit.all ? occurrences(content, edit.oldText) : overlapping(content, edit.oldText);
  const places = starts.map((start) => ({
    start: splitsLineEnding(content, start) ? start - 1 : start,
    end: start + edit.oldText.length,
  }));
  return settle(content, { by: "exact text", places, edit });
}

function splitsLineEnding(content: string, index: number): boolean {
  return content[index] === "\n" && content[index - 1] === "\r";
}

interface Normalised {
  text: string;
  /** Where each unit of the text begins in the original, and one more for its end. */
  origins: number[];
}

interface Folding {
  by: MatchedBy;
  trailingSpace: boolean;
  punctuation: boolean;
}

const foldings: Folding[] = [
  { by: "line endings", trailingSpace: false, punctuation: false },
  { by: "trailing space", trailingSpace: true, punctuation: false },
  { by: "punctuation", trailingSpace: true, punctuation: true },
];

const normalisedFinders: Finder[] = foldings.map((folding) => (content, edit) => {
  const haystack = normalise(content, folding);
  const needle = normalise(edit.oldText, folding).text;
  if (needle.trim() === "") return undefined;
  const starts = edit.all ? occurrences(haystack.text, needle) : overlapping(haystack.text, needle);
  // Space that was dropped from the end of the old text must stand at the end of a line, not inside one.
  const mustEndLine = folding.trailingSpace && /[ \t\u00A0]$/.test(edit.oldText);
  const places = starts
    .filter((start) => isWhole(haystack, start) && isWhole(haystack, start + needle.length))
    .filter((start) => !mustEndLine || (haystack.text[start + needle.length] ?? "\n") === "\n")
    .map((start) => ({
      start: haystack.origins[start] ?? content.length,
      end: haystack.origins[start + needle.length] ?? content.length,
    }));
  return settle(content, { by: folding.by, places, edit });
});

/** False inside a character that was folded to several. */
function isWhole({ origins }: Normalised, index: number): boolean {
  return index === 0 || origins[index - 1] !== origins[index];
}

function normalise(text: string, { trailingSpace, punctuation: folds }: Folding): Normalised {
  const units: string[] = [];
  const origins: number[] = [];
  // Where spaces began that turn out to be trailing, in units.
  let spaceFrom = 0;
  for (let index = text.startsWith("\uFEFF") ? 1 : 0; index < text.length; index++) {
    const at = index;
    let unit = text.charAt(index);
    if (unit === "\r" && text[index + 1] === "\n") {
      unit = "\n";
      index++;
    }
    for (const folded of folds ? foldPunctuation(unit) : unit) {
      if (folded === "\n" && trailingSpace) {
        units.length = spaceFrom;
        origins.length = spaceFrom;
      }
      units.push(folded);
      origins.push(at);
      if (folded !== " " && folded !== "\t") spaceFrom = units.length;
    }
  }
  if (trailingSpace) {
    units.length = spaceFrom;
    origins.length = spaceFrom;
  }
  origins.push(text.length);
  return { text: units.join(""), origins };
}

interface Line {
  start: number;
  /** Without the line ending. */
  end: number;
  text: string;
}

function splitLines(content: string): Line[] {
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
  /** The old text ended with a line ending, so the place does too. */
  endsLine: boolean;
}

function blockOf(text: string): Block {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n/);
  const endsLine = lines.length > 1 && lines.at(-1) === "";
  return { lines: endsLine ? lines.slice(0, -1) : lines, endsLine };
}

const loosely = (line: string) => foldPunctuation(line.trim());
const indentOf = (line: string) => /^[ \t]*/.exec(line)?.[0] ?? "";

function findShifted(content: string, edit: WantedEdit): EditMatch | undefined {
  const lines = splitLines(content);
  const block = blockOf(edit.oldText);
  const loose = lines.map(({ text }) => loosely(text));
  const wanted = block.lines.map(loosely);
  const places: (Place & { shift: Shift })[] = [];
  let free = 0;
  for (const at of findLines(loose, wanted)) {
    if (edit.all && at < free) continue;
    const found = lines.slice(at, at + wanted.length);
    const shift = shiftBetween(
      block.lines,
      found.map(({ text }) => text),
    );
    if (!shift) continue;
    places.push({ ...placeOf(lines, at, wanted.length, block, content), shift });
    free = at + wanted.length;
    if (!edit.all && places.length === listedPlaces) break;
  }
  const texts = places.map(({ shift }) => applyShift(edit.newText, shift));
  return settle(content, { by: "indentation", places, edit, texts });
}

type Shift = { add: string } | { remove: string };

/** The one indentation that turns every line of `from` into its counterpart; undefined when there is no such. */
function shiftBetween(from: readonly string[], to: readonly string[]): Shift | undefined {
  let shift: Shift | undefined;
  for (const [index, line] of from.entries()) {
    if (line.trim() === "") continue;
    const [mine, theirs] = [indentOf(line), indentOf(to[index] ?? "")];
    const next: Shift | undefined = theirs.endsWith(mine)
      ? { add: theirs.slice(0, theirs.length - mine.length) }
      : mine.endsWith(theirs)
        ? { remove: mine.slice(0, mine.length - theirs.length) }
        : undefined;
    if (!next) return undefined;
    if (shift && JSON.stringify(shift) !== JSON.stringify(next)) return undefined;
    shift = next;
  }
  return shift;
}

function applyShift(text: string, shift: Shift): string {
  const lines = text.split("\n");
  if ("add" in shift) return lines.map((line) => (line.trim() === "" ? line : shift.add + line)).join("\n");
  return lines
    .map((line) => (line.startsWith(shift.remove) ? line.slice(shift.remove.length) : line.trimStart()))
    .join("\n");
}

function findAnchored(content: string, edit: WantedEdit): EditMatch | undefined {
  const block = blockOf(edit.oldText);
  const wanted = block.lines.map(loosely);
  const [first, last] = [wanted[0], wanted.at(-1)];
  if (wanted.length < anchoredMinLines || !first || !last || edit.oldText.length > anchoredMaxLength) return undefined;

  const lines = splitLines(content);
  const loose = lines.map(({ text }) => loosely(text));
  const slack = Math.max(1, Math.floor(wanted.length / 5));
  const candidates: { at: number; count: number }[] = [];
  for (let at = 0; at < loose.length && candidates.length < 2; at++) {
    if (loose[at] !== first) continue;
    for (let count = Math.max(anchoredMinLines, wanted.length - slack); count <= wanted.length + slack; count++) {
      if (loose[at + count - 1] === last) candidates.push({ at, count });
    }
  }
  const [only] = candidates;
  if (candidates.length !== 1 || !only) return undefined;
  const middle = loose.slice(only.at + 1, only.at + only.count - 1).join("\n");
  if (similarity(wanted.slice(1, -1).join("\n"), middle) < anchoredSimilarity) return undefined;

  const place = placeOf(lines, only.at, only.count, block, content);
  const shift = shiftBetween(block.lines.slice(0, 1), [lines[only.at]?.text ?? ""]);
  const text = shift ? applyShift(edit.newText, shift) : edit.newText;
  return settle(content, { by: "first and last line", places: [place], edit, texts: [text] });
}

function similarity(a: string, b: string): number {
  const longer = Math.max(a.length, b.length);
  if (longer > anchoredMaxLength) return 0;
  return longer === 0 ? 1 : 1 - distance(a, b) / longer;
}

interface Place {
  start: number;
  end: number;
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
  /** What goes to each place, where it is not simply the new text. */
  texts?: readonly string[];
}

function settle(content: string, { by, places, edit, texts }: Findings): EditMatch | undefined {
  if (places.length === 0) return undefined;
  if (places.length > 1 && !edit.all) {
    const lines = places.slice(0, listedPlaces).map(({ start }) => lineAt(content, start));
    return { kind: "ambiguous", by, lines };
  }
  const replacements = places.map((place, index) => ({
    ...place,
    text: withLineEndings(texts?.[index] ?? edit.newText, content, place),
  }));
  return { kind: "found", by, replacements };
}

/** The new text with the line endings of the place it goes to; as given where the file has none. */
function withLineEndings(text: string, content: string, { start, end }: Place): string {
  const ending = /\r?\n/.exec(content.slice(start, end))?.[0] ?? dominantEnding(content);
  return ending === undefined ? text : text.replace(/\r\n|\n/g, ending);
}

function dominantEnding(content: string): string | undefined {
  const all = content.match(/\r?\n/g) ?? [];
  if (all.length === 0) return undefined;
  return all.filter((ending) => ending === "\r\n").length * 2 > all.length ? "\r\n" : "\n";
}

/** Line number, from 1, of a place in the text. */
export function lineAt(content: string, index: number): number {
  let line = 1;
  for (let at = content.indexOf("\n"); at !== -1 && at < index; at = content.indexOf("\n", at + 1)) line++;
  return line;
}

function occurrences(text: string, part: string): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) starts.push(at);
  return starts;
}

// Occurrences that overlap are different places too; a few are enough to refuse.
function overlapping(text: string, part: string): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at !== -1 && starts.length < listedPlaces; at = text.indexOf(part, at + 1)) {
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
  return splitLines(content)
    .flatMap(({ text }, index) => (loosely(text) === first ? [index + 1] : []))
    .slice(0, listedPlaces);
}

/** The content with every replacement made. */
export function applyReplacements(content: string, replacements: readonly Replacement[]): string {
  let result = "";
  let from = 0;
  for (const { start, end, text } of replacements) {
    result += content.slice(from, start) + text;
    from = end;
  }
  return result + content.slice(from);
}
