import { UserError } from "./errors.ts";
import type { FileMode } from "./preview.ts";

/** The version of the REST API that every request asks for. */
export const githubApiVersion = "2022-11-28";

/** The login of GitHub's own App, whose token the jobs of GitHub Actions use. */
export const actionsLogin = "github-actions[bot]";

/** A person's permission in a repository, as the API reports it. */
export type Permission = "admin" | "maintain" | "write" | "triage" | "read" | "none";

/** True for permissions that allow commanding a worker. */
export function canWrite(permission: Permission): boolean {
  return permission === "admin" || permission === "maintain" || permission === "write";
}

const permissionOrder: readonly Permission[] = ["none", "read", "triage", "write", "maintain", "admin"];

/** True for a permission that includes the needed one. */
export function hasPermission(permission: Permission, needed: Permission): boolean {
  return permissionOrder.indexOf(permission) >= permissionOrder.indexOf(needed);
}

/** A GitHub account: a login it had at some time, and its permanent id, which old stored data lacks. */
export interface Account {
  login: string;
  id?: number | undefined;
}

/** Compares two accounts by id, and by login where one of them has no id. */
export function isSameAccount(one: Account, two: Account): boolean {
  if (one.id !== undefined && two.id !== undefined) return one.id === two.id;
  return one.login.toLowerCase() === two.login.toLowerCase();
}

/** The order of requests when a rate limit is reached. An `optional` request is dropped instead of waiting. */
export type RequestPriority = "high" | "normal" | "low" | "optional";

/** GitHub refused a request. Repeating it has no effect until someone changes something on GitHub. */
export class GitHubRefusalError extends UserError {
  override readonly name = "GitHubRefusalError";
  /** 403, 404, 410 or 451; 422 for a branch that does not exist, and for people who cannot review. */
  readonly status: number;

  constructor(message: string, { status, cause }: { status: number; cause: unknown }) {
    super(message, { cause });
    this.status = status;
  }
}

/** A repository on which the App is installed. */
export interface RepositoryRef {
  /** GitHub's permanent repository id. Requests that carry it never reach another repository that took over the name. */
  repositoryId?: number | undefined;
  installationId: number;
  owner: string;
  repo: string;
}

interface Repository {
  /** Its current name. */
  owner: string;
  repo: string;
  defaultBranch: string;
  private: boolean;
  /** The URL for git, without credentials. */
  cloneUrl: string;
}

/** The details that organizations can add to their issues. */
export interface IssueDetails {
  /** Its issue type, such as Bug, where the organization has types. */
  type?: string | undefined;
  subIssues?: { total: number; completed: number } | undefined;
  /** The values of its issue fields, such as a priority. */
  fields?: { name: string; value: string }[] | undefined;
}

export interface Issue extends IssueDetails {
  number: number;
  title: string;
  body: string;
  author: string;
  authorId?: number | undefined;
  state: "open" | "closed";
  locked: boolean;
  labels: string[];
  isPullRequest: boolean;
}

export interface Comment {
  id: number;
  body: string;
  author: string;
  authorId?: number | undefined;
  createdAt: Date;
  updatedAt: Date;
  /** True for comments of this App. */
  own: boolean;
}

/** The text of a comment, or a function that is called when GitHub's rate limits let the comment be sent. */
export type CommentBody = string | (() => Promise<string>);

export interface PullRequest {
  number: number;
  url: string;
  title: string;
  body: string;
  state: "open" | "closed";
  updatedAt?: Date;
  merged: boolean;
  /** The commit on the base branch, once it is merged. */
  mergeCommit?: string;
  draft: boolean;
  /** False if it has conflicts with its base; undefined while GitHub computes it. */
  mergeable?: boolean;
  head: { branch: string; commit: string; fromFork: boolean };
  base: { branch: string; commit: string };
}

/** A check run of an App, or a commit status. */
export interface Check {
  /** The id of the check run, which for GitHub Actions is also the id of the job; undefined for a commit status. */
  id?: number;
  name: string;
  /** The App that reported it, such as `github-actions`; undefined for a commit status. */
  app?: string;
  status: string;
  conclusion: string | null;
  summary: string | null;
  url: string | null;
  annotations: number;
}

