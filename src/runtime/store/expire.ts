import type { Approval } from "#approval.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Nobody decided in time: the ledger says so and the run hears of it. */
export function expire({ approvals, events }: SqliteTables, approval: Approval, now: number): Approval {
  const { id, runId, callId } = approval;
  const expired: Approval = { ...approval, status: "expired" };
  approvals.settle(expired);
  events.append({ runId, event: { type: "approval.expired", approvalId: id, callId } }, now);
  return expired;
}
