/** The differences to ignore, in addition to line endings. */
export interface Folding {
  trailingSpace: boolean;
  punctuation: boolean;
}

/** A text without the ignored differences, with a mapping to positions in the original. */
export interface FoldedText {
  text: string;
  /** The position in the original; undefined inside a character that was folded to several. */
  originOf(index: number): number | undefined;
}

/** Folds a whole text at once. The lines of its original are located when a position is first asked for. */
export function foldText(original: string, { trailingSpace, punctuation }: Folding): FoldedText {
  const mark = original.startsWith("\uFEFF") ? 1 : 0;
  const body = original.slice(mark);
  let text = body.replaceAll("\r\n", "\n");
  if (punctuation) text = foldPunctuation(text);
  if (trailingSpace) text = text.replace(/(?<![ \t])[ \t]+(?=\n|$)/g, "");
  if (text === body) return { text, originOf: (index) => index + mark };

  let starts: { folded: number[]; original: number[] } | undefined;
  return {
    text,
    originOf(index) {
      starts ??= { folded: lineStarts(text), original: lineStarts(original, mark) };
      const number = lineNumber(starts.folded, index);
      const start = starts.folded[number] ?? 0;
      const end = (starts.folded[number + 1] ?? text.length + 1) - 1;
      const originalStart = starts.original[number] ?? mark;
      const line = original.slice(originalStart, starts.original[number + 1]).replace(/\r?\n$/, "");
      // The end of the folded line maps to the end of the whole line, including the ignored space.
      const offset = index === end ? line.length : originalOffset(line, index - start, punctuation);
      return offset === undefined ? undefined : originalStart + offset;
    },
  };
}

