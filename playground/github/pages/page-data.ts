import { collaborators } from "#playground/github/create-world.ts";
import { mergeability } from "#playground/github/merge-actions.ts";
import { changedFiles } from "#playground/github/pull-request-actions.ts";
import { fullName } from "#playground/github/shapes/repository.ts";
import {
  isPull,
  ofThread,
  type PullThread,
  permissionIn,
  type Reaction,
  type Repository,
  type StoredComment,
  type StoredReview,
  type StoredReviewComment,
  type Thread,
  type User,
  type World,
} from "#playground/github/world.ts";
import { renderChanges, renderFileDiff } from "#text/changes/render-changes.ts";
import { markupOf } from "#text/html.ts";
import { markdownToHtml } from "#text/markdown-to-html.ts";
import { visibleName } from "#text/visible-text.ts";

/** Returns the data that every view of the page needs. */
export function describeWorld(world: World, notice: string) {
  return {
    notice,
    repositories: [...world.repositories.values()].map(fullName),
    people: Object.keys(collaborators),
  };
}

/** Returns the issues and pull requests of a repository, newest first. */
export function threadListData(repository: Repository) {
  return {
    name: fullName(repository),
    description: repository.description,
    cloneUrl: `/${fullName(repository)}.git`,
    threads: [...repository.threads.values()].reverse().map((thread) => ({
      ...describeHead(thread),
      comments: ofThread(repository.comments, thread).length,
      labels: thread.labels.map(({ name }) => name),
    })),
  };
}

/** Returns all data on the page of an issue or pull request. */
export async function threadPageData(world: World, repository: Repository, thread: Thread) {
  const comments = ofThread(repository.comments, thread).map((one) => describePost(repository, one));
  const reviews = ofThread(repository.reviews, thread).flatMap((review) => describeReview(repository, review));
  const posts = [...comments, ...reviews].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  return {
    ...describeHead(thread),
    repository: fullName(repository),
    labels: thread.labels.map(({ name }) => name),
    posts: [describePost(repository, thread), ...posts],
    ...(isPull(thread) && (await describePull(world, repository, thread))),
  };
}

async function describePull(world: World, repository: Repository, thread: PullThread) {
  const { head, base } = thread.pull;
  const files = await changedFiles(repository, thread);
  const runs = repository.checkRuns.filter(({ suite }) => suite.commit === head.commit);
  const statuses = repository.statuses.filter(({ commit }) => commit === head.commit);
  return {
    head: head.branch,
    base: base.branch,
    mergeability: thread.state === "open" ? mergeability({ world, repository }, thread) : "closed",
    checks: [
      ...runs.map(({ name, status, conclusion, title }) => ({
        name,
        result: conclusion ?? status,
        title: title ?? "",
      })),
      ...statuses.map(({ context, state, description }) => ({
        name: context,
        result: state,
        title: description ?? "",
      })),
    ],
    paths: files.map(({ path }) => path),
    changes: markupOf(
      renderChanges(
        files.map(({ path, status, patch = "" }) => {
          const details = patch === "" ? `${status}; no text to show` : status;
          return { name: visibleName(path), lines: patch === "" ? [] : patch.split("\n"), details };
        }),
        "changes",
      ),
    ),
  };
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
  if (pull?.merged) return "merged";
  return state === "open" && pull?.draft ? "draft" : state;
}

function describePost(repository: Repository, post: Thread | StoredComment) {
  return {
    id: "thread" in post ? post.id : 0,
    author: describeUser(post.author),
    role: permissionIn(repository, post.author.login),
    createdAt: post.createdAt.toISOString(),
    edited: "thread" in post && post.updatedAt > post.createdAt,
    html: markdownToHtml(post.body, `/${fullName(repository)}`),
    reactions: countReactions(post.reactions),
  };
}

const verdicts: Record<StoredReview["state"], string> = {
  APPROVED: "approved these changes",
  CHANGES_REQUESTED: "requested changes",
  COMMENTED: "reviewed",
  DISMISSED: "reviewed (dismissed)",
};

/** Describes a review with its threads. A reply is shown in its thread, not as a separate review. */
function describeReview(repository: Repository, review: StoredReview) {
  const all = [...repository.reviewComments.values()];
  const starts = all.filter((comment) => comment.review === review.id && comment.inReplyTo === undefined);
  if (starts.length === 0 && review.body === "" && review.state === "COMMENTED") return [];

  const threads = starts.map((first) => ({
    comment: first.id,
    path: first.path,
    line: first.line ?? first.originalLine,
    outdated: first.line === undefined && !first.isOnFile,
    resolved: first.resolvedBy !== undefined,
    hunk: first.isOnFile ? "" : markupOf(renderFileDiff(first.diffHunk, first.path)),
    posts: [first, ...all.filter(({ inReplyTo }) => inReplyTo === first.id)].map((one: StoredReviewComment) =>
      describePost(repository, one),
    ),
  }));
  return [
    {
      id: review.id,
      author: describeUser(review.author),
      role: permissionIn(repository, review.author.login),
      createdAt: (review.submittedAt ?? new Date()).toISOString(),
      edited: false,
      html: markdownToHtml(review.body, `/${fullName(repository)}`),
      reactions: [],
      verdict: verdicts[review.state],
      threads,
    },
  ];
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
  return [...Map.groupBy(reactions, ({ content }) => content)].map(([content, given]) => ({
    symbol: symbols[content],
    by: given.map(({ by }) => by.login),
  }));
}
