import { z } from "zod";
import { applyDecision } from "#runtime/store/apply-decision.ts";
import type { Decision, DecisionResult } from "#runtime/store/store.ts";
import { readDecision, serializeRecord } from "#runtime/store/stored-rows.ts";
import { findApprovals, settleApprovals } from "./approvals.ts";
import { appendEvents } from "./events.ts";
import { addDelivery } from "./ingest.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

const Result = z.object({ result: z.string() });

/** Decides an approval once. A delivery that comes again gets the result of the first time. */
export async function decide(sql: Sql, decision: Decision): Promise<Outcome<DecisionResult>> {
  const { deliveryId, approvalId, now } = decision;
  if (deliveryId === undefined) return { result: await settle(sql, decision) };

  // One delivery may decide several approvals: `/approve all`.
  const delivery = { guid: deliveryId, part: `approval ${approvalId}` };
  if (!(await addDelivery(sql, delivery, now))) {
    const [earlier] = await sql.query(Result, "select result from deliveries where guid = $1 and part = $2", [
      delivery.guid,
      delivery.part,
    ]);
    return { result: readDecision(earlier?.result ?? "", deliveryId), undo: true };
  }
  const result = await settle(sql, decision);
  await sql.run("update deliveries set result = $3 where guid = $1 and part = $2", [
    delivery.guid,
    delivery.part,
    serializeRecord(result),
  ]);
  return { result };
}

async function settle(sql: Sql, decision: Decision): Promise<DecisionResult> {
  const [pending] = await findApprovals(sql, "id = $1", decision.approvalId);
  if (!pending) return { kind: "unknown" };

  // Another decision at the same time waits here, and then reads the result of the first one.
  await lockRuns(sql, [pending.runId]);
  const [approval] = await findApprovals(sql, "id = $1", decision.approvalId);
  const { result, event } = applyDecision(approval, decision);
  if (!event || result.kind === "unknown") return result;

  await settleApprovals(sql, [result.approval]);
  await appendEvents(sql, [{ runId: pending.runId, event }], decision.now);
  return result;
}
