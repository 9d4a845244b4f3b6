import { setTimeout as wait } from "node:timers/promises";
import { executeCommand } from "#bot/commands/answer-command.ts";
import type { Authorize } from "#bot/commands/authorize.ts";
import { parseThreadCommand, type ThreadCommand } from "#bot/commands/thread-command.ts";
import { postComment } from "#bot/github/post-comment.ts";
import { isListedRepository } from "#config/is-listed-repository.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite, type GitHub, type OpenGitHub } from "#domain/github.ts";
import type { Runs } from "#runtime/runs.ts";
import { type AccessEvent, readAccessEvent } from "./read-access-event.ts";
import { type Delivery, type IncomingComment, readThreadEvent, type ThreadEvent } from "./read-comment.ts";

/** GitHub waits ten seconds for an answer to a delivery. */
const maxReactionMs = 4_000;

type ThreadClosed = Extract<ThreadEvent, { kind: "over" }>;

export interface HandleDeliveryOptions {
  appId: number;
  /** `owner/repo` or `owner/*`, in lower case; undefined for every repository. */
  repositories: readonly string[] | undefined;
  openGitHub: OpenGitHub;
  runs: () => Runs;
  authorize: Authorize;
  redact: (text: string) => string;
  sanitize: (text: string) => string;
  /** For whoever operates the app. */
  log: { info: (message: string) => void };
  /** Takes over work that nobody waits for, until it is over. */
  inBackground: (work: Promise<unknown>) => void;
}

/**
 * Gives the function that hears a delivery. It resolves when what was said is stored, and rejects when it is not, so
 * that the delivery can be sent again.
 */
export function createHandleDelivery(options: HandleDeliveryOptions): (delivery: Delivery) => Promise<void> {
  const { appId, openGitHub, log } = options;

  return async (delivery) => {
    const news = readAccessEvent(delivery);
    if (news) return handleAccessEvent(options, news, delivery.id);

    const hearing = readThreadEvent(delivery, appId);
    if (hearing.kind === "ignored") {
      log.info(`Delivery ${delivery.id} is ignored: ${hearing.because}.`);
      return;
    }

    const { thread, place } = hearing;
    if (!isListed(options, thread)) {
      log.info(
        `Delivery ${delivery.id} is ignored: ${thread.owner}/${thread.repo} is not on the list of repositories.`,
      );
      return;
    }
    if (place) await options.runs().reportLocation(place);
    if (hearing.kind === "over") await stopRuns(options.runs(), hearing);
    else await handleComment(options, openGitHub(thread), hearing.utterance);
  };
}

function isListed({ repositories }: HandleDeliveryOptions, { owner, repo }: { owner: string; repo: string }): boolean {
  return !repositories || isListedRepository(repositories, owner, repo);
}

async function handleAccessEvent(options: HandleDeliveryOptions, news: AccessEvent, deliveryId: string): Promise<void> {
  const runs = options.runs();
  switch (news.kind) {
    case "placed": {
      const { installationId, repositoryId, owner, repo } = news.place;
      await runs.reportLocation(news.place);
      if (isListed(options, news.place)) return;
      const reason = `The repository is now called ${owner}/${repo}, which is not on the list of repositories that this app serves.`;
      return runs.stopUnreachable({ installationId, repositoryIds: [repositoryId] }, { reason, deliveryId });
    }
    case "left":
      return runs.stopUnreachable(news.where, { reason: news.reason, deliveryId });
    case "returned":
      return runs.refreshReachable(news.where, news.places);
  }
}

/** Work for a thread that is closed stops, and ends when the thread is gone; nothing running there is no news. */
async function stopRuns(runs: Runs, { thread, by, key: deliveryId, forGood }: ThreadClosed): Promise<void> {
  try {
    // Nobody could say /resume any more where a thread is gone.
    await (forGood ? runs.requestCancel(thread, { by, deliveryId }) : runs.requestStop(thread, { by, deliveryId }));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
  }
}

