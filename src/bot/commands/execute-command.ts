import type { IncomingComment } from "#bot/deliveries/incoming-comment.ts";
import { code, paragraphs } from "#bot/render/markdown.ts";
import { renderBeforeApproval } from "#bot/render/render-approval.ts";
import {
  renderCosts,
  renderHelp,
  renderLogReply,
  renderModels,
  renderStatusReply,
  renderWorkers,
} from "#bot/render/render-reply.ts";
import { type CommentLinks, formatCost, renderPending } from "#bot/render/render-status.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import { phaseOf } from "#domain/run-phase.ts";
import { updateTask } from "#runtime/base-updates.ts";
import type { Runs } from "#runtime/runs.ts";
import { closestMatch } from "#text/closest-match.ts";
import { hasMarker } from "#text/comment-marker.ts";
import { redactDeep } from "#text/redact.ts";
import { parseToolCommand, type RunCommandOf } from "#ui/run-commands.ts";
import type { ThreadCommand } from "./thread-command.ts";

type CommandOf<Kind extends ThreadCommand["kind"]> = Extract<ThreadCommand, { kind: Kind }>;

/** A command that someone with write access gave. */
export type AuthorizedCommand = CommandOf<RunCommandOf<"thread"> | "mention">;

export interface ThreadCommandContext {
  github: GitHub;
  runs: Runs;
  comment: IncomingComment;
  redact: (text: string) => string;
  linksTo: (view: RunView) => Promise<CommentLinks>;
}

/** Carries out one kind of command. Resolves to the reply, or to undefined when what follows in the thread is the answer. */
type Execute<Kind extends AuthorizedCommand["kind"]> = (
  command: CommandOf<Kind>,
  context: ThreadCommandContext,
) => Promise<string | undefined>;

const handlers: { [Kind in AuthorizedCommand["kind"]]: Execute<Kind> } = {
  run,
  mention,
  approve,
  deny,
  revoke: async ({ target, reason }, { runs, comment }) => {
    const note = withoutBecause(reason);
    await runs.revokeApproval(comment.thread, { ...authorOf(comment), target, ...(note ? { note } : {}) });
    return undefined;
  },
  stop: async (_, { runs, comment }) => {
    await runs.requestStop(comment.thread, authorOf(comment));
    return undefined;
  },
  resume: async ({ text }, { runs, comment }) => {
    assertThreadOpen(comment);
    await runs.requestResume(comment.thread, { ...authorOf(comment), ...(text ? { text } : {}) });
    return undefined;
  },
  cancel: async (_, { runs, comment }) => {
    await runs.requestCancel(comment.thread, authorOf(comment));
    return undefined;
  },
  retry,
  clear: async (_, { runs, comment }) => {
    await runs.clearConversation(comment.thread, authorOf(comment));
    return "The conversation is cleared; the files stay as they are. Comment to tell the worker what to do next.";
  },
  model: async ({ model }, { runs, comment: { thread, by, key: deliveryId } }) => {
    if (model === undefined) return renderModels(await runs.listModels(thread));
    await runs.changeModel(thread, { by, deliveryId, model });
    return `The next calls use ${code(model)}.`;
  },
  exit: async (_, { runs, comment }) => {
    await runs.requestExit(comment.thread, authorOf(comment));
    return undefined;
  },
  status: async (_, { runs, comment: { thread }, linksTo }) => {
    const views = await runs.status(thread);
    const links = await Promise.all(views.map(linksTo));
    return renderStatusReply(views, await runs.pendingApprovals(thread), links);
  },
  diff: async (_, { runs, comment }) => {
    await runs.showChanges(comment.thread, authorOf(comment));
    return undefined;
  },
  log: async (_, context) => {
    const view = await newestRun(context);
    return renderLogReply(redactDeep(view, context.redact), await context.linksTo(view));
  },
  cost: async (_, { runs, comment: { thread } }) => renderCosts(await runs.status(thread)),
  ready,
  update,
  undo: invokeTool,
  tool: invokeTool,
  tools: invokeTool,
  help: async (_, { runs, comment: { thread } }) => renderHelp(await runs.listWorkers(thread)),
};

