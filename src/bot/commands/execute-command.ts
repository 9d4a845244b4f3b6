import type { IncomingComment } from "#bot/deliveries/incoming-comment.ts";
import { areUnchanged, isUnedited } from "#bot/github/posted-comment.ts";
import { code, paragraphs } from "#bot/render/markdown.ts";
import { renderBeforeApproval } from "#bot/render/render-approval.ts";
import {
  renderCosts,
  renderHelp,
  renderLogReply,
  renderModels,
  renderPaused,
  renderStatusReply,
  renderWorkers,
} from "#bot/render/render-reply.ts";
import { type CommentLinks, formatCost, renderPending } from "#bot/render/render-status.ts";
import type { Approval } from "#domain/approval.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";
import { redactDeep } from "#text/redact.ts";
import { noWorkerRunning, parseToolCommand, type RunCommandOf } from "#ui/run-commands.ts";
import type { CommandOf } from "./thread-command.ts";

/** A command that someone with write access gave. */
export type AuthorizedCommand = CommandOf<RunCommandOf<"thread"> | "mention">;

/** Executes one kind of command. Resolves to the reply, or to undefined when what follows in the thread is the answer. */
type Execute<Kind extends AuthorizedCommand["kind"]> = (
  command: CommandOf<Kind>,
  context: ThreadCommandContext,
) => Promise<string | undefined>;

const handlers: { [Kind in AuthorizedCommand["kind"]]: Execute<Kind> } = {
  run: async ({ worker, text }, context) =>
    worker === undefined
      ? renderWorkers(await context.runs.listWorkers(context.thread))
      : runWorker({ worker, text }, context),
  mention,
  approve,
  deny,
  revoke,
  stop: async (_, { runs, thread, person }) => describeClosed(await runs.requestStop(thread, person), staysPaused),
  resume: async ({ text }, { runs, comment, thread, person }) => {
    assertThreadOpen(comment);
    return withoutReply(runs.requestResume(thread, { ...person, ...(text && { text }) }));
  },
  cancel: async (_, { runs, thread, person }) => {
    const { closed, unreadable } = await runs.requestCancel(thread, person);
    const delayed = unreadable.map((problem) => `${problem} The run ends as soon as it can be read.`);
    const ended = describeClosed(closed, staysEnded);
    return paragraphs(...delayed, ended) || undefined;
  },
  retry: (_, { runs, comment, thread, person }) => {
    assertThreadOpen(comment);
    return withoutReply(runs.requestRetry(thread, { ...person, origin: originOf(comment), seen: comment.seen }));
  },
  clear: async (_, { runs, thread, person }) => {
    await runs.clearConversation(thread, person);
    return "The conversation was cleared. The files are unchanged. Comment to tell the worker what to do next.";
  },
  model: async ({ model }, { runs, thread, person }) => {
    if (model === undefined) return renderModels(await runs.listModels(thread));
    await runs.changeModel(thread, { ...person, model });
    return `The next model calls use ${code(model)}.`;
  },
  exit: async (_, { runs, thread, person }) => describeClosed(await runs.requestExit(thread, person), staysEnded),
  status: async (_, { runs, thread, linksTo }) => {
    const views = await runs.listRunViews(thread);
    return renderStatusReply(views, await runs.pendingApprovals(thread), await Promise.all(views.map(linksTo)));
  },
  diff: (_, { runs, thread, person }) => withoutReply(runs.showChanges(thread, person)),
  log: async (_, { runs, thread, redact, linksTo }) => {
    const [newest] = await runs.listRunViews(thread);
    if (!newest) throw new UserError(noWorkerRunning);
    return renderLogReply(redactDeep(newest, redact), await linksTo(newest));
  },
  cost: async (_, { runs, thread }) => renderCosts(await runs.listRunViews(thread)),
  ready,
  update,
  undo: callTool,
  tool: callTool,
  tools: callTool,
  help: async (_, { runs, thread }) => renderHelp(await runs.listWorkers(thread)),
};

/** Executes an authorized command. Resolves to the reply, if it needs one; a UserError is a reply, too. */
export function executeCommand(
  command: AuthorizedCommand,
  context: Omit<ThreadCommandContext, "thread" | "person">,
): Promise<string | undefined> {
  const { thread, by, byId, key: deliveryId } = context.comment;
  // The table pairs each kind with its own handler, which TypeScript cannot follow through an index.
  const execute = handlers[command.kind] as Execute<AuthorizedCommand["kind"]>;
  return execute(command, { ...context, thread, person: { by, byId, deliveryId } });
}

async function withoutReply(work: Promise<unknown>): Promise<undefined> {
  await work;
}

