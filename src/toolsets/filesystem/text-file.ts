import { isUtf8 } from "node:buffer";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { isLfsPointer } from "#sandbox/workspace-view.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

/** An encoding that text files are read and written in. */
type TextEncoding = "utf-8" | "utf-16le" | "utf-16be" | "windows-1252";

/** A text file's content. The text includes the byte order mark, so that it can be written back unchanged. */
export interface TextContent {
  text: string;
  encoding: TextEncoding;
}

const sniffedBytes = 8_000;

/** Decodes UTF-8, UTF-16 or a single-byte encoding such as Latin-1. Returns undefined for binary content. */
export function decodeText(content: Uint8Array): TextContent | undefined {
  const encoding = encodingOf(content);
  if (!encoding) return undefined;
  if (encoding === "utf-16be") return { text: decode("utf-16le", swapBytes(content)), encoding };
  return { text: decode(encoding, content), encoding };
}

/** Encodes a text in its file's encoding. Throws a ToolError for a character that the encoding cannot represent. */
export function encodeText({ text, encoding }: TextContent, path: string): Uint8Array {
  switch (encoding) {
    case "utf-8":
      return Buffer.from(text);
    case "utf-16le":
      return Buffer.from(text, "utf16le");
    case "utf-16be":
      return swapBytes(Buffer.from(text, "utf16le"));
    case "windows-1252":
      return Uint8Array.from(text, (character) => singleByte(character, path));
  }
}

function encodingOf(content: Uint8Array): TextEncoding | undefined {
  const [first, second] = content;
  if (content.length % 2 === 0 && first === 0xff && second === 0xfe) return "utf-16le";
  if (content.length % 2 === 0 && first === 0xfe && second === 0xff) return "utf-16be";
  if (content.subarray(0, sniffedBytes).includes(0)) return unmarkedUtf16(content);
  if (isUtf8(content)) return "utf-8";
  return content.some(isControl) ? undefined : "windows-1252";
}

/** Detects UTF-16 without a mark: mostly ASCII, so nearly every other byte is zero, and no byte is a control character. */
function unmarkedUtf16(content: Uint8Array): TextEncoding | undefined {
  const sample = content.subarray(0, sniffedBytes);
  if (content.length % 2 !== 0 || content.length < 8 || sample.some((byte) => byte !== 0 && isControl(byte))) {
    return undefined;
  }
  const zeros = { even: 0, odd: 0 };
  for (const [index, byte] of sample.entries()) if (byte === 0) zeros[index % 2 === 0 ? "even" : "odd"]++;
  const many = sample.length * 0.45;
  if (zeros.odd >= many && zeros.even === 0) return "utf-16le";
  return zeros.even >= many && zeros.odd === 0 ? "utf-16be" : undefined;
}

function isControl(byte: number): boolean {
  return byte === 0x7f || (byte < 0x20 && (byte < 0x09 || byte > 0x0d) && byte !== 0x1b);
}

function decode(encoding: "utf-8" | "utf-16le" | "windows-1252", content: Uint8Array): string {
  return new TextDecoder(encoding, { ignoreBOM: true }).decode(content);
}

function swapBytes(content: Uint8Array): Uint8Array {
  return Buffer.from(content).swap16();
}

/** The bytes of windows-1252, which matches Latin-1 except for some control characters. */
const windows1252Bytes = new Map(
  [
    ...decode(
      "windows-1252",
      Uint8Array.from({ length: 256 }, (_, byte) => byte),
    ),
  ].map((character, byte) => [character, byte]),
);

function singleByte(character: string, path: string): number {
  const byte = windows1252Bytes.get(character);
  if (byte !== undefined) return byte;
  throw new ToolError(`${path} is encoded in Latin-1 (windows-1252), which has no ${JSON.stringify(character)}.`, {
    code: "INVALID_ARGUMENTS",
    suggestion: "Use characters of Latin-1, or rewrite the whole file in UTF-8 with write_file and encoding utf-8.",
  });
}

/** Returns the size in bytes of a Git LFS pointer's content; undefined for any other file. */
export function lfsPointerSize(content: Uint8Array): number | undefined {
  if (!isLfsPointer(content)) return undefined;
  return Number(/^size (\d+)$/m.exec(Buffer.from(content).toString("utf8"))?.[1]);
}

/** Finding a place in a longer file would block the event loop for too long. */
const maxEditableBytes = 1_000_000;

/** Reads a text file that a tool is about to change. Throws a ToolError for binary files, large files and Git LFS pointers. */
export async function readForEdit(workspace: Workspace, path: string): Promise<TextContent> {
  const content = await workspace.readBytes(path);
  refuseLfsPointer(content, path);
  if (content.length > maxEditableBytes) {
    throw new ToolError(
      `${path} is too large to edit: it has ${content.length} bytes, and the limit is ${maxEditableBytes}.`,
      {
        code: "TOO_LARGE",
        suggestion: "If the file is generated, change what generates it. Otherwise say that people have to change it.",
      },
    );
  }
  const text = decodeText(content);
  if (text) return text;
  throw new ToolError(`${path} is not a text file.`, {
    code: "BINARY_FILE",
    suggestion: "If it must change, replace the whole file with write_file and encoding base64.",
  });
}

/** Throws a ToolError for a Git LFS pointer: the real file is not in the repository. */
export function refuseLfsPointer(content: Uint8Array, path: string): void {
  if (lfsPointerSize(content) === undefined) return;
  throw new ToolError(`${path} is a Git LFS pointer: its content is stored outside the repository.`, {
    code: "BINARY_FILE",
    suggestion: "Leave it unchanged; editing the pointer would break the file.",
  });
}

