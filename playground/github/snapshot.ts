import { branches } from "./git/git-repository.ts";
import { fullName } from "./shapes/repository.ts";
import {
  isPull,
  type PullThread,
  type Reaction,
  type Repository,
  type StoredComment,
  type StoredReview,
  type StoredReviewComment,
  type Thread,
  type World,
} from "./world.ts";

export interface SnapshotComment {
  id: number;
  author: string;
  body: string;
  /** `login content`, such as `golem-forge[bot] eyes`. */
  reactions: string[];
  createdAt: string;
  updatedAt: string;
}

interface SnapshotReviewComment extends SnapshotComment {
  path: string;
  line: number | undefined;
  side: "LEFT" | "RIGHT";
  inReplyTo: number | undefined;
  resolved: boolean;
}

interface SnapshotReview extends Pick<StoredReview, "id" | "state" | "body" | "commit"> {
  author: string;
  comments: SnapshotReviewComment[];
}

interface SnapshotPullRequest {
  head: string;
  commit: string;
  base: string;
  draft: boolean;
  merged: boolean;
  requestedReviewers: string[];
  reviews: SnapshotReview[];
}

export interface SnapshotThread {
  number: number;
  title: string;
  body: string;
  author: string;
  state: "open" | "closed";
  labels: string[];
  reactions: string[];
  comments: SnapshotComment[];
  pull?: SnapshotPullRequest;
}

interface RepositorySnapshot {
  /** Commits by the short name of the branch. */
  branches: Record<string, string>;
  issues: SnapshotThread[];
  pulls: SnapshotThread[];
}

/** The content of the local GitHub as plain JSON, by `owner/name`. */
export type GitHubSnapshot = Record<string, RepositorySnapshot>;

export async function takeSnapshot(world: World): Promise<GitHubSnapshot> {
  const repositories = [...world.repositories.values()];
  const snapshots = repositories.map(async (one) => [fullName(one), await snapshotRepository(one)] as const);
  return Object.fromEntries(await Promise.all(snapshots));
}

async function snapshotRepository(repository: Repository): Promise<RepositorySnapshot> {
  const heads = await branches(repository.gitDirectory);
  const threads = [...repository.threads.values()].map((thread) => snapshotThread(repository, thread));
  return {
    branches: Object.fromEntries([...heads].map(([ref, commit]) => [ref.replace(/^refs\/heads\//, ""), commit])),
    issues: threads.filter(({ pull }) => pull === undefined),
    pulls: threads.filter(({ pull }) => pull !== undefined),
  };
}

function snapshotThread(repository: Repository, thread: Thread): SnapshotThread {
  const comments = [...repository.comments.values()].filter((comment) => comment.thread === thread.number);
  return {
    number: thread.number,
    title: thread.title,
    body: thread.body,
    author: thread.author.login,
    state: thread.state,
    labels: thread.labels.map(({ name }) => name),
    reactions: thread.reactions.map(snapshotReaction),
    comments: comments.map(snapshotComment),
    ...(isPull(thread) && { pull: snapshotPull(repository, thread) }),
  };
}

function snapshotPull(repository: Repository, { number, pull }: PullThread): SnapshotPullRequest {
  const reviews = [...repository.reviews.values()].filter((review) => review.thread === number);
  const comments = [...repository.reviewComments.values()];
  return {
    head: pull.head.branch,
    commit: pull.head.commit,
    base: pull.base.branch,
    draft: pull.draft,
    merged: pull.merged !== undefined,
    requestedReviewers: pull.requestedReviewers.map(({ login }) => login),
    reviews: reviews.map(({ id, state, body, commit, author }) => ({
      id,
      state,
      body,
      commit,
      author: author.login,
      comments: comments.filter(({ review }) => review === id).map(snapshotReviewComment),
    })),
  };
}

function snapshotComment({ id, author, body, reactions, createdAt, updatedAt }: StoredComment): SnapshotComment {
  return {
    id,
    author: author.login,
    body,
    reactions: reactions.map(snapshotReaction),
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}

function snapshotReviewComment(comment: StoredReviewComment): SnapshotReviewComment {
  const { path, line, side, inReplyTo, resolvedBy } = comment;
  return { ...snapshotComment(comment), path, line, side, inReplyTo, resolved: resolvedBy !== undefined };
}

function snapshotReaction({ by, content }: Reaction): string {
  return `${by.login} ${content}`;
}
