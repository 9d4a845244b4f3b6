import { z } from "zod";
import { Approval } from "#approval.ts";
import type { RunEvent } from "#events.ts";
import { expire } from "./expire.ts";
import { parseStored } from "./parse-stored.ts";
import type { SqliteTables } from "./sqlite-tables.ts";
import type { Decision, DecisionResult } from "./store.ts";

const StoredResult = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("decided"), approval: Approval }),
  z.object({ kind: z.literal("settled"), approval: Approval }),
  z.object({ kind: z.literal("unknown") }),
]);

/** Decides an approval once. A delivery heard before gets the answer it got then. */
export function decide(tables: SqliteTables, decision: Decision): DecisionResult {
  const { deliveryId, approvalId, now } = decision;
  if (deliveryId === undefined) return settle(tables, decision);

  // One delivery may decide many: `/approve all`.
  const delivery = { guid: deliveryId, part: `approval ${approvalId}` };
  const earlier = tables.deliveries.resultOf(delivery);
  if (earlier) return parseStored(StoredResult, earlier, { table: "deliveries", id: deliveryId });

  const result = settle(tables, decision);
  tables.deliveries.note({ ...delivery, result: JSON.stringify(result), now });
  return result;
}

function settle(tables: SqliteTables, decision: Decision): DecisionResult {
  const { approvals, events } = tables;
  const approval = approvals.find(decision.approvalId);
  if (!approval) return { kind: "unknown" };
  if (approval.status !== "pending") return { kind: "settled", approval };
  if (approval.expiresAt <= decision.now) return { kind: "settled", approval: expire(tables, approval, decision.now) };

  const decided = withDecision(approval, decision);
  approvals.settle(decided);
  events.append({ runId: approval.runId, event: eventOf(decided, decision) }, decision.now);
  return { kind: "decided", approval: decided };
}

function withDecision(approval: Approval, { decision, by, note, remember, changed, now }: Decision): Approval {
  return {
    ...approval,
    status: decision,
    decidedBy: by,
    decidedAt: now,
    ...(note !== undefined && { note }),
    ...(remember !== undefined && { remember }),
    ...(changed && { changedArgs: changed.args, digest: changed.digest }),
  };
}

function eventOf({ id, callId }: Approval, { decision, by, note, changed }: Decision): RunEvent {
  const about = { approvalId: id, callId, by };
  return decision === "approved"
    ? { type: "approval.given", ...about, ...(changed && { args: changed.args }) }
    : { type: "approval.denied", ...about, ...(note !== undefined && { reason: note }) };
}
