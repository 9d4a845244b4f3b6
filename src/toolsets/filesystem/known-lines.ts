import { ToolError } from "#domain/errors.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { decodeText, shownLine, splitLines } from "./text-file.ts";

const headingPattern = /^=== (.+) ===$/;
const numberedPattern = /^ *(\d+)\t([\s\S]*)$/;

/** The lines of a file that the run has seen, by number, as they were shown. */
export type KnownLines = Map<number, string>;

/** True for a call of a tool with one of these names, ignoring case and hyphens as a toolbox does. */
export function isCallOf({ tool }: Pick<FinishedCall, "tool">, ...names: string[]): boolean {
  return names.includes(tool.toLowerCase().replaceAll("-", "_"));
}

/**
 * The lines that the finished calls have shown of a file, the latest version of each. After a change that moved lines
 * most of them differ from the file; `seenLines` compares them.
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

/** For each line of the text, whether the run has seen it as it is now. Without a history every line counts as seen. */
export function seenLines(history: readonly FinishedCall[] | undefined, path: string, text: string): boolean[] {
  const lines = splitLines(text);
  if (!history) return Array<boolean>(lines.length).fill(true);
  const known = knownLines(history, path);
  return lines.map((line, index) => known.get(index + 1) === shownLine(line));
}

/** Throws a ToolError that names the read which helps. `first` and `last` count from 1. */
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

/**
 * Throws a ToolError if the run has read or written this whole file and it has changed since, by a person, another
 * worker or a command. A file that the run has never read passes.
 */
export function refuseChangedSince(history: readonly FinishedCall[], path: string, content: Uint8Array): void {
  const known = history.findLast((call) => !call.result.error && fullText(call, path) !== undefined);
  const text = known && fullText(known, path);
  if (text === undefined || text === decodeText(content)?.text) return;
  throw new ToolError(`${path} has changed since you last read it, so it was not overwritten.`, {
    code: "STALE",
    suggestion: `Call read_file with ${JSON.stringify({ path })}, and keep the changes that are not yours.`,
  });
}

/** The whole text of the file after a call that showed or wrote it; undefined where the log kept only a part. */
function fullText({ result: { value } }: FinishedCall, path: string): string | undefined {
  if (value.kind === "file_content" && "content" in value && value.path === path) {
    return isWhole(value.content, value.size) ? value.content : undefined;
  }
  if (value.kind === "diff" && "modified" in value && value.path === path && value.action !== "delete") {
    return isWhole(value.modified, value.bytesWritten) ? value.modified : undefined;
  }
  return undefined;
}

/** False for base64 and for a text that was shortened for the log. */
function isWhole(text: string, bytes: number): boolean {
  return [Buffer.byteLength(text), text.length, text.length * 2].includes(bytes);
}
