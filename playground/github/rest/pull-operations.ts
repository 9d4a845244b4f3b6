import { z } from "zod";
import {
  changeBase,
  changedFiles,
  findPull,
  openPullRequest,
  requestReviewers,
} from "#playground/github/pull-request-actions.ts";
import { createReview, dismissReview, replyToReviewComment } from "#playground/github/review-actions.ts";
import { showFile, showPull, showPullInList } from "#playground/github/shapes/pull-request.ts";
import { showReview, showReviewComment } from "#playground/github/shapes/review.ts";
import { updateThread } from "#playground/github/user-actions.ts";
import {
  type AppPermissions,
  isPull,
  nameKey,
  ofThread,
  type PullThread,
  type Repository,
  type StoredReviewComment,
  type User,
} from "#playground/github/world.ts";
import { ApiError, notFound, orNotFound, validationFailed } from "./api-error.ts";
import {
  numberIn,
  optionalText,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
  respondWithPage,
} from "./operation.ts";

const read: AppPermissions = { pull_requests: "read" };
const write: AppPermissions = { pull_requests: "write" };

const NewPull = z.object({
  title: z.string(),
  head: z.string(),
  base: z.string(),
  body: optionalText,
  draft: z.boolean().optional(),
});
const PullChange = z.object({
  title: z.string().optional(),
  body: z.string().nullish(),
  state: z.enum(["open", "closed"]).optional(),
  base: z.string().optional(),
});
const Reviewers = z.object({ reviewers: z.array(z.string()).default([]) });

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
const Dismissal = z.object({ message: z.string() });
const CommentBody = z.object({ body: z.string() });

const pulls = "/repos/{owner}/{repo}/pulls";
const pull = `${pulls}/{pull_number}` as const;

export const pullOperations: RestOperation[] = [
  repositoryOperation("get", pulls, read, (request) => {
    const { world, repository, url } = request;
    const chosen = choosePulls(repository, url.searchParams);
    return respondWithPage(request, chosen, (thread) => showPullInList(world, repository, thread));
  }),

  repositoryOperation("post", pulls, write, async (request) => {
    const { body = "", draft = false, ...fields } = parseBody(request, "PullRequest", NewPull);
    if (request.world.app.slug === "github-actions" && !request.repository.actionsOpenPullRequests) {
      throw new ApiError(403, "GitHub Actions is not permitted to create or approve pull requests.");
    }
    const thread = await openPullRequest(request.context, { ...fields, body, draft });
    return { status: 201, body: await showPull(request.world, request.repository, thread) };
  }),

  repositoryOperation("get", pull, read, async (request) => {
    return { status: 200, body: await showPull(request.world, request.repository, requirePull(request)) };
  }),

  repositoryOperation("patch", pull, write, async (request) => {
    const thread = requirePull(request);
    const { title, body, state, base } = parseBody(request, "PullRequest", PullChange);
    updateThread(request.context, thread, { title, body: body === null ? "" : body, state });
    if (base !== undefined) await changeBase(request.context, thread, base);
    return { status: 200, body: await showPull(request.world, request.repository, thread) };
  }),

  repositoryOperation("get", `${pull}/files`, read, async (request) => {
    const { world, repository } = request;
    const thread = requirePull(request);
    const files = await changedFiles(repository, thread);
    return respondWithPage(request, files, (file) => showFile(world, repository, thread.pull.head.commit, file));
  }),

  repositoryOperation("post", `${pull}/requested_reviewers`, write, (request) => {
    const thread = requirePull(request);
    requestReviewers(request.context, thread, usersNamed(request));
    return { status: 201, body: showPullInList(request.world, request.repository, thread) };
  }),

  repositoryOperation("get", `${pull}/reviews`, read, (request) => {
    const { world, repository } = request;
    const reviews = ofThread(repository.reviews, requirePull(request));
    return respondWithPage(request, reviews, (review) => showReview(world, repository, review));
  }),

  repositoryOperation("post", `${pull}/reviews`, write, async (request) => {
    const { event, body, comments, commit_id } = parseBody(request, "PullRequestReview", NewReviewBody);
    const thread = requirePull(request);
    const review = await createReview(request.context, thread, { event, body, comments, commit: commit_id });
    return { status: 200, body: showReview(request.world, request.repository, review) };
  }),

  repositoryOperation("put", `${pull}/reviews/{review_id}/dismissals`, write, (request) => {
    const { message } = parseBody(request, "PullRequestReview", Dismissal);
    const thread = requirePull(request);
    const review = request.repository.reviews.get(numberIn(request, "review_id"));
    if (review?.thread !== thread.number) throw notFound();
    dismissReview(request.context, thread, review, message);
    return { status: 200, body: showReview(request.world, request.repository, review) };
  }),

  repositoryOperation("get", `${pull}/comments`, read, (request) => {
    const { world, repository } = request;
    const comments = ofThread(repository.reviewComments, requirePull(request));
    return respondWithPage(request, comments, (comment) => showReviewComment(world, repository, comment));
  }),

  repositoryOperation("post", `${pull}/comments/{comment_id}/replies`, write, (request) => {
    const { body } = parseBody(request, "PullRequestReviewComment", CommentBody);
    const comment = reply(request, requirePull(request), numberIn(request, "comment_id"), body);
    return { status: 201, body: showReviewComment(request.world, request.repository, comment) };
  }),
];

function requirePull(request: RepositoryRequest): PullThread {
  return orNotFound(findPull(request.repository, numberIn(request, "pull_number")));
}

function usersNamed(request: RepositoryRequest): User[] {
  const { reviewers } = parseBody(request, "PullRequest", Reviewers);
  return reviewers.map((login) => {
    const user = request.world.users.get(nameKey(login));
    if (!user) throw new ApiError(422, `Could not resolve to a User with the login of '${login}'.`);
    return user;
  });
}

function choosePulls(repository: Repository, query: URLSearchParams): PullThread[] {
  const state = query.get("state") ?? "open";
  const head = query.get("head")?.toLowerCase();
  const base = query.get("base");
  const by = query.get("sort") === "updated" ? "updatedAt" : "createdAt";
  const direction = query.get("direction") === "asc" ? 1 : -1;
  return [...repository.threads.values()]
    .filter(isPull)
    .filter(
      ({ state: actual, pull: { head: from, base: to } }) =>
        (state === "all" || actual === state) &&
        (!base || to.branch === base) &&
        // GitHub ignores a head filter that does not name the owner.
        (!head?.includes(":") || `${from.repository.owner.login}:${from.branch}`.toLowerCase() === head),
    )
    .sort((a, b) => direction * (a[by].getTime() - b[by].getTime() || a.number - b.number));
}

function reply(request: RepositoryRequest, thread: PullThread, parentId: number, body: string): StoredReviewComment {
  const parent = request.repository.reviewComments.get(parentId);
  if (parent?.thread !== thread.number) throw notFound();
  if (parent.inReplyTo !== undefined) {
    throw validationFailed({ resource: "PullRequestReviewComment", code: "invalid", field: "in_reply_to" });
  }
  return replyToReviewComment(request.context, thread, parent, body);
}
