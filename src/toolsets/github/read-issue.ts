import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { Issue } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

/** Reads the current state of the issue or pull request of the run's thread. */
export function createReadIssueTool({ github, spec }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_issue",
    description: "Read the issue of this thread: title, text, labels and state.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async () => {
      const issue = await github.getIssue(spec.origin.thread);
      if (!issue) throw missing(spec.origin.thread);

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
