import type { Advance } from "#runtime/store/store.ts";
import { addEffects } from "./add-effects.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

/**
 * Writes one fold of the mailbox; false when the run moved on, or an event was taken in, since it was computed. Throws
 * when the run is held by another replica than `holder`, if there are replicas.
 */
export async function advance(sql: Sql, step: Advance, holder: number | undefined): Promise<Outcome<boolean>> {
  const { runId, cancelEffects } = step;
  const locked = await lockRuns(sql, [runId, ...step.effects.map((effect) => effect.runId)]);
  const run = locked.get(runId);
  if (holder !== undefined && run?.holder !== holder) throw new Error(`Another replica drives the run ${runId} now.`);
  if (run?.version !== step.version) return { undo: true, result: false };

  const consumed = [...new Set(step.consumed)];
  const [taken] = await Promise.all([
    sql.query(`delete from inbox where run_id = $1 and event_id = any ($2::bigint[]) returning 1`, [runId, consumed]),
    sql.query(
      `update runs set version = version + 1, seen = greatest(seen, $2), snapshot = $3, status = $4,
        updated_at = greatest(updated_at, $5) where id = $1`,
      [runId, Math.max(step.seen, ...consumed), JSON.stringify(step.snapshot) ?? null, step.status, Date.now()],
    ),
    cancelEffects &&
      sql.query("delete from effects where run_id = $1 and kind = any ($2::text[])", [runId, cancelEffects.kinds]),
    addEffects(sql, step.effects),
    setTimers(sql, step),
    step.withdrawApprovals &&
      sql.query("update approvals set status = 'withdrawn' where run_id = $1 and status = 'pending'", [runId]),
  ]);
  return taken.length === consumed.length ? { result: true } : { undo: true, result: false };
}

/** One that is both cleared and set stands. */
async function setTimers(sql: Sql, { runId, timers = {} }: Advance): Promise<void> {
  const { set = [], clear = [] } = timers;
  const latest = [...new Map(set.map((timer) => [timer.timer, timer])).values()];
  await Promise.all([
    clear.length > 0 && sql.query("delete from timers where run_id = $1 and timer = any ($2::text[])", [runId, clear]),
    latest.length > 0 &&
      sql.query(
        `insert into timers (run_id, timer, due_at) select $1, * from unnest($2::text[], $3::double precision[])
          on conflict (run_id, timer) do update set due_at = excluded.due_at`,
        [runId, latest.map(({ timer }) => timer), latest.map(({ dueAt }) => dueAt)],
      ),
  ]);
}