/** Returns the lines of a text without their line endings. A final line ending does not start another line. */
export function splitLines(text: string): string[] {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

export function countLineEndings(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

/** The maximum number of characters of a line that are shown at once. */
const maxShownCharacters = 2_000;

const restOfLine = / \[… (\d+) more characters; read on with column \d+\]$/;

/** Returns a line from the given character on, counted from 1, shortened if it is very long. */
function shownLine(line: string, column = 1): string {
  const rest = line.slice(column - 1);
  if (rest.length <= maxShownCharacters) return rest;
  const end = column - 1 + maxShownCharacters;
  return `${line.slice(column - 1, end)} [… ${line.length - end} more characters; read on with column ${end + 1}]`;
}

/** Formats lines as read_file shows them: the number six characters wide, a tab, the text. */
export function numberLines(lines: readonly string[], first: number, column?: number): string {
  return lines.map((line, index) => `${String(first + index).padStart(6)}\t${shownLine(line, column)}`).join("\n");
}

const headingPattern = /^=== (.+) ===$/;
const numberedPattern = /^ *(\d+)\t([\s\S]*)$/;

/** The lines of a file that the run has seen, by number, as they were shown. */
export type KnownLines = Map<number, string>;

/** True for a call of a tool with one of these names, ignoring case and hyphens as a toolbox does. */
export function isCallOf({ tool }: Pick<FinishedCall, "tool">, ...names: string[]): boolean {
  return names.includes(tool.toLowerCase().replaceAll("-", "_"));
}

/**
 * Returns the lines of a file that finished calls have shown, with the latest version of each. After a change that
 * moved lines, most of them differ from the file; `seenLines` compares them.
 */
export function knownLines(history: readonly FinishedCall[], path: string): KnownLines {
  const known: KnownLines = new Map();
  for (const call of history) {
    const { result } = call;
    if (result.error) continue;
    const { value } = result;
    if (isCallOf(call, "write_file") && value.kind === "diff" && "modified" in value && value.path === path) {
      splitLines(value.modified).forEach((line, index) => {
        known.set(index + 1, shownLine(line));
      });
    }
    addShownLines(known, result.llmContent, path);
  }
  return known;
}

function addShownLines(known: KnownLines, shown: string, path: string): void {
  if (!shown.includes(`=== ${path} ===`)) return;
  let current: string | undefined;
  for (const line of shown.split("\n")) {
    current = headingPattern.exec(line)?.[1] ?? current;
    const numbered = current === path ? numberedPattern.exec(line) : null;
    if (numbered) known.set(Number(numbered[1]), numbered[2] ?? "");
  }
}

/** Returns, for each line, whether the run has seen its current version. Without a history, all count as seen. */
export function seenLines(history: readonly FinishedCall[] | undefined, path: string, text: string): boolean[] {
  const lines = splitLines(text);
  if (!history) return Array<boolean>(lines.length).fill(true);
  const known = knownLines(history, path);
  return lines.map((line, index) => isCurrent(line, known.get(index + 1)));
}

/** True if a line has been shown as it is; of a very long one, any part. */
function isCurrent(line: string, shown: string | undefined): boolean {
  if (line.length <= maxShownCharacters || !shown) return shown === line;
  const [note = "", more = 0] = restOfLine.exec(shown) ?? [];
  return line.slice(0, line.length - Number(more)).endsWith(shown.slice(0, shown.length - note.length));
}

/** Throws a ToolError that names the lines to read first. `first` and `last` count from 1. */
export function requireSeen(
  seen: readonly boolean[],
  path: string,
  { first, last }: { first: number; last: number },
): void {
  const end = Math.min(last, seen.length);
  let from: number | undefined;
  let to = first;
  for (let line = first; line <= end; line++) {
    if (seen[line - 1]) continue;
    from ??= line;
    to = line;
  }
  if (from === undefined) return;

  const lines =
    from === to ? `read line ${from} in its current state` : `read lines ${from}-${to} in their current state`;
  throw new ToolError(`${path}: ${lines} before you edit it.`, {
    code: "STALE",
    type: "validation_error",
    suggestion: `Call read_file with ${JSON.stringify({ path, offset: from, limit: to - from + 1 })}, then edit again.`,
    details: { path, from, to },
  });
}

/** Throws a ToolError if somebody else changed this file after the run had read or written all of it. */
export function refuseChangedSince(history: readonly FinishedCall[], path: string, content: Uint8Array): void {
  const known = history.findLast((call) => !call.result.error && fullText(call, path) !== undefined);
  const text = known && fullText(known, path);
  if (text === undefined || text === decodeText(content)?.text) return;
  throw new ToolError(`${path} has changed since you last read it, so it was not overwritten.`, {
    code: "STALE",
    suggestion: `Call read_file with ${JSON.stringify({ path })}, and keep the changes that are not yours.`,
  });
}

/** Returns the whole text of the file after a call that showed or wrote it; undefined if the log kept only a part. */
function fullText({ result: { value } }: FinishedCall, path: string): string | undefined {
  if (value.kind === "file_content" && "content" in value && value.path === path) {
    return isWhole(value.content, value.size) ? value.content : undefined;
  }
  if (value.kind === "diff" && "modified" in value && value.path === path && value.action !== "delete") {
    return isWhole(value.modified, value.bytesWritten) ? value.modified : undefined;
  }
  return undefined;
}

/** False for base64 and for text that was shortened for the log. */
function isWhole(text: string, bytes: number): boolean {
  return [Buffer.byteLength(text), text.length, text.length * 2].includes(bytes);
}
