import { ToolError } from "#domain/errors.ts";
import { type HunkLocation, locateHunk } from "./locate-hunk.ts";
import type { Hunk } from "./patch.ts";

export interface AppliedHunks {
  text: string;
  /** Where each hunk went, in lines of the text before. */
  places: HunkLocation[];
}

interface Line {
  text: string;
  /** The line ending, empty on the last line of a file that ends without one. */
  ending: string;
}

/** Applies hunks to a text. Lines they leave alone keep their bytes, line endings and byte order mark included. */
export function applyHunks(content: string, hunks: readonly Hunk[], path: string): AppliedHunks {
  const mark = content.startsWith("\uFEFF") ? "\uFEFF" : "";
  const lines = splitLines(content.slice(mark.length));
  const texts = lines.map(({ text }) => text);
  const ending = commonEnding(lines);
  const placed = hunks.map((hunk) => ({ hunk, place: locateHunk(texts, hunk, path) }));
  const ordered = placed.toSorted((a, b) => a.place.at - b.place.at);
  const result: Line[] = [];
  let from = 0;
  for (const { hunk, place } of ordered) {
    if (place.at < from) throw overlap(path, place);
    result.push(
      ...lines.slice(from, place.at),
      ...replace(lines.slice(place.at, place.at + place.count), hunk, ending),
    );
    from = place.at + place.count;
    const last = result.at(-1);
    if (hunk.endsWithoutNewline && from === lines.length && last) last.ending = "";
  }
  result.push(...lines.slice(from));
  const joined = result.map(
    ({ text, ending: own }, index) => text + (own || (index < result.length - 1 ? ending : "")),
  );
  return { text: mark + joined.join(""), places: placed.map(({ place }) => place) };
}

function replace(old: readonly Line[], hunk: Hunk, ending: string): Line[] {
  const lines: Line[] = [];
  let at = 0;
  for (const { mark, text } of hunk.lines) {
    const standing = old[at];
    if (mark === "+") lines.push({ text, ending });
    else at++;
    // As it stands: the patch may have it without its trailing space.
    if (mark === " " && standing) lines.push({ ...standing });
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
