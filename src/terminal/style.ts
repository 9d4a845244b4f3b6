import { styleText } from "node:util";
import { describeHidden, replaceHidden } from "#text/visible-text.ts";

export type TextFormat = "red" | "green" | "yellow" | "blue" | "cyan" | "gray" | "bold" | "italic";

/** Formats text for a terminal; returns it unchanged if colors are off. */
export type Style = (format: TextFormat, text: string) => string;

/** Creates a style with colors for a terminal, and without for a file, a pipe, or if `NO_COLOR` is set. */
export function createStyle(output: object): Style {
  const hasColors = isTerminal(output) && !process.env.NO_COLOR;
  return hasColors ? (format, text) => styleText(format, text, { validateStream: false }) : (_, text) => text;
}

export function isTerminal(stream: object): boolean {
  return "isTTY" in stream && stream.isTTY === true;
}

/**
 * Replaces every character that a terminal would interpret or hide, such as controls, escapes, bidirectional and invisible
 * characters, by `⟨U+001B⟩`. Keeps line feeds and tabs.
 */
export function visible(text: string): string {
  const lines = text
    .toWellFormed()
    .replaceAll("\r\n", "\n")
    .replaceAll(/\r|[\p{Zl}\p{Zp}]/gu, describeHidden);
  return replaceHidden(lines, describeHidden);
}

/** Like `visible`, but keeps the colors that a command printed. */
export function visibleWithColors(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colors begin with one
  const parts = text.split(/(\u001b\[[0-9;]*m)/);
  return parts.map((part, index) => (index % 2 === 1 ? part : visible(part))).join("");
}
