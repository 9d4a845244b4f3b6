import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import { ownPullRequest } from "#toolsets/github/read-pull-request.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { lastReviewedCommit } from "./findings.ts";
import { parseHunks, renderHunks } from "./review-diff.ts";

const input = z.object({
  path: z.string().optional().describe("Only this file"),
  all: z.boolean().optional().describe("Also files that have not changed since this app's last review"),
});
type Input = z.infer<typeof input>;

const maxChars = 60_000;

/** Shows the diff of the pull request with the line numbers that review comments take. */
export function createReadPullRequestDiffTool(services: ToolServices): NamedTool<Input, ToolResult> {
  const { github } = services;
  return {
    name: "read_pull_request_diff",
    description:
      "Read the diff of the pull request with line numbers before and after the change. After a review by this app, only the files that changed since then.",
    inputSchema: input,
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
          data: { files: shown.map((file) => ({ path: file.path })), diff: text.slice(0, maxChars) },
          summary,
          display: { preferredView: "code", language: "diff" },
        },
      };
    },
  };
}

export function notChanged(path: string, number: number): ToolError {
  return new ToolError(`Pull request #${number} does not change ${path}.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "Comment only on files and lines that read_pull_request_diff shows.",
  });
}
