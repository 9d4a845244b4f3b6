import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Change } from "#domain/workspace.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const letters: Record<Change["status"], string> = { added: "A", modified: "M", deleted: "D" };

/** Lists the files that differ from the base commit. */
export function createGitStatusTool({ workspace, sandbox, branch }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "git_status",
    description: "List the files that this run has added, modified or deleted.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    manualExecution: { mode: "both", label: "Show changed files", category: "Git" },
    execute: async () => {
      const changes = await workspace.changes();
      const pathsOf = (status: Change["status"]) =>
        changes.filter((change) => change.status === status).map(({ path }) => path);
      const [added, modified, deleted] = [pathsOf("added"), pathsOf("modified"), pathsOf("deleted")];
      const isClean = changes.length === 0;
      const summary = isClean
        ? "No changes"
        : `${added.length} added, ${modified.length} modified, ${deleted.length} deleted`;
      const { staged } = await sandbox.staged();
      const lines = changes.map(
        ({ path, status }) => `${letters[status]} ${path}${staged.includes(path) ? " (staged)" : ""}`,
      );
      return {
        llmContent: [
          `On ${branch}, from ${sandbox.base.branch} at ${sandbox.base.commit.slice(0, 7)}. ${summary}.`,
          ...lines,
        ].join("\n"),
        value: {
          kind: "git.status",
          data: { branch, base: sandbox.base, added, modified, deleted, staged, isClean },
          summary,
          preview: lines.join("\n"),
          display: { preferredView: "tree", collapsed: isClean },
        },
      };
    },
  };
}
