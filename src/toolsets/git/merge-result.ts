import type { ToolResult } from "#domain/result.ts";
import type { MergeResult } from "#sandbox/git-sandbox.ts";

/** What a merge came to, for both readers. */
export function mergeResult(name: string, { commit, merged, conflicts, applied }: MergeResult): ToolResult {
  const data = {
    branch: name,
    commit,
    merged,
    conflicts: conflicts.map(({ path, kind }) => ({ path, kind })),
    applied,
  };
  const summary = summarize(name, { merged: merged.length, conflicts: conflicts.length, applied });
  const lines = [
    ...(applied ? merged.map((path) => `merged   ${path}`) : []),
    ...conflicts.map(({ path, kind }) => `conflict ${path} (${kind})`),
  ];
  const next =
    conflicts.length === 0
      ? []
      : applied
        ? ["Edit the files with markers, then call git_check_conflicts."]
        : ["Nothing was changed. Call git_merge with with_conflicts to get the files with markers."];
  return {
    llmContent: [`${summary}.`, ...lines, ...next].join("\n"),
    value: { kind: "git.merge", data, summary, preview: lines.join("\n") },
  };
}

function summarize(name: string, count: { merged: number; conflicts: number; applied: boolean }): string {
  if (count.conflicts > 0) {
    return `${count.applied ? "Merged" : "Could not merge"} ${name}: ${count.conflicts} ${count.conflicts === 1 ? "conflict" : "conflicts"}`;
  }
  return count.merged === 0 ? `${name} holds nothing new` : `Merged ${name}: ${count.merged} files changed`;
}
