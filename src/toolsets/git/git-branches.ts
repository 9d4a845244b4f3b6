import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const maxBranches = 200;

/** Lists the branches of the repository. */
export function createGitBranchesTool({ sandbox, branch }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "git_branches",
    description: "List the branches of the repository.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async (_, { abortSignal }) => {
      const branches = await sandbox.branches(abortSignal);
      const { branch: base } = sandbox.base;
      const note = (name: string) =>
        name === base ? " (this run's base)" : name === branch ? " (this run's branch)" : "";
      const lines = branches.map(({ name, commit }) => `${name} ${commit.slice(0, 7)}${note(name)}`);
      const more = lines.length > maxBranches ? [`… and ${lines.length - maxBranches} more.`] : [];
      const summary = `${branches.length} ${branches.length === 1 ? "branch" : "branches"}`;
      return {
        llmContent: [`${summary}:`, ...lines.slice(0, maxBranches), ...more].join("\n"),
        value: { kind: "git.branches", data: { branches, base, own: branch }, summary, preview: lines.join("\n") },
      };
    },
  };
}
