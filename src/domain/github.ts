import { UserError } from "./errors.ts";

/** What a person may do in a repository, as the API says when asked. `none` also stands for an answer that failed. */
export type Permission = "admin" | "maintain" | "write" | "triage" | "read" | "none";

/** True for those whose words command a worker. */
export function canWrite(permission: Permission): boolean {
  return permission === "admin" || permission === "maintain" || permission === "write";
}

/** GitHub said no, and will say it again until somebody changes something there. */
export class GitHubRefusal extends UserError {
  override readonly name = "GitHubRefusal";
  /** 401, 403, 404, 410 or 451; 422 for a branch that is not there. */
  readonly status: number;

  constructor(message: string, { status, cause }: { status: number; cause: unknown }) {
    super(message, { cause });
    this.status = status;
  }
}

/** A repository the app is installed on. */
export interface RepositoryRef {
  /** GitHub's number of it, which names it for ever. With it, no other repository that takes the name is ever reached. */
  repositoryId?: number | undefined;
  installationId: number;
  owner: string;
  repo: string;
}

interface Repository {
  defaultBranch: string;
  private: boolean;
  /** Where git fetches from, without credentials. */
  cloneUrl: string;
}

export interface Issue {
  number: number;
  title: string;
  body: string;
  author: string;
  state: "open" | "closed";
  locked: boolean;
  labels: string[];
  isPullRequest: boolean;
}

export interface Comment {
  id: number;
  body: string;
  author: string;
  createdAt: Date;
  updatedAt: Date;
  /** Written by this app. */
  own: boolean;
}

export interface PullRequest {
  number: number;
  url: string;
  title: string;
  body: string;
  state: "open" | "closed";
  merged: boolean;
  draft: boolean;
  head: { branch: string; commit: string; fromFork: boolean };
  base: { branch: string; commit: string };
}

export interface Check {
  name: string;
  status: string;
  conclusion: string | null;
  summary: string | null;
  url: string | null;
}

export interface ReviewComment {
  id: number;
  path: string;
  line: number | null;
  body: string;
  author: string;
}

/**
 * One repository on GitHub, one method per thing the product does with it. What cannot be found is `undefined`;
 * what is forbidden or down throws. Nothing here reads what a model chose except through its arguments, and every text
 * that leaves has passed the sanitiser.
 */
export interface GitHub {
  readonly repository: RepositoryRef;
  /** The login this app comments as, `golem-forge[bot]`. */
  ownLogin(): Promise<string>;
  /** Fails closed: an error or an unknown person is `none`. */
  getPermission(login: string): Promise<Permission>;
  /** The same for whoever can wait: an outage is no answer. It is waited out, and thrown when it does not pass. */
  confirmPermission(login: string, signal: AbortSignal): Promise<Permission>;
  getRepository(): Promise<Repository>;

  getIssue(number: number): Promise<Issue | undefined>;
  listIssues(query: { state?: "open" | "closed" | "all"; labels?: string[]; limit?: number }): Promise<Issue[]>;
  listComments(number: number): Promise<Comment[]>;
  createComment(number: number, body: string): Promise<Comment>;
  updateComment(commentId: number, body: string): Promise<void>;
  /** `eyes`, `+1`, `confused` …; repeating it changes nothing. */
  addReaction(commentId: number, reaction: "eyes" | "+1" | "-1" | "confused" | "rocket"): Promise<void>;
  /** The same, on the issue or pull request itself. */
  addIssueReaction(number: number, reaction: "eyes" | "+1" | "-1" | "confused" | "rocket"): Promise<void>;
  addLabels(number: number, labels: string[]): Promise<string[]>;

  getPullRequest(number: number): Promise<PullRequest | undefined>;
  /** The one open or closed pull request from this branch of this repository. */
  findPullRequest(headBranch: string): Promise<PullRequest | undefined>;
  createPullRequest(pull: {
    head: string;
    base: string;
    title: string;
    body: string;
    draft: boolean;
  }): Promise<PullRequest>;
  updatePullRequest(number: number, change: { title?: string; body?: string }): Promise<PullRequest>;
  listReviewComments(number: number): Promise<ReviewComment[]>;
  replyToReviewComment(number: number, reviewCommentId: number, body: string): Promise<{ id: number }>;
  listChecks(ref: string): Promise<Check[]>;

  /** The text of a file on the default branch. */
  readFile(path: string): Promise<string | undefined>;
  /** The names of the files in a folder of the default branch; empty where there is none. */
  listFiles(path: string): Promise<string[]>;
  /** A token that git may use on this repository alone: `read` to fetch, `write` to push. Never reaches a tool. */
  createGitToken(access: "read" | "write"): Promise<string>;
}

/** Opens the GitHub of an installation's repository. */
export type OpenGitHub = (repository: RepositoryRef) => GitHub;