export interface CommitChecks {
  checks: Check[];
  /** The names of checks that have not completed. Suites without check runs and suites of this App do not count. */
  unfinished: string[];
  /** Permissions that the installation has not granted, such as `statuses: read`. Checks that need them are left out. */
  missingPermissions: string[];
}

/** A message of a check about lines of a file. */
export interface CheckAnnotation {
  path: string;
  line: number;
  level: string;
  message: string;
}

/** A completed check run to create. */
export interface NewCheckRun {
  commit: string;
  name: string;
  /** Identifies the check run: this App creates at most one per commit and key. */
  key: string;
  conclusion: "success" | "neutral" | "failure";
  title: string;
  /** Markdown. */
  summary: string;
  /** Annotations on lines of files in the commit; at most 50. */
  annotations: { path: string; startLine: number; line: number; title: string; message: string }[];
}

/** The reactions that this app adds: to a comment it handles, and to one it cannot act on. */
export type ReactionContent = "eyes" | "confused";

export type DiffSide = "LEFT" | "RIGHT";

/** The last time a pull request was closed or reopened, and by whom. */
export interface StateChange {
  state: "open" | "closed";
  /** Undefined if the account is gone. */
  by: { login: string; id: number; type: "User" | "Bot" } | undefined;
  at: Date;
}

/** An action of a person on an issue or pull request, of which GitHub keeps a record. */
export interface ThreadAction {
  type: "opened" | "reopened" | "labeled" | "assigned" | "review_requested" | "ready_for_review";
  /** The id of the person's account. */
  byId: number;
  /** The label that was added, or the login of the person who was assigned or asked for a review. */
  subject: string | undefined;
  /** The time of the action, or a later one. */
  at: Date;
}

/** A comment on lines of a pull request's diff. */
export interface ReviewComment {
  id: number;
  /** The review it belongs to. */
  reviewId: number | null;
  /** The first comment of its thread; undefined for that comment itself. */
  inReplyTo?: number;
  path: string;
  /** Null for a comment on the whole file. Of an outdated comment: the lines as they were when it was written. */
  startLine: number | null;
  line: number | null;
  /** True if the lines have changed since. */
  isOutdated: boolean;
  side: DiffSide;
  body: string;
  author: string;
  updatedAt: Date;
  /** The diff up to the last of these lines. */
  diffHunk: string;
}

export interface Review {
  id: number;
  author: string;
  /** In lower case: `approved`, `changes_requested`, `commented`, `dismissed`. */
  state: string;
  body: string;
  submittedAt?: Date | undefined;
  /** The commit that was reviewed. */
  commit: string | null;
}

export interface NewReviewComment {
  path: string;
  line: number;
  side: DiffSide;
  startLine?: number | undefined;
  body: string;
}

/** The conversation that a review comment starts. */
export interface ReviewThread {
  id: string;
  firstCommentId: number;
  isResolved: boolean;
  /** The login of the person, or of the App without `[bot]`, who resolved it. */
  resolvedBy: string | undefined;
  /** The ids of its comments that people minimized, for example as spam. */
  minimized: number[];
}

/** A changed file; `patch` is undefined for a binary or very large one. */
export interface PullRequestFile {
  path: string;
  patch: string | undefined;
}

/** A commit for GitHub to create. */
export interface NewCommit {
  message: string;
  parents: readonly string[];
  tree: string;
  /** A tree in the repository which these files turn into `tree`. */
  baseTree: string;
  files: readonly {
    path: string;
    mode: FileMode;
    /** The bytes of a file, the target of a link, or the commit of a submodule; undefined for what is deleted. */
    content: Uint8Array | undefined;
  }[];
}

/**
 * The operations on one GitHub repository. Methods return `undefined` for what does not exist, and throw if GitHub refuses
 * the request or is unavailable. Every text that is sent has passed the sanitizer.
 */
