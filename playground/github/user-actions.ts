import { ApiError, validationFailed } from "./rest/api-error.ts";
import type {
  AppIdentity,
  Label,
  Reaction,
  Repository,
  StoredComment,
  StoredReviewComment,
  Thread,
  ThreadEvent,
  User,
  WebhookEvent,
  World,
} from "./world.ts";

/** GitHub's limit for the body of a comment, an issue or a pull request, in characters. */
const maxBodyLength = 65_536;

/** The repository that an action happens in, and the user who acts. */
export interface ActionContext {
  world: World;
  repository: Repository;
  actor: User;
  /** The app through which the user acts. */
  app?: AppIdentity | undefined;
}

export function emit(
  { world, repository, actor }: ActionContext,
  event: Omit<WebhookEvent, "repository" | "sender">,
): void {
  world.emit({ repository, sender: actor, ...event });
  world.notify();
}

function emitOfThread(
  context: ActionContext,
  thread: Thread,
  event: Pick<WebhookEvent, "action" | "label" | "assignee" | "changes">,
): void {
  emit(context, { event: thread.pull ? "pull_request" : "issues", thread, ...event });
}

/** Adds an event, at the time of the last change, to those that can be read later. */
export function recordEvent(
  { world, actor: by, app }: ActionContext,
  thread: Thread,
  event: Omit<ThreadEvent, "id" | "by" | "app" | "at">,
): void {
  thread.events.push({ id: world.nextId(), by, app, at: thread.updatedAt, ...event });
}

type Resource = "Issue" | "PullRequest" | "IssueComment" | "PullRequestReviewComment" | "PullRequestReview";

function checkLength(resource: Resource, body: string): void {
  if (body.length <= maxBodyLength) return;

  throw validationFailed({
    resource,
    code: "unprocessable",
    field: "body",
    message: `body is too long (maximum is ${maxBodyLength} characters)`,
  });
}

/** Throws the 422 that GitHub answers to a body that is blank or too long. */
export function checkBody(resource: Resource, body: string): void {
  if (body.trim() === "") throw validationFailed({ resource, code: "missing_field", field: "body" });
  checkLength(resource, body);
}

function checkTitle(resource: Resource, title: string): void {
  if (title.trim() === "") throw validationFailed({ resource, code: "missing_field", field: "title" });
  if (title.length <= 256) return;

  throw validationFailed({
    resource,
    code: "custom",
    field: "title",
    message: "title is too long (maximum is 256 characters)",
  });
}

/** Adds an issue, or a pull request when `pull` is given, without a webhook event. */
export function addThread<T extends Thread["pull"]>(
  { world, repository, actor, app }: ActionContext,
  { title, body, labels = [], pull }: Pick<Thread, "title" | "body"> & { labels?: Label[]; pull: T },
): Thread & { pull: T } {
  const resource = pull ? "PullRequest" : "Issue";
  checkTitle(resource, title);
  checkLength(resource, body);

  const now = new Date();
  const thread = {
    id: world.nextId(),
    number: nextNumber(repository),
    title,
    body,
    author: actor,
    state: "open" as const,
    locked: false,
    labels,
    assignees: [],
    reactions: [],
    createdAt: now,
    updatedAt: now,
    closedAt: undefined,
    app,
    events: [],
    pull,
  };
  repository.threads.set(thread.number, thread);
  return thread;
}

export function nextNumber({ threads, removedThreads }: Repository): number {
  return threads.size + removedThreads.size + 1;
}

export function openIssue(
  context: ActionContext,
  { title, body = "", labels = [] }: { title: string; body?: string; labels?: string[] },
): Thread {
  const found = labels.map((name) => findOrCreateLabel(context, name));
  const thread = addThread(context, { title, body, labels: found, pull: undefined });
  emit(context, { event: "issues", action: "opened", thread });
  return thread;
}

/** Edits, closes or reopens an issue or a pull request. Undefined fields keep their value. */
export function updateThread(
  context: ActionContext,
  thread: Thread,
  change: { title?: string | undefined; body?: string | undefined; state?: "open" | "closed" | undefined },
): void {
  const resource = thread.pull ? "PullRequest" : "Issue";
  if (change.title !== undefined) checkTitle(resource, change.title);
  if (change.body !== undefined) checkLength(resource, change.body);
  if (change.state === "open" && thread.pull?.merged) {
    throw validationFailed({ resource, code: "invalid", field: "state", message: "state cannot be changed." });
  }
  if (change.state === "open" && thread.state === "closed" && thread.pull) checkHead(thread.pull.head);

  const changes: Record<string, { from: string }> = {};
  for (const field of ["title", "body"] as const) {
    const value = change[field];
    if (value === undefined || value === thread[field]) continue;
    changes[field] = { from: thread[field] };
    thread[field] = value;
  }
  thread.updatedAt = new Date();
  if (Object.keys(changes).length > 0) emitOfThread(context, thread, { action: "edited", changes });
  if (change.state === undefined || change.state === thread.state) return;

  thread.state = change.state;
  thread.closedAt = change.state === "closed" ? thread.updatedAt : undefined;
  recordEvent(context, thread, { event: change.state === "closed" ? "closed" : "reopened" });
  emitOfThread(context, thread, { action: change.state === "closed" ? "closed" : "reopened" });
}

