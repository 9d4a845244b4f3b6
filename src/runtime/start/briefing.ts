import { UserError } from "#domain/errors.ts";
import type { Attachment } from "#domain/events.ts";
import { type Account, type Comment, canWrite, type GitHub, type Issue, type IssueDetails } from "#domain/github.ts";
import type { RunOrigin } from "#domain/run.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { SeenIssue } from "#runtime/runs.ts";
import { pluralize } from "#text/pluralize.ts";
import { cleanText, wrapUntrusted } from "#text/untrusted.ts";
import { describeDetails } from "#toolsets/github/issues.ts";
import { readAttachments } from "./attachments.ts";

/** The maximum characters of an issue and of its comments in the briefing. A worker can read the rest with its tools. */
const maxBodyLength = 20_000;
const maxDetailsLength = 1_000;
const maxThreadLength = 20_000;
const maxReviewsLength = 20_000;
const maxComments = 100;
const maxLinked = 8;
/** The maximum characters of an issue's title, in a briefing and in a run. */
export const maxTitleLength = 300;

type BriefedIssue = Pick<
  Issue,
  "number" | "title" | "body" | "author" | "authorId" | "labels" | "isPullRequest" | keyof IssueDetails
>;

/** Returns the issue as the person saw it, without later changes. Reads unknown parts from GitHub. */
export async function readBriefedIssue(
  github: GitHub,
  { thread, isPullRequest }: Pick<RunOrigin, "thread" | "isPullRequest">,
  seen: SeenIssue | undefined,
): Promise<BriefedIssue> {
  const { title, body, author, authorId, labels, type, subIssues, fields } = seen ?? {};
  if (title !== undefined && body !== undefined && author !== undefined && labels !== undefined) {
    return { number: thread, title, body, author, authorId, labels, isPullRequest, type, subIssues, fields };
  }
  const current = await github.getIssue(thread);
  if (!current) throw new UserError(`#${thread} cannot be read.`);
  return { ...current, ...(seen && { title: seen.title, body: seen.body }) };
}

/** Returns the issue and its comments, marked as untrusted, which a worker reads before its task, and the authors. */
export async function composeBriefing(
  github: GitHub,
  issue: BriefedIssue,
  {
    before,
    seen,
    worker,
    task,
  }: { before: Date; seen?: SeenIssue | undefined; worker: WorkerDefinition; task: string },
): Promise<{ text: string; authors: Account[]; attachments?: Attachment[] }> {
  const kind = issue.isPullRequest ? "Pull request" : "Issue";
  const head = `${kind} #${issue.number}, opened by @${issue.author}`;
  const facts = [...describeDetails(issue), ...(issue.labels.length > 0 ? [`Labels: ${issue.labels.join(", ")}`] : [])];
  const details = facts.length > 0 ? `\n\n${facts.join("\n")}` : "";
  const body = wrapUntrusted(
    cut(`${issue.title}\n\n${issue.body}`, maxBodyLength) + cut(details, maxDetailsLength),
    `${kind.toLowerCase()} #${issue.number}`,
  );
  const { texts, bodies, authors } = seen?.hasNoComments
    ? { texts: [], bodies: [], authors: [] }
    : await earlierComments(github, issue, before);
  const reviews = issue.isPullRequest ? await openReviews(github, issue.number, before) : [];
  const linked = await describeLinked(github, issue, [task, issue.body, ...bodies]);
  const { files, note } = await readAttachments(github, issue.number, [task, issue.body, ...bodies], worker);
  return {
    text: [head, body, ...texts, ...reviews.map(({ text }) => text), linked, note].filter(Boolean).join("\n\n"),
    authors: [
      { login: issue.author, id: issue.authorId },
      ...authors,
      ...reviews.map(({ author: login }) => ({ login })),
    ],
    ...(files.length > 0 && { attachments: files }),
  };
}

