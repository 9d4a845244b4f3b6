import { applyDecision } from "#runtime/store/apply-decision.ts";
import type { Decision, DecisionResult } from "#runtime/store/store.ts";
import { storedDecision } from "#runtime/store/stored-decision.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Decides an approval once. A delivery heard before gets the answer it got then. */
export function decide(tables: SqliteTables, decision: Decision): DecisionResult {
  const { deliveryId, approvalId, now } = decision;
  if (deliveryId === undefined) return write(tables, decision);

  // One delivery may decide many: `/approve all`.
  const delivery = { guid: deliveryId, part: `approval ${approvalId}` };
  const earlier = tables.deliveries.resultOf(delivery);
  if (earlier) return storedDecision(earlier, deliveryId);

  const result = write(tables, decision);
  tables.deliveries.note({ ...delivery, result: JSON.stringify(result), now });
  return result;
}

function write({ approvals, events }: SqliteTables, decision: Decision): DecisionResult {
  const { result, event } = applyDecision(approvals.find(decision.approvalId), decision);
  if (!event || result.kind === "unknown") return result;

  approvals.settle(result.approval);
  events.append({ runId: result.approval.runId, event }, decision.now);
  return result;
}
