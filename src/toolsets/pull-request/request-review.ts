import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import { type GitHub, GitHubRefusal } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { quoted } from "#text/visible-text.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import { ownPullRequest } from "#toolsets/github/read-pull-request.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  reviewers: z.array(z.string().trim().min(1).max(100)).min(1).max(10).describe("Logins of people, without @"),
});
type Input = z.infer<typeof input>;

/** Requests reviews of the run's pull request. Requesting one again has no effect. */
export function createRequestReviewTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<Input, ToolResult> {
  const { github } = services;
  return {
    name: "request_review",
    description:
      "Ask people to review the pull request of this run. update_pull_request asks those who requested changes.",
    inputSchema: input,
    needsApproval: configuredApproval("request_review", approval),
    approvalReason: ({ reviewers }) => `The worker wants to request a review from ${reviewers.map(quoted).join(", ")}.`,
    preview: ({ reviewers }) => `Reviewers: ${reviewers.join(", ")}`,
    execute: async ({ reviewers }, { abortSignal: signal }) => {
      const { number } = await ownPullRequest(services);
      const request = () => github.requestReviewers(number, reviewers);
      await withRetries(request, { signal }).catch((error: unknown) => {
        if (!isUnacceptable(error)) throw error;
        throw new ToolError(`GitHub does not accept these reviewers: ${reviewers.join(", ")}.`, {
          code: "INVALID_ARGUMENTS",
          suggestion: "Name collaborators of the repository other than the author of the pull request.",
          cause: error,
        });
      });
      const summary = `Requested a review of #${number} from ${reviewers.join(", ")}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { number, reviewers }, summary } };
    },
  };
}

function isUnacceptable(error: unknown): boolean {
  return error instanceof GitHubRefusal && error.status === 422;
}

/**
 * Requests another review from everyone whose last review of an earlier commit requested changes. Returns their logins,
 * without those that GitHub rejects, such as former collaborators.
 */
export async function requestNextReviews(github: GitHub, number: number, commit: string): Promise<string[]> {
  const decided = (await github.listReviews(number)).filter(({ state }) => state !== "commented");
  const last = new Map(decided.map((review) => [review.author, review]));
  const waiting = [...last.values()].filter(
    (review) => review.state === "changes_requested" && review.commit !== commit,
  );
  const requested: string[] = [];
  for (const { author } of waiting) {
    const isRequested = await github.requestReviewers(number, [author]).then(
      () => true,
      (error: unknown) => {
        if (!isUnacceptable(error)) throw error;
        return false;
      },
    );
    if (isRequested) requested.push(author);
  }
  return requested;
}
