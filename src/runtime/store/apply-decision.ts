import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import { expire } from "./expire.ts";
import type { Decision, DecisionResult } from "./store.ts";

/**
 * What a decision makes of an approval. With an event, the approval in the result is to be written down and its run hears
 * the event; without one, nothing changes.
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
  return { result: { kind: "decided", approval: decided }, event: eventOf(decided, decision) };
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

function eventOf({ id, callId }: Approval, { decision, by, via, note, changed }: Decision): RunEvent {
  const about = { approvalId: id, callId, by, ...(via !== undefined && { via }) };
  return decision === "approved"
    ? { type: "approval.granted", ...about, ...(changed && { args: changed.args }) }
    : { type: "approval.denied", ...about, ...(note !== undefined && { reason: note }) };
}
