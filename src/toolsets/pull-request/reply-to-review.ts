import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import type { ReviewComment } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { postMarker } from "#text/comment-marker.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import { ownPullRequest } from "#toolsets/github/read-pull-request.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  review_comment_id: z.number().int().positive().describe("The ID of the comment to reply to, from read_pull_request"),
  done: z
    .boolean()
    .optional()
    .describe("The pushed commit does what the comment asks for; the reply then names this commit"),
  text: z.string().trim().min(1).max(60_000).describe("The reply, in Markdown"),
});
type Input = z.infer<typeof input>;

/** Replies to a review comment on the run's own pull request, once per comment. */
export function createReplyToReviewTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<Input, ToolResult> {
  const { github, sanitize } = services;
  return {
    name: "reply_to_review",
    description: "Reply to a review comment on the pull request of this run.",
    inputSchema: input,
    needsApproval: configuredApproval("reply_to_review", approval),
    approvalReason: ({ review_comment_id }) => `The worker wants to reply to review comment ${review_comment_id}.`,
    preview: ({ text }) => sanitize(text),
    execute: async ({ review_comment_id, text, done = false }, { idempotencyKey, abortSignal: signal }) => {
      const { number, head } = await ownPullRequest(services);
      const commit = done ? `\n\nDone in ${head.commit}.` : "";
      const [marker, login] = [postMarker(idempotencyKey), await github.ownLogin()];
      const post = async () => {
        const comments = await github.listReviewComments(number);
        // The model chose the ID, so it must belong to this pull request.
        const comment = comments.find(({ id }) => id === review_comment_id);
        if (!comment) throw noSuchComment(number, review_comment_id);
        const first = comment.inReplyTo ?? comment.id;
        const isInThread = ({ id, inReplyTo }: ReviewComment) => id === first || inReplyTo === first;
        const answer = comments.find((one) => isInThread(one) && one.author === login && one.id > comment.id);
        return answer ?? github.replyToReviewComment(number, first, `${sanitize(text)}${commit}\n\n${marker}`);
      };
      const { id } = await withRetries(post, { signal });
      const summary = `Replied to review comment ${review_comment_id} on #${number}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { commentId: id }, summary } };
    },
  };
}

function noSuchComment(number: number, id: number): ToolError {
  return new ToolError(`Pull request #${number} has no review comment ${id}.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "Call read_pull_request to list the review comments with their IDs.",
  });
}