/** Says what a command means for runs that have ended with their pull requests. The status of the others shows it. */
function describeClosed(closed: readonly number[], effect: string): string | undefined {
  const describe = (number: number) =>
    `The worker of #${number} has ended, because the pull request was closed. If it is reopened, the worker ${effect}.`;
  return paragraphs(...closed.map(describe)) || undefined;
}

const staysPaused = "is paused until someone comments `/resume`";
const staysEnded = "does not continue";

/** Passes the text to the thread's live run, or starts the default worker with it. */
async function mention({ text }: CommandOf<"mention">, context: ThreadCommandContext): Promise<string | undefined> {
  const { runs, thread, person, comment } = context;
  const { commentId, viaApp, closed } = comment;
  const message = { ...person, text, commentId, mayAnswer: viaApp === undefined };
  const isLive = (await runs.threadActivity(thread, { isOpen: !closed })) === "live";
  if (isLive && text === "") return undefined;
  const runId = isLive ? await runs.deliverMessage(thread, message) : undefined;
  if (runId === undefined) return startWorker({ text }, context);
  const paused = await runs.findPaused(runId);
  return paused && renderPaused(paused.worker, "your comment");
}

/** Passes the task to a run of the worker that has a pull request here, or starts the worker. */
async function runWorker(task: { worker: string; text: string }, context: ThreadCommandContext): Promise<undefined> {
  const { runs, thread, person, comment } = context;
  assertThreadOpen(comment);
  if (!(await runs.continueRun(thread, { ...person, ...task }))) await startWorker(task, context);
}

async function startWorker(
  task: { worker?: string; text: string },
  { runs, comment, person: { deliveryId } }: ThreadCommandContext,
): Promise<undefined> {
  assertThreadOpen(comment);
  await runs.startRun({ ...task, origin: originOf(comment), seen: comment.seen, deliveryId });
}

function originOf({ thread, isPullRequest, by, byId, commentId }: IncomingComment) {
  const requester = { requestedBy: by, requestedById: byId };
  return { ...thread, isPullRequest, ...requester, ...(commentId === undefined ? {} : { commentId }) };
}

function assertThreadOpen({ closed, locked, isPullRequest }: IncomingComment): void {
  if (!closed && !locked) return;
  const what = isPullRequest ? "pull request" : "issue";
  const [state, remedy] = closed ? ["closed", "Reopen"] : ["locked", "Unlock"];
  throw new UserError(`This ${what} is ${state}, so no worker starts here. ${remedy} it and comment again.`);
}

/** Marks the draft of the newest run as ready, or the pull request in whose thread the command was given. */
async function ready(
  _: CommandOf<"ready">,
  { github, runs, thread, comment: { isPullRequest }, person: { deliveryId } }: ThreadCommandContext,
): Promise<string> {
  const opened = (await runs.listRunViews(thread)).find(({ pullRequest }) => pullRequest !== undefined)?.pullRequest;
  const number = opened ?? (isPullRequest ? thread.thread : undefined);
  if (number === undefined) throw new UserError("No worker has opened a pull request in this thread yet.");

  // When only the reply was lost, somebody may have made it a draft again since.
  const done = `ready ${deliveryId}`;
  if (!(await runs.hasRecorded(done))) {
    const pull = await github.getPullRequest(number);
    if (!pull || pull.state === "closed") throw new UserError(`Pull request #${number} is not open.`);
    if (pull.draft) await github.markReadyForReview(number);
    await runs.recordKey(done);
  }
  return `#${number} is ready for review.`;
}

/** Asks the run of the pull request to merge the base branch. The push is approved like any other. */
async function update(
  _: CommandOf<"update">,
  { github, runs, thread, person: { by, deliveryId } }: ThreadCommandContext,
): Promise<undefined> {
  // It may have ended the run, so that a second attempt would be refused.
  if (await runs.hasRecorded(deliveryId)) return;
  const live = (await runs.listRunViews(thread)).find(
    ({ pullRequest, outcome }) => pullRequest !== undefined && !outcome,
  );
  const pull = live?.pullRequest === undefined ? undefined : await github.getPullRequest(live.pullRequest);
  if (!pull) throw new UserError("No running worker of this thread has opened a pull request.");
  const request = { base: pull.base.branch, reason: `@${by} asked for this.`, replyThread: thread.thread, deliveryId };
  await runs.requestBaseMerge({ ...thread, thread: pull.number }, request);
}

function callTool(
  { line }: CommandOf<"tool" | "tools" | "undo">,
  { runs, comment: { commentId }, thread, person }: ThreadCommandContext,
): Promise<undefined> {
  return withoutReply(runs.runToolCommand(thread, { ...person, commentId, command: parseToolCommand(line) }));
}