export interface GitHub {
  readonly repository: RepositoryRef;
  /** The login of the App's comments, such as `golem-forge[bot]`. */
  ownLogin(): Promise<string>;
  /** True if a person's account has this login. */
  isPerson(login: string): Promise<boolean>;
  /**
   * Resolves to `none` for unknown people. With an id, the answer is about that account, even after it was renamed. Throws an
   * OutageError when GitHub does not answer, and a GitHubRefusalError when it does not let the app ask.
   */
  getPermission(login: string, id?: number): Promise<Permission>;
  /** Like getPermission, but retries during an outage, and throws if the outage lasts. */
  confirmPermission(login: string, signal: AbortSignal, id?: number): Promise<Permission>;
  findAccount(login: string): Promise<{ login: string; id: number } | undefined>;
  /**
   * True for an active member of a team, such as `acme/security`, or `security` for one of the repository's owner. Throws a
   * UserError when the app may not read the team, and an OutageError when GitHub does not answer.
   */
  isTeamMember(team: string, person: Account): Promise<boolean>;
  getRepository(): Promise<Repository>;
  /** The URL for git, without credentials. */
  getCloneUrl(): Promise<string>;

  getIssue(number: number): Promise<Issue | undefined>;
  listIssues(query: { state?: "open" | "closed" | "all"; labels?: string[]; limit?: number }): Promise<Issue[]>;
  listComments(number: number): Promise<Comment[]>;
  /** Resolves to the ids of comments that people minimized, for example as spam, among the latest 100. */
  listMinimizedComments(thread: { number: number; isPullRequest: boolean }): Promise<number[]>;
  /** Finds the issues and pull requests of this repository that a text names. */
  findLinkedIssues(text: string): number[];
  getComment(commentId: number): Promise<Comment | undefined>;
  createComment(number: number, body: CommentBody, priority?: RequestPriority): Promise<Comment>;
  updateComment(commentId: number, body: CommentBody, priority?: RequestPriority): Promise<Comment>;
  deleteComment(commentId: number): Promise<void>;
  /** Adding the same reaction again has no effect. */
  addReaction(commentId: number, reaction: ReactionContent): Promise<void>;
  /** Adds a reaction to the issue or pull request itself. */
  addIssueReaction(number: number, reaction: ReactionContent): Promise<void>;
  addLabels(number: number, labels: string[]): Promise<string[]>;
  /** Comments on the latest commit of the default branch that changed a file or folder, unless it has a comment of this name. */
  commentOnFile(path: string, comment: { name: string; body: string }): Promise<void>;

  /** Finds the images and files that are attached to a text in Markdown, on GitHub's own hosts. */
  findAttachments(text: string): { name: string; url: string }[];
  /** Downloads a file that is attached to this issue or pull request. Throws a UserError that says why there is none. */
  downloadAttachment(url: string, options: { thread: number; maxBytes: number; signal: AbortSignal }): Promise<Buffer>;

