import { expire } from "#runtime/store/expire.ts";
import type { NewEvent } from "#runtime/store/store.ts";
import { appendEvents } from "./append-events.ts";
import { findApprovals, settleApprovals } from "./approvals.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

/** How many of each kind fall due in one transaction. */
const atOnce = 500;

interface Fired {
  woken: string[];
  /** There are others. */
  more: boolean;
}

interface Timer {
  runId: string;
  timer: "retry" | "deadline";
  dueAt: number;
}

/**
 * Appends the events of timers and approvals that ran out, the earliest first, and gives the runs they
 * belong to. Of several replicas that do this, the one that has a run's row first fires its timers.
 */
export async function fireTimers(sql: Sql, now: number): Promise<Outcome<Fired>> {
  const [due, late] = await Promise.all([
    sql.query<{ runId: string }>('select run_id as "runId" from timers where due_at <= $1 order by due_at limit $2', [
      now,
      atOnce,
    ]),
    sql.query<{ runId: string; id: string }>(
      `select run_id as "runId", id from approvals where status = 'pending' and expires_at <= $1
        order by expires_at limit $2`,
      [now, atOnce],
    ),
  ]);
  if (due.length === 0 && late.length === 0) return { result: { woken: [], more: false }, undo: true };

  const runIds = [...new Set([...due, ...late].map(({ runId }) => runId))];
  await lockRuns(sql, runIds);
  const taken = await sql.query<Timer>(
    `delete from timers where run_id = any ($1::text[]) and due_at <= $2 returning run_id as "runId", timer, due_at as "dueAt"`,
    [runIds, now],
  );
  const pending = await findApprovals(sql, "id = any ($1::text[]) and status = 'pending' and expires_at <= $2", [
    late.map(({ id }) => id),
    now,
  ]);
  const expired = pending.sort((one, other) => one.expiresAt - other.expiresAt).map(expire);
  const rung = taken
    .sort((one, other) => one.dueAt - other.dueAt)
    .map(({ runId, timer }): NewEvent => ({ runId, event: { type: "timer.due", timer } }));

  await settleApprovals(
    sql,
    expired.map(({ approval }) => approval),
  );
  const events = [...rung, ...expired.map(({ approval, event }) => ({ runId: approval.runId, event }))];
  await appendEvents(sql, events, now);
  const woken = [...new Set(events.map(({ runId }) => runId))];
  return { result: { woken, more: Math.max(due.length, late.length) === atOnce } };
}
