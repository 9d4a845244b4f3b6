import { z } from "zod";
import type { Permission } from "#domain/github.ts";

export interface User {
  id: number;
  login: string;
  type: "User" | "Bot" | "Organization";
}

export interface Reaction {
  id: number;
  by: User;
  content: "+1" | "-1" | "laugh" | "confused" | "heart" | "hooray" | "rocket" | "eyes";
  createdAt: Date;
}

export interface Label {
  id: number;
  name: string;
  color: string;
  description: string | null;
}

/** One side of a pull request. The head's repository is a fork, or the repository of the pull request itself. */
export interface PullRequestEnd {
  repository: Repository;
  branch: string;
  commit: string;
}

/** The fields that make an issue a pull request. */
export interface PullRequestFields {
  id: number;
  head: PullRequestEnd;
  base: PullRequestEnd;
  draft: boolean;
  requestedReviewers: User[];
  merged: { at: Date; by: User; commit: string } | undefined;
}

/** An issue or a pull request: they share numbers, comments, labels and state. */
export interface Thread {
  id: number;
  number: number;
  title: string;
  body: string;
  author: User;
  state: "open" | "closed";
  locked: boolean;
  labels: Label[];
  assignees: User[];
  /** The name of its issue type. */
  type?: string;
  subIssues?: { total: number; completed: number };
  /** The option that is selected in each of its issue fields. */
  fields?: Record<string, string>;
  reactions: Reaction[];
  createdAt: Date;
  updatedAt: Date;
  closedAt: Date | undefined;
  /** The app that opened it, with its own token or a person's. */
  app: AppIdentity | undefined;
  /** The actions of people on it, oldest first. */
  events: ThreadEvent[];
  pull: PullRequestFields | undefined;
}

export interface ThreadEvent {
  id: number;
  event: "closed" | "reopened" | "labeled" | "assigned" | "review_requested" | "ready_for_review";
  by: User;
  /** The app through which they did it. */
  app: AppIdentity | undefined;
  at: Date;
  label?: Label;
  assignee?: User;
  reviewer?: User;
}

export type PullThread = Thread & { pull: PullRequestFields };

export function isPull(thread: Thread): thread is PullThread {
  return thread.pull !== undefined;
}

export interface StoredComment {
  id: number;
  thread: number;
  body: string;
  author: User;
  /** The app that posted it: with its own token as its bot, or with a person's token as that person. */
  app: AppIdentity | undefined;
  reactions: Reaction[];
  /** The reason for which it was minimized, such as `spam`. */
  minimized: string | undefined;
  createdAt: Date;
  updatedAt: Date;
}

/** A version of a file in a pull request: before or after the change. */
export type Side = "LEFT" | "RIGHT";

export interface StoredReview {
  id: number;
  thread: number;
  author: User;
  body: string;
  state: "APPROVED" | "CHANGES_REQUESTED" | "COMMENTED" | "DISMISSED";
  commit: string;
  submittedAt: Date;
}

export interface StoredReviewComment extends StoredComment {
  review: number;
  path: string;
  /** True for a comment on the whole file, which has no lines. */
  isOnFile: boolean;
  /** Its last line in the pull request's current diff; undefined once a push has changed that line. */
  line: number | undefined;
  side: Side;
  /** The first line of a multi-line comment, defined under the same conditions as `line`. */
  startLine: number | undefined;
  startSide: Side | undefined;
  /** Its lines at the time of writing. */
  originalLine: number | undefined;
  originalStartLine: number | undefined;
  originalCommit: string;
  diffHunk: string;
  inReplyTo: number | undefined;
  /** Set on the first comment of a resolved thread. */
  resolvedBy: User | undefined;
}

export type Conclusion = "success" | "failure" | "neutral" | "cancelled" | "skipped" | "timed_out" | "action_required";

/** The checks of one app on one commit. A suite without runs stays queued forever. */
export interface CheckSuite {
  id: number;
  app: AppIdentity;
  commit: string;
  branch: string;
  createdAt: Date;
  updatedAt: Date;
}

export const Annotation = z.object({
  path: z.string(),
  start_line: z.number(),
  end_line: z.number(),
  annotation_level: z.enum(["notice", "warning", "failure"]),
  message: z.string(),
  title: z.string().optional(),
});
export type Annotation = z.infer<typeof Annotation>;

export interface CheckRun {
  id: number;
  suite: CheckSuite;
  name: string;
  status: "queued" | "in_progress" | "completed";
  conclusion: Conclusion | undefined;
  title: string | undefined;
  summary: string | undefined;
  text: string | undefined;
  annotations: Annotation[];
  externalId: string;
  detailsUrl: string | undefined;
  startedAt: Date;
  completedAt: Date | undefined;
  /** The log of a GitHub Actions job. */
  log: string | undefined;
}

/** A run of a GitHub Actions workflow. Its jobs are the check runs of its suite. */
export interface WorkflowRun {
  id: number;
  name: string;
  path: string;
  event: string;
  suite: CheckSuite;
  actor: User;
  status: "queued" | "in_progress" | "completed";
  conclusion: Conclusion | undefined;
  createdAt: Date;
  updatedAt: Date;
}

export interface CommitStatus {
  id: number;
  commit: string;
  context: string;
  state: "error" | "failure" | "pending" | "success";
  description: string | null;
  targetUrl: string | null;
  creator: User;
  createdAt: Date;
}

/** A comment on a commit, outside of any pull request. */
export interface StoredCommitComment {
  id: number;
  commit: string;
  body: string;
  author: User;
  createdAt: Date;
}

