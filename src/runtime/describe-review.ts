import type { GitHub, ReviewComment } from "#domain/github.ts";
import { cleanText } from "#text/untrusted.ts";
import { describeReviewComment, describeThread, threadsOf } from "#toolsets/github/pull-request.ts";

interface SubmittedReview {
  by: string;
  number: number;
  review: { id: number; state: string; body: string };
}

/** When the comments of a review have more characters than this, the others are shortened. */
const maxCommentsLength = 60_000;
const maxShortLength = 300;

const verbs: Record<string, string> = { changes_requested: "requests changes on", approved: "approved" };

/** Describes a review and its comments by someone with write access, with what the model needs to answer each comment. */
export async function describeReview(
  github: GitHub,
  { by, number, review }: SubmittedReview,
): Promise<{ text: string; wakes: boolean }> {
  const [all, login] = await Promise.all([github.listReviewComments(number), github.ownLogin()]);
  const parts: string[] = [];
  let room = maxCommentsLength;
  let repliesToApp = false;
  for (const thread of threadsOf(all)) {
    for (const [index, comment] of thread.entries()) {
      if (comment.reviewId !== review.id) continue;
      const earlier = thread.slice(0, index);
      repliesToApp ||= earlier.some(({ author }) => author === login);
      const before = earlier.length > 0 ? `Earlier comments of this thread:\n${describeThread(earlier)}\n` : "";
      const part = describeReviewComment(comment, `${before}@${by} says: `);
      const fits = part.length <= room;
      parts.push(fits ? part : describeReviewComment(shorten(comment), `@${by} says: `));
      room -= fits ? part.length : 0;
    }
  }
  const texts = [review.body, ...all.filter(({ reviewId }) => reviewId === review.id).map(({ body }) => body)];
  const wakes =
    review.state === "changes_requested" ||
    repliesToApp ||
    texts.some((text) => mentions(text, login.replace(/\[bot\]$/, "")));
  const verb = verbs[review.state] ?? "commented on";
  const how =
    parts.length > 0
      ? "Make the changes that are asked for, push them with update_pull_request, then answer each review comment once with reply_to_review."
      : "";
  const text = [`@${by} ${verb} pull request #${number}.`, review.body.trim(), ...parts, how]
    .filter(Boolean)
    .join("\n\n");
  return { text: cleanText(text).text, wakes };
}

function shorten(comment: ReviewComment): ReviewComment {
  const { body, diffHunk } = comment;
  const isLong = body.length > maxShortLength;
  return {
    ...comment,
    body: isLong ? `${body.slice(0, maxShortLength).toWellFormed()} (shortened: the review is long)` : body,
    diffHunk: (diffHunk.split("\n").at(-1) ?? "").slice(0, maxShortLength).toWellFormed(),
  };
}

function mentions(text: string, slug: string): boolean {
  return new RegExp(`(?<![\\w@/-])@${slug.replace(/[^\w-]/g, "")}(?![\\w-])`, "i").test(text);
}
