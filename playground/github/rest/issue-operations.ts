import { z } from "zod";
import { showComment, showIssue, showLabel, showReaction, showThreadEvent } from "#playground/github/shapes/thread.ts";
import {
  addComment,
  addLabels,
  addReaction,
  deleteComment,
  editComment,
  openIssue,
} from "#playground/github/user-actions.ts";
import {
  type AppPermissions,
  ofThread,
  type Repository,
  type StoredComment,
  type Thread,
} from "#playground/github/world.ts";
import { ApiError, moved, orNotFound } from "./api-error.ts";
import {
  numberIn,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
  respondWithPage,
} from "./operation.ts";

// Issues and pull requests share these operations, and so do their permissions.
const read: AppPermissions[] = [{ issues: "read" }, { pull_requests: "read" }];
const write: AppPermissions[] = [{ issues: "write" }, { pull_requests: "write" }];

const NewIssue = z.object({
  title: z.coerce.string(),
  body: z.string().nullish(),
  labels: z.array(z.string()).optional(),
});
const CommentBody = z.object({ body: z.string() });
const NewReaction = z.object({
  content: z.enum(["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]),
});
const LabelNames = z.union([
  z.object({ labels: z.array(z.string()).min(1) }).transform(({ labels }) => labels),
  z.array(z.string()).min(1),
]);

const issues = "/repos/{owner}/{repo}/issues";

export const issueOperations: RestOperation[] = [
  repositoryOperation("get", issues, read, (request) => {
    const { world, repository, url } = request;
    const chosen = chooseThreads(repository, url.searchParams);
    return respondWithPage(request, chosen, (thread) => showIssue(world, repository, thread));
  }),

  repositoryOperation("post", issues, { issues: "write" }, (request) => {
    const { title, body, labels } = parseBody(request, "Issue", NewIssue);
    const thread = openIssue(request.context, { title, body: body ?? "", ...(labels && { labels }) });
    return { status: 201, body: showIssue(request.world, request.repository, thread) };
  }),

  repositoryOperation("get", `${issues}/{issue_number}`, read, (request) => {
    return { status: 200, body: showIssue(request.world, request.repository, findThread(request)) };
  }),

  repositoryOperation("get", `${issues}/{issue_number}/events`, read, (request) => {
    const { world, repository } = request;
    return respondWithPage(request, findThread(request).events, (event) => showThreadEvent(world, repository, event));
  }),

  repositoryOperation("get", `${issues}/{issue_number}/comments`, read, (request) => {
    const { world, repository, url } = request;
    const since = new Date(url.searchParams.get("since") ?? 0);
    const all = ofThread(repository.comments, findThread(request));
    const found = all.filter(({ updatedAt }) => !(updatedAt < since));
    return respondWithPage(request, found, (comment) => showComment(world, repository, comment));
  }),

  repositoryOperation("post", `${issues}/{issue_number}/comments`, write, (request) => {
    const thread = findThread(request);
    const { body } = parseBody(request, "IssueComment", CommentBody);
    if (thread.locked) throw new ApiError(403, "Unable to create comment because issue is locked.");

    const comment = addComment(request.context, thread, body);
    return { status: 201, body: showComment(request.world, request.repository, comment) };
  }),

  repositoryOperation("get", `${issues}/comments`, read, (request) => {
    const { world, repository, url } = request;
    const since = new Date(url.searchParams.get("since") ?? 0);
    const by = url.searchParams.get("sort") === "updated" ? "updatedAt" : "createdAt";
    const sign = url.searchParams.get("direction") === "desc" ? -1 : 1;
    const found = [...repository.comments.values()]
      .filter(({ updatedAt }) => !(Math.floor(updatedAt.getTime() / 1_000) < Math.floor(since.getTime() / 1_000)))
      .sort((a, b) => sign * (a[by].getTime() - b[by].getTime() || a.id - b.id));
    return respondWithPage(request, found, (comment) => showComment(world, repository, comment));
  }),

  repositoryOperation("get", `${issues}/comments/{comment_id}`, read, (request) => {
    return { status: 200, body: showComment(request.world, request.repository, findComment(request)) };
  }),

  repositoryOperation("patch", `${issues}/comments/{comment_id}`, write, (request) => {
    const comment = findComment(request);
    const { body } = parseBody(request, "IssueComment", CommentBody);
    editComment(request.context, comment, body);
    return { status: 200, body: showComment(request.world, request.repository, comment) };
  }),

  repositoryOperation("delete", `${issues}/comments/{comment_id}`, write, (request) => {
    deleteComment(request.context, findComment(request));
    return { status: 204, body: undefined };
  }),

  repositoryOperation("post", `${issues}/comments/{comment_id}/reactions`, write, (request) => {
    return react(request, findComment(request));
  }),

  repositoryOperation("post", `${issues}/{issue_number}/reactions`, write, (request) => {
    return react(request, findThread(request));
  }),

  repositoryOperation("post", `${issues}/{issue_number}/labels`, write, (request) => {
    const thread = findThread(request);
    addLabels(request.context, thread, parseBody(request, "Label", LabelNames));
    return { status: 200, body: thread.labels.map((label) => showLabel(request.world, request.repository, label)) };
  }),
];

/** The issue or pull request in the path. */
function findThread(request: RepositoryRequest): Thread {
  const number = numberIn(request, "issue_number");
  const { world, repository, method } = request;
  const removed = repository.removedThreads.get(number);
  if (removed === "deleted") throw new ApiError(410, "This issue was deleted");
  if (removed) {
    const rest = request.url.pathname.split(`/issues/${number}`)[1] ?? "";
    throw moved(method, `${world.url}/api/v3/repositories/${removed.repository.id}/issues/${removed.number}${rest}`);
  }
  return orNotFound(repository.threads.get(number));
}

function findComment(request: RepositoryRequest): StoredComment {
  return orNotFound(request.repository.comments.get(numberIn(request, "comment_id")));
}

function react(request: RepositoryRequest, target: Thread | StoredComment) {
  const { content } = parseBody(request, "Reaction", NewReaction);
  const { reaction, created } = addReaction(request.context, target, content);
  return { status: created ? (201 as const) : (200 as const), body: showReaction(request.world, reaction) };
}

function chooseThreads(repository: Repository, query: URLSearchParams): Thread[] {
  const state = query.get("state") ?? "open";
  const labels = (query.get("labels") ?? "").split(",").filter((name) => name !== "");
  const creator = query.get("creator")?.toLowerCase();
  const since = new Date(query.get("since") ?? 0);
  const threads = [...repository.threads.values()].filter(
    (thread) =>
      (state === "all" || thread.state === state) &&
      (creator === undefined || thread.author.login.toLowerCase() === creator) &&
      !(thread.updatedAt < since) &&
      labels.every((name) => thread.labels.some((label) => label.name.toLowerCase() === name.toLowerCase())),
  );
  const by = query.get("sort") === "updated" ? "updatedAt" : "createdAt";
  const direction = query.get("direction") === "asc" ? 1 : -1;
  return threads.sort((a, b) => direction * (a[by].getTime() - b[by].getTime() || a.number - b.number));
}