async function handleComment(
  options: HandleDeliveryOptions,
  github: GitHub,
  utterance: IncomingComment,
): Promise<void> {
  const command = parseThreadCommand(utterance.text);
  // An issue's own text can start a worker and nothing else.
  if (utterance.commentId === undefined && command.kind !== "run") return;
  if (command.kind === "text") return steer(options, github, utterance, command.text);
  if (command.kind === "direct") return callTool(options, github, utterance, command);

  const { login, thread } = { login: utterance.by, thread: utterance.thread.thread };
  const standing = await options.authorize(github, { login, thread });
  if (standing !== "allowed") {
    if (command.kind === "unknown" || command.kind === "malformed") return;
    return refuse(options, github, utterance, standing);
  }

  const seen =
    command.kind === "unknown" || command.kind === "malformed" ? undefined : react(options, github, utterance, "eyes");
  try {
    const { redact } = options;
    const answer = await executeCommand(command, { github, runs: options.runs(), utterance, redact });
    if (answer) await reply(options, github, utterance, answer);
    // A delivery that dies before its sign of having heard is sent again, and makes it then.
    await Promise.race([seen, wait(maxReactionMs, undefined, { ref: false })]);
  } catch (error) {
    if (error instanceof UserError) return reply(options, github, utterance, error.message);
    apologize(options, github, utterance);
    throw error;
  }
}

/** A plain comment reaches the workers of its thread, if there are any and its author commands here. */
async function steer(
  options: HandleDeliveryOptions,
  github: GitHub,
  utterance: IncomingComment,
  text: string,
): Promise<void> {
  const { thread, by, key: deliveryId } = utterance;
  const runs = options.runs();
  // GitHub is asked about the author only where somebody listens: most comments are none of our business.
  const isHeard = text !== "" && (await runs.threadActivity(thread)) === "live";
  if (!isHeard || !canWrite(await github.getPermission(by))) return;

  try {
    if (await runs.deliverMessage(thread, { by, text, deliveryId })) void react(options, github, utterance, "eyes");
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    await reply(options, github, utterance, error.message);
  }
}

/** A word that may be a tool's name is heard where there are runs, from people who command here, and is nobody's otherwise. */
async function callTool(
  options: HandleDeliveryOptions,
  github: GitHub,
  utterance: IncomingComment,
  { line, mayBeForeign }: Extract<ThreadCommand, { kind: "direct" }>,
): Promise<void> {
  const { thread, by, key: deliveryId } = utterance;
  const runs = options.runs();
  if ((await runs.threadActivity(thread)) === "none" || !canWrite(await github.getPermission(by))) return;

  try {
    await runs.runToolCommand(thread, { by, deliveryId, line, mayBeForeign });
    if (!mayBeForeign) void react(options, github, utterance, "eyes");
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    await reply(options, github, utterance, error.message);
  }
}

async function refuse(
  options: HandleDeliveryOptions,
  github: GitHub,
  utterance: IncomingComment,
  standing: "told" | "reminded",
): Promise<void> {
  if (standing === "reminded") return void react(options, github, utterance, "confused");
  const { owner, repo } = utterance.thread;
  const words = `${utterance.by}, commanding a worker takes write access to ${owner}/${repo}, and GitHub does not say that you have it. Nothing was started or changed.`;
  await reply(options, github, utterance, words);
}

/** One comment for what was said, however often it is delivered. */
async function reply(
  { sanitize }: HandleDeliveryOptions,
  github: GitHub,
  utterance: IncomingComment,
  words: string,
): Promise<void> {
  const { thread, key } = utterance;
  try {
    await postComment(github, { thread: thread.thread, name: `reply/${key}`, body: sanitize(words) });
  } catch (error) {
    // A locked thread may take a reaction where it takes no comment.
    if ((error as { status?: number }).status !== 403 || !utterance.locked) throw error;
    await sendReaction(github, utterance, "confused");
  }
}

/** The details are in the log, under the delivery's id. */
function apologize(options: HandleDeliveryOptions, github: GitHub, utterance: IncomingComment): void {
  const reference = utterance.deliveryId;
  const words = `Something failed on our side, and what you wrote may not have been done. Look at \`/status\`, then try again in a new comment. If it keeps failing, the operator finds the details in the log under \`${reference}\`.`;
  options.inBackground(reply(options, github, utterance, words).catch(() => {}));
}

/** A sign of having heard: it comes when it comes, and its failure changes nothing. */
function react(
  options: HandleDeliveryOptions,
  github: GitHub,
  utterance: IncomingComment,
  reaction: "eyes" | "confused",
): Promise<void> {
  const reacting = sendReaction(github, utterance, reaction).catch((error) => {
    options.log.info(`No reaction to delivery ${utterance.deliveryId}: ${(error as Error).message}`);
  });
  options.inBackground(reacting);
  return reacting;
}

async function sendReaction(
  github: GitHub,
  { commentId, thread }: IncomingComment,
  reaction: "eyes" | "confused",
): Promise<void> {
  if (commentId === undefined) await github.addIssueReaction(thread.thread, reaction);
  else await github.addReaction(commentId, reaction);
}