export function lockThread(context: ActionContext, thread: Thread): void {
  if (thread.locked) return;
  thread.locked = true;
  thread.updatedAt = new Date();
  emitOfThread(context, thread, { action: "locked" });
}

/** Throws GitHub's refusal to reopen a pull request whose branch was deleted. */
function checkHead({ repository, branch }: NonNullable<Thread["pull"]>["head"]): void {
  if (repository.knownBranches.has(`refs/heads/${branch}`)) return;
  const message = `state cannot be changed. The ${branch} branch has been deleted.`;
  throw validationFailed({ resource: "PullRequest", code: "custom", field: "state", message });
}

/** Adds a comment to a conversation. In a locked one, only collaborators with write access can comment. */
export function addComment(context: ActionContext, thread: Thread, body: string): StoredComment {
  checkBody("IssueComment", body);

  const comment = newComment(context, thread, body);
  context.repository.comments.set(comment.id, comment);
  thread.updatedAt = comment.createdAt;
  emit(context, { event: "issue_comment", action: "created", thread, comment });
  return comment;
}

/** Creates the fields shared by comments on a conversation and on a diff. */
export function newComment({ world, actor, app }: ActionContext, thread: Thread, body: string): StoredComment {
  const now = new Date();
  return {
    id: world.nextId(),
    thread: thread.number,
    body,
    author: actor,
    app,
    reactions: [],
    minimized: undefined,
    createdAt: now,
    updatedAt: now,
  };
}

export function editComment(context: ActionContext, comment: StoredComment, body: string): void {
  checkBody("IssueComment", body);

  const changes = { body: { from: comment.body } };
  comment.body = body;
  comment.updatedAt = new Date();
  const thread = context.repository.threads.get(comment.thread);
  emit(context, { event: "issue_comment", action: "edited", thread, comment, changes });
}

export function deleteComment(context: ActionContext, comment: StoredComment): void {
  context.repository.comments.delete(comment.id);
  const thread = context.repository.threads.get(comment.thread);
  emit(context, { event: "issue_comment", action: "deleted", thread, comment });
}

export function deleteReviewComment(context: ActionContext, reviewComment: StoredReviewComment): void {
  context.repository.reviewComments.delete(reviewComment.id);
  const thread = context.repository.threads.get(reviewComment.thread);
  emit(context, { event: "pull_request_review_comment", action: "deleted", thread, reviewComment });
}

/** Adds a reaction, or returns the user's existing one. */
export function addReaction(
  { world, actor }: ActionContext,
  target: Thread | StoredComment,
  content: Reaction["content"],
): { reaction: Reaction; created: boolean } {
  const given = target.reactions.find((reaction) => reaction.content === content && reaction.by === actor);
  if (given) return { reaction: given, created: false };

  const reaction = { id: world.nextId(), by: actor, content, createdAt: new Date() };
  target.reactions.push(reaction);
  world.notify();
  return { reaction, created: true };
}

export function addLabels(context: ActionContext, thread: Thread, names: string[]): void {
  for (const name of names) {
    const label = findOrCreateLabel(context, name);
    if (thread.labels.includes(label)) continue;
    thread.labels.push(label);
    thread.updatedAt = new Date();
    recordEvent(context, thread, { event: "labeled", label });
    emitOfThread(context, thread, { action: "labeled", label });
  }
}

export function assign(context: ActionContext, thread: Thread, assignee: User): void {
  if (thread.assignees.includes(assignee)) return;
  thread.assignees.push(assignee);
  thread.updatedAt = new Date();
  recordEvent(context, thread, { event: "assigned", assignee });
  emitOfThread(context, thread, { action: "assigned", assignee });
}

export function removeLabel(context: ActionContext, thread: Thread, name: string): void {
  const label = thread.labels.find((candidate) => candidate.name.toLowerCase() === name.toLowerCase());
  if (!label) throw new ApiError(404, "Label does not exist");

  thread.labels = thread.labels.filter((candidate) => candidate !== label);
  emitOfThread(context, thread, { action: "unlabeled", label });
}

function findOrCreateLabel({ world, repository }: ActionContext, name: string): Label {
  const key = name.toLowerCase();
  const label = repository.labels.get(key) ?? { id: world.nextId(), name, color: "ededed", description: null };
  repository.labels.set(key, label);
  return label;
}
