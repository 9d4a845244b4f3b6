import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import type { Decision, DecisionResult } from "./store.ts";

/**
 * Applies a decision to an approval. With an event, the approval of the result has to be stored and the event appended to
 * its run; without one, nothing changes.
 */
export function applyDecision(
  approval: Approval | undefined,
  decision: Decision,
): { result: DecisionResult; event?: RunEvent } {
  if (!approval) return { result: { kind: "unknown" } };
  if (approval.status !== "pending") return { result: { kind: "settled", approval } };
  if (approval.expiresAt <= decision.now) {
    const expired = expire(approval);
    return { result: { kind: "settled", approval: expired.approval }, event: expired.event };
  }
  const decided = withDecision(approval, decision);
  return { result: { kind: "decided", approval: decided }, event: toEvent(decided, decision) };
}

/** Returns the approval as expired, and the event for its run. */
export function expire(approval: Approval): { approval: Approval; event: RunEvent } {
  const { id, callId } = approval;
  return {
    approval: { ...approval, status: "expired" },
    event: { type: "approval.expired", approvalId: id, callId },
  };
}

function withDecision(approval: Approval, { decision, by, via, note, remember, changed, now }: Decision): Approval {
  return {
    ...approval,
    status: decision,
    decidedBy: by,
    decidedAt: now,
    ...(via !== undefined && { via }),
    ...(note !== undefined && { note }),
    ...(remember !== undefined && { remember }),
    ...(changed && { changedArgs: changed.args, digest: changed.digest }),
  };
}

function toEvent({ id, callId }: Approval, { decision, by, via, note, changed }: Decision): RunEvent {
  const decided = { approvalId: id, callId, by, ...(via !== undefined && { via }) };
  return decision === "approved"
    ? { type: "approval.granted", ...decided, ...(changed && { args: changed.args }) }
    : { type: "approval.denied", ...decided, ...(note !== undefined && { reason: note }) };
}
