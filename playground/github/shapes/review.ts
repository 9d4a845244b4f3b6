import type { Repository, StoredReview, StoredReviewComment, World } from "#playground/github/world.ts";
import { nodeId } from "./node-id.ts";
import { apiUrl, pageUrl } from "./repository.ts";
import type { Schemas } from "./schemas.ts";
import { showAssociation, showReactions } from "./thread.ts";
import { showUser } from "./user.ts";

export function showReview(world: World, repository: Repository, review: StoredReview): Schemas["pull-request-review"] {
  const pullUrl = `${apiUrl(world, repository)}/pulls/${review.thread}`;
  const page = `${pageUrl(world, repository)}/pull/${review.thread}#pullrequestreview-${review.id}`;
  return {
    id: review.id,
    node_id: nodeId("PullRequestReview", review.id),
    user: showUser(world, review.author),
    body: review.body,
    state: review.state,
    html_url: page,
    pull_request_url: pullUrl,
    author_association: showAssociation(repository, review.author),
    _links: { html: { href: page }, pull_request: { href: pullUrl } },
    submitted_at: review.submittedAt.toISOString(),
    commit_id: review.commit,
  };
}

export function showReviewComment(world: World, repository: Repository, comment: StoredReviewComment) {
  const url = `${apiUrl(world, repository)}/pulls/comments/${comment.id}`;
  const pullUrl = `${apiUrl(world, repository)}/pulls/${comment.thread}`;
  const page = `${pageUrl(world, repository)}/pull/${comment.thread}#discussion_r${comment.id}`;
  const head = repository.threads.get(comment.thread)?.pull?.head.commit;
  const outdated = comment.line === undefined && !comment.isOnFile;
  return {
    url,
    pull_request_review_id: comment.review,
    id: comment.id,
    node_id: nodeId("PullRequestReviewComment", comment.id),
    diff_hunk: comment.diffHunk,
    path: comment.path,
    // GitHub sends null for an outdated comment, which its description of this schema leaves out.
    position: (outdated ? null : 1) as number,
    original_position: 1,
    commit_id: outdated ? comment.originalCommit : (head ?? comment.originalCommit),
    original_commit_id: comment.originalCommit,
    ...(comment.inReplyTo !== undefined && { in_reply_to_id: comment.inReplyTo }),
    user: showUser(world, comment.author),
    body: comment.body,
    created_at: comment.createdAt.toISOString(),
    updated_at: comment.updatedAt.toISOString(),
    html_url: page,
    pull_request_url: pullUrl,
    author_association: showAssociation(repository, comment.author),
    _links: { self: { href: url }, html: { href: page }, pull_request: { href: pullUrl } },
    start_line: comment.startLine ?? null,
    original_start_line: comment.originalStartLine ?? null,
    start_side: comment.startSide ?? null,
    line: (comment.line ?? null) as number,
    // A comment on a file has the first line as its original one.
    original_line: comment.originalLine ?? 1,
    side: comment.side,
    subject_type: comment.isOnFile ? ("file" as const) : ("line" as const),
    reactions: showReactions(url, comment.reactions),
  } satisfies Schemas["pull-request-review-comment"];
}
