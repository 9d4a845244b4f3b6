import { type AuthorizedCommand, executeCommand } from "#bot/commands/execute-command.ts";
import { parseMention, parseThreadCommand, type ThreadCommand } from "#bot/commands/thread-command.ts";
import { listAllComments, postComment } from "#bot/github/post-comment.ts";
import { httpStatusOf } from "#bot/github/refusals.ts";
import { rateLimitMessage } from "#bot/github/request-pacer.ts";
import { code, inline } from "#bot/render/markdown.ts";
import { renderPaused } from "#bot/render/render-reply.ts";
import { DatabaseError, OutageError, UserError } from "#domain/errors.ts";
import { canWrite, type GitHub, GitHubRefusalError, type ReactionContent } from "#domain/github.ts";
import { LeaseLostError } from "#domain/work-context.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";
import { needsRun, parseToolCommand } from "#ui/run-commands.ts";
import { startTriggered } from "./handle-triggers.ts";
import {
  type DeliveryContext,
  type DeliveryProblem,
  defineHandler,
  ignoreThread,
  mayBeOutOfOrder,
  queueOf,
  threadEventKey,
} from "./handler.ts";
import {
  commentKeyOf,
  type IncomingComment,
  ignoreAuthor,
  readCommentPayload,
  readIncomingReviewComment,
  readIssueText,
} from "./incoming-comment.ts";
import { CommentPayload, IssuePayload, locationOf, ReviewCommentPayload } from "./payloads.ts";

/** The next comment of the thread waits at most this long for a reaction to this one. */
const maxReactionMs = 4_000;
/** A comment that is processed later than this after it was written may have been deleted: GitHub redelivers for three days. */
const lateMs = 10 * 60_000;
/** The run of a reopened pull request has continued by the time a command is processed this often. */
const maxAttemptsForReopening = 3;
const refusalIntervalMs = 60 * 60_000;

export const commentCreated = defineHandler(CommentPayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.comment.created_at, scope) ??
    ignoreAuthor(payload.comment, payload.sender, scope.appId),
  handle: async (payload, context) => {
    const location = locationOf(payload.repository, payload.installation.id, payload.comment.created_at);
    if (location) await context.runs().reportLocation(location);
    const comment = readCommentPayload(payload, context.deliveryId);
    const { thread, text } = comment;
    // Most comments are not for a worker.
    const isForWorker = async () =>
      /^[/@]/.test(text) || (await context.runs().threadActivity(thread, { isOpen: true })) === "live";
    const { id, created_at: at } = payload.comment;
    const exists = async (github: GitHub) => !(await isForWorker()) || (await github.getComment(id)) !== undefined;
    if (!(await wasDeleted({ thread, at, exists }, context))) await handleComment(comment, context);
  },
  report: (payload, context, problem) =>
    reportProblem(readCommentPayload(payload, context.deliveryId), context, problem),
});

export const issueOpened = defineHandler(IssuePayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.issue.created_at, scope) ?? ignoreAuthor(payload.issue, payload.sender, scope.appId),
  handle: async (payload, context) => {
    const location = locationOf(payload.repository, payload.installation.id, payload.issue.created_at);
    if (location) await context.runs().reportLocation(location);
    const text = readIssueText(payload, context.deliveryId);
    const { kind } = await readCommand(text.text, context.openGitHub(text.thread));
    if (kind === "run" || kind === "mention") await handleComment(text, context);
    else await startTriggered("issues", payload, payload.issue, context);
  },
  report: (payload, context, problem) => reportProblem(readIssueText(payload, context.deliveryId), context, problem),
});

