// Every pattern here is a character class or a run without nested choices, so time grows with the text alone.

// CSI, OSC (title, link), and the two-character escapes; the 8-bit CSI too.
const ansi =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][^\u0007\u001B\u009C]{0,4096}(?:\u0007|\u001B\\|\u009C)?|\u001B[ -/]*[0-Z\\^-~]/g;

// The joiner and the variation selector make family emoji and coloured signs; anywhere else they hide.
const emojiParts =
  /(?<=\p{Extended_Pictographic}|\uFE0F|\p{Emoji_Modifier})\u200D(?=\p{Extended_Pictographic})|(?<=\p{Extended_Pictographic})(?:\uFE0E|\uFE0F)|(?<=[0-9#*])\uFE0F(?=\u20E3)/u;
const invisible =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\p{Default_Ignorable_Code_Point}\uFFF9-\uFFFB\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]+/u;
const emojiOrInvisible = new RegExp(`(${emojiParts.source})|${invisible.source}`, "gu");

/** Line ends as `\n`, ANSI escapes gone, broken surrogates replaced: what every other pass starts from. */
export function normalizeText(text: string): string {
  return text.toWellFormed().replace(ansi, "").replace(/\r\n?/g, "\n");
}

/** Replaces every run of characters that a reader cannot see with what `replace` makes of it. Emoji stay whole. */
export function replaceHidden(text: string, replace: (hidden: string) => string): string {
  return text.replace(emojiOrInvisible, (found, emoji?: string) => (emoji ? found : replace(found)));
}

/** The text without ANSI escapes, and with hidden characters made visible: `⟨U+202E⟩`, `⟨12 hidden characters⟩`. */
export function showHidden(text: string): string {
  return replaceHidden(normalizeText(text), describeHidden);
}

/** How a run of hidden characters is shown to people. */
export function describeHidden(hidden: string): string {
  const characters = [...hidden];
  const code = (characters[0]?.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return characters.length === 1 ? `⟨U+${code}⟩` : `⟨${characters.length} hidden characters⟩`;
}
