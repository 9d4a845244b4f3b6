import type { Comment, CommentBody, GitHub, RequestPriority } from "#domain/github.ts";
import { startStopwatch, withLease } from "#domain/work-context.ts";
import { hasMarker, markerOf } from "#text/comment-marker.ts";
import { httpStatusOf, undefinedIfMissing } from "./refusals.ts";

/** While a process is suspended for longer than this, another one may take over and post the same comment. */
const maxSendingMs = 5_000;

export interface NamedComment {
  thread: number;
  /** Other threads in which an earlier attempt may have posted it, because the conversation has moved since. */
  otherThreads?: readonly number[] | undefined;
  /** Posting twice under one name edits the first. */
  name: string;
  /** Sanitised Markdown. A function is called when GitHub's rate limits let the comment be sent. */
  body: CommentBody;
  /** The id of the comment, where it is known. */
  commentId?: number | undefined;
  /** True when the post was not attempted before: no existing comment is looked for. */
  isFirstAttempt?: boolean | undefined;
  /** The id of an earlier comment of this name in whose place a new one is posted. */
  replaces?: number | undefined;
}

/** Posts the comment, or edits the existing one of this name. Resolves to it as GitHub has stored it. */
export async function postComment(
  github: GitHub,
  { thread, otherThreads = [], name, body, commentId, isFirstAttempt = false, replaces = 0 }: NamedComment,
): Promise<Comment> {
  const withMarker = (text: string) => `${text.trimEnd()}\n\n${markerOf(name)}`;
  const marked = typeof body === "string" ? withMarker(body) : async () => withMarker(await body());
  const priority = priorityOf(name);
  const edit = (id: number) => updateComment(github, id, marked, priority);
  const edited = commentId === undefined ? undefined : await edit(commentId);
  if (edited) return edited;

  const create = () => createOnce(github, { thread, name, body: marked, priority });
  if (commentId === undefined && isFirstAttempt) return create();
  const existing = (await listAllComments(github, [...new Set([thread, ...otherThreads])])).find(
    ({ own, id, body }) => own && id !== commentId && id > replaces && hasMarker(body, name),
  );
  // An answer to a request that somebody edited must not appear below the request that counts.
  if (existing && name.startsWith("approval/") && wasEdited(existing)) {
    await github.deleteComment(existing.id);
    return create();
  }
  return (existing && (await edit(existing.id))) ?? create();
}

/** Returns the comments of several threads. */
export async function listAllComments(github: GitHub, threads: readonly number[]): Promise<Comment[]> {
  // A thread may have been deleted.
  const lists = await Promise.all(threads.map((thread) => undefinedIfMissing(github.listComments(thread))));
  return lists.flatMap((comments) => comments ?? []);
}

/** A comment that was changed within this time was not edited: GitHub itself may change it while it is being posted. */
export const maxPostingMs = 5_000;

/** True for a comment that was edited after it was posted, even by the app. */
export function wasEdited({ createdAt, updatedAt }: Comment): boolean {
  return updatedAt.getTime() - createdAt.getTime() > maxPostingMs;
}

/**
 * Creates a comment. When sending it took so long that another process may have posted it meanwhile, the other one is looked
 * for: the older of the two stays.
 */
async function createOnce(
  github: GitHub,
  { thread, name, body, priority }: Pick<NamedComment, "thread" | "name" | "body"> & { priority: RequestPriority },
): Promise<Comment> {
  let elapsedMs = () => 0;
  const prepare = async () => {
    const text = typeof body === "string" ? body : await body();
    elapsedMs = startStopwatch();
    return text;
  };
  const created = await github.createComment(thread, prepare, priority);
  if (elapsedMs() < maxSendingMs) return created;
  const older = (await github.listComments(thread)).find(
    (comment) => comment.own && comment.id < created.id && hasMarker(comment.body, name),
  );
  if (!older) return created;
  // The lease has been lost, and only this process knows of its own comment.
  await withLease(
    async () => {},
    () => github.deleteComment(created.id),
  );
  return older;
}

/** People wait for requests, questions and replies. A status is updated again soon. */
function priorityOf(name: string): RequestPriority {
  if (name.startsWith("status/")) return "low";
  return name.startsWith("outcome/") ? "normal" : "high";
}

/** Edits a comment. Resolves to undefined when someone deleted it. */
export async function updateComment(
  github: GitHub,
  commentId: number,
  body: CommentBody,
  priority: RequestPriority = "high",
): Promise<Comment | undefined> {
  try {
    return await github.updateComment(commentId, body, priority);
  } catch (error) {
    const status = httpStatusOf(error);
    if (status === 404 || status === 410) return undefined;
    throw error;
  }
}
