import { findApproverProblem } from "#config/repository-settings.ts";
import { type Approval, approvalDigest } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { isShownWhole } from "#domain/preview.ts";
import { cleanText } from "#text/untrusted.ts";
import { readSettings } from "./read-settings.ts";
import type { Runs, ThreadRef } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";

/** Approvals of a thread, and what people say of them; see `Runs.decide` and `Runs.pendingApprovals`. */
export function createDecideApprovals({
  store,
  scheduler,
  openGitHub,
  now,
}: Pick<RunsOptions, "store" | "scheduler" | "openGitHub" | "now">): Pick<
  Runs,
  "decideApprovals" | "pendingApprovals"
> {
  async function decide(thread: ThreadRef, decision: Parameters<Runs["decideApprovals"]>[1]): Promise<Approval[]> {
    const { approve, by, via, note, remember, changedArgs, deliveryId } = decision;
    if (deliveryId !== undefined && (await store.hasDelivery(deliveryId))) return [];

    const chosen = await choose(thread, decision);
    if (remember === "session") chosen.forEach(assertRememberable);
    if (changedArgs !== undefined && chosen.length !== 1)
      throw new UserError("Changed arguments need exactly one approval: name its id.");

    const refusal = approve ? await refusalOf(thread, chosen, by) : undefined;
    if (refusal) throw new UserError(refusal);

    const decided: Approval[] = [];
    for (const approval of chosen) {
      const result = await store.decideApproval({
        approvalId: approval.id,
        decision: approve ? "approved" : "denied",
        by,
        via,
        note: note && cleanText(note).text,
        remember,
        changed:
          changedArgs === undefined
            ? undefined
            : {
                args: changedArgs,
                digest: approvalDigest({
                  ...approval,
                  preview: approval.preview,
                  args: changedArgs,
                  argsChanged: true,
                }),
              },
        now: now(),
        deliveryId: deliveryId && `${deliveryId}/${approval.id}`,
      });
      if (result.kind === "decided") decided.push(result.approval);
      else if (chosen.length === 1) throw settled(approval.id, result.kind === "settled" ? result.approval : undefined);
      scheduler.wake(approval.runId);
    }
    if (deliveryId) await store.ingest({ deliveryId, events: [] });
    return decided;
  }

  /** The repository may say who approves, and that nobody approves what they started. */
  async function refusalOf(thread: ThreadRef, chosen: Approval[], by: string): Promise<string | undefined> {
    const settings = await readSettings(openGitHub(thread));
    const roots = await Promise.all(chosen.map(({ rootId }) => store.findRun(rootId)));
    const refusals = roots.map((root) =>
      findApproverProblem(settings, { by, requestedBy: root?.spec.origin.requestedBy ?? by }),
    );
    return refusals.find((refusal) => refusal !== undefined);
  }

  async function choose(
    thread: ThreadRef,
    { target, commentId }: { target: string | undefined; commentId?: number | undefined },
  ): Promise<Approval[]> {
    const all = await approvalsOf(thread);
    const waiting = all.filter(({ status }) => status === "pending");
    const shown = await Promise.all(waiting.map(async (approval) => isShownBefore(approval, commentId)));
    const pending = waiting.filter((_, index) => shown[index]);
    if (target !== undefined && target !== "all") {
      const named = all.find(({ id }) => id === target.toLowerCase());
      if (!named) {
        const others = pending.length === 0 ? " Nothing is waiting for approval." : "";
        throw new UserError(`There is no approval ${target} in this thread.${others}`);
      }
      if (named.status === "pending" && !pending.includes(named)) throw notShownYet(named.id);
      return [named];
    }
    const [unseen] = waiting;
    if (pending.length === 0 && unseen) throw notShownYet(unseen.id);
    if (pending.length === 0) throw new UserError("Nothing in this thread is waiting for approval.");
    if (target === undefined && pending.length > 1)
      throw new UserError("Several requests are waiting. Name the id of one.");
    return pending;
  }

  /** A comment cannot mean a request that its author had not seen. Ids of comments grow in GitHub's order. */
  async function isShownBefore({ id }: Approval, commentId: number | undefined): Promise<boolean> {
    if (commentId === undefined) return true;
    const post = await store.findPost(`approval/${id}`);
    return post !== undefined && post.commentId < commentId;
  }

  async function approvalsOf(thread: ThreadRef): Promise<Approval[]> {
    const roots = await store.runsOfThread(thread);
    return (await Promise.all(roots.map(({ spec }) => store.approvalsOf(spec.id)))).flat();
  }

  return {
    decideApprovals: decide,
    pendingApprovals: async (thread) => (await approvalsOf(thread)).filter((approval) => approval.status === "pending"),
  };
}

function notShownYet(id: string): UserError {
  return new UserError(`The request ${id} was posted after your comment was written. Read it, then answer again.`);
}

function assertRememberable({ id, preview }: Approval): void {
  if (isShownWhole(preview)) return;
  throw new UserError(`Not everything in ${id} can be shown, so it can only be approved once: leave out session.`);
}

function settled(id: string, approval: Approval | undefined): UserError {
  switch (approval?.status) {
    case "approved":
    case "used":
      return new UserError(`${id} was already approved by @${approval.decidedBy}.`);
    case "denied":
      return new UserError(`${id} was already denied by @${approval.decidedBy}.`);
    case "expired":
      return new UserError(`${id} expired before anyone answered.`);
    case "withdrawn":
      return new UserError(`${id} is no longer needed: its run was stopped.`);
    default:
      return new UserError(`There is no approval ${id}.`);
  }
}
