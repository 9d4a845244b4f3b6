import { type Approval, answersOf } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import { type LedgerDraft, ledgerDraft } from "#domain/ledger.ts";
import type { Decision, DecisionResult, EffectCompletion, Execution, Revocation } from "./store.ts";

/** The result of a change to an approval. Without `changed`, nothing is stored. */
interface Applied {
  result: DecisionResult;
  changed?: Approval;
  event?: RunEvent;
  ledger?: LedgerDraft;
}

export function applyDecision(approval: Approval | undefined, decision: Decision): Applied {
  if (!approval) return { result: { kind: "unknown" } };
  if (approval.status !== "pending") return { result: { kind: "settled", approval } };
  if (approval.expiresAt <= decision.now) {
    // Its timer stores that, unless only the clock of this process is ahead.
    return { result: { kind: "settled", approval: expire(approval).changed } };
  }
  const { revision, isPartial, now: at, by, byId, via } = decision;
  const isStale = revision !== undefined && revision !== (approval.revision ?? 0);
  if (isStale && decision.decision === "approved") return { result: { kind: "changed", approval } };

  const changed = isPartial ? withAnswer(approval, decision) : withDecision(approval, decision);
  const ledger = ledgerDraft(decision.decision, changed, { at, by, byId, via });
  if (isPartial) return { result: { kind: "recorded", approval: changed }, changed, ledger };
  return { result: { kind: "decided", approval: changed }, changed, event: toEvent(changed, decision), ledger };
}

export function expire(approval: Approval): { changed: Approval; event: RunEvent; ledger: LedgerDraft } {
  const { id, callId, expiresAt } = approval;
  return {
    changed: { ...approval, status: "expired" },
    event: { type: "approval.expired", approvalId: id, callId },
    ledger: ledgerDraft("expired", approval, { at: expiresAt }),
  };
}

/**
 * Withdraws a person's answer from a pending request, an unused approval, or a used one that still covers further calls of
 * the session. Otherwise the result is `settled`, and the status says why.
 */
export function applyRevocation(approval: Approval | undefined, revocation: Revocation): Applied {
  if (!approval) return { result: { kind: "unknown" } };
  const changed = withoutAnswer(approval, revocation);
  if (!changed) return { result: { kind: "settled", approval } };
  const { now: at, by, byId, via } = revocation;
  return {
    result: { kind: "revoked", approval: changed },
    changed,
    ledger: ledgerDraft("revoked", approval, { at, by, byId, via }),
  };
}

/**
 * Begins the execution of a call under its approval, or under an approval for the session that covers it. Returns
 * undefined if the approval is not valid for the call. An execution that was interrupted by a crash begins again.
 */
export function applyExecution(
  approval: Approval | undefined,
  { callId, runId, effectKey, now }: Execution,
): Approval | undefined {
  if (!approval || approval.runId !== runId) return undefined;
  const { status, remember, begun = [], expiresAt } = approval;
  if (begun.includes(effectKey)) return approval;
  const isOwn = status === "approved" && approval.callId === callId;
  const isRemembered = (status === "approved" || status === "used") && remember === "session" && now < expiresAt;
  return isOwn || isRemembered ? { ...approval, status: "used", begun: [...begun, effectKey] } : undefined;
}

/** Returns the ledger entry for a call that was executed under an approval, or refused. */
export function executionDraft(
  approval: Approval,
  { outcome, commit, reason }: NonNullable<EffectCompletion["execution"]>,
  at: number,
): LedgerDraft {
  return ledgerDraft(outcome, approval, { at, commit, reason });
}

function answerOf({ by, byId, via, note, now: at }: Decision | Revocation) {
  return {
    by,
    at,
    ...(byId !== undefined && { byId }),
    ...(via !== undefined && { via }),
    ...(note !== undefined && { note }),
  };
}

function withAnswer(approval: Approval, decision: Decision): Approval {
  const { quorums } = decision;
  return {
    ...approval,
    answers: [...(approval.answers ?? []), answerOf(decision)],
    revision: (approval.revision ?? 0) + 1,
    ...(quorums && { quorums }),
  };
}

function withDecision(approval: Approval, decision: Decision): Approval {
  const { by, byId, via, note, remember, changed, now } = decision;
  const { answers, quorums } = decision.decision === "approved" ? withAnswer(approval, decision) : approval;
  return {
    ...approval,
    ...(answers && { answers }),
    ...(quorums && { quorums }),
    status: decision.decision,
    decidedBy: by,
    ...(byId !== undefined && { decidedById: byId }),
    decidedAt: now,
    ...(via !== undefined && { via }),
    ...(note !== undefined && { note }),
    ...(remember !== undefined && { remember }),
    ...(changed && { changedArgs: changed.args, digest: changed.digest }),
  };
}

function withoutAnswer(approval: Approval, revocation: Revocation): Approval | undefined {
  const { by, byId } = revocation;
  const revoked = answerOf(revocation);
  switch (approval.status) {
    case "pending": {
      const isOther = (answer: { by: string; byId?: number | undefined }) =>
        byId === undefined || answer.byId === undefined
          ? answer.by.toLowerCase() !== by.toLowerCase()
          : answer.byId !== byId;
      const all = answersOf(approval);
      const answers = all.filter(isOther);
      if (answers.length === all.length) return undefined;
      const remaining = new Set(answers.map((answer) => answer.by));
      const quorums = approval.quorums?.map((quorum) => ({
        ...quorum,
        by: quorum.by.filter((login) => remaining.has(login)),
      }));
      return { ...approval, answers, revision: (approval.revision ?? 0) + 1, ...(quorums && { quorums }) };
    }
    case "approved":
      return { ...approval, status: "revoked", revoked };
    case "used":
      return approval.remember === "session" ? { ...approval, remember: "none", revoked } : undefined;
    case "denied":
    case "expired":
    case "withdrawn":
    case "revoked":
      return undefined;
  }
}

function toEvent({ id, callId }: Approval, { decision, by, byId, via, note, changed }: Decision): RunEvent {
  const decided = {
    approvalId: id,
    callId,
    by,
    ...(byId !== undefined && { byId }),
    ...(via !== undefined && { via }),
  };
  return decision === "approved"
    ? { type: "approval.granted", ...decided, ...(changed && { args: changed.args }) }
    : { type: "approval.denied", ...decided, ...(note !== undefined && { reason: note }) };
}
