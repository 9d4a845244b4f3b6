import { Approval } from "#domain/approval.ts";
import { parseStored } from "#runtime/store/parse-stored.ts";
import type { Sql } from "./postgres-connection.ts";

interface Row {
  id: string;
  status: string;
  approval: string;
}

/** The approvals of one of these, in the order given by `order`. The ledger's column has the last word on the status. */
export async function findApprovals(
  sql: Pick<Sql, "query">,
  condition: "id = $1" | "root_id = $1" | "id = any ($1::text[]) and status = 'pending' and expires_at <= $2",
  values: readonly unknown[],
): Promise<Approval[]> {
  const rows = await sql.query<Row>(
    `select id, status, approval from approvals where ${condition} order by number`,
    values,
  );
  return rows.map(({ id, status, approval }) => ({
    ...parseStored(Approval, approval, { table: "approvals", id }),
    status: status as Approval["status"],
  }));
}

/** Writes what became of pending approvals. */
export async function settleApprovals(sql: Sql, approvals: readonly Approval[]): Promise<void> {
  await Promise.all(
    approvals.map((approval) =>
      sql.query("update approvals set status = $2, approval = $3 where id = $1 and status = 'pending'", [
        approval.id,
        approval.status,
        JSON.stringify(approval),
      ]),
    ),
  );
}
