import { normalizeText } from "#text/hidden-characters.ts";

export type Colour = "red" | "green" | "yellow" | "blue" | "cyan" | "gray" | "bold";

/** Text in a colour where there are colours, otherwise as it is. */
export type Paint = (colour: Colour, text: string) => string;

const codes: Record<Colour, [on: number, off: number]> = {
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  cyan: [36, 39],
  gray: [90, 39],
  bold: [1, 22],
};

/** Colours for a terminal; none for a file or a pipe, and none where `NO_COLOR` is set. */
export function createPaint(output: object): Paint {
  const hasColours = isTerminal(output) && !process.env.NO_COLOR;
  if (!hasColours) return (_, text) => text;
  return (colour, text) => `\u001b[${codes[colour][0]}m${text}\u001b[${codes[colour][1]}m`;
}

export function isTerminal(stream: object): boolean {
  return "isTTY" in stream && stream.isTTY === true;
}

/** Text that cannot move the cursor, clear the screen or speak to the terminal. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  return normalizeText(text).replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
}

/** The same, with the colours a command wrote left in. */
export function colourful(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
  const parts = text.split(/(\u001b\[[0-9;]*m)/);
  return parts.map((part, index) => (index % 2 === 1 ? part : plain(part))).join("");
}
