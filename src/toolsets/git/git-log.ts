import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  limit: z.number().int().min(1).max(100).optional().describe("How many commits; default 10"),
  path: z.string().optional().describe("Only commits that touched this file or folder"),
});
type Input = z.infer<typeof input>;

/** The commits the run stands on, newest first. */
export function createGitLogTool({ sandbox, workspace }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_log",
    description: "List the latest commits of the branch this run started from.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ limit = 10, path }) => {
      const entries = await sandbox.log({ limit, ...(path === undefined ? {} : { path: workspace.resolve(path) }) });
      const commits = entries.map(({ date, ...entry }) => ({ ...entry, date: date.toISOString() }));
      const lines = commits.map(
        ({ commit, date, author, message }) =>
          `${commit.slice(0, 7)} ${date.slice(0, 10)} ${author}: ${message.trim()}`,
      );
      const summary = `${commits.length} ${commits.length === 1 ? "commit" : "commits"}`;
      return {
        // Anyone whose commit was merged wrote these.
        llmContent: commits.length === 0 ? "No commits." : wrapUntrusted(lines.join("\n"), "commit messages"),
        value: { kind: "git.log", data: { commits }, summary, preview: lines.join("\n") },
      };
    },
  };
}
