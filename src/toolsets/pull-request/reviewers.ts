import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { withRetries } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import { type GitHub, GitHubRefusalError, type ReviewComment } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { markImitations, postMarker } from "#text/comment-marker.ts";
import { quoted } from "#text/visible-text.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import { ownPullRequest } from "#toolsets/github/pull-request.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { lastPushed } from "./push-changes.ts";

const requestInput = z.object({
  reviewers: z.array(z.string().trim().min(1).max(100)).min(1).max(10).describe("Logins of people, without @"),
});
type RequestInput = z.infer<typeof requestInput>;

/** Requests reviews of the run's pull request. Requesting one again has no effect. */
export function createRequestReviewTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<RequestInput, ToolResult> {
  const { github } = services;
  return {
    name: "request_review",
    description:
      "Ask people to review the pull request of this run. update_pull_request asks those who requested changes.",
    inputSchema: requestInput,
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
  return error instanceof GitHubRefusalError && error.status === 422;
}

/** Requests reviews again from those who requested changes. Returns their logins, without those GitHub rejects. */
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

const replyInput = z.object({
  review_comment_id: z.number().int().positive().describe("The ID of the comment to reply to"),
  done: z
    .boolean()
    .optional()
    .describe("The pushed commit, which the reply then names, does what the comment asks for"),
  text: z.string().trim().min(1).max(60_000).describe("The reply, in Markdown"),
});
type ReplyInput = z.infer<typeof replyInput>;

/** Replies to a review comment on the run's own pull request, once per comment. */
export function createReplyToReviewTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<ReplyInput, ToolResult> {
  const { github, sanitize } = services;
  return {
    name: "reply_to_review",
    description: "Reply to a review comment on the pull request of this run.",
    inputSchema: replyInput,
    needsApproval: configuredApproval("reply_to_review", approval),
    approvalReason: ({ review_comment_id }) => `The worker wants to reply to review comment ${review_comment_id}.`,
    postsWithoutSecrets: true,
    preview: ({ text }) => markImitations(sanitize(text)),
    execute: async ({ review_comment_id, text, done = false }, { idempotencyKey, abortSignal: signal }) => {
      const { number, head } = await ownPullRequest(services);
      const commit = done ? `\n\nDone in ${lastPushed(services.history())?.commit ?? head.commit}.` : "";
      const [marker, login] = [postMarker(idempotencyKey), await github.ownLogin()];
      const post = async () => {
        const comments = await github.listReviewComments(number);
        // The model chose the ID, so it must belong to this pull request.
        const comment = comments.find(({ id }) => id === review_comment_id);
        if (!comment) throw noSuchComment(number, review_comment_id);
        const first = comment.inReplyTo ?? comment.id;
        if (!comments.some(({ id }) => id === first)) throw firstCommentDeleted(review_comment_id);
        const isInThread = ({ id, inReplyTo }: ReviewComment) => id === first || inReplyTo === first;
        const answer = comments.find((one) => isInThread(one) && one.author === login && one.id > comment.id);
        const body = `${markImitations(sanitize(text))}${commit}\n\n${marker}`;
        return answer ?? github.replyToReviewComment(number, first, body);
      };
      const { id } = await withRetries(post, { signal });
      const summary = `Replied to review comment ${review_comment_id} on #${number}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { commentId: id }, summary } };
    },
  };
}

/** GitHub accepts replies to the first comment of a thread only. */
function firstCommentDeleted(id: number): ToolError {
  return new ToolError(
    `The comment that began the thread of review comment ${id} was deleted, so GitHub accepts no reply in it.`,
    {
      code: "CONFLICT",
      suggestion:
        "Do not try again. Say it in your answer, which is posted as an ordinary comment: quote the comment and name its file.",
    },
  );
}

function noSuchComment(number: number, id: number): ToolError {
  return new ToolError(`Pull request #${number} has no review comment ${id}.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "Call read_pull_request to list the review comments with their IDs.",
  });
}
