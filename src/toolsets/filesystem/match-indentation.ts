/** Translates the indentation of the given text into that of its place in the file. */
export type IndentTranslation = (indent: string) => string;

const indentOf = (line: string): string => /^[ \t]*/.exec(line)?.[0] ?? "";
const isBlank = (line: string): boolean => line.trim() === "";

/**
 * Finds the translation that turns the indentation of every old line into that of its counterpart in the file: a constant
 * difference, another width, or tabs for spaces and the reverse. Returns undefined if there is none.
 */
export function translateIndentation(
  oldLines: readonly string[],
  fileLines: readonly string[],
  newText: string,
): IndentTranslation | undefined {
  const pairs = oldLines.flatMap((line, index): Pair[] =>
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

interface Pair {
  given: string;
  actual: string;
}

/** The one character these indentations consist of; undefined where tabs and spaces are mixed. */
function characterOf(indents: readonly string[]): " " | "\t" | "" | undefined {
  const all = indents.join("");
  if (all === "") return "";
  if (!all.includes("\t")) return " ";
  return all.includes(" ") ? undefined : "\t";
}

function constantDifference(pairs: readonly Pair[]): IndentTranslation | undefined {
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

/** A translation by levels: the file's indentation grows by a fixed amount for each character that was given. */
function linearTranslation(
  pairs: readonly Pair[],
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
    // What is less than a level stays as spaces.
    const rest = actual === "\t" ? Math.round((length % 1) / ratio) : 0;
    return actual.repeat(Math.floor(length)) + " ".repeat(rest);
  };
}

const widths = [2, 3, 4, 8];
const usualWidth = 4;

/** The growth per given character where all old lines have one indentation, so that the new lines have to tell. */
function guessRatio({ given, actual }: Pair, newLines: readonly string[]): number {
  const steps = newLines.map((line) => Math.abs(indentOf(line).length - given.length)).filter((step) => step > 0);
  if (actual.startsWith("\t")) {
    const width = widths.find((candidate) => given.length === actual.length * candidate);
    return 1 / (width ?? widths.find((candidate) => candidate === Math.min(...steps)) ?? usualWidth);
  }
  return widths.find((candidate) => actual.length === given.length * candidate) ?? usualWidth;
}

/**
 * The new text for a place that begins after some indentation of its line, with that indentation on its further lines.
 * Lines that already have the file's own indentation are left as they are.
 */
export function alignWithPlace(
  content: string,
  { start, end }: { start: number; end: number },
  { oldText, newText }: { oldText: string; newText: string },
): string {
  const [, ...further] = newText.split("\n");
  const before = content.slice(content.lastIndexOf("\n", start - 1) + 1, start).replace("\uFEFF", "");
  // An old text of several lines had to match the file's own indentation.
  if (further.length === 0 || before === "" || !isBlank(before) || oldText.trimEnd().includes("\n")) return newText;

  const isRelative = indentOf(oldText) !== "" || isUnindented(further, content.slice(end, end + 2));
  return isRelative ? newText.replace(/\n(?=[^\r\n])/g, `\n${before}`) : newText;
}

/**
 * True if further lines were written without the indentation of their place. A closing bracket, and what follows a blank
 * line, may well belong at the start of a line.
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
