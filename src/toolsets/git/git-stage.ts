import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  paths: z.array(z.string().min(1)).min(1).max(200).describe("Changed files, or folders for every change below them"),
  unstage: z.boolean().optional().describe("Remove the files from the staged set"),
});
type Input = z.infer<typeof input>;

/** Selects the files that the next push includes. */
export function createGitStageTool({ sandbox }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_stage",
    description:
      "Select the changed files for the pull request. With no files staged, the pull request includes every change; otherwise only the staged files.",
    inputSchema: input,
    needsApproval: false,
    execute: async ({ paths, unstage = false }) => {
      const changed = unstage ? await sandbox.unstage(paths) : await sandbox.stage(paths);
      const status = await sandbox.staged();
      const summary = `${unstage ? "Unstaged" : "Staged"} ${changed.length} ${changed.length === 1 ? "file" : "files"}`;
      const lines = [
        ...status.staged.map((path) => `staged   ${path}`),
        ...status.unstaged.map((path) => `unstaged ${path}`),
      ];
      return {
        llmContent: [`${summary}.`, ...lines].join("\n"),
        value: { kind: "git.staged", data: status, summary, preview: lines.join("\n") },
      };
    },
  };
}
