import { ToolError } from "#domain/errors.ts";
import { type HunkLocation, HunkLocator } from "./locate-hunk.ts";
import type { Hunk } from "./patch.ts";

export interface AppliedHunks {
  text: string;
  /** The location of each hunk, in lines of the text before. */
  locations: HunkLocation[];
}

interface Line {
  text: string;
  /** The line ending, empty on the last line of a file that ends without one. */
  ending: string;
}

/** Applies hunks to a text. Unchanged lines keep their bytes, line endings and byte order mark included. */
export function applyHunks(content: string, hunks: readonly Hunk[], path: string): AppliedHunks {
  const mark = content.startsWith("\uFEFF") ? "\uFEFF" : "";
  const lines = splitLines(content.slice(mark.length));
  const ending = commonEnding(lines);
  const locator = new HunkLocator(
    lines.map(({ text }) => text),
    path,
  );
  const located = hunks.map((hunk) => ({ hunk, location: locator.locate(hunk) }));
  const ordered = located.toSorted((a, b) => a.location.at - b.location.at);
  const result: Line[] = [];
  let from = 0;
  for (const { hunk, location } of ordered) {
    const end = location.at + location.count;
    if (location.at < from) throw overlap(path, location);
    for (const line of lines.slice(from, location.at)) result.push(line);
    for (const line of newLines(lines.slice(location.at, end), hunk, ending)) result.push(line);
    from = end;
    const last = result.at(-1);
    if (hunk.endsWithoutNewline && from === lines.length && last) last.ending = "";
  }
  for (const line of lines.slice(from)) result.push(line);
  const joined = result.map(
    ({ text, ending: own }, index) => text + (own || (index < result.length - 1 ? ending : "")),
  );
  return { text: mark + joined.join(""), locations: located.map(({ location }) => location) };
}

function newLines(old: readonly Line[], hunk: Hunk, ending: string): Line[] {
  const lines: Line[] = [];
  let at = 0;
  for (const { mark, text } of hunk.lines) {
    const current = old[at];
    if (mark === "+") lines.push({ text, ending });
    else at++;
    // The file's own version of a context line: the patch may lack its trailing space.
    if (mark === " " && current) lines.push({ ...current });
  }
  return lines;
}

function splitLines(content: string): Line[] {
  const lines: Line[] = [];
  let from = 0;
  for (const match of content.matchAll(/\r\n|\n/g)) {
    lines.push({ text: content.slice(from, match.index), ending: match[0] });
    from = match.index + match[0].length;
  }
  if (from < content.length) lines.push({ text: content.slice(from), ending: "" });
  return lines;
}

function commonEnding(lines: readonly Line[]): string {
  const windows = lines.filter(({ ending }) => ending === "\r\n").length;
  return windows * 2 > lines.length ? "\r\n" : "\n";
}

function overlap(path: string, { at }: HunkLocation): ToolError {
  return new ToolError(`Two hunks of the patch for ${path} change the same lines, at line ${at + 1}.`, {
    code: "CONFLICT",
    suggestion: "Join them into one hunk.",
  });
}
