import { createHash } from "node:crypto";
import { type Check, type GitHub, GitHubRefusalError, type ReviewComment } from "#domain/github.ts";
import { cleanText, untrustedText } from "#text/untrusted.ts";
import {
  describeFailedChecks,
  describeReviewComment,
  describeThread,
  isFailed,
  threadsOf,
  withoutMinimized,
} from "#toolsets/github/pull-request.ts";

/** The maximum number of characters of a review's comments. Those that exceed it are shortened. */
const maxCommentsLength = 60_000;
const maxShortLength = 300;

const verbs: Record<string, string> = { changes_requested: "requests changes on", approved: "approved" };

/** Describes a review and its comments by someone with write access, with what the model needs to answer each comment. */
export async function describeReview(
  github: GitHub,
  { by, number, review }: { by: string; number: number; review: { id: number; state: string; body: string } },
): Promise<{ text: string; resumesRun: boolean }> {
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
      parts.push(fits ? part : describeReviewComment(shortenComment(comment), `@${by} says: `));
      room -= fits ? part.length : 0;
    }
  }
  const texts = [review.body, ...all.filter(({ reviewId }) => reviewId === review.id).map(({ body }) => body)];
  const resumesRun =
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
  return { text: cleanText(text).text, resumesRun };
}

/** A part of a review that is still open, for a run that starts later. */
export interface OpenFeedback {
  author: string;
  /** A reply follows the review comment that began its thread. */
  kind: "review" | "review comment" | "reply";
  text: string;
}

/** Lists reviews that request changes and open threads that the app has not answered, up to a time. */
export async function listOpenFeedback(github: GitHub, number: number, before: Date): Promise<OpenFeedback[]> {
  const [reviews, allComments, login] = await Promise.all([
    github.listReviews(number),
    github.listReviewComments(number),
    github.ownLogin(),
  ]);
  const decided = reviews.filter(
    ({ state, submittedAt }) => state !== "commented" && submittedAt && submittedAt < before,
  );
  const latest = [...new Map(decided.map((review) => [review.author, review])).values()];
  const requests = latest.filter(({ state, body }) => state === "changes_requested" && body.trim() !== "");
  const written = allComments.filter(({ updatedAt }) => updatedAt < before);
  const threads = written.length === 0 ? [] : await github.listReviewThreads(number);
  const comments = withoutMinimized(written, threads);
  const resolved = new Set(threads.flatMap(({ isResolved, firstCommentId }) => (isResolved ? [firstCommentId] : [])));
  const open = threadsOf(comments).flatMap((thread): OpenFeedback[] => {
    const [first, last] = [thread[0], thread.at(-1)];
    if (!first || !last || resolved.has(first.inReplyTo ?? first.id)) return [];
    if (last.author === login && first.author !== login) return [];
    // A reply is to the last comment: it has no answer yet.
    const text = describeReviewComment({ ...first, id: last.id }, "");
    const replies = thread.slice(1).map(({ author, body }) => ({ author, kind: "reply" as const, text: body }));
    return [{ author: first.author, kind: "review comment", text }, ...replies];
  });
  return [...requests.map(({ author, body }) => ({ author, kind: "review" as const, text: body })), ...open];
}

