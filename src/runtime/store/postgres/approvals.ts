import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { applyDecision, applyExecution, applyRevocation } from "#runtime/store/apply-decision.ts";
import type { Decision, DecisionResult, Execution, Revocation } from "#runtime/store/store.ts";
import {
  ApprovalColumns,
  ifReadable,
  readApproval,
  readDecision,
  serializeRecord,
} from "#runtime/store/stored-rows.ts";
import { appendEvents, appendLedger } from "./append-only-tables.ts";
import { addEffects } from "./effects.ts";
import { addDelivery } from "./pending-deliveries.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { lockRuns } from "./runs.ts";

/** Returns the rows of approvals in insertion order. */
export function findApprovalRows(
  sql: Pick<Sql, "query">,
  condition: "id = $1" | "root_id = $1" | "id = any ($1::text[]) and status = 'pending' and expires_at <= $2",
  values: readonly unknown[],
): Promise<z.infer<typeof ApprovalColumns>[]> {
  return sql.query(
    ApprovalColumns,
    `select id, status, approval from approvals where ${condition} order by number`,
    values,
  );
}

export async function findApprovals(
  sql: Pick<Sql, "query">,
  condition: "id = $1" | "root_id = $1",
  id: string,
): Promise<Approval[]> {
  return (await findApprovalRows(sql, condition, [id])).map(readApproval);
}

export function addApproval(sql: Sql, approval: Approval): Promise<number> {
  return sql.run(
    "insert into approvals (id, run_id, root_id, status, expires_at, approval) values ($1, $2, $3, $4, $5, $6)",
    [approval.id, approval.runId, approval.rootId, approval.status, approval.expiresAt, serializeRecord(approval)],
  );
}

/** Stores changed approvals. */
export async function saveApprovals(sql: Sql, approvals: readonly Approval[]): Promise<void> {
  await Promise.all(
    approvals.map((approval) =>
      sql.run("update approvals set status = $2, approval = $3 where id = $1", [
        approval.id,
        approval.status,
        serializeRecord(approval),
      ]),
    ),
  );
}

/** Withdraws the pending approvals of a run, and returns those that this release can read. */
export async function withdrawApprovals(sql: Sql, runId: string): Promise<Approval[]> {
  const rows = await sql.query(
    ApprovalColumns,
    `update approvals set status = 'withdrawn' where run_id = $1 and status = 'pending'
      returning id, status, approval`,
    [runId],
  );
  return rows.flatMap((row) => ifReadable(() => readApproval(row)) ?? []);
}

const Result = z.object({ result: z.string() });

type Apply = (approval: Approval | undefined) => ReturnType<typeof applyDecision>;

/** Decides an approval, or records an answer. */
export function decide(sql: Sql, decision: Decision): Promise<Outcome<DecisionResult>> {
  // One delivery may decide several approvals: `/approve all`.
  return once(sql, decision, "approval", (approval) => applyDecision(approval, decision));
}

/** Revokes an approval, or an answer. */
export function revokeStored(sql: Sql, revocation: Revocation): Promise<Outcome<DecisionResult>> {
  return once(sql, revocation, "revoke", (approval) => applyRevocation(approval, revocation));
}

/** Marks an approval as used. Throws if a replica other than `holder` has the run. */
export async function beginExecution(
  sql: Sql,
  execution: Execution,
  holder: number | undefined,
): Promise<Outcome<Approval | undefined>> {
  const { approvalId, runId } = execution;
  const locked = await lockRuns(sql, [runId]);
  if (holder !== undefined && locked.get(runId)?.holder !== holder) {
    throw new Error(`Another replica has the run ${runId} now.`);
  }
  const [approval] = await findApprovals(sql, "id = $1", approvalId);
  const begun = applyExecution(approval, execution);
  if (begun) await saveApprovals(sql, [begun]);
  return { result: begun };
}

/** Acts on an approval once. A repeated delivery gets the first result. */
async function once(
  sql: Sql,
  action: Decision | Revocation,
  kind: string,
  apply: Apply,
): Promise<Outcome<DecisionResult>> {
  const { deliveryId, approvalId, now } = action;
  if (deliveryId === undefined) return { result: await act(sql, action, apply) };

  const delivery = { guid: deliveryId, part: `${kind} ${approvalId}` };
  if (!(await addDelivery(sql, delivery, now))) {
    const [earlier] = await sql.query(Result, "select result from deliveries where guid = $1 and part = $2", [
      delivery.guid,
      delivery.part,
    ]);
    return { result: readDecision(earlier?.result ?? "", deliveryId), undo: true };
  }
  const result = await act(sql, action, apply, delivery);
  // Someone else has answered in the meantime, so the same delivery is tried again.
  return result.kind === "changed" ? { result, undo: true } : { result };
}

async function act(
  sql: Sql,
  { approvalId, completes, now, effects = [] }: Decision | Revocation,
  apply: Apply,
  delivery?: { guid: string; part: string },
): Promise<DecisionResult> {
  const [known] = await findApprovals(sql, "id = $1", approvalId);
  // A concurrent action waits here, and then reads the result of the first one.
  if (known) await lockRuns(sql, [known.runId, ...effects.map(({ runId }) => runId)]);
  const [approval] = known ? await findApprovals(sql, "id = $1", approvalId) : [];
  const { result, changed, event, ledger } = apply(approval);
  if (delivery) {
    await sql.run("update deliveries set result = $3 where guid = $1 and part = $2", [
      delivery.guid,
      delivery.part,
      serializeRecord(result),
    ]);
  }
  if (changed) {
    await saveApprovals(sql, [changed]);
    await addEffects(sql, effects);
    if (completes !== undefined) await addDelivery(sql, { guid: completes, part: "" }, now);
  }
  if (changed && event) await appendEvents(sql, [{ runId: changed.runId, event }], now);
  if (ledger) await appendLedger(sql, [ledger]);
  return result;
}
