/** Which differences are ignored; line endings always are. */
export interface Folding {
  trailingSpace: boolean;
  punctuation: boolean;
}

/** A text without the ignored differences, and the way back to positions in the original. */
export interface FoldedText {
  text: string;
  /** The position in the original; undefined inside a character that was folded to several. */
  originOf(index: number): number | undefined;
}

/** Folds a text line by line: unchanged lines cost no more than a copy, which keeps files of many megabytes fast. */
export function foldText(original: string, folding: Folding): FoldedText {
  const lines: string[] = [];
  /** For each line its first position in the folded text and in the original. */
  const starts: { folded: number; original: number }[] = [];
  let from = original.startsWith("\uFEFF") ? 1 : 0;
  let folded = 0;
  for (let at = original.indexOf("\n", from); ; at = original.indexOf("\n", from)) {
    const end = at === -1 ? original.length : at;
    const line = foldLine(original.slice(from, end), folding, at !== -1);
    starts.push({ folded, original: from });
    lines.push(line);
    folded += line.length + 1;
    if (at === -1) break;
    from = at + 1;
  }

  return {
    text: lines.join("\n"),
    originOf(index) {
      const number = lineNumber(starts, index);
      const start = starts[number] ?? { folded: 0, original: 0 };
      const next = starts[number + 1]?.original ?? original.length;
      const line = original.slice(start.original, next).replace(/\r?\n$/, "");
      const within = index - start.folded;
      // The end of the folded line is that of the whole line, with the space that was ignored.
      const offset = within === lines[number]?.length ? line.length : originalOffset(line, within, folding);
      return offset === undefined ? undefined : start.original + offset;
    },
  };
}

function foldLine(line: string, { trailingSpace, punctuation }: Folding, hasEnding: boolean): string {
  let text = hasEnding && line.endsWith("\r") ? line.slice(0, -1) : line;
  if (punctuation) text = foldPunctuation(text);
  return trailingSpace ? text.replace(/[ \t]+$/, "") : text;
}

/** The offset in the line of an offset in the folded line. */
function originalOffset(line: string, within: number, { punctuation }: Folding): number | undefined {
  if (!punctuation || foldPunctuation(line).length === line.length) return within;
  let folded = 0;
  for (let offset = 0; offset < line.length; offset++) {
    if (folded === within) return offset;
    if (folded > within) return undefined;
    folded += foldPunctuation(line.charAt(offset)).length;
  }
  return undefined;
}

/** The index of the last line that starts at or before a position in the folded text. */
function lineNumber(starts: readonly { folded: number }[], index: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((starts[middle]?.folded ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

const plain: Record<string, string> = {
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

/** Replaces typographic quotes, dashes, spaces and ellipses with what a keyboard types. */
export function foldPunctuation(text: string): string {
  return text.replace(foldable, (character) => plain[character] ?? character);
}

/** True for a text that `foldPunctuation` changes. */
export function hasTypography(text: string): boolean {
  return text.search(foldable) !== -1;
}
