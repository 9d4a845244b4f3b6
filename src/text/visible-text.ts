import { truncateLine } from "./truncate.ts";
/**
 * Renders text so that every character is visible, for approval requests. Unlike `sanitize`, it neither removes characters
 * nor replaces them with a count: two texts that look the same are the same.
 *
 * Escapes are written as `⟨U+202E⟩`, or by name as `⟨CR⟩`. The brackets and the wrap mark are escaped, too, so that no text
 * can imitate an escape. Runs in linear time.
 */

/** Marks the continuation of a wrapped line. */
export const wrapMark = "⤷";

/** Wide enough for code, and narrow enough for a comment without a scroll bar. */
export const maxVisibleColumns = 120;

const tabColumns = 8;
const maxCombiningMarks = 3;
const maxEscapeLength = 32;

// Controls, format characters, separators, surrogates, private and unassigned code points, blanks other than the space,
// ignorable code points, and the signs that Unicode equates with `;`, "`" and `K`. Tabs and line feeds are handled below.
const unseen =
  /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000\u2800\u27E8\u27E9\u2937\u{16FE4}\u{1D159}\u037E\u1FEF\u212A]/u;
const unseenAnywhere = new RegExp(`(?![\\t\\n])${unseen.source}`, "gu");
// Marks stacked on one character cover the lines around it.
const stackedMarks = new RegExp(`(?<=\\p{M}{${maxCombiningMarks}})\\p{M}`, "gu");
const trailingBlanks = /(?<=^|[^ \t])[ \t]+$/;

const names: Record<string, string> = { "\u0000": "NUL", "\r": "CR", "\u001B": "ESC", "\u007F": "DEL", "\t": "TAB" };

// The start of one of our own comment markers, which a comment must not contain anywhere else.
const markerStart = /<(?=!--\s*golem-forge:)/gi;

const rightToLeft = String.raw`(?=\p{L})[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFF\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]`;
const rightToLeftLetter = new RegExp(rightToLeft, "u");
const rightToLeftLetters = new RegExp(rightToLeft, "gu");
const leftToRightLetters = new RegExp(`(?:(?!${rightToLeft})\\p{L})+`, "u");
// Signs that end a part of a sentence. Any other sign between words or before digits would be shown in another place.
const plainWords = /^(?:[\p{L}\p{M}\p{Nd} ]|(?<=[\p{L}\p{M}])[,.!?:،؛؟](?= ))*$/u;

const word = /[\p{L}\p{M}\p{Nd}_]+/gu;
// Of these scripts no letter looks like a Latin one, and texts in them are full of Latin words.
const neverLatin = String.raw`\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}`;
// The other kinds of Latin letters are full-width and mathematical ones.
const notPlainLatin = String.raw`(?:[\uFF21-\uFF5A\u{1D400}-\u{1D7FF}]|(?![\p{Script=Latin}\p{Script=Common}\p{Script=Inherited}${neverLatin}])\p{L})`;
const foreignLetter = new RegExp(notPlainLatin, "u");
const foreignLetters = new RegExp(notPlainLatin, "gu");
const plainLatinLetter = /(?![\uFF21-\uFF5A])\p{Script=Latin}/u;
const similarScripts = [
  "Cyrillic",
  "Greek",
  "Armenian",
  "Cherokee",
  "Coptic",
  "Lisu",
  "Georgian",
  "Tifinagh",
  "Deseret",
];

/** Escapes the letters of other scripts in a word that also has Latin ones, such as `p⟨U+0430⟩ypal`, which look alike. */
function escapeLookAlikes(found: string): string {
  if (!foreignLetter.test(found) || !plainLatinLetter.test(found)) return found;
  return found.replace(foreignLetters, escapeCharacter);
}

/** Names the scripts besides Latin in a name whose letters may look like Latin ones; undefined if there are none. */
export function describeScripts(name: string): string | undefined {
  const found = similarScripts.filter((script) => new RegExp(`\\p{Script=${script}}`, "u").test(name));
  return found.length === 0 ? undefined : `${found.join(" and ")} letters in its name`;
}

/** Escapes invisible and reordering characters, and letters of other scripts in Latin words. Does not wrap. */
export function escapeInvisible(text: string): string {
  const escaped = text
    .replace(unseenAnywhere, escapeCharacter)
    .replace(stackedMarks, escapeCharacter)
    .replace(markerStart, escapeCharacter);
  const seen = foreignLetter.test(escaped) ? escaped.replace(word, escapeLookAlikes) : escaped;
  if (!rightToLeftLetter.test(seen)) return seen;
  return seen
    .split("\n")
    .map((line) => (isReordered(line) ? line.replace(rightToLeftLetters, escapeCharacter) : line))
    .join("\n");
}

/** True if right-to-left letters would reorder signs or digits of the line, as in `"א" + 1 - 5 + "ב"`. */
function isReordered(line: string): boolean {
  return line.split(leftToRightLetters).some((part) => {
    const first = part.search(rightToLeftLetter);
    if (first === -1) return false;
    let end = first;
    for (const { 0: character, index } of part.matchAll(/[\p{L}\p{Nd}]/gu)) end = index + character.length;
    return !plainWords.test(part.slice(first, end));
  });
}

/** Escapes the first letter of these lines if it is written from right to left: a browser would take the direction of the block from it. */
export function startLeftToRight(lines: readonly string[]): string[] {
  const at = lines.findIndex((line) => /\p{L}/u.test(line));
  const first = lines[at];
  if (first === undefined || !new RegExp(`^\\P{L}*${rightToLeft}`, "u").test(first)) return [...lines];
  return lines.with(at, first.replace(rightToLeftLetter, escapeCharacter));
}

