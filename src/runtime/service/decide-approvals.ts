import { type Approval, approvalDigest } from "#domain/approval.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import { type Account, isSameAccount } from "#domain/github.ts";
import { isShownWhole } from "#domain/preview.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { stateName } from "#runtime/apply-events.ts";
import { approversOf, countApprovals, factsAbout, findProblem, requirementsOf } from "#runtime/approval-rules.ts";
import { readSettings } from "#runtime/run-environment.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";
import type { RunsOptions } from "#runtime/runs-options.ts";
import { type Decision, type DecisionResult, type NewEffect, requireRun } from "#runtime/store/store.ts";
import { cleanText } from "#text/untrusted.ts";

type DecideOptions = Pick<RunsOptions, "store" | "scheduler" | "openGitHub" | "now">;
type RequestedDecision = Parameters<Runs["decideApprovals"]>[1];
type RequestedRevocation = Parameters<Runs["revokeApproval"]>[1];

/** See `Runs.decideApprovals`. */
export async function decideApprovals(
  options: DecideOptions,
  thread: ThreadRef,
  decision: RequestedDecision,
): Promise<Approval[]> {
  const { store, scheduler } = options;
  const { approve, changedArgs, deliveryId } = decision;
  if (deliveryId !== undefined && (await store.hasDelivery(deliveryId))) return [];

  const chosen = await chooseApprovals(options, thread, decision);
  if (changedArgs !== undefined && chosen.length !== 1) {
    throw new UserError("Changed arguments apply to one approval only. Name its id.");
  }
  // If a person may not approve one of the requests, none is decided.
  const open = approve ? chosen.filter(({ status }) => status === "pending") : [];
  for (const approval of open) await evaluate(options, thread, approval, decision);

  const decided: Approval[] = [];
  for (const [index, { id, runId }] of chosen.entries()) {
    const result = await decideOne(options, thread, { id, decision, isLast: index === chosen.length - 1 });
    if (result.kind === "decided" || result.kind === "recorded") decided.push(result.approval);
    else if (chosen.length === 1) throw alreadySettled(id, result);
    scheduler.wake(runId);
  }
  if (deliveryId) await store.ingest({ deliveryId, events: [] });
  return decided;
}

/** Stores an answer. If someone else has answered in the meantime, evaluates it again. */
async function decideOne(
  options: DecideOptions,
  thread: ThreadRef,
  { id, decision, isLast }: { id: string; decision: RequestedDecision; isLast: boolean },
): Promise<DecisionResult> {
  const { store, now } = options;
  for (;;) {
    const approval = await store.findApproval(id);
    if (!approval) return { kind: "unknown" };
    const isOpen = decision.approve && approval.status === "pending";
    const evaluation = isOpen ? await evaluate(options, thread, approval, decision) : {};
    const completes = isLast ? decision.deliveryId : undefined;
    const result = await store.decideApproval({ ...toDecision(approval, decision, now()), ...evaluation, completes });
    if (result.kind !== "changed") return result;
  }
}

/**
 * Evaluates a person's approval under the repository's current settings: whether it counts, and whether more people have to
 * approve. Throws a UserError with the reason if it does not count.
 */
