import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const shownBranches = 200;

/** The branches of the repository. */
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
        name === base ? " (this run's base)" : name === branch ? " (this run's own)" : "";
      const lines = branches.map(({ name, commit }) => `${name} ${commit.slice(0, 7)}${note(name)}`);
      const more = lines.length > shownBranches ? [`… and ${lines.length - shownBranches} more.`] : [];
      const summary = `${branches.length} ${branches.length === 1 ? "branch" : "branches"}`;
      return {
        llmContent: [`${summary}:`, ...lines.slice(0, shownBranches), ...more].join("\n"),
        value: { kind: "git.branches", data: { branches, base, own: branch }, summary, preview: lines.join("\n") },
      };
    },
  };
}
