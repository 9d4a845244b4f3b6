import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { DiffSide } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import { ownPullRequest } from "#toolsets/github/pull-request.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { lastReviewedCommit } from "./findings.ts";

const diffInput = z.object({
  path: z.string().optional().describe("Only this file"),
  all: z.boolean().optional().describe("Also files that have not changed since this app's last review"),
});
type DiffInput = z.infer<typeof diffInput>;

const maxChars = 60_000;

const readTool = "read_pull_request_diff";

/** Shows the diff of the pull request with the line numbers that review comments take. */
export function createReadPullRequestDiffTool(services: ToolServices): NamedTool<DiffInput, ToolResult> {
  const { github } = services;
  return {
    name: readTool,
    description:
      "Read the diff of the pull request with line numbers before and after the change. After a review by this app, only the files that changed since then.",
    inputSchema: diffInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ path, all = false }) => {
      const pull = await ownPullRequest(services);
      const [files, reviewed] = await Promise.all([
        github.readDiff(pull.number),
        all ? undefined : lastReviewedCommit(github, pull.number),
      ]);
      const paths = reviewed === undefined ? undefined : await github.comparePaths(reviewed, pull.head.commit);
      // Without a comparison, every file is shown.
      const changed = paths && new Set(paths);
      const shown = files.filter(
        (file) => (path === undefined || file.path === path) && (!changed || changed.has(file.path)),
      );
      if (path !== undefined && !files.some((file) => file.path === path)) throw notChanged(path, pull.number);
      const summary = `${shown.length} of ${files.length} changed files of #${pull.number}`;
      const since = reviewed && changed ? `, changed since ${reviewed.slice(0, 7)}, which this app reviewed last` : "";
      const text = shown
        .map(
          ({ path: name, patch }) =>
            `${name}\n${patch === undefined ? "(no text diff)" : renderHunks(parseHunks(patch))}`,
        )
        .join("\n\n");
      const cut = text.length > maxChars ? "\n(Cut here. Read the other files one by one with path.)" : "";
      return {
        llmContent: `${summary}${since}.\n${shown.length > 0 ? untrustedText(`\`\`\`\`\`diff\n${text.slice(0, maxChars)}\n\`\`\`\`\``, `the diff of #${pull.number}`) : ""}${cut}`,
        value: {
          kind: "git.diff",
          data: {
            commit: pull.head.commit,
            files: shown.map((file) => ({ path: file.path })),
            diff: text.slice(0, maxChars),
          },
          summary,
          display: { preferredView: "code", language: "diff" },
        },
      };
    },
  };
}

const DiffRead = z.object({ data: z.object({ commit: z.string() }) });

/** Returns the head of the pull request when the run last read its diff; undefined if it has not. */
export function lastReadCommit(history: readonly FinishedCall[]): string | undefined {
  const last = history.findLast(({ tool, result }) => tool === readTool && !result.error);
  return DiffRead.safeParse(last?.result.value).data?.data.commit;
}

export function notChanged(path: string, number: number): ToolError {
  return new ToolError(`Pull request #${number} does not change ${path}.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "Comment only on files and lines that read_pull_request_diff shows.",
  });
}

interface DiffLine {
  text: string;
  /** The number of the line before the change; undefined for an added line. */
  left: number | undefined;
  right: number | undefined;
}

/** The lines of a file that a review can comment on, by hunk. */
export type DiffHunks = DiffLine[][];

export function parseHunks(patch: string): DiffHunks {
  const hunks: DiffHunks = [];
  let [left, right] = [0, 0];
  for (const text of patch.split("\n")) {
    const header = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (header) {
      [left, right] = [Number(header[1]), Number(header[2])];
      hunks.push([]);
    } else if (/^[ +-]/.test(text)) {
      const line = {
        text: text.slice(1),
        left: text.startsWith("+") ? undefined : left++,
        right: text.startsWith("-") ? undefined : right++,
      };
      hunks.at(-1)?.push(line);
    }
  }
  return hunks;
}

/** Returns the lines of a range, which must be in one hunk; undefined if they are not. */
export function linesOf(
  hunks: DiffHunks,
  { startLine, line, side }: { startLine: number; line: number; side: DiffSide },
): string[] | undefined {
  const numberOf = ({ left, right }: DiffLine) => (side === "LEFT" ? left : right);
  for (const hunk of hunks) {
    const numbers = hunk.map(numberOf);
    if (!numbers.includes(startLine) || !numbers.includes(line)) continue;
    return hunk.filter((one) => isBetween(numberOf(one), startLine, line)).map(({ text }) => text);
  }
  return undefined;
}

function isBetween(number: number | undefined, first: number, last: number): boolean {
  return number !== undefined && number >= first && number <= last;
}

/** Describes the lines that a review can comment on, such as `1-7, 20-31`. */
export function describeHunks(hunks: DiffHunks, side: DiffSide): string {
  const ranges = hunks.flatMap((hunk) => {
    const numbers = hunk.flatMap(({ left, right }) => (side === "LEFT" ? left : right) ?? []);
    return numbers.length === 0 ? [] : [`${numbers[0]}-${numbers.at(-1)}`];
  });
  return ranges.join(", ") || "none";
}

/** Renders a diff with the line numbers that a review comment takes: before and after the change. */
export function renderHunks(hunks: DiffHunks): string {
  return hunks.map((hunk) => hunk.map(renderLine).join("\n")).join("\n...\n");
}

function renderLine({ text, left, right }: DiffLine): string {
  const sign = left === undefined ? "+" : right === undefined ? "-" : " ";
  return `${String(left ?? "").padStart(5)} ${String(right ?? "").padStart(5)} ${sign}${text}`;
}
