import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { previewChanges } from "#toolsets/filesystem/preview-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { mergeResult } from "./merge-result.ts";

const mergeInput = z.object({
  branch: z.string().min(1).describe("The branch to merge into the working files"),
  with_conflicts: z
    .boolean()
    .optional()
    .describe("Write files that conflict with markers, instead of changing nothing"),
});
type MergeInput = z.infer<typeof mergeInput>;

const pullInput = z.object({ with_conflicts: mergeInput.shape.with_conflicts });
type PullInput = z.infer<typeof pullInput>;

/** Merges another branch of the repository into the run's files. Asks: whoever can push a branch wrote it. */
export function createGitMergeTool({ sandbox }: ToolServices): NamedTool<MergeInput, ToolResult> {
  return {
    name: "git_merge",
    description: "Merge another branch into the files of this run, by content. With conflicts nothing is changed.",
    inputSchema: mergeInput,
    needsApproval: true,
    approvalReason: ({ branch }) => `The worker wants to merge the branch ${branch} into its files.`,
    preview: async ({ branch, with_conflicts }, { abortSignal }) => {
      const options = { withConflicts: with_conflicts, signal: abortSignal };
      const { commit, files } = await sandbox.previewMerge(branch, options);
      return { ...previewChanges(files), bindings: { [commitOf(branch)]: commit } };
    },
    execute: async ({ branch, with_conflicts }, { abortSignal, approved }) => {
      const commit = approved?.bindings?.[commitOf(branch)];
      const options = { withConflicts: with_conflicts, commit, signal: abortSignal };
      return mergeResult(branch, await sandbox.mergeBranch(branch, options));
    },
  };
}

const commitOf = (branch: string) => `commit of ${branch}`;

/** Brings in what is new on the branch the run started from. */
export function createGitPullTool({ sandbox }: ToolServices): NamedTool<PullInput, ToolResult> {
  return {
    name: "git_pull",
    description: "Bring in what has become of the branch this run started from. With conflicts nothing is changed.",
    inputSchema: pullInput,
    needsApproval: false,
    execute: async ({ with_conflicts }, { abortSignal }) => {
      const { branch } = sandbox.base;
      return mergeResult(
        branch,
        await sandbox.mergeBranch(branch, { withConflicts: with_conflicts, signal: abortSignal }),
      );
    },
  };
}
