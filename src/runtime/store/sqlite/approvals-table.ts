import { Approval } from "#domain/approval.ts";
import { parseStored } from "#runtime/store/parse-stored.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** The ledger of approvals. A status leaves `pending` once and for ever; only `approved` can become `used`. */
export interface ApprovalsTable {
  insert(approval: Approval): void;
  find(id: string): Approval | undefined;
  ofRoot(rootId: string): Approval[];
  /** Pending ones that ran out, in the order they did. */
  expired(now: number): Approval[];
  /** Writes what became of a pending approval. */
  settle(approval: Approval): void;
  withdraw(runId: string): void;
  use(id: string): void;
}

interface Row {
  id: string;
  status: string;
  approval: string;
}

export function approvalsTable(sql: SqliteConnection): ApprovalsTable {
  return {
    insert: (approval) => {
      sql.run(
        `insert into approvals (id, run_id, root_id, status, expires_at, approval)
          values (:id, :runId, :rootId, :status, :expiresAt, :approval)`,
        {
          id: approval.id,
          runId: approval.runId,
          rootId: approval.rootId,
          status: approval.status,
          expiresAt: approval.expiresAt,
          approval: JSON.stringify(approval),
        },
      );
    },
    find: (id) =>
      sql.all<Row>("select id, status, approval from approvals where id = :id", { id }).map(readApproval)[0],
    ofRoot: (rootId) =>
      sql
        .all<Row>("select id, status, approval from approvals where root_id = :rootId order by number", { rootId })
        .map(readApproval),
    expired: (now) =>
      sql
        .all<Row>(
          "select id, status, approval from approvals where status = 'pending' and expires_at <= :now order by expires_at",
          { now },
        )
        .map(readApproval),
    settle: (approval) => {
      sql.run("update approvals set status = :status, approval = :approval where id = :id and status = 'pending'", {
        id: approval.id,
        status: approval.status,
        approval: JSON.stringify(approval),
      });
    },
    withdraw: (runId) => {
      sql.run("update approvals set status = 'withdrawn' where run_id = :runId and status = 'pending'", { runId });
    },
    use: (id) => {
      sql.run("update approvals set status = 'used' where id = :id and status = 'approved'", { id });
    },
  };
}

/** The column has the last word on the status. */
function readApproval({ id, status, approval }: Row): Approval {
  const stored = parseStored(Approval, approval, { table: "approvals", id });
  return { ...stored, status: status as Approval["status"] };
}