/** Handles a comment on lines that mentions the app. A live run of the pull request gets it with its review. */
export const reviewCommentCreated = defineHandler(ReviewCommentPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.comment.created_at, scope) ??
    ignoreAuthor(payload.comment, payload.sender, scope.appId) ??
    (payload.comment.body?.startsWith("@") ? undefined : "it mentions no one"),
  handle: async (payload, context) => {
    const comment = readIncomingReviewComment(payload, context.deliveryId);
    if (await isReadWithReview(comment, context)) return;
    const number = comment.thread.thread;
    const { id, created_at: at } = payload.comment;
    const exists = async (github: GitHub) => (await github.listReviewComments(number)).some((one) => one.id === id);
    if (await wasDeleted({ thread: comment.thread, at, exists }, context)) return;
    await handleMention(comment, payload.comment.pull_request_review_id ?? undefined, context);
  },
  report: async (payload, context, problem) => {
    const comment = readIncomingReviewComment(payload, context.deliveryId);
    if (await isReadWithReview(comment, context)) return;
    await reportMention(comment, payload.comment.pull_request_review_id ?? undefined, context, problem);
  },
});

/** True for a comment on a pull request of a live run, which gets it with its review. */
async function isReadWithReview({ thread: { thread, ...repository } }: IncomingComment, context: DeliveryContext) {
  return (await context.runs().listOpenPullRequests(repository)).includes(thread);
}

/** Handles a part of a review that mentions the app: starts the default worker once, or passes a message to the thread's run. */
export async function handleMention(
  comment: IncomingComment,
  reviewId: number | undefined,
  context: DeliveryContext,
): Promise<void> {
  const { kind } = await readCommand(comment.text, context.openGitHub(comment.thread));
  if (kind !== "mention" || (await context.runs().hasRecorded(comment.key))) return;
  const { key, starts } = await findMentionKey(comment, reviewId, context);
  await handleComment({ ...comment, key }, context);
  if (!starts) return;
  // If this delivery is processed again, the comment is not also a message to the run that it has started.
  await context.runs().recordKey(comment.key);
  await context.runs().recordKey(key);
}

/** Returns the key of a mention in a review: a run that it starts has the review's, so that the review starts one. */
async function findMentionKey(
  { thread, closed, key }: IncomingComment,
  reviewId: number | undefined,
  { runs }: DeliveryContext,
): Promise<{ key: string; starts: boolean }> {
  const starts = reviewId !== undefined && (await runs().threadActivity(thread, { isOpen: !closed })) !== "live";
  return { key: starts ? mentionKey(reviewId) : key, starts };
}

/** Returns the key of the run that a mention in a review has started. */
export function mentionKey(reviewId: number): string {
  return `mention in review ${reviewId}`;
}

/** True if a comment or review that arrives late, or waited until GitHub answered, no longer exists. */
export async function wasDeleted(
  { thread, at, exists }: { thread: ThreadRef; at: Date | undefined; exists: (github: GitHub) => Promise<boolean> },
  { openGitHub, deliveryId, log }: DeliveryContext,
): Promise<boolean> {
  if (!at || Date.now() - at.getTime() < lateMs || (await exists(openGitHub(thread)))) return false;
  log.info(`Delivery ${deliveryId} has no effect: its comment or review was deleted.`);
  return true;
}

/** Handles a comment: a command, a call of a tool, or a message to the workers of the thread. */
async function handleComment(comment: IncomingComment, context: DeliveryContext): Promise<void> {
  const github = context.openGitHub(comment.thread);
  const command = await readCommand(comment.text, github);
  // The text of an issue can start a worker and nothing else.
  if (comment.commentId === undefined && command.kind !== "run" && command.kind !== "mention") return;

  const action: Action = { comment, context, github };
  if (needsRun(command.kind) && (await context.runs().threadActivity(comment.thread)) === "none") return;
  if (comment.viaApp !== undefined && !mayCommandViaApp(command, context)) return refuseApp(command, action);
  if (command.kind === "text") return sendMessage(command.text, action);
  if (command.kind === "direct") return callTool(command, action);

  const isAllowed = await isByWriter(action);
  if (isAllowed === undefined) return;
  if (command.kind === "malformed" || command.kind === "unknown") {
    if (isAllowed) await reply(usageOf(command), action);
    return;
  }
  if (!isAllowed) return refuse(action);
  const later = await findLaterCommand(command.kind, action);
  if (later) {
    const text = `GitHub delivered this comment late. The later command ${code(`/${later}`)} had been processed by then, so nothing was done. Comment again if you still want it.`;
    return reply(text, action);
  }
  await reportReopening(action);
  return handleCommand(command, action);
}

