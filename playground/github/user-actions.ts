import { validationFailed } from "./rest/api-error.ts";
import type {
  Label,
  PullRequestFields,
  Reaction,
  Repository,
  StoredComment,
  StoredReviewComment,
  Thread,
  User,
  WebhookEvent,
  World,
} from "./world.ts";

/** GitHub's limit for the body of a comment, an issue and a pull request, in characters. */
const maxBodyLength = 65_536;

/** Where something happens, and who does it. */
export interface ActionContext {
  world: World;
  repository: Repository;
  actor: User;
}

type EventDetails = Omit<WebhookEvent, "repository" | "sender">;

function emit({ world, repository, actor }: ActionContext, event: EventDetails): void {
  world.emit({ repository, sender: actor, ...event });
  world.notify(repository, event.thread?.number);
}

function checkBody(resource: string, body: string): void {
  if (body.length <= maxBodyLength) return;

  throw validationFailed({
    resource,
    code: "unprocessable",
    field: "body",
    message: `body is too long (maximum is ${maxBodyLength} characters)`,
  });
}

function checkTitle(resource: string, title: string): void {
  if (title.trim() === "") throw validationFailed({ resource, code: "missing_field", field: "title" });
  if (title.length <= 256) return;

  throw validationFailed({
    resource,
    code: "custom",
    field: "title",
    message: "title is too long (maximum is 256 characters)",
  });
}

function addThread(
  { world, repository, actor }: ActionContext,
  { title, body, labels, pull }: { title: string; body: string; labels: Label[]; pull: PullRequestFields | undefined },
): Thread {
  const now = new Date();
  const thread: Thread = {
    id: world.nextId(),
    number: repository.threads.size + repository.removedThreads.size + 1,
    title,
    body,
    author: actor,
    state: "open",
    locked: false,
    labels,
    reactions: [],
    createdAt: now,
    updatedAt: now,
    closedAt: undefined,
    closedBy: undefined,
    pull,
  };
  repository.threads.set(thread.number, thread);
  return thread;
}

export function openIssue(
  context: ActionContext,
  { title, body = "", labels = [] }: { title: string; body?: string; labels?: string[] },
): Thread {
  checkTitle("Issue", title);
  checkBody("Issue", body);

  const found = labels.map((name) => findOrCreateLabel(context, name));
  const thread = addThread(context, { title, body, labels: found, pull: undefined });
  emit(context, { event: "issues", action: "opened", thread });
  return thread;
}

export function openPullRequest(
  context: ActionContext,
  { title, body, ...pull }: Omit<PullRequestFields, "id" | "mergedAt" | "mergedBy"> & { title: string; body: string },
): Thread {
  checkTitle("PullRequest", title);
  checkBody("PullRequest", body);

  const part = { ...pull, id: context.world.nextId(), mergedAt: undefined, mergedBy: undefined };
  const thread = addThread(context, { title, body, labels: [], pull: part });
  emit(context, { event: "pull_request", action: "opened", thread });
  return thread;
}

/** Edits, closes or reopens an issue or a pull request. What is not named stays. */
export function updateThread(
  context: ActionContext,
  thread: Thread,
  change: { title?: string | undefined; body?: string | undefined; state?: "open" | "closed" | undefined },
): void {
  const resource = thread.pull ? "PullRequest" : "Issue";
  if (change.title !== undefined) checkTitle(resource, change.title);
  if (change.body !== undefined) checkBody(resource, change.body);

  const changes: Record<string, { from: string }> = {};
  for (const field of ["title", "body"] as const) {
    const value = change[field];
    if (value === undefined || value === thread[field]) continue;
    changes[field] = { from: thread[field] };
    thread[field] = value;
  }
  const event = thread.pull ? "pull_request" : "issues";
  thread.updatedAt = new Date();
  if (Object.keys(changes).length > 0) emit(context, { event, action: "edited", thread, changes });
  if (change.state === undefined || change.state === thread.state) return;

  thread.state = change.state;
  thread.closedAt = change.state === "closed" ? new Date() : undefined;
  thread.closedBy = change.state === "closed" ? context.actor : undefined;
  emit(context, { event, action: change.state === "closed" ? "closed" : "reopened", thread });
}

