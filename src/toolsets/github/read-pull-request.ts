import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { PullRequest } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

/** Returns the pull request that the run opened, or else the one of its thread. Throws a ToolError if there is neither. */
export async function ownPullRequest({ github, spec, branch }: ToolServices): Promise<PullRequest> {
  const { isPullRequest, thread } = spec.origin;
  const opened = spec.pullRequestBranch === undefined ? await github.findPullRequest(branch) : undefined;
  const pull = opened ?? (isPullRequest ? await github.getPullRequest(thread) : undefined);
  if (pull) return pull;
  throw new ToolError("This run has no pull request yet.", {
    code: "FILE_NOT_FOUND",
    suggestion: "Open one with open_pull_request when the change is ready.",
  });
}

/** Reads the run's pull request with its review comments. */
export function createReadPullRequestTool(services: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_pull_request",
    description: "Read the pull request this run works on or opened, with its review comments and their ids.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async () => {
      const pull = await ownPullRequest(services);
      const comments = await services.github.listReviewComments(pull.number);
      const state = pull.merged ? "merged" : `${pull.state}${pull.draft ? ", draft" : ""}`;
      const facts = `#${pull.number}, ${state}, ${pull.head.branch} at ${pull.head.commit.slice(0, 7)} into ${pull.base.branch}`;
      const reviews = comments.map(
        ({ id, path, line, body, author }) =>
          `Review comment ${id} on ${onOneLine(path)}${line === null ? "" : `:${line}`}\n${untrustedText(body, `@${author}`)}`,
      );
      const { number, url, title, body, draft, merged, head, base } = pull;
      return {
        llmContent: [`${facts}\n${untrustedText(`${title}\n\n${body}`, "the pull request's author")}`, ...reviews].join(
          "\n\n",
        ),
        value: {
          kind: "github.pull_request",
          data: { number, url, title, body, draft, merged, state: pull.state, head, base, comments },
          summary: `#${number} ${title}`,
        },
      };
    },
  };
}

/** Paths are untrusted and may contain line breaks. */
function onOneLine(path: string): string {
  return path.replace(/[\s\p{Cc}]+/gu, " ").slice(0, 300);
}