/**
 * Carries out an authorized command. Resolves to the reply, or to undefined when what follows in the thread is the
 * answer; throws a UserError whose message is the reply.
 */
export function executeCommand(command: AuthorizedCommand, context: ThreadCommandContext): Promise<string | undefined> {
  // The table pairs each kind with its own handler, which TypeScript cannot follow through an index.
  const execute = handlers[command.kind] as Execute<AuthorizedCommand["kind"]>;
  return execute(command, context);
}

async function invokeTool(
  { line }: CommandOf<"tool" | "tools" | "undo">,
  { runs, comment }: ThreadCommandContext,
): Promise<undefined> {
  await runs.runToolCommand(comment.thread, { ...authorOf(comment), command: parseToolCommand(line) });
}

async function run({ worker, text }: CommandOf<"run">, context: ThreadCommandContext): Promise<string | undefined> {
  if (worker === undefined) return renderWorkers(await context.runs.listWorkers(context.comment.thread));
  try {
    return await startWorker({ worker, text }, context);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw await withKnownWorkers(error, worker, await context.runs.listWorkers(context.comment.thread));
  }
}

/** Tries again whatever the newest run could not do: its model call, or all of it. */
async function retry(_: CommandOf<"retry">, context: ThreadCommandContext): Promise<string | undefined> {
  const { runs, comment } = context;
  const { thread, by, key: deliveryId, commentId } = comment;
  const views = await runs.status(thread);
  // A delivery that is processed again finds the run that it started.
  const view = views.find(({ spec }) => commentId === undefined || spec.origin.commentId !== commentId);
  if (!view) throw new UserError("No worker was started in this thread yet. Start one with /run.");

  const { worker, task = "" } = view.spec;
  switch (phaseOf(view)) {
    case "answered":
    case "failed":
    case "limited":
    case "cancelled":
      return startWorker({ worker: worker.name, text: task }, context);
    case "retrying":
      await runs.retryModelCall(thread, { by, deliveryId });
      return undefined;
    case "stopped":
      throw new UserError(`${worker.name} is stopped. Continue with /resume.`);
    case "starting":
    case "working":
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingChild":
    case "awaitingBudget":
    case "awaitingReview":
    case "awaitingMessage":
      throw new UserError(
        `${worker.name} has not failed, so there is nothing to try again. /status shows what it does.`,
      );
  }
}

/** Marks the draft of the newest run as ready, or the pull request in whose thread the command was given. */
async function ready(_: CommandOf<"ready">, { github, runs, comment }: ThreadCommandContext): Promise<string> {
  const { thread, isPullRequest } = comment;
  const opened = (await runs.status(thread)).find(({ pullRequest }) => pullRequest !== undefined)?.pullRequest;
  const number = opened ?? (isPullRequest ? thread.thread : undefined);
  if (number === undefined) throw new UserError("No worker has opened a pull request in this thread yet.");

  const pull = await github.getPullRequest(number);
  if (!pull || pull.state === "closed") throw new UserError(`Pull request #${number} is not open.`);
  if (pull.draft) await github.markReadyForReview(number);
  return `#${number} is ready for review.`;
}

/** Asks the run of the pull request to merge the base branch. The push is approved like any other. */
async function update(_: CommandOf<"update">, { github, runs, comment }: ThreadCommandContext): Promise<undefined> {
  const { thread } = comment;
  const live = (await runs.status(thread)).find(({ pullRequest, outcome }) => pullRequest !== undefined && !outcome);
  const pull = live?.pullRequest === undefined ? undefined : await github.getPullRequest(live.pullRequest);
  if (!live || !pull) throw new UserError("No worker that is live here has opened a pull request.");
  const text = updateTask(pull.base.branch, live.spec);
  await runs.deliverMessage(thread, { ...authorOf(comment), text, mayAnswer: false });
}

async function newestRun({ runs, comment: { thread } }: ThreadCommandContext): Promise<RunView> {
  const [view] = await runs.status(thread);
  if (view) return view;
  throw new UserError("No worker was started in this thread yet. Start one with /run.");
}

