/**
 * Renders text so that a person sees every character of it, for requests that they approve. Unlike `sanitize`, nothing
 * is removed or replaced by a count: what looks the same is the same.
 *
 * Escapes read `⟨U+202E⟩` or by name, `⟨CR⟩`. The brackets and the wrap mark themselves are escaped where the text has
 * them, so no text can imitate an escape. Runs in time linear in the text.
 */

/** Marks a line that was broken because it was too long to be seen whole. */
export const wrapMark = "⤷";

/** Wide enough for code, narrow enough to be seen in a comment without scrolling sideways. */
export const maxVisibleColumns = 120;

const tabColumns = 8;
const maxCombiningMarks = 3;
const maxEscapeLength = 32;

// Controls, format characters, separators, surrogates, private and unassigned code points, blanks that are not the space,
// and whatever Unicode calls ignorable. Tab and line feed are laid out below.
const unseen =
  /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000\u2800\u27E8\u27E9\u2937]/u;
const unseenAnywhere = new RegExp(`(?![\\t\\n])${unseen.source}`, "gu");
// Marks stacked on one character cover the lines around it.
const stackedMarks = new RegExp(`(?<=\\p{M}{${maxCombiningMarks}})\\p{M}`, "gu");
const trailingBlanks = /(?<=^|[^ \t])[ \t]+$/;

const names: Record<string, string> = { "\u0000": "NUL", "\r": "CR", "\u001B": "ESC", "\u007F": "DEL", "\t": "TAB" };

/** The text with every character visible that would not be, line by line, unwrapped. */
export function escapeInvisible(text: string): string {
  return text.replace(unseenAnywhere, escapeCharacter).replace(stackedMarks, escapeCharacter);
}

/** One line of text (without its line feed) as the lines that show it: escaped, blanks at its end counted, wrapped. */
export function visibleLine(line: string, columns: number = maxVisibleColumns): string[] {
  const shown = escapeInvisible(line).replace(trailingBlanks, countBlanks);
  return wrap(shown, columns);
}

/** The whole text with every character visible, its long lines wrapped and marked. */
export function visibleText(text: string, columns: number = maxVisibleColumns): string {
  return text
    .split("\n")
    .flatMap((line) => visibleLine(line, columns).map((part, index) => (index === 0 ? part : `${wrapMark} ${part}`)))
    .join("\n");
}

/** A name (path, tool, branch) on one line: line feeds and tabs are escaped, too. */
export function visibleName(name: string): string {
  return escapeInvisible(name)
    .replace(/[\t\n]/g, escapeCharacter)
    .replace(/^ | $/g, "⟨space⟩");
}

function escapeCharacter(character: string): string {
  const unit = character.charCodeAt(0);
  // A byte that is not UTF-8, as `preview-files.ts` decodes it.
  if (character.length === 1 && unit >= 0xdc80 && unit <= 0xdcff)
    return `⟨0x${(unit - 0xdc00).toString(16).toUpperCase()}⟩`;
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `⟨${names[character] ?? `U+${code}`}⟩`;
}

function countBlanks(blanks: string): string {
  if (blanks.includes("\t")) return blanks.replace(/\t/g, "⟨TAB⟩").replace(/ /g, "⟨space⟩");
  return blanks.length === 1 ? "⟨space⟩" : `⟨${blanks.length} spaces⟩`;
}

/** Wraps one line of text that is visible already. */
export function wrapVisible(line: string, columns: number = maxVisibleColumns): string[] {
  return wrap(line, columns);
}

function wrap(line: string, columns: number): string[] {
  // A tab has at least one column and at most eight, so a short line needs no counting.
  if (line.length * tabColumns <= columns) return [line];

  const parts: string[] = [];
  let [start, column] = [0, 0];
  for (let index = 0; index < line.length; ) {
    const end = endOfUnit(line, index);
    const width = line[index] === "\t" ? tabColumns - (column % tabColumns) : widthOf(line, index, end);
    if (column + width > columns && column > 0) {
      parts.push(line.slice(start, index));
      [start, column] = [index, 0];
    }
    column += width;
    index = end;
  }
  parts.push(line.slice(start));
  return parts;
}

/** Where the character or escape that begins here ends: an escape is not broken in two. */
function endOfUnit(line: string, index: number): number {
  if (line[index] === "⟨") {
    const close = line.slice(index, index + maxEscapeLength).indexOf("⟩");
    if (close !== -1) return index + close + 1;
  }
  return index + ((line.codePointAt(index) ?? 0) > 0xffff ? 2 : 1);
}

/** East Asian wide characters and emoji take two columns. */
function widthOf(line: string, index: number, end: number): number {
  const code = line.codePointAt(index) ?? 0;
  const isWide = code >= 0x1100 && (code <= 0x115f || (code >= 0x2e80 && code <= 0xffe6) || code >= 0x1f000);
  return isWide ? 2 * Math.max(1, end - index - (code > 0xffff ? 1 : 0)) : end - index;
}
