import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { previewChanges } from "#toolsets/filesystem/file-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  paths: z.array(z.string().min(1)).min(1).max(200).describe("Changed files, or folders for every change below them"),
});
type Input = z.infer<typeof input>;

/** Restores files to their content in the base commit. The approval shows the changes that would be lost. */
export function createGitDiscardTool({ sandbox, workspace }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_discard",
    description: "Discard this run's changes to some files and restore their content from the base commit.",
    inputSchema: input,
    needsApproval: true,
    approvalReason: ({ paths }) => `The worker wants to discard its changes to ${paths.join(", ")}.`,
    preview: async ({ paths }) => {
      const folders = paths.map((path) => workspace.resolve(path));
      const lost = (await sandbox.changedFiles()).filter(({ path }) =>
        folders.some((folder) => folder === "" || path === folder || path.startsWith(`${folder}/`)),
      );
      return previewChanges(lost.map(({ path, before, after }) => ({ path, before: after, after: before })));
    },
    execute: async ({ paths }) => {
      const discarded = await sandbox.discard(paths.map((path) => workspace.resolve(path)));
      const summary = `Discarded the changes to ${discarded.join(", ")}`;
      return { llmContent: `${summary}.`, value: { kind: "git.discarded", data: { discarded }, summary } };
    },
  };
}
