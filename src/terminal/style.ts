import type { Writable } from "node:stream";
import { stripVTControlCharacters, styleText } from "node:util";
import wrapAnsi from "wrap-ansi";
import { describeHidden, replaceHidden, wrapMark } from "#text/visible-text.ts";

export type TextFormat = "red" | "green" | "yellow" | "blue" | "cyan" | "gray" | "bold" | "italic";

/** Formats text for a terminal; returns it unchanged if colors are off. */
export type Style = (format: TextFormat, text: string) => string;

/** Creates a style with colors for a terminal, and without for a file or a pipe, unless `FORCE_COLOR` or `NO_COLOR` says otherwise. */
export function createStyle(output: object): Style {
  const { NO_COLOR: none, FORCE_COLOR: forced } = process.env;
  const hasColors = !none && (forced ? !["0", "false"].includes(forced) : isTerminal(output));
  return hasColors ? (format, text) => styleText(format, text, { validateStream: false }) : (_, text) => text;
}

export function isTerminal(stream: object): boolean {
  return "isTTY" in stream && stream.isTTY === true;
}

/**
 * Replaces every character that a terminal would interpret or hide, such as controls, escapes, bidirectional and invisible
 * characters, with `⟨U+001B⟩`. Keeps line feeds and tabs.
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

export function columnsOf(stream: object): number {
  return "columns" in stream && typeof stream.columns === "number" && stream.columns > 0 ? stream.columns : 80;
}

/** A word with its explanation in a second column, as in a list of commands. */
const firstColumn = /^ *\S.*? {2,}(?=\S)/;

/** The blanks that begin a row, after its formats. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: formats begin with one
const leadingBlanks = /^((?:\u001b\[[\d;]*m)*)\s+/;

/** Writes text of our own, wrapped if it goes to a terminal. */
export function writeWrapped(stream: Writable, text: string): void {
  stream.write(isTerminal(stream) ? wrapLines(text, columnsOf(stream)) : text);
}

/**
 * Wraps the lines that are wider than the terminal. What continues a line is indented, so that it cannot pass for a line of
 * its own, and keeps the margin of a quoted block or the second column of a list.
 */
export function wrapLines(text: string, columns: number): string {
  const wrap = (line: string, width: number) => wrapAnsi(line, width, { hard: true, trim: false }).split("\n");
  return text
    .split("\n")
    .map((line) => {
      if (wrap(line, columns).length === 1) return line;
      const plain = stripVTControlCharacters(line);
      const margin = /^ *(?:│ |└> |\p{S} )?/u.exec(plain)?.[0] ?? "";
      const isQuoted = margin.includes("│");
      const column = isQuoted ? 0 : (firstColumn.exec(plain)?.[0].length ?? 0);
      // A deep indentation is not repeated: it would leave no room, and fill the memory.
      const hanging = Math.max(2, ...[margin.length, column].filter((indent) => indent <= columns / 2));
      const indent = isQuoted ? `${margin}${wrapMark} ` : " ".repeat(hanging);
      // An indentation, and what precedes the second column of a list, are as wide as the indentation of the rows below.
      const start = line.slice(0, hanging);
      const isAligned = hanging === Math.max(margin.length, column) && plain === line && /^[ -~…]*$/.test(start);
      const head = isAligned ? start : "";
      const [first, ...rest] = wrap(line.slice(head.length), Math.max(10, columns - indent.length));
      return [
        `${head}${first}`,
        ...rest.map((row) => `${indent}${isQuoted ? row : row.replace(leadingBlanks, "$1")}`),
      ].join("\n");
    })
    .join("\n");
}