/**
 * True if the author of a comment has write access. Undefined, after a reply in the thread at most once an hour, if GitHub
 * does not let the app look that up: it has refused the app, not the person.
 */
async function isByWriter(action: Action): Promise<boolean | undefined> {
  const { comment, context, github } = action;
  try {
    return canWrite(await github.getPermission(comment.by, comment.byId));
  } catch (error) {
    if (!(error instanceof GitHubRefusalError)) throw error;
    context.log.info(`Delivery ${context.deliveryId} has no effect: ${error.message}`);
    const problem = `Nothing was started or changed. When this is resolved, repeat your comment. ${error.message}`;
    await replyOnce(`permission refused ${currentHour()}`, problem, action, "everyone");
    return undefined;
  }
}

/**
 * Reports that the pull request was reopened, if the event that says so has not arrived before this command. The command
 * is then executed when the run has continued. Throws an OutageError until then.
 */
async function reportReopening({ comment, context, github }: Action): Promise<void> {
  const { thread, isPullRequest, closed } = comment;
  const runs = context.runs();
  if (!isPullRequest || closed || context.attempts > maxAttemptsForReopening) return;
  if ((await runs.threadActivity(thread)) !== "ended") return;
  if ((await runs.threadActivity(thread, { isOpen: true })) !== "live") return;
  const change = await github.lastStateChange(thread.thread);
  // The command was written before it was closed.
  if (change?.state !== "open") return;
  const repository = { name: thread.repo, owner: { login: thread.owner } };
  // The key of the event itself, so that its own delivery has no effect if it arrives later.
  const deliveryId = threadEventKey({ action: "reopened", repository }, thread.thread, change.at);
  await runs.pullRequestReopened(thread, { by: change.by?.login ?? "ghost", deliveryId });
  throw new OutageError(`The run of #${thread.thread} has not continued yet.`);
}

/** Reads a command, or a mention of the app. A person whose login is the same as the app's name is the one mentioned. */
async function readCommand(text: string, github: GitHub): Promise<ThreadCommand> {
  const command = parseThreadCommand(text);
  if (command.kind !== "text" || !text.startsWith("@")) return command;
  const slug = (await github.ownLogin()).replace(/\[bot\]$/, "");
  const mentioned = parseMention(text, slug);
  if (mentioned === undefined || (await github.isPerson(slug))) return command;
  return { kind: "mention", text: mentioned };
}

/** Commands that decide or publish something. They count only if a person wrote them on GitHub. */
const personalCommands: readonly ThreadCommand["kind"][] = [
  "approve",
  "deny",
  "revoke",
  "tool",
  "direct",
  "ready",
  "update",
  "undo",
];

/** True where a comment that another app posted with a person's token may ask for this. */
function mayCommandViaApp({ kind }: ThreadCommand, { allowAppComments }: DeliveryContext): boolean {
  return allowAppComments && !personalCommands.includes(kind);
}

/** Replies to a command by someone with write access that it does not count. */
async function refuseApp(command: ThreadCommand, action: Action): Promise<void> {
  const { comment } = action;
  const isCommand = command.kind !== "text" && command.kind !== "direct" && command.kind !== "unknown";
  if (!isCommand || !(await isByWriter(action))) return;
  await replyOnce(
    "app comment",
    `${comment.by}, this comment was posted through ${inline(comment.viaApp ?? "")}, so it does not count as your command: you may not have seen it. Comment on GitHub yourself.`,
    action,
  );
}

const endingCommands: readonly ThreadCommand["kind"][] = ["stop", "cancel", "exit"];
const orderedCommands = [...endingCommands, "resume", "run", "retry"] as const;

