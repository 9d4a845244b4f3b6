import { distance } from "fastest-levenshtein";
import {
  alignWithPlace,
  type Folding,
  findLines,
  foldPunctuation,
  foldText,
  hasTypography,
  lineStarts,
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

  const loose = new LooseContent(content);
  for (const find of findersFor(content, edit.oldText)) {
    const match = find(content, edit, loose);
    if (match) return match;
  }
  return { kind: "none", lines: loose.linesLike(edit.oldText) };
}

/** Removes the byte order mark, which belongs to the file, not to its text. */
function withoutMark({ oldText, newText, all }: WantedEdit): WantedEdit {
  return { oldText: oldText.replace(/^\uFEFF(?=.)/s, ""), newText: newText.replace(/^\uFEFF/, ""), all };
}

type Finder = (content: string, edit: WantedEdit, loose: LooseContent) => EditMatch | undefined;

/** Yields the steps that can find anything. A text without trailing space, for example, has none to ignore. */
function* findersFor(content: string, oldText: string): Iterable<Finder> {
  if (oldText.trim() === "") return yield findExact;
  const either = (test: (text: string) => boolean) => test(oldText) || test(content);
  // Lines that differ only in their line endings look the same to the model.
  yield either((text) => text.includes("\r\n")) ? foldedFinder("line endings") : findExact;
  if (either((text) => /[ \t](?:\r?\n|$)/.test(text))) yield foldedFinder("trailing space", { trailingSpace: true });
  if (either(hasTypography)) yield foldedFinder("punctuation", { trailingSpace: true, punctuation: true });
  yield findByIndentation;
  yield findByEnds;
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

/** The lines of a content without the space around them and with folded punctuation. Computed when first needed. */
class LooseContent {
  readonly #content: string;
  #folded: string | undefined;
  #lines: string[] | undefined;

  constructor(content: string) {
    this.#content = content;
  }

  get #text(): string {
    this.#folded ??= foldPunctuation(this.#content);
    return this.#folded;
  }

  get lines(): readonly string[] {
    if (this.#lines) return this.#lines;
    const lines = this.#text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    this.#lines = lines.map((line) => line.trim());
    return this.#lines;
  }

  /** False if no line can be equal to the given one. Far cheaper than comparing it with all lines. */
  mayHave(line: string): boolean {
    return this.#text.includes(line);
  }

  /** Returns the numbers, from 1, of the lines equal to the first line of the old text that is not blank, at most 20. */
  linesLike(oldText: string): number[] {
    const wanted = oldText
      .split("\n")
      .map(loosely)
      .find((line) => line !== "");
    const found: number[] = [];
    if (!wanted) return found;

    const text = this.#text;
    let number = 1;
    let start = 0;
    for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, start)) {
      let end = text.indexOf("\n", start);
      for (; end !== -1 && end < at; end = text.indexOf("\n", start)) {
        number++;
        start = end + 1;
      }
      const line = text.slice(start, end === -1 ? text.length : end);
      if (line.trim() === wanted) found.push(number);
      if (end === -1 || found.length === maxListedPlaces) break;
      number++;
      start = end + 1;
    }
    return found;
  }
}

/** The lines of a text with their positions, without its byte order mark. */
class Lines {
  readonly #content: string;
  readonly #starts: number[];

  constructor(content: string) {
    this.#content = content;
    this.#starts = lineStarts(content, content.startsWith("\uFEFF") ? 1 : 0);
  }

  /** Returns the lines from an index on, without line endings. */
  slice(at: number, count: number): string[] {
    return Array.from({ length: count }, (_, index) => {
      const { start, end } = this.placeOf(at + index, 1, false);
      return this.#content.slice(start, end);
    });
  }

