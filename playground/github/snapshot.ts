import { branches } from "./git/git-repository.ts";
import { fullName } from "./shapes/repository.ts";
import {
  isPull,
  type PullThread,
  type Reaction,
  type Repository,
  type StoredComment,
  type StoredReviewComment,
  type Thread,
  type World,
} from "./world.ts";

/** The content of the local GitHub as plain JSON, by `owner/name`. */
export type GitHubSnapshot = Record<string, Awaited<ReturnType<typeof snapshotRepository>>>;
export type SnapshotThread = ReturnType<typeof snapshotThread>;
export type SnapshotComment = ReturnType<typeof snapshotComment>;

export async function takeSnapshot(world: World): Promise<GitHubSnapshot> {
  const repositories = [...world.repositories.values()];
  const snapshots = repositories.map(async (one) => [fullName(one), await snapshotRepository(one)] as const);
  return Object.fromEntries(await Promise.all(snapshots));
}

async function snapshotRepository(repository: Repository) {
  const heads = await branches(repository.gitDirectory);
  const threads = [...repository.threads.values()].map((thread) => snapshotThread(repository, thread));
  return {
    /** Commits by the short name of the branch. */
    branches: Object.fromEntries([...heads].map(([ref, commit]) => [ref.replace(/^refs\/heads\//, ""), commit])),
    issues: threads.filter(({ pull }) => pull === undefined),
    pulls: threads.filter(({ pull }) => pull !== undefined),
  };
}

function snapshotThread(repository: Repository, thread: Thread) {
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

function snapshotPull(repository: Repository, { number, pull }: PullThread) {
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

function snapshotComment({ id, author, body, reactions, createdAt, updatedAt }: StoredComment) {
  return {
    id,
    author: author.login,
    body,
    reactions: reactions.map(snapshotReaction),
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}

function snapshotReviewComment(comment: StoredReviewComment) {
  const { path, line, side, inReplyTo, resolvedBy } = comment;
  return { ...snapshotComment(comment), path, line, side, inReplyTo, resolved: resolvedBy !== undefined };
}

/** Returns `login content`, such as `golem-forge[bot] eyes`. */
function snapshotReaction({ by, content }: Reaction): string {
  return `${by.login} ${content}`;
}
