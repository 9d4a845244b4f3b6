import { findApproverProblem } from "#config/repository-settings.ts";
import { type Approval, approvalDigest } from "#domain/approval.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import { isShownWhole } from "#domain/preview.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { hasMarker } from "#text/comment-marker.ts";
import { cleanText } from "#text/untrusted.ts";
import { readSettings } from "./read-settings.ts";
import type { Runs, ThreadRef } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import { type DecisionResult, requireRun } from "./store/store.ts";

type DecideOptions = Pick<RunsOptions, "store" | "scheduler" | "openGitHub" | "now">;
type RequestedDecision = Parameters<Runs["decideApprovals"]>[1];

/** See `Runs.decideApprovals`. */
export async function decideApprovals(
  options: DecideOptions,
  thread: ThreadRef,
  decision: RequestedDecision,
): Promise<Approval[]> {
  const { store, scheduler } = options;
  const { approve, by, changedArgs, deliveryId } = decision;
  if (deliveryId !== undefined && (await store.hasDelivery(deliveryId))) return [];

  const chosen = await chooseApprovals(options, thread, decision);
  if (changedArgs !== undefined && chosen.length !== 1) {
    throw new UserError("Changed arguments apply to one approval only. Name its id.");
  }
  if (approve) await checkApprover(options, thread, { rootIds: chosen.map(({ rootId }) => rootId), by });

  const decided: Approval[] = [];
  for (const approval of chosen) {
    const result = await store.decideApproval(toDecision(approval, decision, options.now()));
    if (result.kind === "decided") decided.push(result.approval);
    else if (chosen.length === 1) throw alreadySettled(approval.id, result);
    scheduler.wake(approval.runId);
  }
  if (deliveryId) await store.ingest({ deliveryId, events: [] });
  return decided;
}

/** See `Runs.pendingApprovals`. */
export async function pendingApprovals(options: DecideOptions, thread: ThreadRef): Promise<Approval[]> {
  return (await approvalsOf(options, thread)).filter(({ status }) => status === "pending");
}

async function approvalsOf({ store }: DecideOptions, thread: ThreadRef): Promise<Approval[]> {
  const roots = await store.runsOfThread(thread);
  try {
    return (await Promise.all(roots.map(({ id }) => store.approvalsOf(id)))).flat();
  } catch (error) {
    if (!(error instanceof UnreadableDataError)) throw error;
    throw new UserError(error.message, { cause: error });
  }
}

async function chooseApprovals(
  options: DecideOptions,
  thread: ThreadRef,
  { target, commentId, remember }: RequestedDecision,
): Promise<Approval[]> {
  const approvals = await approvalsOf(options, thread);
  const pending = approvals.filter(({ status }) => status === "pending");
  const chosen = matchTarget(approvals, target);
  const unseen: Approval[] = [];
  for (const approval of pending)
    if (!(await wasShownBefore(options, approval, { thread, commentId }))) unseen.push(approval);

  const seen = chosen.filter((approval) => !unseen.includes(approval));
  const [missed] = chosen.filter((approval) => unseen.includes(approval));
  if (missed && seen.length === 0) throw await notShownBefore(options, missed);
  if (target === undefined && seen.length > 1) {
    throw new UserError("Several requests are waiting. Name the id of one.");
  }
  if (remember === "session") seen.forEach(assertRememberable);
  return seen;
}

/** Without a target, all pending approvals match. */
function matchTarget(approvals: readonly Approval[], target: string | undefined): Approval[] {
  const pending = approvals.filter(({ status }) => status === "pending");
  if (target !== undefined && target !== "all") {
    const named = approvals.find(({ id }) => id === target.toLowerCase());
    if (named) return [named];
    const note = pending.length === 0 ? " Nothing is waiting for approval." : "";
    throw new UserError(`There is no approval ${target} in this thread.${note}`);
  }
  if (pending.length === 0) throw new UserError("Nothing in this thread is waiting for approval.");
  return pending;
}

/** A comment cannot refer to a request that its author had not seen. The ids of comments increase in GitHub's order. */
async function wasShownBefore(
  { store, openGitHub }: DecideOptions,
  { id }: Approval,
  { thread, commentId }: { thread: ThreadRef; commentId: number | undefined },
): Promise<boolean> {
  if (commentId === undefined) return true;
  const name = `approval/${id}`;
  const post = await store.findPost(name);
  if (post) return post.commentId < commentId;
  // The request may be posted before its comment is stored, such as when GitHub's answer was lost.
  const comments = await openGitHub(thread).listComments(thread.thread);
  return comments.some((comment) => comment.own && comment.id < commentId && hasMarker(comment.body, name));
}

async function notShownBefore({ store }: DecideOptions, { id }: Approval): Promise<Error> {
  // Whether it was posted is not known while GitHub's answer to the post is awaited, or was lost.
  if (!(await store.findPost(`approval/${id}`))) return new OutageError(`The request ${id} is still being posted.`);
  return new UserError(`The request ${id} was posted after your comment was written. Read it, then answer again.`);
}

function assertRememberable({ id, preview }: Approval): void {
  if (isShownWhole(preview)) return;
  throw new UserError(`Not everything in ${id} can be shown, so it can only be approved once: leave out session.`);
}

/** Repositories can restrict who approves, and forbid people to approve the runs they started. */
export async function checkApprover(
  { store, openGitHub }: Pick<DecideOptions, "store" | "openGitHub">,
  thread: ThreadRef,
  { rootIds, by }: { rootIds: readonly string[]; by: string },
): Promise<void> {
  const settings = await readSettings(openGitHub(thread));
  for (const rootId of new Set(rootIds)) {
    const { requestedBy } = (await requireRun(store, rootId)).spec.origin;
    const problem = findApproverProblem(settings, { by, requestedBy });
    if (problem) throw new UserError(problem);
  }
}

function toDecision(
  approval: Approval,
  { approve, by, via, note, remember, changedArgs, deliveryId }: RequestedDecision,
  now: number,
): Parameters<RunsOptions["store"]["decideApproval"]>[0] {
  const changedSubject = { ...approval, preview: approval.preview, args: changedArgs, argsChanged: true };
  return {
    approvalId: approval.id,
    decision: approve ? "approved" : "denied",
    by,
    via,
    note: note && cleanText(note).text,
    remember,
    changed: changedArgs === undefined ? undefined : { args: changedArgs, digest: approvalDigest(changedSubject) },
    now,
    deliveryId: deliveryId && `${deliveryId}/${approval.id}`,
  };
}

function alreadySettled(id: string, result: Exclude<DecisionResult, { kind: "decided" }>): UserError {
  const notFound = new UserError(`There is no approval ${id}.`);
  if (result.kind === "unknown") return notFound;
  const { status, decidedBy } = result.approval;
  switch (status) {
    case "approved":
    case "used":
      return new UserError(`${id} was already approved by @${decidedBy}.`);
    case "denied":
      return new UserError(`${id} was already denied by @${decidedBy}.`);
    case "expired":
      return new UserError(`${id} expired before anyone answered.`);
    case "withdrawn":
      return new UserError(`${id} is no longer needed: its run was stopped.`);
    case "pending":
      return notFound;
  }
}