async function evaluate(
  { store, openGitHub }: DecideOptions,
  thread: ThreadRef,
  approval: Approval,
  { by, byId, changedArgs, remember }: RequestedDecision,
): Promise<Pick<Decision, "isPartial" | "revision" | "quorums" | "effects">> {
  const repository = openGitHub(thread);
  const { spec } = await requireRun(store, approval.rootId);
  const requirements = await requirementsOf(approval, await readSettings(repository), repository);
  const person: Account = { login: by, id: byId };
  const earlier = approversOf(approval);
  if (approval.status === "pending" && earlier.some((other) => isSameAccount(other, person))) {
    throw new UserError(`You have approved ${approval.id} already. It needs the approval of more people.`);
  }
  const facts = factsAbout(approval, spec, { store, repository });
  const counted = await countApprovals(requirements, [...earlier, person], facts);
  const quorums = counted.map(({ who, required, by }) => ({ who, required, by }));
  const isPartial = quorums.some(({ by, required }) => by.length < required);

  const open = counted.filter(({ problem, by, required }) => problem !== undefined && by.length < required);
  const counts = counted.some(({ problem, by, required }) => problem === undefined && by.length <= required);
  const [problem] = [...open, ...counted].map((one) => one.problem).filter((one) => one !== undefined);
  if (!counts && problem !== undefined) throw new UserError(problem);

  const isShared = isPartial || earlier.length > 0 || requirements.some(({ exclude }) => exclude === "authors");
  if (changedArgs !== undefined && isShared) {
    throw new UserError(
      `The arguments of ${approval.id} cannot be changed here: others have to approve exactly what they were shown. Deny the request with a reason instead.`,
    );
  }
  if (remember === "session" && (isPartial || earlier.length > 0)) {
    throw new UserError(`${approval.id} needs the approval of several people, so leave out session.`);
  }
  // The run updates the request itself once it is decided.
  return {
    isPartial,
    revision: approval.revision ?? 0,
    quorums,
    effects: isPartial ? [refreshRequestEffect(approval)] : [],
  };
}

function refreshRequestEffect({ id, runId }: Approval): NewEffect {
  return {
    key: `${runId}/approval/${id}/show`,
    runId,
    queue: "thread",
    request: { kind: "approval.post", approvalId: id },
  };
}

/** See `Runs.revokeApproval`. */
export async function revokeApproval(
  { store, scheduler, now }: DecideOptions,
  thread: ThreadRef,
  { target, by, byId, via, note, deliveryId }: RequestedRevocation,
): Promise<Approval> {
  const approvals = await approvalsOf({ store }, thread);
  const approval = approvals.find(({ id }) => id === target.toLowerCase());
  if (!approval) throw new UserError(`Request ${target} not found in this thread.`);
  const result = await store.revokeApproval({
    approvalId: approval.id,
    by,
    byId,
    via,
    note: note && cleanText(note).text,
    deliveryId,
    now: now(),
    effects: [refreshRequestEffect(approval)],
  });
  scheduler.wake(approval.runId);
  if (result.kind === "revoked") return result.approval;
  throw notRevocable(approval.id, result);
}

function notRevocable(id: string, result: DecisionResult): UserError {
  if (result.kind === "unknown") return new UserError(`Request ${id} not found in this thread.`);
  const { status, decidedBy } = result.approval;
  switch (status) {
    case "pending":
      return new UserError(`${id} has not been approved. To deny it, comment \`/deny ${id}\`.`);
    case "used":
      return new UserError(`It is too late to revoke ${id}: the call has begun. \`/stop\` pauses the run.`);
    case "revoked":
      return new UserError(`${id} has been revoked already.`);
    case "denied":
      return new UserError(`${id} was denied by @${decidedBy}, so there is nothing to revoke.`);
    case "expired":
      return new UserError(`${id} expired, so there is nothing to revoke.`);
    case "withdrawn":
      return new UserError(`${id} was withdrawn when its run was paused or ended, so there is nothing to revoke.`);
    case "approved":
      return new UserError(`${id} could not be revoked. Try again.`);
  }
}

/** See `Runs.pendingApprovals`. */
export async function pendingApprovals(options: DecideOptions, thread: ThreadRef): Promise<Approval[]> {
  return (await approvalsOf(options, thread)).filter(({ status }) => status === "pending");
}

async function approvalsOf({ store }: Pick<DecideOptions, "store">, thread: ThreadRef): Promise<Approval[]> {
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
  if (chosen.length === 0) throw await nothingMatches(options, thread, { target, hasPending: pending.length > 0 });
  const unseen: Approval[] = [];
  for (const approval of pending) if (!(await wasShownBefore(options, approval, commentId))) unseen.push(approval);

  const seen = chosen.filter((approval) => !unseen.includes(approval));
  const [missed] = chosen.filter((approval) => unseen.includes(approval));
  if (missed && seen.length === 0) throw await notShownBefore(options, missed);
  if (target === undefined && seen.length > 1) {
    throw new UserError("Several requests are waiting. Give the id of one.");
  }
  if (remember === "session") seen.forEach(assertRememberable);
  return seen;
}