/** Renders one line of text: escapes it, counts blanks at its end, and wraps it. */
export function visibleLine(line: string, columns: number = maxVisibleColumns): string[] {
  const shown = escapeInvisible(line).replace(trailingBlanks, countBlanks);
  return wrap(shown, columns);
}

/** Renders a text with all characters visible, and with long lines wrapped and marked. */
export function visibleText(text: string): string {
  return text
    .split("\n")
    .flatMap((line) => visibleLine(line).map((part, index) => (index === 0 ? part : `${wrapMark} ${part}`)))
    .join("\n");
}

// Signs that look like `/`, `.`, `-` or `:`, with which a file at the root seems to be in a folder.
const similarSigns = /[\u2044\u2215\u29F8\u2024\u2010\u2011\u2212\u2236\uA789]/g;

/**
 * Renders a name, such as a path or a branch, on one line: line feeds, tabs, blanks at its ends or in a row, and signs that
 * look like those of paths are escaped, too.
 */
export function visibleName(name: string): string {
  return escapeInvisible(name)
    .replace(similarSigns, escapeCharacter)
    .replace(/[\t\n]/g, escapeCharacter)
    .replace(/^ +| +$| {2,}/g, countBlanks);
}

/** Quotes a model's text within one of our sentences, so that it cannot continue the sentence. */
export function quoted(text: string): string {
  const shown = visibleName(text.replace(/\s+/g, " ")).replace(/[“”]/g, "⟨quotation mark⟩");
  return `“${truncateLine(shown, maxQuotedLength)}”`;
}

/** Formats part of a command as inline code for one of our sentences. The text cannot close the code. */
export function inCode(text: string): string {
  return `\`${text.replaceAll("`", "'")}\``;
}

const maxQuotedLength = 300;

function escapeCharacter(character: string): string {
  const unit = character.charCodeAt(0);
  // A byte that is not valid UTF-8, as decoded by `preview-files.ts`.
  if (character.length === 1 && unit >= 0xdc80 && unit <= 0xdcff)
    return `⟨0x${(unit - 0xdc00).toString(16).toUpperCase()}⟩`;
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `⟨${names[character] ?? `U+${code}`}⟩`;
}

function countBlanks(blanks: string): string {
  if (blanks.includes("\t")) return blanks.replace(/\t/g, "⟨TAB⟩").replace(/ /g, "⟨space⟩");
  return blanks.length === 1 ? "⟨space⟩" : `⟨${blanks.length} spaces⟩`;
}

/** Wraps a line that is already escaped. */
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

/** Returns the end of the character or escape at this index. Escapes are not split. */
function endOfUnit(line: string, index: number): number {
  if (line[index] === "⟨") {
    const close = line.slice(index, index + maxEscapeLength).indexOf("⟩");
    if (close !== -1) return index + close + 1;
  }
  return index + ((line.codePointAt(index) ?? 0) > 0xffff ? 2 : 1);
}

/** Returns the width in columns: two for East Asian wide characters and emoji. */
function widthOf(line: string, index: number, end: number): number {
  const code = line.codePointAt(index) ?? 0;
  const isWide = code >= 0x1100 && (code <= 0x115f || (code >= 0x2e80 && code <= 0xffe6) || code >= 0x1f000);
  return isWide ? 2 * Math.max(1, end - index - (code > 0xffff ? 1 : 0)) : end - index;
}

// All patterns are character classes and runs without nested alternatives, so that they take linear time.

// CSI (also in its 8-bit form), OSC (titles and links), and two-character escape sequences.
const ansi =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for control characters
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][^\u0007\u001B\u009C]{0,4096}(?:\u0007|\u001B\\|\u009C)?|\u001B[ -/]*[0-Z\\^-~]/g;

// Joiners and variation selectors are part of emoji. Anywhere else they are hidden characters.
const emojiParts =
  /(?<=\p{Extended_Pictographic}|\uFE0F|\p{Emoji_Modifier})\u200D(?=\p{Extended_Pictographic})|(?<=\p{Extended_Pictographic})(?:\uFE0E|\uFE0F)|(?<=[0-9#*])\uFE0F(?=\u20E3)/u;
const invisible =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for control characters
  /[\p{Default_Ignorable_Code_Point}\u{13430}-\u{13455}\u{16FE4}\u{1D159}\uFFF9-\uFFFB\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]+/u;
const emojiOrInvisible = new RegExp(`(${emojiParts.source})|${invisible.source}`, "gu");

/** Normalizes line ends to `\n`, removes ANSI escape sequences and replaces lone surrogates. */
export function normalizeText(text: string): string {
  return text.toWellFormed().replace(ansi, "").replace(/\r\n?/g, "\n");
}

/** Replaces each run of invisible characters. Emoji are left alone. */
export function replaceHidden(text: string, replace: (hidden: string) => string): string {
  return text.replace(emojiOrInvisible, (found, emoji?: string) => (emoji ? found : replace(found)));
}

/** Removes ANSI escape sequences and makes hidden characters visible: `⟨U+202E⟩`, `⟨12 hidden characters⟩`. */
export function showHidden(text: string): string {
  return replaceHidden(normalizeText(text), describeHidden);
}

/** Describes a run of hidden characters: `⟨U+202E⟩` or `⟨12 hidden characters⟩`. */
export function describeHidden(hidden: string): string {
  const characters = [...hidden];
  const code = (characters[0]?.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return characters.length === 1 ? `⟨U+${code}⟩` : `⟨${characters.length} hidden characters⟩`;
}
