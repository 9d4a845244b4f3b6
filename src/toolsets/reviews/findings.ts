import type { GitHub, Review, ReviewComment, ReviewThread } from "#domain/github.ts";

/** A problem that an earlier review of this App reported, by its key. */
export interface EarlierFinding {
  key: string;
  comment: ReviewComment;
  thread: ReviewThread | undefined;
}

const marker = /<!-- golem-forge:finding ([a-z0-9-]+) -->/;

/** Returns a hidden line that identifies a finding in later reviews. */
export function findingMarker(key: string): string {
  return `<!-- golem-forge:finding ${key} -->`;
}

/** Returns the key in a comment of this App. Comments of others may hold the same line. */
export function findingKeyIn(body: string): string | undefined {
  return marker.exec(body)?.[1];
}

/** Returns what earlier reviews of this App reported on a pull request. The comments are their threads' first ones. */
export async function earlierFindings(github: GitHub, number: number): Promise<EarlierFinding[]> {
  const [comments, login] = await Promise.all([github.listReviewComments(number), github.ownLogin()]);
  const own = comments.flatMap((comment) => {
    const key = comment.author === login && comment.inReplyTo === undefined && findingKeyIn(comment.body);
    return key ? [{ key, comment }] : [];
  });
  if (own.length === 0) return [];

  const threads = await github.listReviewThreads(number);
  return own.map((one) => ({
    ...one,
    thread: threads.find(({ firstCommentId }) => firstCommentId === one.comment.id),
  }));
}

/** Returns the reviews of this App that have a summary, oldest first. */
export async function ownReviews(github: GitHub, number: number): Promise<Review[]> {
  const [reviews, login] = await Promise.all([github.listReviews(number), github.ownLogin()]);
  return reviews.filter(({ author, body }) => author === login && body !== "");
}

/** Returns the commit of this App's last review with a summary; undefined if there is none. */
export async function lastReviewedCommit(github: GitHub, number: number): Promise<string | undefined> {
  return (await ownReviews(github, number)).at(-1)?.commit ?? undefined;
}
