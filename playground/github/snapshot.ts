import { branches } from "./git/git-repository.ts";
import { fullName } from "./shapes/repository.ts";
import type { Reaction, Repository, Thread, World } from "./world.ts";

export interface SnapshotComment {
  id: number;
  author: string;
  body: string;
  /** `login content`, such as `golem-forge[bot] eyes`. */
  reactions: string[];
  createdAt: string;
  updatedAt: string;
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
  pull?: { head: string; commit: string; base: string; draft: boolean; merged: boolean };
}

interface RepositorySnapshot {
  /** Short names with their commits. */
  branches: Record<string, string>;
  issues: SnapshotThread[];
  pulls: SnapshotThread[];
}

/** Everything GitHub holds as plain JSON, by `owner/name`. */
export type GitHubSnapshot = Record<string, RepositorySnapshot>;

export async function takeSnapshot(world: World): Promise<GitHubSnapshot> {
  const repositories = [...world.repositories.values()];
  return Object.fromEntries(await Promise.all(repositories.map(async (one) => [fullName(one), await describe(one)])));
}

async function describe(repository: Repository): Promise<RepositorySnapshot> {
  const heads = await branches(repository.gitDirectory);
  const threads = [...repository.threads.values()].map((thread) => describeThread(repository, thread));
  return {
    branches: Object.fromEntries([...heads].map(([ref, commit]) => [ref.replace(/^refs\/heads\//, ""), commit])),
    issues: threads.filter(({ pull }) => pull === undefined),
    pulls: threads.filter(({ pull }) => pull !== undefined),
  };
}

function describeThread(repository: Repository, thread: Thread): SnapshotThread {
  const comments = [...repository.comments.values()].filter((comment) => comment.thread === thread.number);
  return {
    number: thread.number,
    title: thread.title,
    body: thread.body,
    author: thread.author.login,
    state: thread.state,
    labels: thread.labels.map(({ name }) => name),
    reactions: thread.reactions.map(describeReaction),
    comments: comments.map(({ id, author, body, reactions, createdAt, updatedAt }) => ({
      id,
      author: author.login,
      body,
      reactions: reactions.map(describeReaction),
      createdAt: createdAt.toISOString(),
      updatedAt: updatedAt.toISOString(),
    })),
    ...(thread.pull && {
      pull: {
        head: thread.pull.head.branch,
        commit: thread.pull.head.commit,
        base: thread.pull.base.branch,
        draft: thread.pull.draft,
        merged: thread.pull.mergedAt !== undefined,
      },
    }),
  };
}

function describeReaction({ by, content }: Reaction): string {
  return `${by.login} ${content}`;
}
