import { validationFailed } from "./rest/api-error.ts";
import type {
  Comment,
  Happening,
  Label,
  PullPart,
  Reaction,
  Repository,
  ReviewComment,
  Thread,
  User,
  World,
} from "./world.ts";

/** GitHub's limit for the body of a comment, an issue and a pull request, in characters. */
const longestBody = 65_536;

/** Where something happens, and who does it. */
export interface Scene {
  world: World;
  repository: Repository;
  by: User;
}

type Told = Omit<Happening, "repository" | "sender">;

function tell({ world, repository, by }: Scene, happening: Told): void {
  world.tell({ repository, sender: by, ...happening });
  world.touch(repository, happening.thread?.number);
}

function checkBody(resource: string, body: string): void {
  if (body.length <= longestBody) return;

  throw validationFailed({
    resource,
    code: "unprocessable",
    field: "body",
    message: `body is too long (maximum is ${longestBody} characters)`,
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
  { world, repository, by }: Scene,
  { title, body, labels, pull }: { title: string; body: string; labels: Label[]; pull: PullPart | undefined },
): Thread {
  const now = new Date();
  const thread: Thread = {
    id: world.nextId(),
    number: repository.threads.size + repository.gone.size + 1,
    title,
    body,
    author: by,
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
  scene: Scene,
  { title, body = "", labels = [] }: { title: string; body?: string; labels?: string[] },
): Thread {
  checkTitle("Issue", title);
  checkBody("Issue", body);

  const found = labels.map((name) => findOrCreateLabel(scene, name));
  const thread = addThread(scene, { title, body, labels: found, pull: undefined });
  tell(scene, { event: "issues", action: "opened", thread });
  return thread;
}

export function openPullRequest(
  scene: Scene,
  { title, body, ...pull }: Omit<PullPart, "id" | "mergedAt" | "mergedBy"> & { title: string; body: string },
): Thread {
  checkTitle("PullRequest", title);
  checkBody("PullRequest", body);

  const part = { ...pull, id: scene.world.nextId(), mergedAt: undefined, mergedBy: undefined };
  const thread = addThread(scene, { title, body, labels: [], pull: part });
  tell(scene, { event: "pull_request", action: "opened", thread });
  return thread;
}

/** Edits, closes or reopens an issue or a pull request. What is not named stays. */
export function changeThread(
  scene: Scene,
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
  if (Object.keys(changes).length > 0) tell(scene, { event, action: "edited", thread, changes });
  if (change.state === undefined || change.state === thread.state) return;

  thread.state = change.state;
  thread.closedAt = change.state === "closed" ? new Date() : undefined;
  thread.closedBy = change.state === "closed" ? scene.by : undefined;
  tell(scene, { event, action: change.state === "closed" ? "closed" : "reopened", thread });
}

export function addComment(scene: Scene, thread: Thread, body: string): Comment {
  if (body.trim() === "") throw validationFailed({ resource: "IssueComment", code: "missing_field", field: "body" });
  checkBody("IssueComment", body);

  const now = new Date();
  const comment: Comment = {
    id: scene.world.nextId(),
    thread: thread.number,
    body,
    author: scene.by,
    reactions: [],
    createdAt: now,
    updatedAt: now,
  };
  scene.repository.comments.set(comment.id, comment);
  thread.updatedAt = now;
  tell(scene, { event: "issue_comment", action: "created", thread, comment });
  return comment;
}

export function editComment(scene: Scene, comment: Comment, body: string): void {
  if (body.trim() === "") throw validationFailed({ resource: "IssueComment", code: "missing_field", field: "body" });
  checkBody("IssueComment", body);

  const changes = { body: { from: comment.body } };
  comment.body = body;
  comment.updatedAt = new Date();
  const thread = scene.repository.threads.get(comment.thread);
  tell(scene, { event: "issue_comment", action: "edited", thread, comment, changes });
}

export function addReviewComment(
  scene: Scene,
  thread: Thread,
  { body, ...place }: Pick<ReviewComment, "body" | "path" | "line" | "diffHunk" | "commit" | "inReplyTo">,
): ReviewComment {
  if (body.trim() === "") {
    throw validationFailed({ resource: "PullRequestReviewComment", code: "missing_field", field: "body" });
  }
  checkBody("PullRequestReviewComment", body);

  const now = new Date();
  const comment: ReviewComment = {
    id: scene.world.nextId(),
    thread: thread.number,
    author: scene.by,
    createdAt: now,
    updatedAt: now,
    body,
    ...place,
  };
  scene.repository.reviewComments.set(comment.id, comment);
  tell(scene, { event: "pull_request_review_comment", action: "created", thread, reviewComment: comment });
  return comment;
}

/** Adds a reaction, or finds the one this person already gave. */
export function react(
  { world, repository, by }: Scene,
  target: Thread | Comment,
  content: Reaction["content"],
): { reaction: Reaction; created: boolean } {
  const given = target.reactions.find((reaction) => reaction.content === content && reaction.by === by);
  if (given) return { reaction: given, created: false };

  const reaction = { id: world.nextId(), by, content, createdAt: new Date() };
  target.reactions.push(reaction);
  world.touch(repository, "number" in target ? target.number : target.thread);
  return { reaction, created: true };
}

export function addLabels(scene: Scene, thread: Thread, names: string[]): void {
  for (const name of names) {
    const label = findOrCreateLabel(scene, name);
    if (thread.labels.includes(label)) continue;
    thread.labels.push(label);
    tell(scene, { event: thread.pull ? "pull_request" : "issues", action: "labeled", thread, label });
  }
}

export function removeLabel(scene: Scene, thread: Thread, name: string): boolean {
  const label = thread.labels.find((candidate) => candidate.name.toLowerCase() === name.toLowerCase());
  if (!label) return false;

  thread.labels = thread.labels.filter((candidate) => candidate !== label);
  tell(scene, { event: thread.pull ? "pull_request" : "issues", action: "unlabeled", thread, label });
  return true;
}

function findOrCreateLabel({ world, repository }: Scene, name: string): Label {
  const key = name.toLowerCase();
  const label = repository.labels.get(key) ?? { id: world.nextId(), name, color: "ededed", description: null };
  repository.labels.set(key, label);
  return label;
}

/** Tells of refs that moved, and lets open pull requests follow their branches. */
export function noticePush(
  scene: Scene,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): void {
  for (const ref of new Set([...before.keys(), ...after.keys()])) {
    const old = before.get(ref);
    const now = after.get(ref);
    if (old === now) continue;

    tell(scene, {
      event: "push",
      action: undefined,
      thread: undefined,
      push: { ref, before: old ?? noCommit, after: now ?? noCommit },
    });
    followBranch(scene, ref.replace(/^refs\/heads\//, ""), now);
  }
}

const noCommit = "0".repeat(40);

function followBranch(scene: Scene, branch: string, commit: string | undefined): void {
  for (const thread of scene.repository.threads.values()) {
    if (thread.state !== "open" || thread.pull?.head.branch !== branch) continue;
    if (commit === undefined) {
      changeThread(scene, thread, { state: "closed" });
      continue;
    }
    thread.pull.head.commit = commit;
    thread.updatedAt = new Date();
    tell(scene, { event: "pull_request", action: "synchronize", thread });
  }
}