/** The commands that are not executed after one of these, which somebody gave later. */
const replacedBy: Partial<Record<ThreadCommand["kind"], readonly ThreadCommand["kind"][]>> = {
  stop: orderedCommands,
  cancel: orderedCommands,
  exit: orderedCommands,
  resume: orderedCommands,
  run: endingCommands,
  retry: endingCommands,
  mention: endingCommands,
};

/** Returns the newest command that replaces this one and has been processed already: GitHub delivers in any order. */
async function findLaterCommand(
  kind: ThreadCommand["kind"],
  { comment, context, github }: Action,
): Promise<ThreadCommand["kind"] | undefined> {
  const { thread, commentId, key, seen } = comment;
  const replacing = replacedBy[kind];
  if (!replacing || commentId === undefined || !mayBeOutOfOrder(seen?.at)) return undefined;
  const runs = context.runs();
  if (await runs.hasRecorded(key)) return undefined;
  const comments = await listAllComments(github, await threadsOfOnlyRun(thread, runs));
  for (const { id, own, body, createdAt } of comments.sort((a, b) => b.id - a.id)) {
    const later = parseThreadCommand(body).kind;
    if (own || id <= commentId || !replacing.includes(later)) continue;
    if (await runs.hasRecorded(commentKeyOf(id, createdAt))) return later;
  }
  return undefined;
}

/** Returns the threads in which people command the run of this one, if it is the only one here: its issue and its pull request. */
async function threadsOfOnlyRun(thread: ThreadRef, runs: Runs): Promise<number[]> {
  const views = await runs.listRunViews(thread);
  const live = views.filter(({ outcome }) => !outcome);
  const [run, ...others] = live.length > 0 ? live : views.slice(0, 1);
  if (!run || others.length > 0) return [thread.thread];
  return [...new Set([thread.thread, run.spec.origin.thread, run.pullRequest ?? thread.thread])];
}

interface Action {
  comment: IncomingComment;
  context: DeliveryContext;
  github: GitHub;
}

async function handleCommand(command: AuthorizedCommand, action: Action): Promise<void> {
  const { comment, context, github } = action;
  const reaction = react("eyes", action);
  // Its error is thrown once the command is executed.
  reaction.catch(() => undefined);
  try {
    const { redact, linksTo } = context;
    const answer = await executeCommand(command, { github, runs: context.runs(), comment, redact, linksTo });
    if (answer) await reply(answer, action);
    else if (await hasWaitingNotice(comment.key, context)) await reply(respondsAgain("comment"), action);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    await reply(error.message, action);
    // An earlier command that arrives later is not executed after this one.
    if (replacedBy[command.kind]) await context.runs().recordKey(comment.key);
  }
  await reaction;
}

function usageOf(command: Extract<ThreadCommand, { kind: "malformed" | "unknown" }>): string {
  if (command.kind === "malformed") return command.message;
  return `Unknown command \`/${command.word}\`. Did you mean \`/${command.suggestion}\`? \`/help\` lists the commands. Write it in a new comment: edits do not count.`;
}

/**
 * Passes an ordinary comment to the workers of its thread, if there are any and its author has write access. Anyone else who
 * answers a question gets a reaction, so that nobody takes it for answered.
 */
async function sendMessage(text: string, action: Action): Promise<void> {
  const { comment, context } = action;
  const { thread, by, byId, key: deliveryId } = comment;
  const runs = context.runs();
  // Most comments are not for a worker, so GitHub is asked about their author only where one is running.
  const hasRuns = text !== "" && (await runs.threadActivity(thread, { isOpen: !comment.closed })) === "live";
  if (!hasRuns) return;
  const isAllowed = await isByWriter(action);
  if (isAllowed === false) {
    if (await hasWaitingNotice(comment.key, context)) await refuse(action);
    else if (await runs.mayAnswer(thread, comment.commentId)) await react("confused", action);
  }
  if (!isAllowed) return;

  try {
    const runId = await runs.deliverMessage(thread, {
      by,
      byId,
      text,
      deliveryId,
      commentId: comment.commentId,
      mayAnswer: comment.viaApp === undefined,
    });
    if (runId === undefined) return;
    await react("eyes", action);
    if (await hasWaitingNotice(comment.key, context)) await reply(respondsAgain("comment"), action);
    // Said once in each pause.
    const paused = await runs.findPaused(runId);
    if (paused) await replyUnlessRecorded(paused.key, renderPaused(paused.worker, "your comment"), action);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    await reply(error.message, action);
  }
}

