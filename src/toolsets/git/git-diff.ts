import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { diffChanges, summarizeDiffs } from "./diff-changes.ts";

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