/** Approves a request, or raises the cost limit of the run that has used it up. */
async function approve(
  { target, remember, changedArgs, budget }: CommandOf<"approve">,
  context: ThreadCommandContext,
): Promise<string | undefined> {
  const { runs, thread, person, comment } = context;
  if (budget !== undefined) {
    const limit = await runs.raiseCostLimit(thread, { ...person, amount: budget, ...(target && { runId: target }) });
    return limit === undefined
      ? "The cost limit was raised."
      : `The cost limit is now ${formatCost(limit)}. The run continues.`;
  }
  await assertShownAsPosted(target, context);
  const options = {
    remember,
    commentId: comment.commentId,
    ...(changedArgs && { changedArgs }),
  };
  return decide(context, { target, approve: true, ...options });
}

async function deny({ target, reason }: CommandOf<"deny">, context: ThreadCommandContext): Promise<undefined> {
  const [, first = "", rest = ""] = /(\S+)\s*([\s\S]*)/.exec(reason) ?? [];
  const id = first.toLowerCase().replace(/^#/, "");
  const pending = await context.runs.pendingApprovals(context.thread);
  const isId = target === undefined && pending.some((approval) => approval.id === id);
  const note = withoutBecause(isId ? rest : reason);
  return decide(context, { target: isId ? id : target, approve: false, ...(note && { note }) });
}

async function revoke(
  { target, reason }: CommandOf<"revoke">,
  { runs, thread, person }: ThreadCommandContext,
): Promise<undefined> {
  const note = withoutBecause(reason);
  await runs.revokeApproval(thread, { ...person, target, ...(note && { note }) });
}

/** The requests suggest "because …", which the worker's prompt says itself. */
function withoutBecause(reason: string): string {
  return reason.replace(/^because[\s,:]+/i, "");
}

/** Refuses to approve a request of which a comment was edited or deleted. It is then posted again. */
async function assertShownAsPosted(target: string | undefined, context: ThreadCommandContext): Promise<void> {
  const { runs, thread, person } = context;
  const isMeant = ({ id }: Approval) => target === undefined || target === "all" || target.toLowerCase() === id;
  for (const approval of (await runs.pendingApprovals(thread)).filter(isMeant)) {
    const problem = await findAlteration(approval, context);
    if (problem === undefined) continue;
    const { id } = approval;
    await runs.repostRequest(thread, { approvalId: id, deliveryId: `${person.deliveryId} ${id}`, isAltered: true });
    throw new UserError(`${problem}, so nothing was approved. The request is posted again: read it, then answer.`);
  }
}

/** Returns why the comments of a request may not show what was posted. */
async function findAlteration(approval: Approval, { runs, github }: ThreadCommandContext): Promise<string | undefined> {
  const { id, revision = 0 } = approval;
  const post = await runs.findRequest(id);
  // A request that is not posted yet cannot be approved anyway.
  if (!post) return undefined;
  const { commentId, shown } = post;
  if (shown?.comments.at(-1)?.id !== commentId) {
    const isWhole = renderBeforeApproval(approval).length === 0;
    if (isWhole && (await isUnedited(github, commentId))) return undefined;
    return `An earlier version of this app posted the request ${id}, and did not store what it showed`;
  }
  if (await areUnchanged(github, shown.comments)) return undefined;
  if (shown.revision !== revision) throw new OutageError(`The decision is being added to the request ${id}.`);
  return `The comment with the request ${id} was edited or deleted after it was posted`;
}

/** Answers a decision that matches several requests with the list of those pending. */
async function decide(
  { runs, thread, person }: ThreadCommandContext,
  decision: Omit<Parameters<Runs["decideApprovals"]>[1], keyof ThreadCommandContext["person"]>,
): Promise<undefined> {
  try {
    await runs.decideApprovals(thread, { ...person, ...decision });
  } catch (error) {
    if (!(error instanceof UserError) || decision.target === "all") throw error;
    const pending = renderPending(await runs.pendingApprovals(thread));
    throw new UserError(paragraphs(error.message, pending), { cause: error });
  }
}

/** The services of the handlers of commands in threads. */
interface ThreadCommandContext {
  github: GitHub;
  runs: Runs;
  comment: IncomingComment;
  thread: ThreadRef;
  /** The author of the command, with its idempotency key. */
  person: { by: string; byId: number | undefined; deliveryId: string };
  redact: (text: string) => string;
  linksTo: (view: RunView) => Promise<CommentLinks>;
}
