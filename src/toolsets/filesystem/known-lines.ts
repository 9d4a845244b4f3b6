import { ToolError } from "#domain/errors.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { isCallOf } from "./is-call-of.ts";
import { splitLines } from "./text-file.ts";

const headingPattern = /^=== (.+) ===$/;
const numberedPattern = /^ *(\d+)\t([\s\S]*)$/;

/** The lines of a file that the run has seen, by number. */
export type KnownLines = Map<number, string>;

/**
 * What the finished calls showed of a file, the latest of each line. Whether a line is still the same is for the caller
 * to compare: after a change that moved lines, most are not, see `seenLines`.
 */
export function knownLines(history: readonly FinishedCall[], path: string): KnownLines {
  const known: KnownLines = new Map();
  for (const call of history) {
    const { result } = call;
    if (result.error) continue;
    const { value } = result;
    if (isCallOf(call, "write_file") && value.kind === "diff" && "modified" in value && value.path === path) {
      splitLines(value.modified).forEach((line, index) => {
        known.set(index + 1, line);
      });
    }
    learnShownLines(known, result.llmContent, path);
  }
  return known;
}

function learnShownLines(known: KnownLines, shown: string, path: string): void {
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
  if (!history) return lines.map(() => true);
  const known = knownLines(history, path);
  return lines.map((line, index) => known.get(index + 1) === line);
}

/** Throws a ToolError that names the read which would help. `first` and `last` count from 1. */
export function requireSeen(seen: readonly boolean[], path: string, { first, last }: { first: number; last: number }) {
  const end = Math.min(last, seen.length);
  const unseen: number[] = [];
  for (let line = first; line <= end; line++) if (!seen[line - 1]) unseen.push(line);
  const [from] = unseen;
  if (from === undefined) return;

  const to = unseen.at(-1) ?? from;
  const lines = from === to ? `read line ${from} as it is now` : `read lines ${from}-${to} as they are now`;
  throw new ToolError(`${path}: ${lines} before you edit there.`, {
    code: "STALE",
    type: "validation_error",
    suggestion: `Call read_file with ${JSON.stringify({ path, offset: from, limit: to - from + 1 })}, then edit again.`,
    details: { path, from, to },
  });
}
