import { createHash } from "node:crypto";
import { checkboxOf } from "#bot/render/render-approval.ts";
import type { Comment, GitHub } from "#domain/github.ts";
import type { PostedComment } from "#runtime/front-end.ts";
import { maxPostingMs, wasEdited } from "./post-comment.ts";

/** Describes a comment as GitHub has stored it, so that an edit can be noticed. */
export function describePosted({ id, body, updatedAt }: Comment): PostedComment {
  return { id, digest: digestOf(body), updatedAt: updatedAt.getTime() };
}

/** Returns false if one of the comments was edited or deleted, even if it has its earlier text again. */
export async function areUnchanged(github: GitHub, posted: readonly PostedComment[]): Promise<boolean> {
  for (const { id, digest, updatedAt } of posted) {
    const comment = await github.getComment(id);
    if (!comment?.own || digestOf(comment.body) !== digest) return false;
    if (comment.updatedAt.getTime() - updatedAt > maxPostingMs) return false;
  }
  return true;
}

/** True for a comment that was never edited, not even by the app. */
export async function isUnedited(github: GitHub, commentId: number): Promise<boolean> {
  const comment = await github.getComment(commentId);
  return comment?.own === true && !wasEdited(comment);
}

/** True if a posted request was edited, and the only difference is the tick in its box. */
export function isOnlyTicked(
  posted: PostedComment | undefined,
  { approvalId, before, after }: { approvalId: string; before: string; after: string },
): boolean {
  const box = checkboxOf(approvalId);
  const at = before.lastIndexOf(box);
  if (at < 0 || digestOf(before) !== posted?.digest) return false;
  const ticked = before.slice(0, at) + box.replace("[ ]", "[x]") + before.slice(at + box.length);
  return normalize(after).replace("- [X] ", "- [x] ") === normalize(ticked);
}

function digestOf(body: string): string {
  return createHash("sha256").update(normalize(body)).digest("hex");
}

/** A browser sends other line ends than the app, and may leave out spaces at the end. */
function normalize(body: string): string {
  return body.replace(/\r\n?/g, "\n").trimEnd();
}
