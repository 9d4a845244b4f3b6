import { type LedgerDraft, ledgerDraft } from "#domain/ledger.ts";
import type { Advance } from "#runtime/store/store.ts";
import { countedState } from "#runtime/store/stored-rows.ts";
import { withdrawApprovals } from "./approvals.ts";
import { addEffects } from "./effects.ts";
import { appendLedger } from "./events.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { lockRuns } from "./runs.ts";
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
  const stored = await storeAdvances(sql, [step]);
  if (!stored) return { undo: true, result: false };
  await appendLedger(sql, stored.ledger);
  return { result: true };
}

/**
 * Stores advances of different runs, which are locked. Returns the entries of the ledger that have to be appended;
 * undefined if one of the events was already consumed.
 */
export async function storeAdvances(
  sql: Sql,
  steps: readonly Advance[],
): Promise<{ ledger: LedgerDraft[] } | undefined> {
  if (steps.length === 0) return { ledger: [] };
  const consumed = steps.flatMap(({ runId, consumed }) => [...new Set(consumed)].map((id) => ({ runId, id })));
  const [removed] = await Promise.all([
    sql.run(
      `delete from inbox using unnest($1::text[], $2::bigint[]) as given (run_id, event_id)
        where inbox.run_id = given.run_id and inbox.event_id = given.event_id`,
      [consumed.map(({ runId }) => runId), consumed.map(({ id }) => id)],
    ),
    updateRuns(sql, steps),
    cancelEffects(sql, steps),
    addEffects(
      sql,
      steps.flatMap(({ effects }) => effects),
    ),
    setTimers(sql, steps),
    addUsage(
      sql,
      steps.flatMap(({ runId, usage }) => (usage ? [{ ...usage, runId }] : [])),
    ),
  ]);
  if (removed !== consumed.length) return undefined;

  const at = Date.now();
  const withdrawn = await Promise.all(
    steps.map(({ runId, withdrawApprovals: isWithdrawn }) => (isWithdrawn ? withdrawApprovals(sql, runId) : [])),
  );
  return { ledger: withdrawn.flat().map((approval) => ledgerDraft("withdrawn", approval, { at })) };
}

function updateRuns(sql: Sql, steps: readonly Advance[]): Promise<number> {
  return sql.run(
    `update runs set version = version + 1, last_seen_event = greatest(last_seen_event, given.seen),
        snapshot = given.snapshot, status = given.status, updated_at = greatest(updated_at, $6), state = given.state
      from unnest($1::text[], $2::bigint[], $3::json[], $4::text[], $5::text[]) as given (id, seen, snapshot, status, state)
      where runs.id = given.id`,
    [
      steps.map(({ runId }) => runId),
      steps.map(({ seen, consumed }) => Math.max(seen, ...consumed)),
      steps.map(({ snapshot }) => JSON.stringify(snapshot)),
      steps.map(({ status }) => status),
      steps.map(countedState),
      Date.now(),
    ],
  );
}

async function cancelEffects(sql: Sql, steps: readonly Advance[]): Promise<void> {
  await Promise.all(
    steps.map(
      ({ runId, cancelEffects }) =>
        cancelEffects &&
        sql.run("delete from effects where run_id = $1 and kind = any ($2::text[])", [runId, cancelEffects.kinds]),
    ),
  );
}

/** A timer that is both cleared and set ends up set. */
async function setTimers(sql: Sql, steps: readonly Advance[]): Promise<void> {
  const cleared = steps.flatMap(({ runId, timers }) => (timers?.clear ?? []).map((timer) => ({ runId, timer })));
  const latest = steps.flatMap(({ runId, timers }) =>
    [...new Map((timers?.set ?? []).map(({ timer, dueAt }) => [timer, dueAt]))].map(([timer, dueAt]) => ({
      runId,
      timer,
      dueAt,
    })),
  );
  await Promise.all([
    cleared.length > 0 &&
      sql.run(
        `delete from timers using unnest($1::text[], $2::text[]) as given (run_id, timer)
          where timers.run_id = given.run_id and timers.timer = given.timer`,
        [cleared.map(({ runId }) => runId), cleared.map(({ timer }) => timer)],
      ),
    latest.length > 0 &&
      sql.run(
        `insert into timers (run_id, timer, due_at) select * from unnest($1::text[], $2::text[], $3::double precision[])
          on conflict (run_id, timer) do update set due_at = excluded.due_at`,
        [latest.map(({ runId }) => runId), latest.map(({ timer }) => timer), latest.map(({ dueAt }) => dueAt)],
      ),
  ]);
}
