import { readIssueDetails } from "#bot/github/read-responses.ts";
import type { SeenIssue, ThreadRef } from "#runtime/runs.ts";
import { quoted } from "#text/visible-text.ts";
import { threadEventKey, threadOf } from "./handler.ts";
import type { CommentPayload, EventUser, IssuePayload, ReviewCommentPayload, ReviewPayload } from "./payloads.ts";

/** A person's comment in a thread. The text an issue was opened with counts as its first comment. */
export interface IncomingComment {
  /** Identifies the comment by signed fields alone, so that it counts once under any delivery id. */
  key: string;
  thread: ThreadRef;
  isPullRequest: boolean;
  closed: boolean;
  locked: boolean;
  by: string;
  /** The id of the author's account. */
  byId: number | undefined;
  /** The name of the app that posted it with the person's token: the person may not have seen the text. */
  viaApp: string | undefined;
  text: string;
  /** Undefined for the text of the issue itself. */
  commentId: number | undefined;
  /** The issue as it was when the comment was written. */
  seen: SeenIssue | undefined;
}

/** Reads a comment. `deliveryId` identifies it where the payload has no time. */
export function readCommentPayload(payload: CommentPayload, deliveryId: string): IncomingComment {
  const { comment, issue } = payload;
  const at = comment.created_at;
  return {
    ...readIssue(payload, at, { isFirst: issue.comments !== undefined && issue.comments <= 1 }),
    key: at ? commentKeyOf(comment.id, at) : deliveryId,
    by: comment.user?.login ?? "ghost",
    byId: comment.user?.id,
    viaApp: appOf(comment),
    text: comment.body ?? "",
    commentId: comment.id,
  };
}

export function commentKeyOf(id: number, createdAt: Date): string {
  return `comment ${id} ${createdAt.toISOString()}`;
}

export function readIssueText(payload: IssuePayload, deliveryId: string): IncomingComment {
  const { issue } = payload;
  return {
    ...readIssue(payload, issue.created_at, { isFirst: true }),
    key: threadEventKey(payload, issue.number, issue.created_at) ?? deliveryId,
    by: issue.user?.login ?? "ghost",
    byId: issue.user?.id,
    viaApp: appOf(issue),
    text: issue.body ?? "",
    commentId: undefined,
  };
}

/** Reads a comment on lines of a pull request. Its text names the lines; the owner of a fork may have named the file. */
export function readIncomingReviewComment(payload: ReviewCommentPayload, deliveryId: string): IncomingComment {
  const { comment, pull_request: issue } = payload;
  const { id, path, line, created_at: at, body, user } = comment;
  const place = `${quoted(path)}${line ? `, line ${line}` : ""}`;
  return {
    ...readIssue({ ...payload, issue: { ...issue, pull_request: {} } }, at, { isFirst: false }),
    key: at ? `review comment ${id} ${at.toISOString()}` : deliveryId,
    by: user?.login ?? "ghost",
    byId: user?.id,
    viaApp: appOf(comment),
    text: `${body ?? ""}\n\nThis is about ${place} (review comment ${id}). Other comments of the review are on the pull request.`,
    commentId: undefined,
  };
}

export function readReviewSummary(payload: ReviewPayload): IncomingComment {
  const { review, pull_request: issue } = payload;
  return {
    ...readIssue({ ...payload, issue: { ...issue, pull_request: {} } }, review.submitted_at, { isFirst: false }),
    key: `review summary ${review.id}`,
    by: review.user?.login ?? "ghost",
    byId: review.user?.id,
    viaApp: appOf(review),
    text: review.body ?? "",
    commentId: undefined,
  };
}

function readIssue(payload: IssuePayload, at: Date | undefined, { isFirst }: { isFirst: boolean }) {
  const { issue } = payload;
  return {
    thread: threadOf(payload, issue.number),
    isPullRequest: issue.pull_request !== undefined && issue.pull_request !== null,
    closed: issue.state === "closed",
    locked: issue.locked === true,
    seen: at && {
      at,
      title: issue.title ?? "",
      body: issue.body ?? "",
      ...(issue.labels && { labels: issue.labels.map(({ name }) => name) }),
      ...readIssueDetails(issue),
      ...(isFirst && { hasNoComments: true }),
      author: issue.user?.login ?? "ghost",
      authorId: issue.user?.id,
    },
  };
}

/** Returns why a text is ignored: it was not certainly written and sent by the same human. */
export function ignoreAuthor(
  { user, performed_via_github_app: app }: Authored,
  sender: EventUser | null | undefined,
  appId: number | undefined,
): string | undefined {
  if (!user || !sender) return "its author's account is gone";
  if (app && app.id === appId) return "this app wrote it";
  if (!isHuman(user) || !isHuman(sender)) return "its author is not a human";
  if (user.id !== sender.id || user.login !== sender.login) return "its sender is not its author";
  return undefined;
}

type Authored = Pick<CommentPayload["comment"], "user" | "performed_via_github_app">;

function appOf({ performed_via_github_app: app }: Authored): string | undefined {
  return app ? (app.name ?? "another app") : undefined;
}

export function isHuman({ login, type = "User" }: Pick<EventUser, "login" | "type">): boolean {
  return type === "User" && !login.endsWith("[bot]") && login.toLowerCase() !== "ghost";
}
