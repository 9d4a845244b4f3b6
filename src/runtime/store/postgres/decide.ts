import { applyDecision } from "#runtime/store/apply-decision.ts";
import type { Decision, DecisionResult } from "#runtime/store/store.ts";
import { storedDecision } from "#runtime/store/stored-decision.ts";
import { appendEvents } from "./append-events.ts";
import { findApprovals, settleApprovals } from "./approvals.ts";
import { lockRuns } from "./lock-runs.ts";
import { noteDelivery } from "./note-delivery.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

/** Decides an approval once. A delivery heard before gets the answer it got then. */
export async function decide(sql: Sql, decision: Decision): Promise<Outcome<DecisionResult>> {
  const { deliveryId, approvalId, now } = decision;
  if (deliveryId === undefined) return { result: await write(sql, decision) };

  // One delivery may decide many: `/approve all`.
  const delivery = { guid: deliveryId, part: `approval ${approvalId}` };
  if (!(await noteDelivery(sql, delivery, now))) {
    const [earlier] = await sql.query<{ result: string }>(
      "select result from deliveries where guid = $1 and part = $2",
      [delivery.guid, delivery.part],
    );
    return { result: storedDecision(earlier?.result ?? "", deliveryId), undo: true };
  }
  const result = await write(sql, decision);
  await sql.query("update deliveries set result = $3 where guid = $1 and part = $2", [
    delivery.guid,
    delivery.part,
    JSON.stringify(result),
  ]);
  return { result };
}

async function write(sql: Sql, decision: Decision): Promise<DecisionResult> {
  const [asked] = await findApprovals(sql, "id = $1", [decision.approvalId]);
  if (!asked) return { kind: "unknown" };

  // Whoever decides at the same time waits here, and the second finds what the first one made of it.
  await lockRuns(sql, [asked.runId]);
  const [approval] = await findApprovals(sql, "id = $1", [decision.approvalId]);
  const { result, event } = applyDecision(approval, decision);
  if (!event || result.kind === "unknown") return result;

  await settleApprovals(sql, [result.approval]);
  await appendEvents(sql, [{ runId: asked.runId, event }], decision.now);
  return result;
}
