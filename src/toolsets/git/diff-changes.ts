import type { Change, Workspace } from "#domain/workspace.ts";
import { diffResult } from "#toolsets/filesystem/file-diff.ts";
import { isBinaryContent } from "#toolsets/filesystem/text-file.ts";

export interface ChangeDiff extends Change {
  additions: number;
  deletions: number;
  /** A unified diff, or a sentence for what is no text. */
  diff: string;
}

/** The differences from the base commit, file by file, for the given path or everything. */
export async function diffChanges(workspace: Workspace, path = ""): Promise<ChangeDiff[]> {
  const root = workspace.resolve(path);
  const changes = (await workspace.changes()).filter(
    (change) => root === "" || change.path === root || change.path.startsWith(`${root}/`),
  );
  const diffs: ChangeDiff[] = [];
  for (const change of changes) diffs.push(await diffChange(workspace, change));
  return diffs;
}

async function diffChange(workspace: Workspace, change: Change): Promise<ChangeDiff> {
  const { path, status } = change;
  const before = status === "added" ? undefined : await workspace.readBase(path);
  const after = status === "deleted" ? undefined : await workspace.read(path);
  if ((before && isBinaryContent(before)) || (after && isBinaryContent(after))) {
    return { ...change, additions: 0, deletions: 0, diff: `Binary file ${path}: ${after?.length ?? 0} bytes\n` };
  }
  const { diff = "", stats } = diffResult({ path, before: textOf(before), after: textOf(after) });
  return { ...change, additions: stats?.additions ?? 0, deletions: stats?.deletions ?? 0, diff };
}

const textOf = (content: Uint8Array | undefined) => content && Buffer.from(content).toString("utf8");

/** `2 files changed, +3 −1`. */
export function summarizeDiffs(diffs: readonly ChangeDiff[]): string {
  const additions = diffs.reduce((sum, diff) => sum + diff.additions, 0);
  const deletions = diffs.reduce((sum, diff) => sum + diff.deletions, 0);
  return `${diffs.length} ${diffs.length === 1 ? "file" : "files"} changed, +${additions} −${deletions}`;
}