/** Calls the tool that a slash command may name, where a worker was started and its author has write access. */
async function callTool(
  { line, mayBeForeign }: Extract<ThreadCommand, { kind: "direct" }>,
  action: Action,
): Promise<void> {
  const { comment, context } = action;
  const { thread, by, byId, commentId, key: deliveryId } = comment;
  const runs = context.runs();
  if ((await runs.threadActivity(thread)) === "none" || !(await isByWriter(action))) return;

  try {
    const command = parseToolCommand(line);
    await runs.runToolCommand(thread, { by, byId, commentId, deliveryId, command, mayBeForeign });
    if (!mayBeForeign) await react("eyes", action);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    if (!mayBeForeign) await reply(error.message, action);
  }
}

/** Refuses a command with one reply per hour, person and thread, so that nobody can make the app post many comments. */
async function refuse(action: Action): Promise<void> {
  const { comment, context } = action;
  const { by, thread } = comment;
  const refusal = `${by}, you need write access to ${thread.owner}/${thread.repo} to run commands. Nothing was started or changed.`;
  // It takes the place of the notice that GitHub is not responding.
  if (await hasWaitingNotice(comment.key, context)) await reply(refusal, action);
  else await replyOnce(`refusal ${currentHour()}`, refusal, action);
}

function currentHour(): number {
  return Math.floor(Date.now() / refusalIntervalMs);
}

/**
 * Replies in a thread unless the same reason was given to this reader before; then reacts. The reply is posted before the
 * key is recorded: after a crash in between, the delivery is processed again and finds the reply by its marker.
 */
async function replyOnce(reason: string, markdown: string, action: Action, reader = action.comment.by): Promise<void> {
  const { installationId, owner, repo, thread } = action.comment.thread;
  const key = `${reason} ${installationId} ${owner}/${repo}#${thread} ${reader}`.toLowerCase();
  if (!(await replyUnlessRecorded(key, markdown, action))) await react("confused", action);
}

/** Returns false, and posts nothing, if the key was recorded. */
async function replyUnlessRecorded(key: string, markdown: string, action: Action): Promise<boolean> {
  const runs = action.context.runs();
  if (await runs.hasRecorded(key)) return false;
  await reply(markdown, action);
  await runs.recordKey(key);
  return true;
}

/** Posts one reply per comment, however often the comment is delivered. */
async function reply(markdown: string, { comment, context, github }: Action): Promise<void> {
  const { thread, key } = comment;
  const [name, body] = [`reply/${key}`, context.sanitize(markdown)];
  try {
    await postComment(github, { thread: thread.thread, name, body, isFirstAttempt: context.attempts === 1 });
  } catch (error) {
    // A locked thread may accept a reaction where it does not accept a comment.
    if (httpStatusOf(error) !== 403 || !comment.locked) throw error;
    await sendReaction("confused", { comment, github });
  }
}

/** Replies to a command, or to an answer to a question, that has no effect, or not yet. */
async function reportProblem(
  comment: IncomingComment,
  context: DeliveryContext,
  problem: DeliveryProblem,
): Promise<void> {
  const { thread, commentId, viaApp } = comment;
  const github = context.openGitHub(thread);
  const runs = context.runs();
  const { kind } = await readCommand(comment.text, github);
  if (kind === "direct" || kind === "malformed" || kind === "unknown") return;
  // Most comments are not for a worker.
  if (kind === "text" && (viaApp !== undefined || !(await runs.mayAnswer(thread, commentId)))) return;
  if (commentId === undefined && kind !== "run" && kind !== "mention") return;
  await replyToProblem(comment, context, problem);
}

