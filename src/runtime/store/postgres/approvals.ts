import type { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { ApprovalColumns, readApproval, readIfReadable, serializeRecord } from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

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
  return rows.flatMap(readIfReadable);
}
