import { formatPatch, type StructuredPatch, structuredPatch } from "diff";
import type { z } from "zod";
import type { DiffResultValue } from "#domain/result.ts";

/** A change of one file's text; undefined means there is no file. */
export interface TextChange {
  path: string;
  before: string | undefined;
  after: string | undefined;
}

// Above this the result keeps the hunks and leaves out the text before; the log holds every result for ever.
const keptOriginalBytes = 100_000;

/** The hunks between two texts; undefined when comparing them takes too long. */
export function hunksOf({ path, before, after }: TextChange): StructuredPatch | undefined {
  return structuredPatch(
    before === undefined ? "/dev/null" : `a/${path}`,
    after === undefined ? "/dev/null" : `b/${path}`,
    before ?? "",
    after ?? "",
    undefined,
    undefined,
    { context: 3, timeout: 1_000 },
  );
}

/** A unified diff for people, empty where nothing changes. */
export function unifiedDiff(change: TextChange): string {
  const patch = hunksOf(change);
  if (!patch) return `--- a/${change.path}\n+++ b/${change.path}\n(too different to compare)\n`;
  if (patch.hunks.length === 0 && change.before !== undefined && change.after !== undefined) return "";
  return formatPatch(patch).replace(/^=+\n/, "");
}

/** What people see of a change. */
export function diffResult(change: TextChange): z.infer<typeof DiffResultValue> {
  const { path, before, after } = change;
  const patch = hunksOf(change);
  const stats = countLines(patch);
  const bytesWritten = Buffer.byteLength(after ?? "");
  const action = before === undefined ? "create" : after === undefined ? "delete" : "update";
  return {
    kind: "diff",
    path,
    ...(before !== undefined && before.length <= keptOriginalBytes ? { original: before } : {}),
    modified: after ?? "",
    isNew: before === undefined,
    bytesWritten,
    ...(patch ? { diff: unifiedDiff(change), hunks: patch.hunks.map(copyHunk), stats } : {}),
    action,
    summary: `${summaryOf[action]} ${path} (${stats ? `+${stats.additions} −${stats.deletions}` : `${bytesWritten} bytes`})`,
  };
}

const summaryOf = { create: "Created", update: "Changed", delete: "Deleted" };

function copyHunk({ oldStart, oldLines, newStart, newLines, lines }: StructuredPatch["hunks"][number]) {
  return { oldStart, oldLines, newStart, newLines, lines };
}

function countLines(patch: StructuredPatch | undefined) {
  if (!patch) return undefined;
  const lines = patch.hunks.flatMap((hunk) => hunk.lines);
  const additions = lines.filter((line) => line.startsWith("+")).length;
  const deletions = lines.filter((line) => line.startsWith("-")).length;
  return { additions, deletions, changes: additions + deletions };
}
