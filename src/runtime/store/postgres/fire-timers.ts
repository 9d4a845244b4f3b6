import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { expire } from "#runtime/store/apply-decision.ts";
import { clockToleranceMs, type NewEvent } from "#runtime/store/store.ts";
import { type ApprovalColumns, readApproval, TimerColumns, unreadableRetryMs } from "#runtime/store/stored-rows.ts";
import { appendEvents, appendLedger } from "./append-only-tables.ts";
import { findApprovalRows, saveApprovals } from "./approvals.ts";
import { bringDeliveriesForward } from "./pending-deliveries.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { lockRuns } from "./runs.ts";

/** The number of timers and approvals handled in one transaction. */
const batchSize = 500;

const DueTimer = z.object({ runId: z.string() });
const ExpiringApproval = z.object({ runId: z.string(), id: z.string() });

/** See `Store.bringForward`. */
export async function bringForward(sql: Sql, now: number): Promise<Outcome<undefined>> {
  const ofRunAhead = "due_at > $1 and exists (select 1 from runs where runs.id = run_id and updated_at > $2)";
  const values = [now, now + clockToleranceMs];
  await sql.run(`update effects set due_at = $1 where ${ofRunAhead}`, values);
  await sql.run(
    `update effects set due_at = $1 where queue = 'status' and due_at > $1
      and exists (select 1 from posts where name = 'status/' || run_id and updated_at > $2)`,
    values,
  );
  await sql.run(`update timers set due_at = $1 where ${ofRunAhead}`, values);
  await bringDeliveriesForward(sql);
  return { result: undefined };
}

/**
 * Appends the events of due timers and expired approvals, earliest first. Each timer fires once, even if several
 * replicas do this at the same time. Timers and approvals that this release cannot read are left to another one. Approvals
 * expire only when the database's clock says so, too: that of one replica may be ahead.
 */
export async function fireTimers(
  sql: Sql,
  now: number,
  expiredBy: number,
): Promise<Outcome<{ runIds: string[]; hasMore: boolean }>> {
  const names = TimerColumns.shape.timer.options;
  const [due, late] = await Promise.all([
    sql.query(
      DueTimer,
      'select run_id as "runId" from timers where due_at <= $1 and timer = any ($3::text[]) order by due_at limit $2',
      [now, batchSize, names],
    ),
    sql.query(
      ExpiringApproval,
      `select run_id as "runId", id from approvals
        where status = 'pending' and expires_at <= least($1::double precision, (extract(epoch from now()) * 1000)::double precision)
        order by expires_at limit $2`,
      [expiredBy, batchSize],
    ),
  ]);
  if (due.length === 0 && late.length === 0) return { result: { runIds: [], hasMore: false }, undo: true };

  const candidates = [...new Set([...due, ...late].map(({ runId }) => runId))];
  await lockRuns(sql, candidates);
  const timers = await sql.query(
    TimerColumns,
    `delete from timers where run_id = any ($1::text[]) and due_at <= $2 and timer = any ($3::text[])
      returning run_id as "runId", timer, due_at as "dueAt"`,
    [candidates, now, names],
  );
  const rows = await findApprovalRows(sql, "id = any ($1::text[]) and status = 'pending' and expires_at <= $2", [
    late.map(({ id }) => id),
    expiredBy,
  ]);
  const expired = (await readExpired(sql, rows, now)).map(expire);
  const fired = timers
    .sort((a, b) => a.dueAt - b.dueAt)
    .map(({ runId, timer }): NewEvent => ({ runId, event: { type: "timer.due", timer } }));

  await saveApprovals(
    sql,
    expired.map(({ changed }) => changed),
  );
  const events = [...fired, ...expired.map(({ changed, event }) => ({ runId: changed.runId, event }))];
  await appendEvents(sql, events, now);
  await appendLedger(
    sql,
    expired.map(({ ledger }) => ledger),
  );
  const runIds = [...new Set(events.map(({ runId }) => runId))];
  return { result: { runIds, hasMore: Math.max(due.length, late.length) === batchSize } };
}

/** Returns the approvals, earliest first. Postpones those that cannot be read. */
async function readExpired(
  sql: Sql,
  rows: readonly z.infer<typeof ApprovalColumns>[],
  now: number,
): Promise<Approval[]> {
  const approvals: Approval[] = [];
  for (const row of rows) {
    try {
      approvals.push(readApproval(row));
    } catch (error) {
      if (!(error instanceof UnreadableDataError)) throw error;
      await sql.run("update approvals set expires_at = $2 where id = $1", [row.id, now + unreadableRetryMs]);
    }
  }
  return approvals.sort((a, b) => a.expiresAt - b.expiresAt);
}
