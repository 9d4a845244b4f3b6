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

/** What makes an issue a pull request. */
export interface PullRequestFields {
  id: number;
  head: { branch: string; commit: string };
  base: { branch: string; commit: string };
  draft: boolean;
  mergedAt: Date | undefined;
  mergedBy: User | undefined;
}

export interface Thread {
  id: number;
  number: number;
  title: string;
  body: string;
  author: User;
  state: "open" | "closed";
  locked: boolean;
  labels: Label[];
  reactions: Reaction[];
  createdAt: Date;
  updatedAt: Date;
  closedAt: Date | undefined;
  closedBy: User | undefined;
  pull: PullRequestFields | undefined;
}

export interface StoredComment {
  id: number;
  thread: number;
  body: string;
  author: User;
  reactions: Reaction[];
  createdAt: Date;
  updatedAt: Date;
}

export interface StoredReviewComment extends Omit<StoredComment, "reactions"> {
  path: string;
  line: number;
  diffHunk: string;
  commit: string;
  inReplyTo: number | undefined;
}

export interface CheckRun {
  id: number;
  name: string;
  commit: string;
  conclusion: "success" | "failure" | "neutral" | undefined;
  summary: string | undefined;
  startedAt: Date;
}

export interface Repository {
  id: number;
  owner: User;
  name: string;
  description: string;
  private: boolean;
  defaultBranch: string;
  /** By which the app may see it. */
  installation: Installation | undefined;
  createdAt: Date;
  updatedAt: Date;
  /** What collaborators may do; everybody else reads when it is public. */
  permissions: Map<string, Permission>;
  labels: Map<string, Label>;
  threads: Map<number, Thread>;
  /** Numbers that were used: what is deleted or transferred leaves a gap, and the latter a way to where it went. */
  removedThreads: Map<number, { repository: Repository; number: number } | "deleted">;
  comments: Map<number, StoredComment>;
  reviewComments: Map<number, StoredReviewComment>;
  checks: CheckRun[];
  /** The bare repository on disk. */
  gitDirectory: string;
}

/** The app's permissions by name, `read` or `write`. */
export type AppPermissions = Record<string, "read" | "write">;

/** An account's leave for the app to act in its repositories. */
export interface Installation {
  id: number;
  account: User;
  suspended: boolean;
}

export interface App {
  id: number;
  slug: string;
  name: string;
  bot: User;
  owner: User;
  permissions: AppPermissions;
  events: string[];
  createdAt: Date;
}

/** Something GitHub tells of: to webhooks, and to pages that watch. */
export interface WebhookEvent {
  event: "issues" | "issue_comment" | "pull_request" | "pull_request_review_comment" | "push" | "repository";
  action: string | undefined;
  repository: Repository;
  sender: User;
  /** The issue or pull request it belongs to; undefined for a push. */
  thread: Thread | undefined;
  comment?: StoredComment;
  reviewComment?: StoredReviewComment;
  /** The earlier values of what was edited, in GitHub's shape. */
  changes?: Record<string, unknown>;
  label?: Label;
  push?: { ref: string; before: string; after: string };
}

/** What GitHub tells every app of its installations, subscribed or not. */
export interface InstallationEvent {
  event: "installation" | "installation_repositories";
  action: string;
  installation: Installation;
  sender: User;
  /** What it is about, as they were when it happened. */
  repositories: readonly Repository[];
}

/** Everything the local GitHub knows, in memory; only git's objects are on disk. */
export interface World {
  /** Where it is served, without a slash at the end. */
  url: string;
  app: App;
  users: Map<string, User>;
  repositories: Map<string, Repository>;
  /** Names that were given up and that nobody has taken, with the repository they lead to. */
  previousNames: Map<string, Repository>;
  installations: Map<number, Installation>;
  nextId(): number;
  /** Something happened that webhooks may tell of. */
  emit(event: WebhookEvent): void;
  emitInstallationEvent(news: InstallationEvent): void;
  /** Something changed that a page shows. */
  notify(repository: Repository, thread: number | undefined): void;
}

/** The key of a login or of `owner/name`: GitHub's names ignore case. */
export function nameKey(name: string): string {
  return name.toLowerCase();
}

/** What a person may do, as the collaborators API answers it. */
export function permissionIn(repository: Repository, login: string): Permission {
  return repository.permissions.get(nameKey(login)) ?? (repository.private ? "none" : "read");
}
