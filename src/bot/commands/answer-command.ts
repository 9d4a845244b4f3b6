import type { IncomingComment } from "#bot/deliveries/read-comment.ts";
import { hasMarker } from "#bot/github/post-comment.ts";
import { code, paragraphs } from "#bot/render/markdown.ts";
import { renderBeforeApproval } from "#bot/render/render-approval.ts";
import { renderHelp, renderStatusReply, renderWorkers } from "#bot/render/render-reply.ts";
import { renderPending } from "#bot/render/render-status.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import type { Runs } from "#runtime/runs.ts";
import { closestMatch } from "#text/closest-match.ts";
import { redactDeep } from "#text/redact-all.ts";
import type { ThreadCommand } from "./thread-command.ts";

type CommandOf<Kind extends ThreadCommand["kind"]> = Extract<ThreadCommand, { kind: Kind }>;

export interface CommandContext {
  github: GitHub;
  runs: Runs;
  utterance: IncomingComment;
  redact: (text: string) => string;
}

/**
 * Does what an authorised command says. Resolves to the words to answer with, or to undefined when what follows in the
 * thread is the answer; throws a UserError with words for the person.
 */
export async function executeCommand(command: ThreadCommand, hearer: CommandContext): Promise<string | undefined> {
  const { runs, utterance } = hearer;
  const { thread, by, key: deliveryId } = utterance;
  switch (command.kind) {
    case "run":
      return run(command, hearer);
    case "approve":
      return approve(command, hearer);
    case "deny":
      return deny(command, hearer);
    case "resume":
      assertThreadOpen(utterance);
      await runs.requestResume(thread, { by, deliveryId, ...(command.text ? { text: command.text } : {}) });
      return undefined;
    case "stop":
      await runs.requestStop(thread, { by, deliveryId });
      return undefined;
    case "cancel":
      await runs.requestCancel(thread, { by, deliveryId });
      return undefined;
    case "status":
      return renderStatusReply(await runs.status(thread), await runs.pendingApprovals(thread));
    case "help":
      return renderHelp(await runs.listWorkers(thread));
    case "malformed":
      return command.message;
    case "unknown":
      return `There is no \`/${command.word}\`. Did you mean \`/${command.meant}\`? \`/help\` lists the commands. Write it in a new comment: edited ones do not count.`;
    case "tool":
      await runs.runToolCommand(thread, { by, deliveryId, line: command.line });
      return undefined;
    case "direct":
    case "text":
      return undefined;
  }
}

async function run(
  { worker, text }: CommandOf<"run">,
  { github, runs, utterance }: CommandContext,
): Promise<undefined> {
  assertThreadOpen(utterance);
  if (utterance.isPullRequest) await assertNotFork(github, utterance.thread.thread);

  const { thread, isPullRequest, by, commentId, seen, key: deliveryId } = utterance;
  const origin = { ...thread, isPullRequest, requestedBy: by, ...(commentId === undefined ? {} : { commentId }) };
  try {
    await runs.startRun({ origin, worker, text, seen, deliveryId });
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw await unknownWorker(error, worker, await runs.listWorkers(thread));
  }
}

/** A name that no worker has is answered with those there are. */
async function unknownWorker(error: UserError, name: string, workers: Awaited<ReturnType<Runs["listWorkers"]>>) {
  const names = workers.map((worker) => worker.name);
  if (names.some((known) => known.toLowerCase() === name.toLowerCase())) return error;

  const meant = closestMatch(name, names);
  const unknown = `There is no worker ${code(name)}.${meant ? ` Did you mean ${code(`/run ${meant}`)}?` : ""}`;
  return new UserError(paragraphs(unknown, renderWorkers(workers)), { cause: error });
}

function assertThreadOpen({ closed, locked, isPullRequest }: IncomingComment): void {
  if (!closed && !locked) return;
  const what = isPullRequest ? "pull request" : "issue";
  throw new UserError(
    closed
      ? `This ${what} is closed, so no worker starts here. Reopen it and comment again.`
      : `This ${what} is locked, so no worker starts here. Unlock it and comment again.`,
  );
}

async function assertNotFork(github: GitHub, number: number): Promise<void> {
  const pull = await github.getPullRequest(number);
  if (!pull?.head.fromFork) return;
  throw new UserError(
    "This pull request comes from a fork, and workers do not work on forks: whoever owns it could put words into their files. Push the branch to this repository, or comment on an issue.",
  );
}

async function approve(command: CommandOf<"approve">, hearer: CommandContext): Promise<undefined> {
  const { target, remember, changedArgs, note } = command;
  const { runs, utterance } = hearer;
  await assertFullyShown(target, hearer);
  const { by, key: deliveryId, thread } = utterance;
  await decide(runs, thread, {
    by,
    deliveryId,
    target,
    approve: true,
    remember,
    ...(note ? { note } : {}),
    ...(changedArgs ? { changedArgs } : {}),
  });
}

/** Refuses to approve a request of several comments while one of them does not stand: nobody approves what is not shown. */
async function assertFullyShown(
  target: string | undefined,
  { runs, github, utterance, redact }: CommandContext,
): Promise<void> {
  const { thread } = utterance;
  const isMeant = ({ id }: Approval) => target === undefined || target === "all" || target.toLowerCase() === id;
  const asked = (await runs.pendingApprovals(thread)).filter(isMeant);
  const long = asked.flatMap((approval) => {
    const parts = renderBeforeApproval(redactDeep(approval, redact)).length;
    return parts === 0 ? [] : [{ approval, parts }];
  });
  if (long.length === 0) return;

  const own = (await github.listComments(thread.thread)).filter((comment) => comment.own);
  for (const { approval, parts } of long) {
    const names = [...Array(parts).keys()].map((index) => `approval/${approval.id}/${index + 1}`);
    const isMissing = (name: string) => !own.some(({ body }) => hasMarker(body, name));
    if (![...names, `approval/${approval.id}`].some(isMissing)) continue;
    throw new UserError(
      `${approval.id} is too long for one comment, and not all ${parts + 1} of its comments stand here, so it cannot be approved. If they are still being posted, comment again when they stand. If one was deleted, deny it: the worker can ask anew.`,
    );
  }
}

async function deny({ target, reason }: CommandOf<"deny">, { runs, utterance }: CommandContext): Promise<undefined> {
  const { by, key: deliveryId, thread } = utterance;
  const [, first = "", rest = ""] = /^(\S+)\s*([\s\S]*)$/.exec(reason) ?? [];
  const id = first.toLowerCase().replace(/^#/, "");
  const named = target === undefined && (await runs.pendingApprovals(thread)).some((approval) => approval.id === id);
  // Our own hint begins the reason so; told to the worker as one, it would read twice.
  const note = (named ? rest : reason).replace(/^because[\s,:]+/i, "");
  await decide(runs, thread, {
    by,
    deliveryId,
    target: named ? id : target,
    approve: false,
    ...(note ? { note } : {}),
  });
}

/** An answer that fits several requests decides none, and is answered with what there is to decide. */
async function decide(
  runs: Runs,
  thread: IncomingComment["thread"],
  decision: Parameters<Runs["decideApprovals"]>[1],
): Promise<undefined> {
  try {
    await runs.decideApprovals(thread, decision);
  } catch (error) {
    if (!(error instanceof UserError) || decision.target === "all") throw error;
    const pending = renderPending(await runs.pendingApprovals(thread));
    throw new UserError(paragraphs(error.message, pending), { cause: error });
  }
}
