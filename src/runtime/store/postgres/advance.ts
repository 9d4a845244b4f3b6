import { ledgerDraft } from "#domain/ledger.ts";
import type { Advance } from "#runtime/store/store.ts";
import { countedState } from "#runtime/store/stored-rows.ts";
import { withdrawApprovals } from "./approvals.ts";
import { addEffects } from "./effects.ts";
import { appendLedger } from "./ledger.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { addUsage } from "./usage.ts";

/**
 * Stores the result of applying events. Returns false if the run's version has changed or one of the events was already
 * consumed. Throws if a replica other than `holder` has the run; `holder` is undefined without replicas.
 */
export async function advance(sql: Sql, step: Advance, holder: number | undefined): Promise<Outcome<boolean>> {
  const { runId } = step;
  const locked = await lockRuns(sql, [runId, ...step.effects.map((effect) => effect.runId)]);
  const run = locked.get(runId);
  if (holder !== undefined && run?.holder !== holder) throw new Error(`Another replica has the run ${runId} now.`);
  if (run?.version !== step.version) return { undo: true, result: false };
  return (await storeAdvance(sql, step)) ? { result: true } : { undo: true, result: false };
}

/** Stores an advance of a locked run. Returns false if one of the events was already consumed. */
export async function storeAdvance(sql: Sql, step: Advance): Promise<boolean> {
  const { runId, cancelEffects } = step;
  const consumed = [...new Set(step.consumed)];
  const [removed] = await Promise.all([
    sql.run("delete from inbox where run_id = $1 and event_id = any ($2::bigint[])", [runId, consumed]),
    sql.run(
      `update runs set version = version + 1, last_seen_event = greatest(last_seen_event, $2), snapshot = $3,
        status = $4, updated_at = greatest(updated_at, $5), state = $6 where id = $1`,
      [
        runId,
        Math.max(step.seen, ...consumed),
        JSON.stringify(step.snapshot),
        step.status,
        Date.now(),
        countedState(step),
      ],
    ),
    cancelEffects &&
      sql.run("delete from effects where run_id = $1 and kind = any ($2::text[])", [runId, cancelEffects.kinds]),
    addEffects(sql, step.effects),
    setTimers(sql, step),
    step.usage && addUsage(sql, runId, step.usage),
  ]);
  if (removed !== consumed.length) return false;

  const withdrawn = step.withdrawApprovals ? await withdrawApprovals(sql, runId) : [];
  const at = Date.now();
  await appendLedger(
    sql,
    withdrawn.map((approval) => ledgerDraft("withdrawn", approval, { at })),
  );
  return true;
}

/** A timer that is both cleared and set ends up set. */
async function setTimers(sql: Sql, { runId, timers = {} }: Advance): Promise<void> {
  const { set = [], clear = [] } = timers;
  const latest = [...new Map(set.map((timer) => [timer.timer, timer])).values()];
  await Promise.all([
    clear.length > 0 && sql.run("delete from timers where run_id = $1 and timer = any ($2::text[])", [runId, clear]),
    latest.length > 0 &&
      sql.run(
        `insert into timers (run_id, timer, due_at) select $1, * from unnest($2::text[], $3::double precision[])
          on conflict (run_id, timer) do update set due_at = excluded.due_at`,
        [runId, latest.map(({ timer }) => timer), latest.map(({ dueAt }) => dueAt)],
      ),
  ]);
}
