import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { Issue } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  number: z.number().int().positive().optional().describe("Another issue or pull request of this repository"),
});
type Input = z.infer<typeof input>;

/** Reads the current state of the issue or pull request of the run's thread, or of another of the repository. */
export function createReadIssueTool({ github, spec }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "read_issue",
    description: "Read the issue of this thread: title, text, labels and state.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ number: asked = spec.origin.thread }) => {
      const issue = await github.getIssue(asked);
      if (!issue) throw missing(asked);

      const { number, state, labels, author, title } = issue;
      const facts = `#${number}, ${state}, by @${author}, labels: ${labels.join(", ") || "none"}`;
      return {
        llmContent: `${facts}\n${untrustedText(`${title}\n\n${issue.body}`, `@${author}`)}`,
        value: { kind: "github.issue", data: issueData(issue), summary: `#${number} ${title}` },
      };
    },
  };
}

export function issueData({ number, title, body, author, state, labels }: Issue) {
  return { number, title, body, author, state, labels };
}

function missing(number: number): ToolError {
  return new ToolError(`#${number} was not found.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "It may have been deleted or transferred. Report this and stop.",
  });
}
