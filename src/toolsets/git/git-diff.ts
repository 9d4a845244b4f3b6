import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Change, Workspace } from "#domain/workspace.ts";
import { EventLoopYielder } from "#sandbox/event-loop.ts";
import { compareTexts, unifiedDiff } from "#toolsets/filesystem/file-changes.ts";
import { decodeText } from "#toolsets/filesystem/text-file.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  path: z.string().optional().describe("Only this file or folder; default: every change"),
});
type Input = z.infer<typeof input>;

/** Shows the run's changes as a unified diff against the base commit. */
export function createGitDiffTool({ workspace }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_diff",
    description: "Show the changes of this run as a unified diff against the base commit.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    manualExecution: { mode: "both", label: "Show the changes", category: "Git" },
    execute: async ({ path }) => {
      const diffs = await diffChanges(workspace, path);
      const diff = diffs.map((file) => file.diff).join("");
      const summary = diffs.length === 0 ? "No changes" : summarizeDiffs(diffs);
      const files = diffs.map(({ path, status, additions, deletions }) => ({ path, status, additions, deletions }));
      return {
        llmContent: diffs.length === 0 ? `${summary}.` : `${summary}\n${diff}`,
        value: {
          kind: "git.diff",
          data: { files, diff },
          summary,
          preview: diff,
          display: { preferredView: "code", language: "diff" },
        },
      };
    },
  };
}

export interface ChangeDiff extends Change {
  additions: number;
  deletions: number;
  /** A unified diff, or a sentence for a binary file. */
  diff: string;
}

/** Returns a diff against the base commit for each changed file at or below `path`. */
export async function diffChanges(workspace: Workspace, path = ""): Promise<ChangeDiff[]> {
  const root = workspace.resolve(path);
  const changes = (await workspace.changes()).filter(
    (change) => root === "" || change.path === root || change.path.startsWith(`${root}/`),
  );
  const diffs: ChangeDiff[] = [];
  const yielder = new EventLoopYielder();
  for (const change of changes) {
    if (yielder.isDue) await yielder.turn();
    diffs.push(await diffChange(workspace, change));
  }
  return diffs;
}

async function diffChange(workspace: Workspace, change: Change): Promise<ChangeDiff> {
  const { path, status } = change;
  const before = status === "added" ? undefined : await workspace.readBase(path);
  const after = status === "deleted" ? undefined : await workspace.readBytes(path);
  const [old, text] = [before && decodeText(before)?.text, after && decodeText(after)?.text];
  if ((before && old === undefined) || (after && text === undefined)) {
    return { ...change, additions: 0, deletions: 0, diff: `Binary file ${path}: ${after?.length ?? 0} bytes\n` };
  }
  const compared = compareTexts({ path, before: old, after: text });
  return { ...change, additions: compared.additions, deletions: compared.deletions, diff: unifiedDiff(compared) };
}

/** `2 files changed, +3 −1`. */
function summarizeDiffs(diffs: readonly ChangeDiff[]): string {
  const additions = diffs.reduce((sum, diff) => sum + diff.additions, 0);
  const deletions = diffs.reduce((sum, diff) => sum + diff.deletions, 0);
  return `${diffs.length} ${diffs.length === 1 ? "file" : "files"} changed, +${additions} −${deletions}`;
}