/** Lists the repository's issues and pull requests that the texts mention, with their titles. */
async function describeLinked(github: GitHub, { number }: BriefedIssue, texts: readonly string[]): Promise<string> {
  const named = [...new Set(texts.flatMap((text) => github.findLinkedIssues(text)))].filter(
    (other) => other !== number,
  );
  const found = await Promise.all(named.slice(0, maxLinked).map((other) => github.getIssue(other).catch(noIssue)));
  const lines = found.flatMap((issue) => {
    if (!issue) return [];
    const { number: other, title, state, isPullRequest } = issue;
    return [`#${other} (${isPullRequest ? "pull request" : "issue"}, ${state}): ${cut(title, maxTitleLength)}`];
  });
  if (lines.length === 0) return "";
  return `Issues and pull requests that are named above:\n${wrapUntrusted(lines.join("\n"), "their titles")}`;
}

/** A link is optional: the run starts without it. */
function noIssue(): undefined {}

/** Reads the comments, without those that people minimized as far as GitHub reports that. */
async function readComments(github: GitHub, { number, isPullRequest }: BriefedIssue): Promise<Comment[]> {
  const comments = await github.listComments(number);
  if (comments.every(({ own }) => own)) return [];
  const minimized = new Set(await github.listMinimizedComments({ number, isPullRequest }).catch(() => []));
  return comments.filter(({ id }) => !minimized.has(id));
}

/** Leaves out comments that were written or edited after the command, since the person had not seen them. */
async function earlierComments(
  github: GitHub,
  issue: BriefedIssue,
  before: Date,
): Promise<{ texts: string[]; bodies: string[]; authors: Account[] }> {
  const comments = (await readComments(github, issue)).filter((comment) => !comment.own && comment.updatedAt < before);
  const texts: string[] = [];
  const bodies: string[] = [];
  const authors = new Map<string, Account>();
  const permissions = new Map<string, Promise<string>>();
  let room = maxThreadLength;
  for (const comment of comments.slice(-maxComments).toReversed()) {
    const text = cut(comment.body, Math.max(0, room));
    room -= text.length;
    if (room < 0) break;
    const permission = permissions.getOrInsertComputed(comment.author, () => describePermission(github, comment));
    authors.set(comment.author, { login: comment.author, id: comment.authorId });
    bodies.unshift(comment.body);
    texts.unshift(wrapUntrusted(text, `comment by @${comment.author}, ${await permission}`));
  }
  const left = comments.length - texts.length;
  const shown =
    left > 0 ? [`(${pluralize(left, "earlier comment is", "earlier comments are")} left out.)`, ...texts] : texts;
  return { texts: shown, bodies, authors: [...authors.values()] };
}

/** Reads the reviews of a pull request that are still to be worked on. */
async function openReviews(github: GitHub, number: number, before: Date): Promise<{ text: string; author: string }[]> {
  // Loads toolsets, which the app does not need before its first run.
  const { listOpenFeedback } = await import("#runtime/service/describe-feedback.ts");
  const feedback = await listOpenFeedback(github, number, before);
  const texts: { text: string; author: string }[] = [];
  let room = maxReviewsLength;
  for (const { author, kind, text } of feedback) {
    const shown = cut(text, Math.max(0, room));
    room -= shown.length;
    if (room < 0) break;
    const source = `${kind} by @${author}, ${await describePermission(github, { author })}`;
    texts.push({ author, text: wrapUntrusted(shown, source) });
  }
  return texts;
}

async function describePermission(
  github: GitHub,
  { author, authorId }: Pick<Comment, "author" | "authorId">,
): Promise<string> {
  return canWrite(await github.getPermission(author, authorId)) ? "who has write access" : "who has no write access";
}

function cut(text: string, maxLength: number): string {
  const { text: clean } = cleanText(text);
  return clean.length <= maxLength
    ? clean
    : `${clean.slice(0, maxLength)}\n(cut here: it is ${clean.length} characters long)`;
}
