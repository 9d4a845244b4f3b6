import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  limit: z.number().int().min(1).max(100).optional().describe("Maximum number of commits; default: 10"),
  skip: z.number().int().min(0).max(5_000).optional().describe("Number of commits to skip first"),
  path: z.string().optional().describe("Only commits that changed this file or folder"),
  range: z
    .string()
    .max(500)
    .optional()
    .describe("A branch, or main..topic for the commits of topic that are not in main"),
});
type Input = z.infer<typeof input>;

/** Lists the commits of the base branch or of another branch, newest first. */
export function createGitLogTool({ sandbox, workspace }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_log",
    description: "List commits, newest first. The default is the branch this run started from.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ limit = 10, skip = 0, path, range }) => {
      const { commits: entries, isComplete } = await sandbox.log({
        limit,
        skip,
        ...(path !== undefined && { path: workspace.resolve(path) }),
        ...(range !== undefined && parseRange(range)),
      });
      const commits = entries.map(({ date, ...entry }) => ({ ...entry, date: date.toISOString() }));
      const lines = commits.map(
        ({ commit, date, author, message }) =>
          `${commit.slice(0, 7)} ${date.slice(0, 10)} ${author}: ${message.trim()}`,
      );
      const summary = `${commits.length} ${commits.length === 1 ? "commit" : "commits"}`;
      // Commit messages and author names are written by anyone whose commit was merged.
      const listed = commits.length === 0 ? "No commits." : wrapUntrusted(lines.join("\n"), "commit messages");
      const note = "Older history was not read (at most 5,000 commits are), so there may be more commits.";
      return {
        llmContent: isComplete ? listed : `${listed}\n${note}`,
        value: { kind: "git.log", data: { commits }, summary, preview: lines.join("\n") },
      };
    },
  };
}

function parseRange(range: string): { from?: string; exclude?: string } {
  const [exclude = "", from] = range.split("..");
  if (from === undefined) return { from: exclude };
  return { ...(from !== "" && { from }), ...(exclude !== "" && { exclude }) };
}

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
