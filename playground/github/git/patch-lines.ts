import { structuredPatch } from "diff";
import type { Side } from "#playground/github/world.ts";
import { findEntry, readBlob } from "./git-repository.ts";

interface PatchLine {
  text: string;
  /** The line's number before the change; undefined for an added line. */
  left: number | undefined;
  right: number | undefined;
}

/** Parses the hunks of a patch with their line numbers. */
function readHunks(patch: string): { header: string; lines: PatchLine[] }[] {
  return patch
    .split(/^(?=@@ )/m)
    .filter((hunk) => hunk.startsWith("@@ "))
    .map((hunk) => {
      const [header = "", ...rest] = hunk.replace(/\n$/, "").split("\n");
      const [, first, second] = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(header) ?? [];
      let [left, right] = [Number(first), Number(second)];
      const lines = rest
        .filter((text) => !text.startsWith("\\"))
        .map((text) => ({
          text,
          left: text.startsWith("+") ? undefined : left++,
          right: text.startsWith("-") ? undefined : right++,
        }));
      return { header, lines };
    });
}

/** Returns a hunk from its header to this line, as a comment shows it; undefined for a line outside the diff. */
export function diffHunkAt(patch: string, side: Side, line: number): string | undefined {
  for (const { header, lines } of readHunks(patch)) {
    const index = lines.findIndex(({ left, right }) => (side === "LEFT" ? left : right) === line);
    if (index >= 0) return [header, ...lines.slice(0, index + 1).map(({ text }) => text)].join("\n");
  }
  return undefined;
}

/** Returns the number of a line in a later commit; undefined if the line was changed or removed. */
export async function followLine(
  directory: string,
  { path, line, from, to }: { path: string; line: number; from: string; to: string },
): Promise<number | undefined> {
  const [before, after] = await Promise.all([from, to].map((commit) => findEntry(directory, commit, path)));
  if (before?.type !== "blob" || after?.type !== "blob") return undefined;
  if (before.sha === after.sha) return line;

  const [old, now] = await Promise.all([before, after].map(({ sha }) => readBlob(directory, sha)));
  const { hunks } = structuredPatch("", "", String(old), String(now), "", "", { context: 0 });
  let shift = 0;
  for (const { oldStart, oldLines, newLines } of hunks) {
    // An insertion is reported after the line it follows.
    const start = oldLines === 0 ? oldStart + 1 : oldStart;
    if (line < start) break;
    if (line < start + oldLines) return undefined;
    shift += newLines - oldLines;
  }
  return line + shift;
}
