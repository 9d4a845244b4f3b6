import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { BlamedRange } from "#sandbox/sandbox.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine } from "#text/truncate.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const gitLogInput = z.object({
  limit: z
    .number()
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe("Maximum number of commits; default: 10. 1 shows a message as a whole"),
  skip: z.number().int().min(0).max(5_000).optional().describe("Number of commits to skip first"),
  path: z.string().optional().describe("Only commits that changed this file or folder"),
  range: z
    .string()
    .max(500)
    .optional()
    .describe("A revision, or main..topic for the commits of topic that are not in main"),
});
type GitLogInput = z.infer<typeof gitLogInput>;

/** Lists the commits of the base branch or of another branch, newest first. */
export function createGitLogTool({ sandbox, workspace }: ToolServices): NamedTool<GitLogInput, ToolResult> {
  return {
    name: "git_log",
    description: "List commits, newest first. The default is the branch this run started from.",
    inputSchema: gitLogInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ limit = 10, skip = 0, path, range }) => {
      const {
        commits: entries,
        isComplete,
        partDepth,
      } = await sandbox.log({
        limit,
        skip,
        newestPartFirst: true,
        ...(path !== undefined && { path: workspace.resolve(path) }),
        ...(range !== undefined && parseRange(range)),
      });
      const commits = entries.map(({ date, ...entry }) => ({ ...entry, date: date.toISOString() }));
      const describe = ({ commit, date, author, message }: (typeof commits)[number]) =>
        `${commit.slice(0, 7)} ${date.slice(0, 10)} ${author}: ${commits.length > 1 ? shortened(message) : message.trim()}`;
      const lines = commits.map(describe);
      const summary = pluralize(commits.length, "commit");
      // Commit messages and author names are written by anyone whose commit was merged.
      const listed =
        commits.length > 0
          ? wrapUntrusted(lines.join("\n"), "commit messages")
          : (skip === 0 && path !== undefined && (await describeMissing(workspace, path))) || "No commits.";
      const note =
        partDepth === undefined
          ? "Only the latest 5,000 commits were read; older ones may match too."
          : `Only the newest ${partDepth} commits were searched. skip ${skip + commits.length} searches older ones.`;
      return {
        llmContent: isComplete ? listed : `${listed}\n${note}`,
        value: { kind: "git.log", data: { commits }, summary, preview: lines.join("\n") },
      };
    },
  };
}

const maxBodyLines = 4;
const maxLineLength = 200;
const trailer = /^(?:[A-Z][\w-]*-by|Change-Id|Cc): /i;

/** Returns the subject of a commit message and the first lines below it, without trailers. */
function shortened(message: string): string {
  const [subject = "", ...body] = message.split("\n").filter((line) => line.trim() !== "" && !trailer.test(line));
  const shown = body.slice(0, maxBodyLines).map((line) => `  ${truncateLine(line, maxLineLength)}`);
  const rest = body.length - shown.length;
  return [
    truncateLine(subject, maxLineLength),
    ...shown,
    ...(rest > 0 ? [`  … ${pluralize(rest, "more line")}`] : []),
  ].join("\n");
}

/** Says that no commit changed a path that does not exist, and which one may be meant; undefined if it exists. */
async function describeMissing(workspace: Workspace, path: string): Promise<string | undefined> {
  try {
    await workspace.stat(path);
    return undefined;
  } catch (error) {
    if (!(error instanceof ToolError) || error.code !== "FILE_NOT_FOUND") throw error;
    return `No commits: ${path} is neither in this history nor among the files. ${error.suggestion ?? ""}`.trim();
  }
}

/** Parses a revision, or `main..topic` for the commits of topic that are not in main. */
export function parseRange(range: string): { from?: string; exclude?: string } {
  const [exclude = "", from] = range.split("..");
  if (from === undefined) return { from: exclude };
  return { ...(from !== "" && { from }), ...(exclude !== "" && { exclude }) };
}

const maxBranches = 200;

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
      const summary = pluralize(branches.length, "branch", "branches");
      return {
        llmContent: [`${summary}:`, ...lines.slice(0, maxBranches), ...more].join("\n"),
        value: { kind: "git.branches", data: { branches, base, own: branch }, summary, preview: lines.join("\n") },
      };
    },
  };
}

const maxLines = 500;

const gitBlameInput = z.object({
  path: z.string().describe("The file"),
  start_line: z.number().int().min(1).describe("The first line, as read_file numbers it"),
  end_line: z.number().int().min(1).describe(`The last line; at most ${maxLines} lines at once`),
});
type GitBlameInput = z.infer<typeof gitBlameInput>;

/** Shows the commits that last changed the lines of a file, which may explain why they are as they are. */
export function createGitBlameTool({ sandbox, workspace }: ToolServices): NamedTool<GitBlameInput, ToolResult> {
  return {
    name: "git_blame",
    description: "Show the commit, author and date of the last change to each line of a file.",
    inputSchema: gitBlameInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ path, start_line: start, end_line: asked }) => {
      const resolved = workspace.resolve(path);
      const count = countLines(await workspace.readBytes(resolved));
      if (start > count || asked < start) {
        throw new ToolError(`${resolved} has ${pluralize(count, "line")}, and not ${start} to ${asked}.`, {
          code: "INVALID_ARGUMENTS",
        });
      }
      const end = Math.min(asked, count, start + maxLines - 1);
      const ranges = await sandbox.blame({ path: resolved, start, end });
      const listed = ranges.map(describeRange).join("\n");
      const notes = [
        ...(end < Math.min(asked, count) ? [`Ask again for the lines after ${end}.`] : []),
        ...(ranges.some(({ mayBeOlder }) => mayBeOlder)
          ? ["Commits marked with ^ are the oldest that were read: those lines may be older."]
          : []),
      ];
      return {
        // Commit messages and author names are written by anyone whose commit was merged.
        llmContent: [wrapUntrusted(listed, "commit messages"), ...notes].join("\n"),
        value: {
          kind: "git.blame",
          data: { path: resolved, ranges: ranges.map(toData) },
          summary: `${resolved}:${start}-${end}`,
          preview: listed,
        },
      };
    },
  };
}

function countLines(content: Uint8Array): number {
  const breaks = content.reduce((sum, byte) => sum + (byte === 0x0a ? 1 : 0), 0);
  return content.length > 0 && content.at(-1) !== 0x0a ? breaks + 1 : breaks;
}

function describeRange({ start, end, commit, mayBeOlder }: BlamedRange): string {
  const lines = start === end ? `${start}` : `${start}-${end}`;
  if (!commit) return `${lines}: not committed yet`;
  const subject = commit.message.split("\n")[0]?.trim();
  const date = commit.date.toISOString().slice(0, 10);
  return `${lines}: ${mayBeOlder ? "^" : ""}${commit.commit.slice(0, 7)} ${date} ${commit.author}: ${subject}`;
}

function toData({ commit, ...range }: BlamedRange) {
  if (!commit) return range;
  const { commit: oid, author, email, date, message } = commit;
  return { ...range, commit: oid, author, email, date: date.toISOString(), message };
}
