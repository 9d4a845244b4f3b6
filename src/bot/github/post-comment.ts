import type { GitHub } from "#domain/github.ts";
import { hasMarker, markerOf } from "#text/comment-marker.ts";

export interface NamedComment {
  thread: number;
  /** Posting twice under one name edits the first. */
  name: string;
  /** Sanitised Markdown. */
  body: string;
  /** The comment that already stands, when it is known. */
  commentId?: number | undefined;
}

/** Posts the comment, or edits the one of this name that already stands. Resolves to its id. */
export async function postComment(github: GitHub, { thread, name, body, commentId }: NamedComment): Promise<number> {
  const marked = `${body.trimEnd()}\n\n${markerOf(name)}`;
  if (commentId !== undefined && (await edit(github, commentId, marked))) return commentId;

  const standing = (await github.listComments(thread)).find(
    (comment) => comment.own && comment.id !== commentId && hasMarker(comment.body, name),
  );
  if (standing && (await edit(github, standing.id, marked))) return standing.id;
  return (await github.createComment(thread, marked)).id;
}

/** False when someone deleted the comment. */
async function edit(github: GitHub, commentId: number, body: string): Promise<boolean> {
  try {
    await github.updateComment(commentId, body);
    return true;
  } catch (error) {
    const { status } = error as { status?: number };
    if (status === 404 || status === 410) return false;
    throw error;
  }
}
