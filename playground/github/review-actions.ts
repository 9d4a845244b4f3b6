import type { ChangedFile } from "./git/git-repository.ts";
import { diffHunkAt } from "./git/patch-lines.ts";
import { changedFiles } from "./pull-request-actions.ts";
import { ApiError, validationFailed } from "./rest/api-error.ts";
import { type ActionContext, checkBody, emit, newComment } from "./user-actions.ts";
import type { PullThread, Side, StoredReview, StoredReviewComment, User } from "./world.ts";

export interface ReviewCommentInput {
  path: string;
  body: string;
  /** Without a line, the comment is on the whole file. */
  line?: number | undefined;
  side?: Side | undefined;
  start_line?: number | undefined;
  start_side?: Side | undefined;
}

export interface NewReview {
  /** Default: COMMENT. */
  event?: "APPROVE" | "REQUEST_CHANGES" | "COMMENT";
  body?: string | undefined;
  comments?: readonly ReviewCommentInput[] | undefined;
  commit?: string | undefined;
}

const reviewStates = { APPROVE: "APPROVED", REQUEST_CHANGES: "CHANGES_REQUESTED", COMMENT: "COMMENTED" } as const;

/** Submits a review with its comments. It and each comment are delivered to the app. */
export async function createReview(
  context: ActionContext,
  thread: PullThread,
  { event = "COMMENT", body = "", comments = [], commit = thread.pull.head.commit }: NewReview,
): Promise<StoredReview> {
  const files = await changedFiles(context.repository, thread);
  const drafts = comments.map((comment) => {
    checkBody("PullRequestReviewComment", comment.body);
    return { ...comment, diffHunk: findHunk(files, comment) };
  });
  checkEvent(context.actor, thread, { event, body, comments: comments.length });

  const id = context.world.nextId();
  const review: StoredReview = {
    id,
    thread: thread.number,
    author: context.actor,
    body,
    state: reviewStates[event],
    commit,
    submittedAt: new Date(),
  };
  context.repository.reviews.set(id, review);
  thread.updatedAt = review.submittedAt;
  thread.pull.requestedReviewers = thread.pull.requestedReviewers.filter((user) => user !== context.actor);
  emit(context, { event: "pull_request_review", action: "submitted", thread, review });
  for (const { diffHunk, line, start_line, side = "RIGHT", start_side, path, body: text } of drafts) {
    const comment: StoredReviewComment = {
      ...newComment(context, thread, text),
      review: id,
      path,
      isOnFile: line === undefined,
      line,
      side,
      startLine: start_line,
      startSide: start_line === undefined ? undefined : (start_side ?? side),
      originalLine: line,
      originalStartLine: start_line,
      originalCommit: commit,
      diffHunk,
      inReplyTo: undefined,
      resolvedBy: undefined,
    };
    context.repository.reviewComments.set(comment.id, comment);
    emit(context, { event: "pull_request_review_comment", action: "created", thread, reviewComment: comment });
  }
  return review;
}

/** Returns the hunk that a comment shows; empty for a comment on the whole file. Throws GitHub's 422 for a file or line outside the diff. */
function findHunk(files: ChangedFile[], comment: ReviewCommentInput): string {
  const { path, line, side = "RIGHT", start_line, start_side = side } = comment;
  const invalid = (field: string, message: string) =>
    validationFailed({ resource: "PullRequestReviewComment", code: "custom", field, message });
  const file = files.find((one) => one.path === path);
  const { patch } = file ?? {};
  if (!file || (patch === undefined && line !== undefined)) {
    throw invalid("pull_request_review_thread.path", "Path could not be resolved");
  }
  if (line === undefined) return "";
  const hunk = diffHunkAt(patch ?? "", side, line);
  const starts = start_line === undefined || diffHunkAt(patch ?? "", start_side, start_line) !== undefined;
  const outside = (field: string) => invalid(field, `${field} must be part of the diff`);
  if (hunk === undefined) throw outside("pull_request_review_thread.line");
  if (!starts) throw outside("pull_request_review_thread.start_line");
  if (start_line !== undefined && start_side === side && start_line >= line) {
    throw invalid(
      "pull_request_review_thread.start_line",
      "pull_request_review_thread.start_line must precede the end line.",
    );
  }
  return hunk;
}

function checkEvent(
  actor: User,
  thread: PullThread,
  { event, body, comments }: { event: NonNullable<NewReview["event"]>; body: string; comments: number },
): void {
  if (event !== "COMMENT" && thread.author === actor) {
    const what = event === "APPROVE" ? "approve" : "request changes on";
    throw new ApiError(422, "Unprocessable Entity", [`Can not ${what} your own pull request`]);
  }
  if (event !== "APPROVE" && comments === 0) checkBody("PullRequestReview", body);
}

/** Adds one comment on a line or a file outside a review. GitHub creates a separate review for it. */
export async function addReviewComment(
  context: ActionContext,
  thread: PullThread,
  input: ReviewCommentInput,
): Promise<StoredReviewComment> {
  const review = await createReview(context, thread, { comments: [input] });
  const comment = [...context.repository.reviewComments.values()].find((one) => one.review === review.id);
  if (!comment) throw new Error(`Review ${review.id} has no comment.`);
  return comment;
}

export function replyToReviewComment(
  context: ActionContext,
  thread: PullThread,
  parent: StoredReviewComment,
  body: string,
): StoredReviewComment {
  checkBody("PullRequestReviewComment", body);
  const review: StoredReview = {
    id: context.world.nextId(),
    thread: thread.number,
    author: context.actor,
    body: "",
    state: "COMMENTED",
    commit: thread.pull.head.commit,
    submittedAt: new Date(),
  };
  context.repository.reviews.set(review.id, review);
  const reply: StoredReviewComment = {
    ...parent,
    ...newComment(context, thread, body),
    review: review.id,
    inReplyTo: parent.inReplyTo ?? parent.id,
    resolvedBy: undefined,
  };
  context.repository.reviewComments.set(reply.id, reply);
  emit(context, { event: "pull_request_review", action: "submitted", thread, review });
  emit(context, { event: "pull_request_review_comment", action: "created", thread, reviewComment: reply });
  return reply;
}

export function editReview(context: ActionContext, thread: PullThread, review: StoredReview, body: string): void {
  checkBody("PullRequestReview", body);
  const changes = { body: { from: review.body } };
  review.body = body;
  emit(context, { event: "pull_request_review", action: "edited", thread, review, changes });
}

export function dismissReview(context: ActionContext, thread: PullThread, review: StoredReview, message: string): void {
  if (review.state !== "APPROVED" && review.state !== "CHANGES_REQUESTED") {
    throw new ApiError(422, "Unprocessable Entity", ["Can not dismiss a commented pull request review"]);
  }
  if (message.trim() === "")
    throw validationFailed({ resource: "PullRequestReview", code: "missing_field", field: "message" });
  review.state = "DISMISSED";
  emit(context, { event: "pull_request_review", action: "dismissed", thread, review });
}

/** Resolves or reopens the thread that a review comment started. */
export function resolveReviewThread(
  context: ActionContext,
  thread: PullThread,
  reviewComment: StoredReviewComment,
  resolved: boolean,
): void {
  if ((reviewComment.resolvedBy !== undefined) === resolved) return;
  reviewComment.resolvedBy = resolved ? context.actor : undefined;
  const action = resolved ? "resolved" : "unresolved";
  emit(context, { event: "pull_request_review_thread", action, thread, reviewComment });
}