/** Replies to a part of a review that mentions the app and has no effect, or not yet. */
export async function reportMention(
  comment: IncomingComment,
  reviewId: number | undefined,
  context: DeliveryContext,
  problem: DeliveryProblem,
): Promise<void> {
  const { kind } = await readCommand(comment.text, context.openGitHub(comment.thread));
  if (kind !== "mention") return;
  const { key } = await findMentionKey(comment, reviewId, context);
  await replyToProblem({ ...comment, key }, context, problem);
}

async function replyToProblem(
  comment: IncomingComment,
  context: DeliveryContext,
  problem: DeliveryProblem,
): Promise<void> {
  const action = { comment, context, github: context.openGitHub(comment.thread) };
  await postProblem("comment", { key: comment.key, problem, context }, (text) => reply(text, action));
}

/** Posts why a comment or a review has no effect, or not yet. That it waits is said once for its key. */
export async function postProblem(
  what: "comment" | "review",
  { key, problem, context }: { key: string; problem: DeliveryProblem; context: DeliveryContext },
  post: (markdown: string) => Promise<void>,
): Promise<void> {
  const runs = context.runs();
  const notice = waitingNoticeOf(key);
  const isWaiting = problem.kind === "waiting";
  if (isWaiting && (await runs.hasRecorded(notice))) return;
  await post(describeProblem(what, problem, context));
  if (isWaiting) await runs.recordKey(notice);
}

function describeProblem(
  what: "comment" | "review",
  problem: DeliveryProblem,
  { deliveryId }: DeliveryContext,
): string {
  switch (problem.kind) {
    case "waiting": {
      const [reason, time] =
        problem.retryAt === undefined
          ? ["GitHub is not responding at the moment.", "as soon as GitHub responds"]
          : [rateLimitMessage(problem.retryAt), "after that"];
      return `${reason} Your ${what} is saved and takes effect ${time}. You do not need to repeat it.`;
    }
    case "outage":
      return `GitHub did not respond for a day, so your ${what} had no effect. Try again in a new ${what}.`;
    case "error":
      return `Something failed on our side, and your ${what} may have had no effect. Check \`/status\`, then try again in a new ${what}. If it keeps failing, the operator can find the details in the log under \`${deliveryId}\`.`;
  }
}

/** Takes the place of the notice that GitHub is not responding. */
export function respondsAgain(what: "comment" | "review"): string {
  return `GitHub is responding again, and your ${what} has taken effect.`;
}

/** Returns the key that is recorded once the author of a comment or review has the notice that GitHub is not responding. */
function waitingNoticeOf(key: string): string {
  return `waiting notice ${key}`;
}

/** True if the author has the notice. */
export async function hasWaitingNotice(key: string, { attempts, runs }: DeliveryContext): Promise<boolean> {
  return attempts > 1 && runs().hasRecorded(waitingNoticeOf(key));
}

/**
 * Reacts to the comment. Failures are logged and ignored, unless the lease is lost or the database cannot be asked for it: then, as
 * when the process dies before the reaction is made, the delivery is processed again. Resolves after a few seconds even if GitHub
 * has not answered.
 */
function react(reaction: ReactionContent, action: Action): Promise<void> {
  const { context } = action;
  const reacting = sendReaction(reaction, action).catch((error: Error) => {
    if (error instanceof LeaseLostError || error instanceof DatabaseError) throw error;
    context.log.info(`No reaction to delivery ${context.deliveryId}: ${error.message}`);
  });
  context.inBackground(reacting.catch(() => undefined));
  const late = new Promise<void>((resolve) => setTimeout(resolve, maxReactionMs).unref());
  return Promise.race([reacting, late]);
}

async function sendReaction(
  reaction: ReactionContent,
  { comment: { commentId, thread }, github }: Pick<Action, "comment" | "github">,
): Promise<void> {
  if (commentId === undefined) await github.addIssueReaction(thread.thread, reaction);
  else await github.addReaction(commentId, reaction);
}
