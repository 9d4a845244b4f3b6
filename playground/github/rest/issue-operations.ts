import { z } from "zod";
import { showComment, showIssue, showLabel, showReaction } from "#playground/github/shapes/thread.ts";
import {
  addComment,
  addLabels,
  addReaction,
  editComment,
  openIssue,
  removeLabel,
  updateThread,
} from "#playground/github/user-actions.ts";
import type { AppPermissions, Repository, StoredComment, Thread } from "#playground/github/world.ts";
import { ApiError, moved, notFound } from "./api-error.ts";
import {
  numberIn,
  paginate,
  type RepositoryRequest,
  type RestOperation,
  readBody,
  repositoryOperation,
} from "./operation.ts";

// Issues and pull requests share these operations, and so do their permissions.
const read: AppPermissions[] = [{ issues: "read" }, { pull_requests: "read" }];
const write: AppPermissions[] = [{ issues: "write" }, { pull_requests: "write" }];

const NewIssue = z.object({
  title: z.coerce.string(),
  body: z.string().nullish(),
  labels: z.array(z.string()).optional(),
});
const IssueChange = z.object({
  title: z.string().nullish(),
  body: z.string().nullish(),
  state: z.enum(["open", "closed"]).optional(),
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
  repositoryOperation("get", issues, read, (call) => {
    const { world, repository, url } = call;
    const { body, headers } = paginate(call, chooseThreads(repository, url.searchParams));
    return { status: 200, headers, body: body.map((thread) => showIssue(world, repository, thread)) };
  }),

  repositoryOperation("post", issues, { issues: "write" }, (call) => {
    const { title, body, labels } = readBody(call, "Issue", NewIssue);
    const thread = openIssue(call.context, { title, body: body ?? "", ...(labels && { labels }) });
    return { status: 201, body: showIssue(call.world, call.repository, thread) };
  }),

  repositoryOperation("get", `${issues}/{issue_number}`, read, (call) => {
    return { status: 200, body: showIssue(call.world, call.repository, findThread(call)) };
  }),

  repositoryOperation("patch", `${issues}/{issue_number}`, write, (call) => {
    const thread = findThread(call);
    const { title, body, state } = readBody(call, "Issue", IssueChange);
    updateThread(call.context, thread, { title: title ?? undefined, body: body === null ? "" : body, state });
    return { status: 200, body: showIssue(call.world, call.repository, thread) };
  }),

  repositoryOperation("get", `${issues}/{issue_number}/comments`, read, (call) => {
    const { world, repository, url } = call;
    const since = new Date(url.searchParams.get("since") ?? 0);
    const found = commentsOf(repository, findThread(call)).filter(({ updatedAt }) => !(updatedAt < since));
    const { body, headers } = paginate(call, found);
    return { status: 200, headers, body: body.map((comment) => showComment(world, repository, comment)) };
  }),

  repositoryOperation("post", `${issues}/{issue_number}/comments`, write, (call) => {
    const thread = findThread(call);
    const { body } = readBody(call, "IssueComment", CommentBody);
    if (thread.locked) throw new ApiError(403, "Unable to create comment because issue is locked.");

    const comment = addComment(call.context, thread, body);
    return { status: 201, body: showComment(call.world, call.repository, comment) };
  }),

  repositoryOperation("get", `${issues}/comments/{comment_id}`, read, (call) => {
    return { status: 200, body: showComment(call.world, call.repository, findComment(call)) };
  }),

  repositoryOperation("patch", `${issues}/comments/{comment_id}`, write, (call) => {
    const comment = findComment(call);
    const { body } = readBody(call, "IssueComment", CommentBody);
    editComment(call.context, comment, body);
    return { status: 200, body: showComment(call.world, call.repository, comment) };
  }),

  repositoryOperation("get", `${issues}/comments/{comment_id}/reactions`, read, (call) => {
    const { body, headers } = paginate(call, findComment(call).reactions);
    return { status: 200, headers, body: body.map((reaction) => showReaction(call.world, reaction)) };
  }),

  repositoryOperation("post", `${issues}/comments/{comment_id}/reactions`, write, (call) => {
    const { reaction, created } = addReaction(
      call.context,
      findComment(call),
      readBody(call, "Reaction", NewReaction).content,
    );
    return { status: created ? 201 : 200, body: showReaction(call.world, reaction) };
  }),

  repositoryOperation("get", `${issues}/{issue_number}/reactions`, read, (call) => {
    const { body, headers } = paginate(call, findThread(call).reactions);
    return { status: 200, headers, body: body.map((reaction) => showReaction(call.world, reaction)) };
  }),

  repositoryOperation("post", `${issues}/{issue_number}/reactions`, write, (call) => {
    const { reaction, created } = addReaction(
      call.context,
      findThread(call),
      readBody(call, "Reaction", NewReaction).content,
    );
    return { status: created ? 201 : 200, body: showReaction(call.world, reaction) };
  }),

  repositoryOperation("get", `${issues}/{issue_number}/labels`, read, (call) => {
    const { body, headers } = paginate(call, findThread(call).labels);
    return { status: 200, headers, body: body.map((label) => showLabel(call.world, call.repository, label)) };
  }),

  repositoryOperation("post", `${issues}/{issue_number}/labels`, write, (call) => {
    const thread = findThread(call);
    addLabels(call.context, thread, readBody(call, "Label", LabelNames));
    return { status: 200, body: thread.labels.map((label) => showLabel(call.world, call.repository, label)) };
  }),

  repositoryOperation("delete", `${issues}/{issue_number}/labels/{name}`, write, (call) => {
    const thread = findThread(call);
    if (!removeLabel(call.context, thread, call.params.name ?? "")) throw new ApiError(404, "Label does not exist");
    return { status: 200, body: thread.labels.map((label) => showLabel(call.world, call.repository, label)) };
  }),

  repositoryOperation("get", "/repos/{owner}/{repo}/labels", read, (call) => {
    const { body, headers } = paginate(call, [...call.repository.labels.values()]);
    return { status: 200, headers, body: body.map((label) => showLabel(call.world, call.repository, label)) };
  }),
];

/** The issue or pull request the path names. */
function findThread(call: RepositoryRequest, name = "issue_number"): Thread {
  const number = numberIn(call, name);
  const { world, repository, method } = call;
  const gone = repository.removedThreads.get(number);
  if (gone === "deleted") throw new ApiError(410, "This issue was deleted");
  if (gone) {
    const rest = call.url.pathname.split(`/issues/${number}`)[1] ?? "";
    throw moved(method, `${world.url}/api/v3/repositories/${gone.repository.id}/issues/${gone.number}${rest}`);
  }
  const thread = repository.threads.get(number);
  if (!thread) throw notFound();
  return thread;
}

function findComment(call: RepositoryRequest): StoredComment {
  const comment = call.repository.comments.get(numberIn(call, "comment_id"));
  if (!comment) throw notFound();
  return comment;
}

function commentsOf(repository: Repository, { number }: Thread): StoredComment[] {
  return [...repository.comments.values()].filter((comment) => comment.thread === number);
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