/** Returns the positions at which the lines of a text start. After a last line ending, an empty line starts. */
export function lineStarts(text: string, from = 0): number[] {
  const starts = [from];
  for (let at = text.indexOf("\n", from); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

function originalOffset(line: string, within: number, punctuation: boolean): number | undefined {
  if (!punctuation || foldPunctuation(line).length === line.length) return within;
  let folded = 0;
  for (let offset = 0; offset < line.length; offset++) {
    if (folded === within) return offset;
    if (folded > within) return undefined;
    folded += foldPunctuation(line.charAt(offset)).length;
  }
  return undefined;
}

/** Returns the index of the last line that starts at or before a position. */
function lineNumber(starts: readonly number[], index: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((starts[middle] ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

const plainCharacters: Record<string, string> = {
  ...sameFor("'", "\u2018\u2019\u201A\u201B\u2032\uFF07"),
  ...sameFor('"', "\u201C\u201D\u201E\u201F\u2033\uFF02"),
  ...sameFor("-", "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uFE58\uFE63\uFF0D"),
  ...sameFor(" ", "\u00A0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u202F\u205F\u3000"),
  "\u2026": "...",
};

function sameFor(character: string, variants: string): Record<string, string> {
  return Object.fromEntries([...variants].map((variant) => [variant, character]));
}

const foldable =
  /[\u00A0\u2000-\u200A\u2010-\u2015\u2018-\u201F\u2026\u202F\u2032\u2033\u205F\u2212\u3000\uFE58\uFE63\uFF02\uFF07\uFF0D]/g;

/** Replaces typographic quotes, dashes, spaces and ellipses with ASCII characters. */
export function foldPunctuation(text: string): string {
  return text.replace(foldable, (character) => plainCharacters[character] ?? character);
}

/** True if `foldPunctuation` changes the text. */
export function hasTypography(text: string): boolean {
  return text.search(foldable) !== -1;
}

/** Returns where a block of lines occurs, from 0, overlaps included, in linear time (Knuth, Morris and Pratt). */
export function findLines(lines: readonly string[], block: readonly string[]): number[] {
  const found: number[] = [];
  if (block.length === 0) return found;
  const fallbacks = fallbacksOf(block);
  let matched = 0;
  for (let at = 0; at < lines.length; at++) {
    while (matched > 0 && block[matched] !== lines[at]) matched = fallbacks[matched - 1] ?? 0;
    if (block[matched] === lines[at]) matched++;
    if (matched === block.length) {
      found.push(at - block.length + 1);
      matched = fallbacks[matched - 1] ?? 0;
    }
  }
  return found;
}

function fallbacksOf(block: readonly string[]): number[] {
  const fallbacks = [0];
  let matched = 0;
  for (let at = 1; at < block.length; at++) {
    while (matched > 0 && block[matched] !== block[at]) matched = fallbacks[matched - 1] ?? 0;
    if (block[matched] === block[at]) matched++;
    fallbacks.push(matched);
  }
  return fallbacks;
}

/** Translates the indentation of the given text to that of its place in the file. */
export type IndentTranslation = (indent: string) => string;

const indentOf = (line: string): string => /^[ \t]*/.exec(line)?.[0] ?? "";
const isBlank = (line: string): boolean => line.trim() === "";

/**
 * Finds the translation from the indentation of every old line to that of its counterpart in the file: a constant
 * difference, another width, or tabs for spaces and the reverse. Returns undefined if there is none.
 */
export function translateIndentation(
  oldLines: readonly string[],
  fileLines: readonly string[],
  newText: string,
): IndentTranslation | undefined {
  const pairs = oldLines.flatMap((line, index): IndentPair[] =>
    isBlank(line) ? [] : [{ given: indentOf(line), actual: indentOf(fileLines[index] ?? "") }],
  );
  const newLines = newText.split("\n").filter((line) => !isBlank(line));
  const given = characterOf([...pairs.map((pair) => pair.given), ...newLines.map(indentOf)]);
  const actual = characterOf(pairs.map((pair) => pair.actual));
  const areComparable = given !== undefined && actual !== undefined;

  const needsConversion = areComparable && given !== actual && given !== "" && actual !== "";
  const shift = needsConversion ? undefined : constantDifference(pairs);
  return shift ?? (areComparable ? linearTranslation(pairs, { newLines, actual }) : undefined);
}

/** Applies a translation to every line that is not blank. */
export function reindent(text: string, translate: IndentTranslation): string {
  return text
    .split("\n")
    .map((line) => (isBlank(line) ? line : translate(indentOf(line)) + line.trimStart()))
    .join("\n");
}

interface IndentPair {
  given: string;
  actual: string;
}

/** Returns the one character that these indentations consist of; undefined if tabs and spaces are mixed. */
function characterOf(indents: readonly string[]): " " | "\t" | "" | undefined {
  const all = indents.join("");
  if (all === "") return "";
  if (!all.includes("\t")) return " ";
  return all.includes(" ") ? undefined : "\t";
}

function constantDifference(pairs: readonly IndentPair[]): IndentTranslation | undefined {
  const [first] = pairs;
  if (!first) return undefined;
  const { given, actual } = first;
  if (actual.endsWith(given)) {
    const added = actual.slice(0, actual.length - given.length);
    return pairs.every((pair) => pair.actual === added + pair.given) ? (indent) => added + indent : undefined;
  }
  if (!given.endsWith(actual)) return undefined;
  const removed = given.slice(0, given.length - actual.length);
  const isConstant = pairs.every((pair) => pair.given === removed + pair.actual);
  return isConstant ? (indent) => (indent.startsWith(removed) ? indent.slice(removed.length) : "") : undefined;
}

/** Translates by levels: the file's indentation grows by a fixed amount for each given character. */
function linearTranslation(
  pairs: readonly IndentPair[],
  { newLines, actual }: { newLines: readonly string[]; actual: " " | "\t" | "" },
): IndentTranslation | undefined {
  const [first] = pairs;
  if (!first || actual === "") return undefined;
  const other = pairs.find(({ given }) => given.length !== first.given.length);
  const ratio = other
    ? (other.actual.length - first.actual.length) / (other.given.length - first.given.length)
    : guessRatio(first, newLines);
  const lengthFor = (given: number) => first.actual.length + ratio * (given - first.given.length);
  if (!(ratio > 0) || pairs.some((pair) => lengthFor(pair.given.length) !== pair.actual.length)) return undefined;

  return (indent) => {
    const length = Math.max(0, lengthFor(indent.length));
    // Less than one level remains as spaces.
    const rest = actual === "\t" ? Math.round((length % 1) / ratio) : 0;
    return actual.repeat(Math.floor(length)) + " ".repeat(rest);
  };
}

const indentWidths = [2, 3, 4, 8];
const usualIndentWidth = 4;

/** Guesses the growth per given character from the new lines, for old lines that all have the same indentation. */
function guessRatio({ given, actual }: IndentPair, newLines: readonly string[]): number {
  const steps = newLines.map((line) => Math.abs(indentOf(line).length - given.length)).filter((step) => step > 0);
  if (actual.startsWith("\t")) {
    const width = indentWidths.find((candidate) => given.length === actual.length * candidate);
    return 1 / (width ?? indentWidths.find((candidate) => candidate === Math.min(...steps)) ?? usualIndentWidth);
  }
  return indentWidths.find((candidate) => actual.length === given.length * candidate) ?? usualIndentWidth;
}

/**
 * Returns the new text for a place that starts after some indentation of its line, with that indentation added to the
 * following lines. Lines that already have the file's indentation are unchanged.
 */
export function alignWithPlace(
  content: string,
  { start, end }: { start: number; end: number },
  { oldText, newText }: { oldText: string; newText: string },
): string {
  const [, ...further] = newText.split("\n");
  // An old text of several lines had to match the file's indentation.
  if (further.length === 0 || oldText.trimEnd().includes("\n")) return newText;
  const before = indentationBefore(content, start);
  if (before === "") return newText;

  const isRelative = indentOf(oldText) !== "" || isUnindented(further, content.slice(end, end + 2));
  return isRelative ? newText.replace(/\n(?=[^\r\n])/g, `\n${before}`) : newText;
}

const maxIndentation = 1_000;

/** Returns the space between the start of a line and a place in it; empty if there is anything else. */
function indentationBefore(content: string, start: number): string {
  // A line may be as long as its file, and be searched for each of its places.
  const near = content.slice(Math.max(0, start - maxIndentation), start);
  const lineStart = near.lastIndexOf("\n") + 1;
  if (lineStart === 0 && near.length < start) return "";
  const before = near.slice(lineStart).replace("\uFEFF", "");
  return isBlank(before) ? before : "";
}

/**
 * True if the following lines were written without the indentation of their place. A closing bracket, or the text after
 * a blank line, may legitimately be at the start of a line.
 */
function isUnindented(further: readonly string[], after: string): boolean {
  const endsLine = after === "" || /^\r?\n/.test(after);
  const filled = further.filter((line) => !isBlank(line));
  const follows = further.findIndex((line) => !isBlank(line)) > 0;
  if (!endsLine || filled.length === 0 || follows || /^(?:[)\]}]|end\b)/.test(filled[0] ?? "")) return false;
  const afterBlank = further.some(
    (line, index) => index > 0 && indentOf(line) === "" && !isBlank(line) && isBlank(further[index - 1] ?? ""),
  );
  return !afterBlank && filled.some((line) => indentOf(line) === "");
}
