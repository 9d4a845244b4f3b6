import { styleText } from "node:util";
import { describeHidden, replaceHidden } from "#text/hidden-characters.ts";

export type TextFormat = "red" | "green" | "yellow" | "blue" | "cyan" | "gray" | "bold" | "italic";

/** Formats text for a terminal; returns it as it is where there are no colors. */
export type Style = (format: TextFormat, text: string) => string;

/** Colors for a terminal; none for a file or a pipe, and none if `NO_COLOR` is set. */
export function createStyle(output: object): Style {
  const hasColors = isTerminal(output) && !process.env.NO_COLOR;
  return hasColors ? (format, text) => styleText(format, text, { validateStream: false }) : (_, text) => text;
}

export function isTerminal(stream: object): boolean {
  return "isTTY" in stream && stream.isTTY === true;
}

/**
 * Makes every character visible that a terminal would execute or hide: controls, escapes, bidirectional and invisible
 * characters, as `⟨U+001B⟩`. Line feeds and tabs stay.
 */
export function visible(text: string): string {
  const lines = text
    .toWellFormed()
    .replaceAll("\r\n", "\n")
    .replaceAll(/\r|[\p{Zl}\p{Zp}]/gu, describeHidden);
  return replaceHidden(lines, describeHidden);
}

/** Does the same, but keeps the colors that a command printed. */
export function visibleWithColors(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colors begin with one
  const parts = text.split(/(\u001b\[[0-9;]*m)/);
  return parts.map((part, index) => (index % 2 === 1 ? part : visible(part))).join("");
}
