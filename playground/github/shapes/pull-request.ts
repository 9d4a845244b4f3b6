import { type ChangedFile, commitsBetween, diffFiles } from "#playground/github/git/git-repository.ts";
import type { PullRequestFields, Repository, StoredReviewComment, Thread, World } from "#playground/github/world.ts";
import { nodeId } from "./node-id.ts";
import { apiUrl, pageUrl, showRepository } from "./repository.ts";
import type { Schemas } from "./schemas.ts";
import { showAssociation, showLabel, showReactions, threadUrl } from "./thread.ts";
import { showUser } from "./user.ts";

/** An issue that is a pull request. */
export type PullThread = Thread & { pull: PullRequestFields };

export function isPull(thread: Thread): thread is PullThread {
  return thread.pull !== undefined;
}

/** What the pull request changes. */
export function changedFiles(repository: Repository, { pull }: PullThread): Promise<ChangedFile[]> {
  return diffFiles(repository.gitDirectory, pull.base.commit, pull.head.commit);
}

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
    merged_at: thread.pull.mergedAt?.toISOString() ?? null,
    merge_commit_sha: null,
    assignee: null,
    assignees: [],
    requested_reviewers: [],
    requested_teams: [],
    head: showEnd(world, repository, thread.pull.head),
    base: showEnd(world, repository, thread.pull.base),
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

function showEnd(world: World, repository: Repository, { branch, commit }: { branch: string; commit: string }) {
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
  const files = await changedFiles(repository, thread);
  const belongs = ({ thread: number }: { thread: number }) => number === thread.number;
  return {
    ...showPullInList(world, repository, thread),
    user: showUser(world, thread.author),
    requested_teams: [],
    merged: pull.mergedAt !== undefined,
    mergeable: pull.mergedAt === undefined && thread.state === "open" ? true : null,
    mergeable_state: pull.draft ? "draft" : "clean",
    merged_by: pull.mergedBy ? showUser(world, pull.mergedBy) : null,
    comments: [...repository.comments.values()].filter(belongs).length,
    review_comments: [...repository.reviewComments.values()].filter(belongs).length,
    maintainer_can_modify: false,
    commits: (await commitsBetween(repository.gitDirectory, pull.base.commit, pull.head.commit)).length,
    additions: files.reduce((sum, file) => sum + file.additions, 0),
    deletions: files.reduce((sum, file) => sum + file.deletions, 0),
    changed_files: files.length,
  };
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

export function showReviewComment(
  world: World,
  repository: Repository,
  comment: StoredReviewComment,
): Schemas["pull-request-review-comment"] {
  const url = `${apiUrl(world, repository)}/pulls/comments/${comment.id}`;
  const pullUrl = `${apiUrl(world, repository)}/pulls/${comment.thread}`;
  const page = `${pageUrl(world, repository)}/pull/${comment.thread}#discussion_r${comment.id}`;
  return {
    url,
    pull_request_review_id: null,
    id: comment.id,
    node_id: nodeId("PullRequestReviewComment", comment.id),
    diff_hunk: comment.diffHunk,
    path: comment.path,
    position: 1,
    original_position: 1,
    commit_id: comment.commit,
    original_commit_id: comment.commit,
    ...(comment.inReplyTo !== undefined && { in_reply_to_id: comment.inReplyTo }),
    user: showUser(world, comment.author),
    body: comment.body,
    created_at: comment.createdAt.toISOString(),
    updated_at: comment.updatedAt.toISOString(),
    html_url: page,
    pull_request_url: pullUrl,
    author_association: showAssociation(repository, comment.author),
    _links: { self: { href: url }, html: { href: page }, pull_request: { href: pullUrl } },
    start_line: null,
    original_start_line: null,
    start_side: null,
    line: comment.line,
    original_line: comment.line,
    side: "RIGHT",
    reactions: showReactions(url, []),
  };
}