export function addComment(context: ActionContext, thread: Thread, body: string): StoredComment {
  if (body.trim() === "") throw validationFailed({ resource: "IssueComment", code: "missing_field", field: "body" });
  checkBody("IssueComment", body);

  const now = new Date();
  const comment: StoredComment = {
    id: context.world.nextId(),
    thread: thread.number,
    body,
    author: context.actor,
    reactions: [],
    createdAt: now,
    updatedAt: now,
  };
  context.repository.comments.set(comment.id, comment);
  thread.updatedAt = now;
  emit(context, { event: "issue_comment", action: "created", thread, comment });
  return comment;
}

export function editComment(context: ActionContext, comment: StoredComment, body: string): void {
  if (body.trim() === "") throw validationFailed({ resource: "IssueComment", code: "missing_field", field: "body" });
  checkBody("IssueComment", body);

  const changes = { body: { from: comment.body } };
  comment.body = body;
  comment.updatedAt = new Date();
  const thread = context.repository.threads.get(comment.thread);
  emit(context, { event: "issue_comment", action: "edited", thread, comment, changes });
}

export function addReviewComment(
  context: ActionContext,
  thread: Thread,
  { body, ...place }: Pick<StoredReviewComment, "body" | "path" | "line" | "diffHunk" | "commit" | "inReplyTo">,
): StoredReviewComment {
  if (body.trim() === "") {
    throw validationFailed({ resource: "PullRequestReviewComment", code: "missing_field", field: "body" });
  }
  checkBody("PullRequestReviewComment", body);

  const now = new Date();
  const comment: StoredReviewComment = {
    id: context.world.nextId(),
    thread: thread.number,
    author: context.actor,
    createdAt: now,
    updatedAt: now,
    body,
    ...place,
  };
  context.repository.reviewComments.set(comment.id, comment);
  emit(context, { event: "pull_request_review_comment", action: "created", thread, reviewComment: comment });
  return comment;
}

/** Adds a reaction, or finds the one this person already gave. */
export function addReaction(
  { world, repository, actor }: ActionContext,
  target: Thread | StoredComment,
  content: Reaction["content"],
): { reaction: Reaction; created: boolean } {
  const given = target.reactions.find((reaction) => reaction.content === content && reaction.by === actor);
  if (given) return { reaction: given, created: false };

  const reaction = { id: world.nextId(), by: actor, content, createdAt: new Date() };
  target.reactions.push(reaction);
  world.notify(repository, "number" in target ? target.number : target.thread);
  return { reaction, created: true };
}

export function addLabels(context: ActionContext, thread: Thread, names: string[]): void {
  for (const name of names) {
    const label = findOrCreateLabel(context, name);
    if (thread.labels.includes(label)) continue;
    thread.labels.push(label);
    emit(context, { event: thread.pull ? "pull_request" : "issues", action: "labeled", thread, label });
  }
}

export function removeLabel(context: ActionContext, thread: Thread, name: string): boolean {
  const label = thread.labels.find((candidate) => candidate.name.toLowerCase() === name.toLowerCase());
  if (!label) return false;

  thread.labels = thread.labels.filter((candidate) => candidate !== label);
  emit(context, { event: thread.pull ? "pull_request" : "issues", action: "unlabeled", thread, label });
  return true;
}

function findOrCreateLabel({ world, repository }: ActionContext, name: string): Label {
  const key = name.toLowerCase();
  const label = repository.labels.get(key) ?? { id: world.nextId(), name, color: "ededed", description: null };
  repository.labels.set(key, label);
  return label;
}

/** Tells of refs that moved, and lets open pull requests follow their branches. */
export function recordPush(
  context: ActionContext,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): void {
  for (const ref of new Set([...before.keys(), ...after.keys()])) {
    const old = before.get(ref);
    const now = after.get(ref);
    if (old === now) continue;

    emit(context, {
      event: "push",
      action: undefined,
      thread: undefined,
      push: { ref, before: old ?? noCommit, after: now ?? noCommit },
    });
    updatePullRequests(context, ref.replace(/^refs\/heads\//, ""), now);
  }
}

const noCommit = "0".repeat(40);

function updatePullRequests(context: ActionContext, branch: string, commit: string | undefined): void {
  for (const thread of context.repository.threads.values()) {
    if (thread.state !== "open" || thread.pull?.head.branch !== branch) continue;
    if (commit === undefined) {
      updateThread(context, thread, { state: "closed" });
      continue;
    }
    thread.pull.head.commit = commit;
    thread.updatedAt = new Date();
    emit(context, { event: "pull_request", action: "synchronize", thread });
  }
}