/** Passes the text to the thread's live run, or starts the default worker with it. */
async function mention({ text }: CommandOf<"mention">, context: ThreadCommandContext): Promise<undefined> {
  const { runs, comment } = context;
  const { thread, viaApp } = comment;
  if ((await runs.threadActivity(thread)) !== "live") return startWorker({ text }, context);
  if (text) await runs.deliverMessage(thread, { ...authorOf(comment), text, mayAnswer: viaApp === undefined });
}

async function startWorker(
  { worker, text }: { worker?: string; text: string },
  { runs, comment }: ThreadCommandContext,
): Promise<undefined> {
  assertThreadOpen(comment);

  const { thread, isPullRequest, by, byId, commentId, seen, key: deliveryId } = comment;
  const author = { requestedBy: by, requestedById: byId };
  const origin = { ...thread, isPullRequest, ...author, ...(commentId === undefined ? {} : { commentId }) };
  await runs.startRun({ origin, ...(worker === undefined ? {} : { worker }), text, seen, deliveryId });
}

/** Answers an unknown worker name with the nearest one and the list of workers. */
async function withKnownWorkers(error: UserError, name: string, workers: Awaited<ReturnType<Runs["listWorkers"]>>) {
  const names = workers.map((worker) => worker.name);
  if (names.some((known) => known.toLowerCase() === name.toLowerCase())) return error;

  const suggestion = closestMatch(name, names);
  const unknown = `There is no worker ${code(name)}.${suggestion ? ` Did you mean ${code(`/run ${suggestion}`)}?` : ""}`;
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

async function approve(command: CommandOf<"approve">, context: ThreadCommandContext): Promise<string | undefined> {
  const { target, remember, changedArgs, note, budget } = command;
  const { runs, comment } = context;
  if (budget !== undefined) return raiseBudget(budget, context);
  await assertFullyShown(target, context);
  return decide(runs, comment.thread, {
    ...authorOf(comment),
    target,
    approve: true,
    commentId: comment.commentId,
    remember,
    ...(note ? { note } : {}),
    ...(changedArgs ? { changedArgs } : {}),
  });
}

async function raiseBudget(amount: number, { runs, comment }: ThreadCommandContext): Promise<string> {
  const { thread } = comment;
  const limit = await runs.raiseCostLimit(thread, { ...authorOf(comment), amount });
  return limit === undefined
    ? "The cost limit was raised."
    : `The cost limit is now ${formatCost(limit)}. The run continues.`;
}

/** Refuses to approve a request that spans several comments while one of them is missing. */
async function assertFullyShown(target: string | undefined, context: ThreadCommandContext): Promise<void> {
  const { runs, github, redact } = context;
  const { thread } = context.comment;
  const isMeant = ({ id }: Approval) => target === undefined || target === "all" || target.toLowerCase() === id;
  const pending = (await runs.pendingApprovals(thread)).filter(isMeant);
  const long = pending.flatMap((approval) => {
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
      `${approval.id} spans ${parts + 1} comments, and not all of them are in this thread, so it cannot be approved. If they are still being posted, comment again once they are here. If one was deleted, deny the request: the worker can ask again.`,
    );
  }
}

async function deny(
  { target, reason }: CommandOf<"deny">,
  { runs, comment }: ThreadCommandContext,
): Promise<undefined> {
  const { thread } = comment;
  const [, first = "", rest = ""] = /^(\S+)\s*([\s\S]*)$/.exec(reason) ?? [];
  const id = first.toLowerCase().replace(/^#/, "");
  const isId = target === undefined && (await runs.pendingApprovals(thread)).some((approval) => approval.id === id);
  // The request suggests "/deny <id> because …", and the worker's prompt says "because" itself.
  const note = withoutBecause(isId ? rest : reason);
  await decide(runs, thread, {
    ...authorOf(comment),
    target: isId ? id : target,
    approve: false,
    ...(note ? { note } : {}),
  });
}

/** The author of a command, with its idempotency key. */
function authorOf({ by, byId, key: deliveryId }: IncomingComment) {
  return { by, byId, deliveryId };
}

/** The requests suggest "because …". */
function withoutBecause(reason: string): string {
  return reason.replace(/^because[\s,:]+/i, "");
}

/** Answers a decision that matches several requests with the list of those pending. */
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