  /** Returns the place of several lines, with or without the last one's line ending. */
  placeOf(at: number, count: number, withEnding: boolean): Place {
    const start = this.#starts[at] ?? 0;
    const next = this.#starts[at + count];
    if (next === undefined) return { start, end: this.#content.length };
    return { start, end: withEnding ? next : next - (this.#content[next - 2] === "\r" ? 2 : 1) };
  }
}

function findByIndentation(content: string, edit: WantedEdit, loose: LooseContent): EditMatch | undefined {
  const block = blockOf(edit.oldText);
  const wanted = block.lines.map(loosely);
  const longest = wanted.reduce((a, b) => (b.length > a.length ? b : a), "");
  const found = loose.mayHave(longest) ? findLines(loose.lines, wanted) : [];
  if (found.length === 0) return undefined;

  const lines = new Lines(content);
  const places: Place[] = [];
  const texts: string[] = [];
  let free = 0;
  let failures = 0;
  for (const at of found) {
    if (edit.all && at < free) continue;
    if (failures > maxCandidates) return undefined;
    const translate = translateIndentation(block.lines, lines.slice(at, wanted.length), edit.newText);
    if (!translate) {
      failures++;
      continue;
    }
    places.push(lines.placeOf(at, wanted.length, block.endsLine));
    texts.push(reindent(edit.newText, translate));
    free = at + wanted.length;
    if (!edit.all && places.length === maxListedPlaces) break;
  }
  return settle(content, { by: "indentation", places, edit, texts });
}

function findByEnds(content: string, edit: WantedEdit, loose: LooseContent): EditMatch | undefined {
  const block = blockOf(edit.oldText);
  const wanted = block.lines.map(loosely);
  const [first, last] = [wanted[0], wanted.at(-1)];
  if (wanted.length < minAnchoredLines || !first || !last || edit.oldText.length > maxAnchoredCharacters) {
    return undefined;
  }
  if (!loose.mayHave(first) || !loose.mayHave(last)) return undefined;

  const slack = Math.max(1, Math.floor(wanted.length / 5));
  const candidates: { at: number; count: number }[] = [];
  let examined = 0;
  for (
    let at = loose.lines.indexOf(first);
    at !== -1 && candidates.length < 2;
    at = loose.lines.indexOf(first, at + 1)
  ) {
    if (++examined > maxCandidates) return undefined;
    for (let count = Math.max(minAnchoredLines, wanted.length - slack); count <= wanted.length + slack; count++) {
      if (loose.lines[at + count - 1] === last) candidates.push({ at, count });
    }
  }
  const [only] = candidates;
  if (candidates.length !== 1 || !only) return undefined;
  const middle = loose.lines.slice(only.at + 1, only.at + only.count - 1).join("\n");
  if (similarity(wanted.slice(1, -1).join("\n"), middle) < minAnchoredSimilarity) return undefined;

  const lines = new Lines(content);
  const place = lines.placeOf(only.at, only.count, block.endsLine);
  const translate = translateIndentation(block.lines.slice(0, 1), lines.slice(only.at, 1), edit.newText);
  const text = translate ? reindent(edit.newText, translate) : edit.newText;
  return settle(content, { by: "first and last line", places: [place], edit, texts: [text] });
}

function similarity(a: string, b: string): number {
  const longer = Math.max(a.length, b.length);
  if (longer > maxAnchoredCharacters) return 0;
  return longer === 0 ? 1 : 1 - distance(a, b) / longer;
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
    return { kind: "ambiguous", by, lines: lineNumbers(content, places.slice(0, maxListedPlaces)) };
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
  if (!content.includes("\n")) return undefined;
  if (!content.includes("\r\n")) return "\n";
  return occurrences(content, "\r\n").length * 2 > occurrences(content, "\n").length ? "\r\n" : "\n";
}

/** Returns the line numbers, from 1, at which places start that are in order. */
function lineNumbers(content: string, places: readonly Place[]): number[] {
  let line = 1;
  let at = content.indexOf("\n");
  return places.map(({ start }) => {
    for (; at !== -1 && at < start; at = content.indexOf("\n", at + 1)) line++;
    return line;
  });
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