function shortenComment(comment: ReviewComment): ReviewComment {
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

/** A check that also fails on the base branch, so a run does not repair it. */
export interface BaseFailure {
  name: string;
  /** The failed check on the base branch. */
  url: string | null;
}

export interface ChecksReport {
  passed: boolean;
  /** True if every failed check also fails on the base branch. */
  failedOnBase: boolean;
  /** The failed checks for the model, marked as untrusted. */
  text: string;
  base: string;
  baseFailures: BaseFailure[];
  missingPermissions: string[];
  /** Identifies the checks and their results: another delivery about them has the same digest. */
  digest: string;
}

/** Describes the checks of a pull request's commit; undefined while some of them have not completed. */
export async function describeChecks(
  github: GitHub,
  { number, commit }: { number: number; commit: string },
): Promise<ChecksReport | undefined> {
  const pull = await github.getPullRequest(number);
  const { checks, unfinished, missingPermissions } = await github.readChecks(commit);
  if (!pull || pull.head.commit !== commit || checks.length === 0) return undefined;

  const failed = checks.filter(isFailed);
  const base = pull.base.branch;
  const waits = failed.length === 0 ? unfinished : unfinished.filter((name) => !mayNeverComplete(checks, name));
  if (waits.length > 0) return undefined;
  // Without a failure, a cancelled check has neither passed nor anything to repair. Somebody may run it again.
  if (failed.length === 0 && checks.some(isCancelled)) return undefined;
  if (failed.length === 0 && !(await hasRequired(github, base, checks))) return undefined;

  const onBase = failed.length === 0 ? [] : await listFailuresOf(github, base);
  const sameOnBase = (check: Check) => onBase.find(({ name, app }) => name === check.name && app === check.app);
  const own = failed.filter((check) => !sameOnBase(check));
  const baseFailures = failed.flatMap((check) => {
    const onBaseToo = sameOnBase(check);
    return onBaseToo ? [{ name: check.name, url: onBaseToo.url }] : [];
  });
  const details = await describeFailedChecks(github, own);
  return {
    passed: failed.length === 0,
    failedOnBase: failed.length > 0 && own.length === 0,
    text: failedChecksFeedback({ commit, base, text: details.text, baseFailures }),
    base,
    baseFailures,
    missingPermissions: [...missingPermissions, ...details.missingPermissions],
    digest: digestOf(failed.length > 0 ? failed : checks),
  };
}

/** Lists the failed checks of a branch; none if it was deleted. */
async function listFailuresOf(github: GitHub, branch: string): Promise<Check[]> {
  try {
    // A tag may have the name of the branch.
    return (await github.readChecks(`heads/${branch}`)).checks.filter(isFailed);
  } catch (error) {
    if (!(error instanceof GitHubRefusalError) || error.status !== 422) throw error;
    return [];
  }
}

/** True for a commit status, which may stay pending forever, and for a job that waits until a person approves its deployment. */
function mayNeverComplete(checks: readonly Check[], name: string): boolean {
  return checks.some((check) => check.name === name && (check.id === undefined || check.status === "waiting"));
}

/** True for a check that was cancelled, even if GitHub did so after two weeks. */
function isCancelled({ conclusion }: Check): boolean {
  return conclusion === "cancelled" || conclusion === "stale";
}

/** True if all required checks have completed. A workflow that has not started reports nothing at all. */
async function hasRequired(github: GitHub, branch: string, checks: readonly Check[]): Promise<boolean> {
  const required = await github.listRequiredChecks(branch);
  return required.every((name) => checks.some((check) => check.name === name && check.status === "completed"));
}

function failedChecksFeedback({
  commit,
  base,
  text,
  baseFailures,
}: { commit: string; text: string } & Pick<ChecksReport, "base" | "baseFailures">): string {
  if (text === "") return "";
  const names = baseFailures.map(({ name }) => name).join(", ");
  return [
    `These checks failed on ${commit.slice(0, 7)}. Find out why, fix the cause and push with update_pull_request:`,
    untrustedText(text, "check results"),
    ...(names ? [untrustedText(`These also fail on ${base}, so leave them alone: ${names}`, "check names")] : []),
  ].join("\n");
}

/** Returns a digest of the checks and their results. A check run that runs again gets a new id; a commit status has none. */
function digestOf(checks: readonly Check[]): string {
  const ids = checks.map(({ id, name, url, conclusion }) => `${id ?? `${name} ${url}`} ${conclusion}`).sort();
  return createHash("sha256").update(ids.join("\n")).digest("hex").slice(0, 16);
}
