import type { ChangedFile } from "#playground/github/git/git-repository.ts";
import { commitsBetween, readGitCommit } from "#playground/github/git/git-repository.ts";
import { mergeability } from "#playground/github/merge-actions.ts";
import { changedFiles } from "#playground/github/pull-request-actions.ts";
import {
  isPull,
  ofThread,
  type PullRequestEnd,
  type PullThread,
  type Repository,
  type World,
} from "#playground/github/world.ts";
import { nodeId } from "./node-id.ts";
import { apiUrl, pageUrl, showRepository } from "./repository.ts";
import type { Schemas } from "./schemas.ts";
import { showAssociation, showLabel, threadUrl } from "./thread.ts";
import { showUser } from "./user.ts";

export function showPullInList(world: World, repository: Repository, thread: PullThread) {
  const url = `${apiUrl(world, repository)}/pulls/${thread.number}`;
  const issueUrl = `${apiUrl(world, repository)}/issues/${thread.number}`;
  const page = threadUrl(world, repository, thread);
  const statuses = `${apiUrl(world, repository)}/statuses/${thread.pull.head.commit}`;
  return {
    url,
    id: thread.pull.id,
    node_id: nodeId("PullRequest", thread.pull.id),
    html_url: page,
    diff_url: `${page}.diff`,
    patch_url: `${page}.patch`,
    issue_url: issueUrl,
    commits_url: `${url}/commits`,
    review_comments_url: `${url}/comments`,
    review_comment_url: `${apiUrl(world, repository)}/pulls/comments{/number}`,
    comments_url: `${issueUrl}/comments`,
    statuses_url: statuses,
    number: thread.number,
    state: thread.state,
    locked: thread.locked,
    title: thread.title,
    user: showUser(world, thread.author),
    body: thread.body === "" ? null : thread.body,
    labels: thread.labels.map((label) => ({ ...showLabel(world, repository, label), description: "" })),
    milestone: null,
    active_lock_reason: null,
    created_at: thread.createdAt.toISOString(),
    updated_at: thread.updatedAt.toISOString(),
    closed_at: thread.closedAt?.toISOString() ?? null,
    merged_at: thread.pull.merged?.at.toISOString() ?? null,
    merge_commit_sha: thread.pull.merged?.commit ?? null,
    assignee: thread.assignees[0] ? showUser(world, thread.assignees[0]) : null,
    assignees: thread.assignees.map((user) => showUser(world, user)),
    requested_reviewers: thread.pull.requestedReviewers.map((user) => showUser(world, user)),
    requested_teams: [],
    head: showEnd(world, thread.pull.head),
    base: showEnd(world, thread.pull.base),
    _links: {
      self: { href: url },
      html: { href: page },
      issue: { href: issueUrl },
      comments: { href: `${issueUrl}/comments` },
      review_comments: { href: `${url}/comments` },
      review_comment: { href: `${apiUrl(world, repository)}/pulls/comments{/number}` },
      commits: { href: `${url}/commits` },
      statuses: { href: statuses },
    },
    author_association: showAssociation(repository, thread.author),
    auto_merge: null,
    draft: thread.pull.draft,
  } satisfies Schemas["pull-request-simple"];
}

function showEnd(world: World, { repository, branch, commit }: PullRequestEnd) {
  return {
    label: `${repository.owner.login}:${branch}`,
    ref: branch,
    sha: commit,
    user: showUser(world, repository.owner),
    repo: showRepository(world, repository),
  };
}

