import { z } from "zod";
import {
  addReviewComment,
  createReview,
  dismissReview,
  replyToReviewComment,
  submitReview,
} from "#playground/github/review-actions.ts";
import { showReview, showReviewComment } from "#playground/github/shapes/review.ts";
import { showReaction } from "#playground/github/shapes/thread.ts";
import { addReaction, deleteReviewComment, editReviewComment } from "#playground/github/user-actions.ts";
import type {
  AppPermissions,
  PullThread,
  Repository,
  StoredReview,
  StoredReviewComment,
} from "#playground/github/world.ts";
import { ApiError, notFound, validationFailed } from "./api-error.ts";
import { NewReaction } from "./issue-operations.ts";
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
const FileComment = z.object({ path: z.string(), body: z.string(), subject_type: z.literal("file") });
const ReviewEvent = z.enum(["APPROVE", "REQUEST_CHANGES", "COMMENT"]);
const NewReviewBody = z.object({
  commit_id: z.string().optional(),
  body: optionalText,
  event: ReviewEvent.optional(),
  comments: z.array(LineComment).default([]),
});
const CommentBody = z.object({ body: z.string() });
const NewCommentBody = z.union([
  FileComment.extend({ commit_id: z.string() }),
  LineComment.extend({ commit_id: z.string() }),
  z.object({ body: z.string(), in_reply_to: z.number() }),
]);

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

  repositoryOperation("get", `${pull}/reviews/{review_id}`, read, (request) => {
    return { status: 200, body: showReview(request.world, request.repository, requireReview(request)) };
  }),

  repositoryOperation("get", `${pull}/reviews/{review_id}/comments`, read, (request) => {
    const { id } = requireReview(request);
    const comments = [...request.repository.reviewComments.values()].filter(({ review }) => review === id);
    const { body, headers } = paginate(request, comments);
    return { status: 200, headers, body: body.map((comment) => showInReview(request, comment)) };
  }),

  repositoryOperation("post", `${pull}/reviews/{review_id}/events`, write, (request) => {
    const { event, body } = parseBody(
      request,
      "PullRequestReview",
      z.object({ event: ReviewEvent, body: optionalText }),
    );
    const review = requireReview(request);
    if (review.state !== "PENDING")
      throw new ApiError(422, "Unprocessable Entity", ["Can not submit a submitted review"]);
    submitReview(request.context, requirePull(request), review, { event, body });
    return { status: 200, body: showReview(request.world, request.repository, review) };
  }),

  repositoryOperation("put", `${pull}/reviews/{review_id}/dismissals`, write, (request) => {
    const review = requireReview(request);
    const { message } = parseBody(request, "PullRequestReview", z.object({ message: z.string() }));
    dismissReview(request.context, requirePull(request), review, message);
    return { status: 200, body: showReview(request.world, request.repository, review) };
  }),

  repositoryOperation("get", `${pull}/comments`, read, (request) => {
    const { number } = requirePull(request);
    const { body, headers } = paginate(
      request,
      submittedComments(request.repository).filter((one) => one.thread === number),
    );
    return { status: 200, headers, body: body.map((comment) => show(request, comment)) };
  }),

  repositoryOperation("post", `${pull}/comments`, write, async (request) => {
    const body = parseBody(request, "PullRequestReviewComment", NewCommentBody);
    const thread = requirePull(request);
    const comment =
      "in_reply_to" in body
        ? reply(request, thread, body.in_reply_to, body.body)
        : await addReviewComment(request.context, thread, { ...body, commit: body.commit_id });
    return { status: 201, body: show(request, comment) };
  }),

  repositoryOperation("post", `${pull}/comments/{comment_id}/replies`, write, (request) => {
    const { body } = parseBody(request, "PullRequestReviewComment", CommentBody);
    return {
      status: 201,
      body: show(request, reply(request, requirePull(request), numberIn(request, "comment_id"), body)),
    };
  }),

  repositoryOperation("get", `${pulls}/comments/{comment_id}`, read, (request) => {
    return { status: 200, body: show(request, requireReviewComment(request)) };
  }),

  repositoryOperation("patch", `${pulls}/comments/{comment_id}`, write, (request) => {
    const comment = requireReviewComment(request);
    editReviewComment(request.context, comment, parseBody(request, "PullRequestReviewComment", CommentBody).body);
    return { status: 200, body: show(request, comment) };
  }),

  repositoryOperation("delete", `${pulls}/comments/{comment_id}`, write, (request) => {
    deleteReviewComment(request.context, requireReviewComment(request));
    return { status: 204, body: undefined };
  }),

  repositoryOperation("post", `${pulls}/comments/{comment_id}/reactions`, write, (request) => {
    const { content } = parseBody(request, "Reaction", NewReaction);
    const { reaction, created } = addReaction(request.context, requireReviewComment(request), content);
    return { status: created ? 201 : 200, body: showReaction(request.world, reaction) };
  }),
];

function show({ world, repository }: RepositoryRequest, comment: StoredReviewComment) {
  return showReviewComment(world, repository, comment);
}

/** Omits the current line of a comment, which GitHub does not return for the comments of a review. */
function showInReview(request: RepositoryRequest, comment: StoredReviewComment) {
  const { line, side, start_line, start_side, subject_type, _links, ...fields } = show(request, comment);
  return { ...fields, _links };
}

function requireReview(request: RepositoryRequest): StoredReview {
  const review = request.repository.reviews.get(numberIn(request, "review_id"));
  if (review?.thread !== requirePull(request).number) throw notFound();
  return review;
}

function requireReviewComment(request: RepositoryRequest): StoredReviewComment {
  const comment = request.repository.reviewComments.get(numberIn(request, "comment_id"));
  if (!comment) throw notFound();
  return comment;
}

/** Returns the visible comments. Those of a pending review are hidden until it is submitted. */
function submittedComments({ reviewComments, reviews }: Repository): StoredReviewComment[] {
  return [...reviewComments.values()].filter(({ review }) => reviews.get(review)?.state !== "PENDING");
}

function reply(request: RepositoryRequest, thread: PullThread, parentId: number, body: string): StoredReviewComment {
  const parent = request.repository.reviewComments.get(parentId);
  if (parent?.thread !== thread.number) throw notFound();
  if (parent.inReplyTo !== undefined) {
    throw validationFailed({ resource: "PullRequestReviewComment", code: "invalid", field: "in_reply_to" });
  }
  return replyToReviewComment(request.context, thread, parent, body);
}
