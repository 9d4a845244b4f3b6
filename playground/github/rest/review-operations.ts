import { z } from "zod";
import { createReview, replyToReviewComment } from "#playground/github/review-actions.ts";
import { showReview, showReviewComment } from "#playground/github/shapes/review.ts";
import type { AppPermissions, PullThread, StoredReviewComment } from "#playground/github/world.ts";
import { notFound, validationFailed } from "./api-error.ts";
import {
  numberIn,
  optionalText,
  paginate,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
} from "./operation.ts";
import { requirePull } from "./pull-operations.ts";

const read: AppPermissions = { pull_requests: "read" };
const write: AppPermissions = { pull_requests: "write" };

const Side = z.enum(["LEFT", "RIGHT"]).optional();
const LineComment = z.object({
  path: z.string(),
  body: z.string(),
  line: z.number(),
  side: Side,
  start_line: z
    .number()
    .nullish()
    .transform((line) => line ?? undefined),
  start_side: Side,
});
const NewReviewBody = z.object({
  commit_id: z.string().optional(),
  body: optionalText,
  // Without an event, GitHub keeps the review pending, which this app never asks for.
  event: z.enum(["APPROVE", "REQUEST_CHANGES", "COMMENT"]),
  comments: z.array(LineComment).default([]),
});
const CommentBody = z.object({ body: z.string() });
const pulls = "/repos/{owner}/{repo}/pulls";
const pull = `${pulls}/{pull_number}` as const;

export const reviewOperations: RestOperation[] = [
  repositoryOperation("get", `${pull}/reviews`, read, (request) => {
    const { number } = requirePull(request);
    const reviews = [...request.repository.reviews.values()].filter(({ thread }) => thread === number);
    const { body, headers } = paginate(request, reviews);
    return { status: 200, headers, body: body.map((review) => showReview(request.world, request.repository, review)) };
  }),

  repositoryOperation("post", `${pull}/reviews`, write, async (request) => {
    const { event, body, comments, commit_id } = parseBody(request, "PullRequestReview", NewReviewBody);
    const thread = requirePull(request);
    const review = await createReview(request.context, thread, { event, body, comments, commit: commit_id });
    return { status: 200, body: showReview(request.world, request.repository, review) };
  }),

  repositoryOperation("get", `${pull}/comments`, read, (request) => {
    const { number } = requirePull(request);
    const comments = [...request.repository.reviewComments.values()].filter(({ thread }) => thread === number);
    const { body, headers } = paginate(request, comments);
    return { status: 200, headers, body: body.map((comment) => show(request, comment)) };
  }),

  repositoryOperation("post", `${pull}/comments/{comment_id}/replies`, write, (request) => {
    const { body } = parseBody(request, "PullRequestReviewComment", CommentBody);
    return {
      status: 201,
      body: show(request, reply(request, requirePull(request), numberIn(request, "comment_id"), body)),
    };
  }),
];

function show({ world, repository }: RepositoryRequest, comment: StoredReviewComment) {
  return showReviewComment(world, repository, comment);
}

function reply(request: RepositoryRequest, thread: PullThread, parentId: number, body: string): StoredReviewComment {
  const parent = request.repository.reviewComments.get(parentId);
  if (parent?.thread !== thread.number) throw notFound();
  if (parent.inReplyTo !== undefined) {
    throw validationFailed({ resource: "PullRequestReviewComment", code: "invalid", field: "in_reply_to" });
  }
  return replyToReviewComment(request.context, thread, parent, body);
}