export interface Repository {
  id: number;
  owner: User;
  name: string;
  description: string;
  private: boolean;
  /** The plan of its owner. Private repositories on Free have no draft pull requests. */
  plan: "free" | "team";
  /** The setting that lets jobs of GitHub Actions create and approve pull requests. */
  actionsOpenPullRequests: boolean;
  forkOf: Repository | undefined;
  defaultBranch: string;
  /** Checks that the default branch requires before a merge. */
  requiredChecks: readonly string[];
  /** The installation that gives the app access; undefined without one. */
  installation: Installation | undefined;
  createdAt: Date;
  updatedAt: Date;
  /** The permissions of collaborators by login; everybody else may read a public repository. */
  permissions: Map<string, Permission>;
  labels: Map<string, Label>;
  threads: Map<number, Thread>;
  /** Numbers of threads that were deleted, or transferred and where to. */
  removedThreads: Map<number, { repository: Repository; number: number } | "deleted">;
  comments: Map<number, StoredComment>;
  commitComments: StoredCommitComment[];
  reviews: Map<number, StoredReview>;
  reviewComments: Map<number, StoredReviewComment>;
  checkSuites: CheckSuite[];
  checkRuns: CheckRun[];
  workflowRuns: WorkflowRun[];
  statuses: CommitStatus[];
  /** The bare repository on disk. */
  gitDirectory: string;
  /** Its branches by full name, as the last push event reported them. */
  knownBranches: ReadonlyMap<string, string>;
}

/** The app's permissions by name. */
export type AppPermissions = Record<string, "read" | "write">;

/** An account's permission for the app to act in its repositories. */
export interface Installation {
  id: number;
  account: User;
  suspended: boolean;
}

export interface AppIdentity {
  id: number;
  slug: string;
  name: string;
  owner: User;
  permissions: AppPermissions;
  events: string[];
  createdAt: Date;
}

/** The app under test. */
export interface PlaygroundApp extends AppIdentity {
  bot: User;
}

/** Something that happened in a repository, delivered to the app's webhook when it is subscribed to the event. */
export interface WebhookEvent {
  event:
    | "issues"
    | "issue_comment"
    | "pull_request"
    | "pull_request_review"
    | "pull_request_review_comment"
    | "pull_request_review_thread"
    | "check_run"
    | "check_suite"
    | "status"
    | "workflow_run"
    | "push"
    | "repository";
  action: string | undefined;
  repository: Repository;
  sender: User;
  /** The issue or pull request it belongs to. */
  thread?: Thread | undefined;
  comment?: StoredComment;
  review?: StoredReview;
  reviewComment?: StoredReviewComment;
  requestedReviewer?: User;
  assignee?: User;
  label?: Label;
  checkSuite?: CheckSuite;
  checkRun?: CheckRun;
  workflowRun?: WorkflowRun;
  status?: CommitStatus;
  push?: { ref: string; before: string; after: string };
  /** The commits between which the head of a pull request moved. */
  synchronize?: { before: string; after: string };
  /** The earlier values of what was edited, in GitHub's format. */
  changes?: Record<string, unknown>;
}

/** An event about an installation, which GitHub delivers to every app without a subscription. */
export interface InstallationEvent {
  event: "installation" | "installation_repositories";
  action: string;
  installation: Installation;
  sender: User;
  /** The repositories it is about, as they were when it happened. */
  repositories: readonly Repository[];
}

/** A file that someone attached to a text. */
interface Attachment {
  name: string;
  content: Buffer;
  /** For private repositories, the part of the storage URL that authorizes reading the file. Tokens do not. */
  signature: string | undefined;
}

/** The whole state of the local GitHub, in memory; only git's objects are on disk. */
export interface World {
  /** The base URL, without a trailing slash. */
  url: string;
  app: PlaygroundApp;
  /** The other apps by slug, such as `github-actions`. */
  otherApps: Map<string, AppIdentity>;
  users: Map<string, User>;
  /** The logins of the members of each team, by `org/team`. */
  teams: Map<string, ReadonlySet<string>>;
  repositories: Map<string, Repository>;
  /** Earlier names of repositories that are not in use by another one. */
  previousNames: Map<string, Repository>;
  installations: Map<number, Installation>;
  /** The files that people attached to texts, by the id in their address. */
  attachments: Map<string, Attachment>;
  nextId(): number;
  /** Delivers a webhook to the app. */
  emit(event: WebhookEvent): void;
  emitInstallationEvent(event: InstallationEvent): void;
  /** Notifies watching pages and tests of a change. */
  notify(): void;
}

/** Returns the key of a login or of `owner/name`, since GitHub's names ignore case. */
export function nameKey(name: string): string {
  return name.toLowerCase();
}

/** Returns the comments or reviews of a thread, oldest first. */
export function ofThread<T extends { thread: number }>(
  all: ReadonlyMap<number, T>,
  { number }: { number: number },
): T[] {
  return [...all.values()].filter(({ thread }) => thread === number);
}

/** Returns a person's permission, as in the collaborators API. */
export function permissionIn(repository: Repository, login: string): Permission {
  return repository.permissions.get(nameKey(login)) ?? (repository.private ? "none" : "read");
}

/** Returns the app with this slug. Registers an unknown one. */
export function appNamed(world: World, slug: string): AppIdentity {
  if (slug === world.app.slug) return world.app;
  const known = world.otherApps.get(slug);
  if (known) return known;

  const { owner, createdAt } = world.app;
  const app = { id: world.nextId(), slug, name: slug, owner, permissions: {}, events: [], createdAt };
  world.otherApps.set(slug, app);
  return app;
}