/** Without a target, all pending approvals match. */
function matchTarget(approvals: readonly Approval[], target: string | undefined): Approval[] {
  if (target === undefined || target === "all") return approvals.filter(({ status }) => status === "pending");
  return approvals.filter(({ id }) => id === target.toLowerCase());
}

/** Says that there is no such request, and what waits in the thread instead. */
async function nothingMatches(
  { store }: DecideOptions,
  thread: ThreadRef,
  { target, hasPending }: { target: string | undefined; hasPending: boolean },
): Promise<UserError> {
  const isNamed = target !== undefined && target !== "all";
  const missing = isNamed ? `Request ${target} not found in this thread.` : "";
  if (hasPending) return new UserError(missing);
  const nothing = isNamed ? "Nothing is waiting for approval." : "Nothing in this thread is waiting for approval.";
  const runs = (await store.runsOfThread(thread)).filter((run) => !run.unreadable);
  const waiting = runs.find(({ snapshot }) => stateName(snapshot) === "awaitingBudget");
  const budget = waiting && `${waiting.spec.worker.name} has used up its cost limit: \`/approve +$2\` raises it.`;
  return new UserError([missing, nothing, budget].filter(Boolean).join(" "));
}

/** A comment cannot refer to a request that its author had not seen. The ids of comments increase in GitHub's order. */
async function wasShownBefore(
  { store }: DecideOptions,
  { id }: Approval,
  commentId: number | undefined,
): Promise<boolean> {
  if (commentId === undefined) return true;
  const post = await store.findPost(`approval/${id}`);
  return post !== undefined && post.commentId < commentId;
}

async function notShownBefore({ store }: DecideOptions, { id }: Approval): Promise<Error> {
  // It is unknown whether it was posted while GitHub's response is awaited, or if it was lost.
  if (!(await store.findPost(`approval/${id}`))) return new OutageError(`The request ${id} is still being posted.`);
  return new UserError(`The request ${id} was posted after your comment was written. Read it, then answer again.`);
}

function assertRememberable({ id, preview }: Approval): void {
  if (isShownWhole(preview)) return;
  throw new UserError(`Not everything in ${id} can be shown, so it can only be approved once: leave out session.`);
}

/** Throws a UserError if the person's approval would not meet a requirement that all calls of these runs have. */
export async function checkApprover(
  { store, openGitHub }: Pick<DecideOptions, "store" | "openGitHub">,
  thread: ThreadRef,
  { rootIds, person }: { rootIds: readonly string[]; person: Account },
): Promise<void> {
  const repository = openGitHub(thread);
  const settings = await readSettings(repository);
  for (const rootId of new Set(rootIds)) {
    const { spec } = await requireRun(store, rootId);
    const requirements = await requirementsOf({ tool: "", workerPath: spec.workerPath }, settings, repository);
    const facts = factsAbout({}, spec, { store, repository });
    for (const requirement of requirements) {
      const problem = await findProblem(requirement, person, facts);
      if (problem) throw new UserError(problem);
    }
  }
}

function toDecision(
  approval: Approval,
  { approve, by, byId, via, note, remember, changedArgs, deliveryId }: RequestedDecision,
  now: number,
): Decision {
  const changedSubject = { ...approval, preview: approval.preview, args: changedArgs, argsChanged: true };
  return {
    approvalId: approval.id,
    decision: approve ? "approved" : "denied",
    by,
    ...(byId !== undefined && { byId }),
    via,
    ...(note && { note: cleanText(note).text }),
    ...(remember && { remember }),
    ...(changedArgs !== undefined && { changed: { args: changedArgs, digest: approvalDigest(changedSubject) } }),
    now,
    ...(deliveryId !== undefined && { deliveryId: `${deliveryId}/${approval.id}` }),
  };
}

function alreadySettled(id: string, result: DecisionResult): UserError {
  const notFound = new UserError(`Request ${id} not found in this thread.`);
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
      return new UserError(`${id} is no longer needed: its run was paused or has ended.`);
    case "revoked":
      return new UserError(`${id} was revoked by @${result.approval.revoked?.by}.`);
    case "pending":
      return notFound;
  }
}
