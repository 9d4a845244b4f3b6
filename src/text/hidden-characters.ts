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
  /[\p{Default_Ignorable_Code_Point}\uFFF9-\uFFFB\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]+/u;
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
