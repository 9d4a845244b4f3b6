import type { ReviewComment } from "#domain/github.ts";
import { untrustedText } from "#text/untrusted.ts";

/** Lines of the diff that are shown above a comment on one line. */
const minHunkLines = 8;
const maxHunkLines = 60;

/** Describes a review comment with the lines it is about, and any edit it suggests. The comment itself is not marked as untrusted. */
export function describeReviewComment(comment: ReviewComment, says: string): string {
  const { id, diffHunk, body } = comment;
  const edits = suggestedEdits(comment).map(
    (edit) => `It suggests this exact edit, for edit_file:\n${fence(JSON.stringify(edit), "json")}`,
  );
  const hunk = diffHunk.split("\n").slice(-Math.min(maxHunkLines, Math.max(minHunkLines, lineCount(comment))));
  return [
    `Review comment ${id} on ${describeLocation(comment)}:`,
    fence(hunk.join("\n"), "diff"),
    `${says}${body}`,
    ...edits,
  ].join("\n");
}

/** Describes the other comments of a thread, oldest first. Anyone may have written them. */
export function describeThread(comments: readonly ReviewComment[]): string {
  return comments.map(({ body, author }) => untrustedText(body, `@${author}`)).join("\n");
}

/** Returns the file and the lines of a comment, such as `src/total.js, lines 3-5`. */
export function describeLocation({
  path,
  startLine,
  line,
  side,
}: Omit<ReviewComment, "id" | "body" | "author" | "diffHunk" | "reviewId">): string {
  // Paths are untrusted and may contain line breaks.
  const file = path.replace(/[\s\p{Cc}]+/gu, " ").slice(0, 300);
  if (line === null) return file;
  const isRange = startLine !== null && startLine < line;
  const lines = isRange ? `lines ${startLine}-${line}` : `line ${line}`;
  return `${file}, ${lines}${side === "LEFT" ? " before the change" : ""}`;
}

/** Returns the first comment of each thread with its replies, oldest first. */
export function threadsOf(comments: readonly ReviewComment[]): ReviewComment[][] {
  const threads = new Map<number, ReviewComment[]>();
  for (const comment of comments) {
    const first = comment.inReplyTo ?? comment.id;
    threads.set(first, [...(threads.get(first) ?? []), comment]);
  }
  return [...threads.values()];
}

const suggestion = /^(`{3,}|~{3,})suggestion[^\n]*\n([\s\S]*?)^\1[ \t]*$/gm;

/** Returns the edits of a comment's `suggestion` blocks: each replaces the commented lines. */
function suggestedEdits(comment: ReviewComment): { path: string; old_text: string; new_text: string }[] {
  const { path, side, body, diffHunk } = comment;
  if (side === "LEFT") return [];
  const current = diffHunk.split("\n").filter((line) => /^[ +]/.test(line));
  const old_text = current
    .slice(-lineCount(comment))
    .map((line) => line.slice(1))
    .join("\n");
  const texts = [...body.replace(/\r\n/g, "\n").matchAll(suggestion)].map(([, , text = ""]) => text.replace(/\n$/, ""));
  return texts.map((new_text) => ({ path, old_text, new_text }));
}

function lineCount({ startLine, line }: ReviewComment): number {
  return startLine === null || line === null ? 1 : Math.max(1, line - startLine + 1);
}

/** Returns a code block that its text cannot close. */
function fence(text: string, language: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const marks = "`".repeat(longest + 1);
  return `${marks}${language}\n${text}\n${marks}`;
}