export async function showPull(
  world: World,
  repository: Repository,
  thread: PullThread,
): Promise<Schemas["pull-request"]> {
  const { pull } = thread;
  const state = thread.state === "open" ? mergeability({ world, repository }, thread) : "unknown";
  // Read before the first await, so that a webhook shows the pull request at the time of the event.
  const shown = {
    ...showPullInList(world, repository, thread),
    user: showUser(world, thread.author),
    requested_teams: [],
    merged: pull.merged !== undefined,
    mergeable: state === "unknown" ? null : state !== "dirty",
    mergeable_state: state,
    rebaseable: false,
    merged_by: pull.merged ? showUser(world, pull.merged.by) : null,
    comments: ofThread(repository.comments, thread).length,
    review_comments: ofThread(repository.reviewComments, thread).length,
    maintainer_can_modify: false,
  };
  const [files, commits] = await Promise.all([
    changedFiles(repository, thread),
    commitsBetween(repository.gitDirectory, pull.base.commit, pull.head.commit),
  ]);
  return {
    ...shown,
    commits: commits.length,
    additions: files.reduce((sum, file) => sum + file.additions, 0),
    deletions: files.reduce((sum, file) => sum + file.deletions, 0),
    changed_files: files.length,
  };
}

/** Describes the open pull requests with this head commit, as listed in checks. */
export function showPullsOf(world: World, repository: Repository, commit: string): Schemas["pull-request-minimal"][] {
  const end = ({ repository: { id, name }, branch, commit: sha }: PullRequestEnd) => {
    return { ref: branch, sha, repo: { id, url: apiUrl(world, repository), name } };
  };
  return [...repository.threads.values()]
    .filter(isPull)
    .filter(({ state, pull }) => state === "open" && pull.head.commit === commit && pull.head.repository === repository)
    .map(({ number, pull }) => ({
      id: pull.id,
      number,
      url: `${apiUrl(world, repository)}/pulls/${number}`,
      head: end(pull.head),
      base: end(pull.base),
    }));
}

export function showFile(
  world: World,
  repository: Repository,
  commit: string,
  file: ChangedFile,
): Schemas["diff-entry"] {
  const path = file.path.split("/").map(encodeURIComponent).join("/");
  return {
    sha: file.sha,
    filename: file.path,
    status: file.status,
    additions: file.additions,
    deletions: file.deletions,
    changes: file.additions + file.deletions,
    blob_url: `${pageUrl(world, repository)}/blob/${commit}/${path}`,
    raw_url: `${pageUrl(world, repository)}/raw/${commit}/${path}`,
    contents_url: `${apiUrl(world, repository)}/contents/${path}?ref=${commit}`,
    ...(file.patch !== undefined && { patch: file.patch }),
    ...(file.previousPath !== undefined && { previous_filename: file.previousPath }),
  };
}

/** Only commits that the API created have a signature here. */
export function showVerification(signature: string | undefined) {
  const reason = signature === undefined ? "unsigned" : "valid";
  const verified = signature !== undefined;
  return { verified, reason, signature: signature ?? null, payload: null, verified_at: null };
}

export async function showCommit(world: World, repository: Repository, sha: string): Promise<Schemas["commit"]> {
  const { message, tree, parent, author, committer, gpgsig } = await readGitCommit(repository.gitDirectory, sha);
  const url = `${apiUrl(world, repository)}/commits/${sha}`;
  const page = `${pageUrl(world, repository)}/commit/${sha}`;
  const user = ({ name }: { name: string }) => {
    const known = world.users.get(name.toLowerCase());
    return known ? showUser(world, known) : null;
  };
  const person = ({ name, email, timestamp }: { name: string; email: string; timestamp: number }) => {
    return { name, email, date: new Date(timestamp * 1000).toISOString() };
  };
  return {
    sha,
    node_id: nodeId("Commit", repository.id),
    url,
    html_url: page,
    comments_url: `${url}/comments`,
    commit: {
      url: `${apiUrl(world, repository)}/git/commits/${sha}`,
      author: person(author),
      committer: person(committer),
      message: message.replace(/\n$/, ""),
      comment_count: 0,
      tree: { sha: tree, url: `${apiUrl(world, repository)}/git/trees/${tree}` },
      verification: showVerification(gpgsig),
    },
    author: user(author),
    committer: user(committer),
    parents: parent.map((one) => ({ sha: one, url: `${apiUrl(world, repository)}/commits/${one}` })),
  };
}
