import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { chainEntries, type LedgerDraft, type StoredLedgerEntry } from "#domain/ledger.ts";
import {
  ApprovalColumns,
  ifReadable,
  LedgerColumns,
  readApproval,
  serializeRecord,
} from "#runtime/store/stored-rows.ts";
import { Table } from "./sqlite-connection.ts";

const Count = z.object({ count: z.number() });
const Due = z.object({ due: z.number() });

/** The approvals. A status never becomes `pending` again. */
export class ApprovalsTable extends Table {
  insert(approval: Approval): void {
    this.sql.run(
      `insert into approvals (id, run_id, root_id, status, expires_at, approval)
        values (:id, :runId, :rootId, :status, :expiresAt, :approval)`,
      {
        id: approval.id,
        runId: approval.runId,
        rootId: approval.rootId,
        status: approval.status,
        expiresAt: approval.expiresAt,
        approval: serializeRecord(approval),
      },
    );
  }

  find(id: string): Approval | undefined {
    const row = this.sql.get(ApprovalColumns, "select id, status, approval from approvals where id = :id", { id });
    return row && readApproval(row);
  }

  ofRoot(rootId: string): Approval[] {
    return this.sql
      .all(ApprovalColumns, "select id, status, approval from approvals where root_id = :rootId order by number", {
        rootId,
      })
      .map(readApproval);
  }

  /** Returns the rows of expired pending approvals, ordered by their expiry. */
  expired(now: number): z.infer<typeof ApprovalColumns>[] {
    return this.sql.all(
      ApprovalColumns,
      "select id, status, approval from approvals where status = 'pending' and expires_at <= :now order by expires_at",
      { now },
    );
  }

  countPending(): number {
    return this.sql.get(Count, "select count(*) as count from approvals where status = 'pending'")?.count ?? 0;
  }

  nextExpiry(after: number): number | undefined {
    return this.sql.get(
      Due,
      `select expires_at as due from approvals where status = 'pending' and expires_at > :after
        order by expires_at limit 1`,
      { after },
    )?.due;
  }

  postponeExpiry(id: string, expiresAt: number): void {
    this.sql.run("update approvals set expires_at = :expiresAt where id = :id", { id, expiresAt });
  }

  /** Stores a changed approval. */
  save(approval: Approval): void {
    this.sql.run("update approvals set status = :status, approval = :approval where id = :id", {
      id: approval.id,
      status: approval.status,
      approval: serializeRecord(approval),
    });
  }

  /** Withdraws the pending approvals of a run, and returns those that this release can read. */
  withdraw(runId: string): Approval[] {
    const rows = this.sql.all(
      ApprovalColumns,
      `update approvals set status = 'withdrawn' where run_id = :runId and status = 'pending'
        returning id, status, approval`,
      { runId },
    );
    return rows.flatMap((row) => ifReadable(() => readApproval(row)) ?? []);
  }

  removeOf(runId: string): void {
    this.sql.run(
      "delete from approvals where run_id = :runId and root_id = (select root_id from runs where id = :runId)",
      { runId },
    );
  }
}

/** The append-only ledger of approvals. Triggers refuse to change or delete an entry. */
export class LedgerTable extends Table {
  append(drafts: readonly LedgerDraft[]): void {
    if (drafts.length === 0) return;
    const last = this.sql.get(
      LedgerColumns,
      "select number, hash, entry from ledger where number = (select max(number) from ledger)",
    );
    for (const { number, hash, entry } of chainEntries(drafts, last)) {
      this.sql.run("insert into ledger (number, hash, entry) values (:number, :hash, :entry)", {
        number,
        hash,
        entry,
      });
    }
  }

  read(after: number, limit: number): StoredLedgerEntry[] {
    const sql = "select number, hash, entry from ledger where number > :after order by number limit :limit";
    return this.sql.all(LedgerColumns, sql, { after, limit });
  }
}
