import { collaborators } from "#playground/github/create-world.ts";
import { changedFiles, isPull } from "#playground/github/shapes/pull-request.ts";
import { fullName } from "#playground/github/shapes/repository.ts";
import {
  permissionIn,
  type Reaction,
  type Repository,
  type StoredComment,
  type Thread,
  type User,
  type World,
} from "#playground/github/world.ts";
import { renderMarkdown } from "#text/render-markdown.ts";

/** What the page needs to know before it draws anything. */
export function describeWorld(world: World, notice: string | undefined) {
  return {
    notice: notice ?? "",
    repositories: [...world.repositories.values()].map(fullName),
    people: Object.keys(collaborators),
  };
}

/** The issues and pull requests of a repository, newest first. */
export function describeThreads(repository: Repository) {
  return {
    name: fullName(repository),
    description: repository.description,
    cloneUrl: `/${fullName(repository)}.git`,
    threads: [...repository.threads.values()].reverse().map((thread) => ({
      ...describeHead(thread),
      comments: commentsOf(repository, thread).length,
      labels: thread.labels.map(({ name }) => name),
    })),
  };
}

/** One issue or pull request with everything its page shows. */
export async function describeThread(repository: Repository, thread: Thread) {
  const comments = commentsOf(repository, thread);
  return {
    ...describeHead(thread),
    repository: fullName(repository),
    labels: thread.labels.map(({ name }) => name),
    posts: [describePost(repository, thread), ...comments.map((comment) => describePost(repository, comment))],
    ...(isPull(thread) && {
      head: thread.pull.head.branch,
      base: thread.pull.base.branch,
      files: (await changedFiles(repository, thread)).map(({ path, status, additions, deletions, patch }) => ({
        path,
        status,
        additions,
        deletions,
        patch: patch ?? "",
      })),
    }),
  };
}

function commentsOf(repository: Repository, { number }: Thread): StoredComment[] {
  return [...repository.comments.values()].filter((comment) => comment.thread === number);
}

function describeHead(thread: Thread) {
  return {
    number: thread.number,
    title: thread.title,
    state: stateOf(thread),
    kind: thread.pull ? "pull" : "issue",
    author: describeUser(thread.author),
    createdAt: thread.createdAt.toISOString(),
  };
}

function stateOf({ state, pull }: Thread): "open" | "closed" | "draft" | "merged" {
  if (pull?.mergedAt) return "merged";
  return state === "open" && pull?.draft ? "draft" : state;
}

function describePost(repository: Repository, post: Thread | StoredComment) {
  return {
    id: "thread" in post ? post.id : 0,
    author: describeUser(post.author),
    role: permissionIn(repository, post.author.login),
    createdAt: post.createdAt.toISOString(),
    edited: "thread" in post && post.updatedAt > post.createdAt,
    html: renderMarkdown(post.body, `/${fullName(repository)}`),
    reactions: countReactions(post.reactions),
  };
}

function describeUser({ id, login, type }: User) {
  return { login: login.replace(/\[bot\]$/, ""), bot: type === "Bot", avatar: `/-/avatars/${id}` };
}

const symbols: Record<Reaction["content"], string> = {
  "+1": "👍",
  "-1": "👎",
  laugh: "😄",
  confused: "😕",
  heart: "❤️",
  hooray: "🎉",
  rocket: "🚀",
  eyes: "👀",
};

function countReactions(reactions: Reaction[]): { symbol: string; by: string[] }[] {
  return Object.entries(Object.groupBy(reactions, ({ content }) => content)).map(([content, given]) => ({
    symbol: symbols[content as Reaction["content"]],
    by: given.map(({ by }) => by.login),
  }));
}
