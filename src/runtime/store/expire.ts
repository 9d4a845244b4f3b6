import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";

/** Nobody decided in time: the approval as the ledger keeps it, and what its run hears. */
export function expire(approval: Approval): { approval: Approval; event: RunEvent } {
  const { id, callId } = approval;
  return {
    approval: { ...approval, status: "expired" },
    event: { type: "approval.expired", approvalId: id, callId },
  };
}