  getPullRequest(number: number): Promise<PullRequest | undefined>;
  /** The last time that somebody closed or reopened a pull request; undefined if it has always been open. */
  lastStateChange(number: number): Promise<StateChange | undefined>;
  /** True if an app took this action with the person's token; undefined if GitHub has no record of it. */
  wasViaApp(number: number, action: ThreadAction): Promise<boolean | undefined>;
  /** The pull request from this branch of this repository, open or closed. */
  findPullRequest(headBranch: string): Promise<PullRequest | undefined>;
  /** Opens a regular pull request if the repository does not support drafts. */
  createPullRequest(pull: {
    head: string;
    base: string;
    title: string;
    body: string;
    draft: boolean;
  }): Promise<PullRequest>;
  updatePullRequest(number: number, change: { title?: string; body?: string }): Promise<PullRequest>;
  markReadyForReview(number: number): Promise<void>;
  /** The paths of the files that a pull request changes; at most 3,000, which is GitHub's limit. */
  listChangedFiles(number: number): Promise<string[]>;
  /** The numbers of the open pull requests that are to be merged into a branch. */
  listPullRequestsInto(base: string): Promise<number[]>;
  /** The number of open pull requests that this App opened, drafts included. */
  countOwnPullRequests(): Promise<number>;
  listReviewComments(number: number): Promise<ReviewComment[]>;
  listReviews(number: number): Promise<Review[]>;
  /** Reviews never approve. */
  createReview(
    number: number,
    review: { commit: string; event: "COMMENT" | "REQUEST_CHANGES"; body: string; comments: NewReviewComment[] },
  ): Promise<{ id: number; url: string }>;
  /** Takes back a request for changes. Throws a GitHubRefusalError with status 403 or 422 if the app may not do that. */
  dismissReview(number: number, reviewId: number, message: string): Promise<void>;
  listReviewThreads(number: number): Promise<ReviewThread[]>;
  setThreadResolved(threadId: string, resolved: boolean): Promise<void>;
  /** Throws a GitHubRefusalError with status 422 for people whom GitHub does not accept as reviewers. */
  requestReviewers(number: number, logins: string[]): Promise<void>;
  /** The files that a pull request changes. */
  readDiff(number: number): Promise<PullRequestFile[]>;
  /** The paths that changed between two commits; undefined after a forced push, or if GitHub does not list them all. */
  comparePaths(base: string, head: string): Promise<string[] | undefined>;
  /** Replies in the thread that starts with this comment. */
  replyToReviewComment(number: number, reviewCommentId: number, body: string): Promise<{ id: number }>;
  /** The checks of a commit or, as `heads/main`, of a branch, without those of this App. */
  readChecks(ref: string): Promise<CommitChecks>;
  /** Creates a check run, once per key. Takes the permission `checks: write`, which installations need not grant. */
  createCheckRun(run: NewCheckRun): Promise<void>;
  listRequiredChecks(branch: string): Promise<string[]>;
  listAnnotations(checkId: number): Promise<CheckAnnotation[]>;
  /** The end of the log of a GitHub Actions job; undefined when there is none. Takes the permission `actions: read`. */
  readJobLog(jobId: number): Promise<string | undefined>;

  /**
   * Resolves to the text of a file on the default branch, or to undefined if there is none. Throws a UserError if the path is
   * not a file. Files below `.github` may come from a cached response that is no older than `maxAgeMs`; default: one second.
   */
  readFile(path: string, options?: { maxAgeMs?: number }): Promise<string | undefined>;
  /** The names of everything in a folder of the default branch; empty if there is no such folder. */
  listNames(path: string, options?: { maxAgeMs?: number }): Promise<string[]>;
  /**
   * A token for git that is limited to this repository: `read` to fetch, `write` to push. Never passed to a tool.
   * `rejected`: one that git no longer accepts, which is replaced.
   */
  createGitToken(access: "read" | "write", rejected?: string): Promise<string>;
  /**
   * Creates a commit that no branch contains yet, and resolves to its id. GitHub signs it as this App and sets its author and
   * time. Throws a UserError if its tree would not be the requested one.
   */
  createCommit(commit: NewCommit): Promise<string>;
}

/** Returns the operations on a repository of an installation. */
export type OpenGitHub = (repository: RepositoryRef) => GitHub;

/** The current location of a repository. Its id is permanent; name, owner and installation may change. */
export interface RepositoryLocation extends Required<RepositoryRef> {
  /** GitHub's id of the owner's account, which stays the same when the account is renamed. */
  ownerId: number;
  /** The time at which the repository moved there; milliseconds since 1970. */
  since: number;
}

/** The location of a repository according to a webhook delivery. */
export interface ReportedLocation extends Omit<RepositoryLocation, "since"> {
  /** The time of the report, in milliseconds since 1970. Deliveries may arrive late. */
  at: number;
  /** The time at which the repository was created, in milliseconds since 1970, if the delivery contains it. */
  createdAt?: number | undefined;
  /** The name before a rename or transfer, if the delivery reports one. */
  previousName?: { owner: string; repo: string } | undefined;
}
