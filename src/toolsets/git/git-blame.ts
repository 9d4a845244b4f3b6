import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { BlamedRange } from "#sandbox/sandbox.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const maxLines = 500;

const input = z.object({
  path: z.string().describe("The file"),
  start_line: z.number().int().min(1).describe("The first line, as read_file numbers it"),
  end_line: z.number().int().min(1).describe(`The last line; at most ${maxLines} lines at once`),
});
type Input = z.infer<typeof input>;

/** Shows the commits that last changed the lines of a file, which may explain why they are as they are. */
export function createGitBlameTool({ sandbox, workspace }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_blame",
    description: "Show the commit, author and date of the last change to each line of a file.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ path, start_line: start, end_line: asked }) => {
      const resolved = workspace.resolve(path);
      const count = countLines(await workspace.readBytes(resolved));
      if (start > count || asked < start) {
        throw new ToolError(
          `${resolved} has ${count} ${count === 1 ? "line" : "lines"}, and not ${start} to ${asked}.`,
          {
            code: "INVALID_ARGUMENTS",
          },
        );
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
