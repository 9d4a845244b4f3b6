import { z } from "zod";
import { UnreadableDataError } from "#domain/stored-data.ts";
import type { Effect, EffectId, EffectProblem, EffectQueue, NewEffect, Store } from "#runtime/store/store.ts";
import {
  EffectColumns,
  NextEffectColumns,
  readEffect,
  readOr,
  readProblem,
  serializeRecord,
  serializeRequest,
} from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

// The oldest effect of its queue, for which the others wait.
const isNext = `not exists (select 1 from effects as older
  where older.run_id = effects.run_id and older.queue = effects.queue and older.id < effects.id)`;

const Id = z.object({ id: z.string() });
const CompletedColumns = z.object({ key: z.string() });
const ClaimedColumns = EffectColumns.extend({ runId: z.string(), queue: z.enum(["work", "thread", "status"]) });
const Due = z.object({ due: z.number().nullable() });

/** Adds effects with new keys. A known effect that is being performed will be performed again. */
export async function addEffects(sql: Sql, effects: readonly NewEffect[]): Promise<void> {
  // One statement must not touch a row twice.
  const byKey = new Map(effects.toReversed().map((effect) => [effect.key, effect]));
  // Sorted by run, so that two transactions that add the same keys do not deadlock.
  const distinct = effects
    .filter((effect) => byKey.get(effect.key) === effect)
    .sort((a, b) => (a.runId < b.runId ? -1 : a.runId > b.runId ? 1 : 0));
  if (distinct.length === 0) return;

  const requests = distinct.map(({ request }) => serializeRequest(request));
  await sql.run(
    `insert into effects (key, run_id, queue, kind, input, due_at, requested_at)
      select key, run_id, queue, kind, input, due_at, $7
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::json[], $6::double precision[])
          with ordinality as given (key, run_id, queue, kind, input, due_at, position)
        order by position
      on conflict (key) do update set repeat = true where effects.claimed`,
    [
      distinct.map(({ key }) => key),
      distinct.map(({ runId }) => runId),
      distinct.map(({ queue }) => queue),
      requests.map(({ kind }) => kind),
      requests.map(({ input }) => input),
      distinct.map(({ dueAt }) => dueAt ?? 0),
      Date.now(),
    ],
  );
}

/** A queue of a run, and the time at which its oldest effect has to be due. */
export interface QueueToClaim {
  runId: string;
  queue: EffectQueue;
  now: number;
}

/**
 * Claims the oldest effect of each queue, if it is due and no replica other than `holder` has the run. Returns an effect
 * for each queue, or the error if this release cannot read it. Such an effect is not claimed.
 */
export async function claimEffects(
  sql: Pick<Sql, "query" | "run">,
  queues: readonly QueueToClaim[],
  holder: number | undefined,
): Promise<(Effect | UnreadableDataError | undefined)[]> {
  if (queues.length === 0) return [];
  const rows = await sql.query(
    ClaimedColumns,
    `update effects set attempts = attempts + 1, claimed = true, problem = null
      from (select first.id from unnest($1::text[], $2::text[], $3::double precision[]) as given (run_id, queue, now)
        cross join lateral (select id, due_at from effects
          where effects.run_id = given.run_id and effects.queue = given.queue order by id limit 1) as first
        where first.due_at <= given.now
          and ($4::bigint is null or exists (select 1 from runs where id = given.run_id and holder = $4))) as next
      where effects.id = next.id
      returning key, run_id as "runId", queue, kind, input, due_at, attempts`,
    [queues.map(({ runId }) => runId), queues.map(({ queue }) => queue), queues.map(({ now }) => now), holder ?? null],
  );
  const claimed = rows.map((row) => ({
    ...row,
    effect: readOr(
      () => readEffect(row, row),
      (error) => error,
    ),
  }));
  const unreadable = claimed.filter(({ effect }) => effect instanceof UnreadableDataError).map(({ key }) => key);
  if (unreadable.length > 0) {
    await sql.run("update effects set attempts = attempts - 1, claimed = false where key = any ($1::text[])", [
      unreadable,
    ]);
  }
  return queues.map(
    ({ runId, queue }) => claimed.find((effect) => effect.runId === runId && effect.queue === queue)?.effect,
  );
}

/**
 * Removes the effects whose runs no replica other than `holder` has, or resets those that were requested again while
 * they were performed. Returns their keys.
 */
export async function removeCompleted(
  sql: Sql,
  effects: readonly EffectId[],
  holder: number | undefined,
): Promise<Set<string>> {
  const completed = await sql.query(
    CompletedColumns,
    `with ours as (
        select effects.key from unnest($1::text[], $2::text[]) as given (run_id, key)
          join effects using (run_id, key) join runs on runs.id = run_id where $3::bigint is null or holder = $3
      ), repeated as (
        update effects set repeat = false, claimed = false, attempts = 0, due_at = 0 from ours
          where effects.key = ours.key and repeat returning effects.key
      ), removed as (
        delete from effects using ours where effects.key = ours.key and not repeat returning effects.key
      )
      select key from repeated union all select key from removed`,
    [effects.map(({ runId }) => runId), effects.map(({ key }) => key), holder ?? null],
  );
  return new Set(completed.map(({ key }) => key));
}

export async function postponeEffect(
  sql: Sql,
  { runId, key, dueAt, holder }: EffectId & { dueAt: number; holder: number | undefined },
  { isUncounted, problem }: Parameters<Store["postponeEffect"]>[2] = {},
): Promise<void> {
  await sql.run(
    `update effects set due_at = $2, claimed = false, attempts = attempts - $3, problem = $4
      where key = $1 and run_id = $6
        and ($5::bigint is null or exists (select 1 from runs where id = run_id and holder = $5))`,
    [key, dueAt, isUncounted ? 1 : 0, problem ? serializeRecord(problem) : null, holder ?? null, runId],
  );
}

export async function setEffectProblem(
  sql: Pick<Sql, "run">,
  { runId, problem, now, holder }: { runId: string; problem: EffectProblem; now: number; holder: number | undefined },
): Promise<void> {
  await sql.run(
    `update effects set problem = $2 where run_id = $1 and queue in ('work', 'status') and due_at <= $3 and ${isNext}
        and ($4::bigint is null or exists (select 1 from runs where id = run_id and holder = $4))`,
    [runId, serializeRecord(problem), now, holder ?? null],
  );
}

export async function findEffectProblem(sql: Pick<Sql, "query">, runId: string): Promise<EffectProblem | undefined> {
  const next = await sql.query(
    NextEffectColumns,
    `select key, kind, input, problem from effects where run_id = $1 and ${isNext}`,
    [runId],
  );
  return next.map(readProblem).find((problem) => problem !== undefined);
}

/** Returns the runs with an unseen event and those with a due effect, unless other replicas hold them. */
export async function findDueRuns(sql: Pick<Sql, "query">, now: number, holder: number | undefined): Promise<string[]> {
  const rows = await sql.query(
    Id,
    `select runs.id from inbox join runs on runs.id = inbox.run_id where event_id > last_seen_event and (holder is null or holder = $2)
      union
      select run_id from effects join runs on runs.id = effects.run_id
        where due_at <= $1 and ${isNext} and (holder is null or holder = $2)`,
    [now, holder ?? null],
  );
  return rows.map(({ id }) => id);
}

/** See `Store.postponedRuns`. Skips runs held by other replicas. */
export async function findPostponedRuns(
  sql: Pick<Sql, "query">,
  now: number,
  holder: number | undefined,
): Promise<string[]> {
  const rows = await sql.query(
    Id,
    `select distinct run_id as id from effects join runs on runs.id = effects.run_id
      where due_at > 0 and due_at <= $1 and not claimed and ${isNext} and (holder is null or holder = $2)`,
    [now, holder ?? null],
  );
  return rows.map(({ id }) => id);
}

/** Returns the first time after this one at which a timer of a known name, approval or postponed effect is due. */
export async function nextDueAt(
  sql: Pick<Sql, "query">,
  timers: readonly string[],
  after = 0,
): Promise<number | undefined> {
  const [row] = await sql.query(
    Due,
    `select least(
      (select min(due_at) from timers where due_at > $2 and timer = any ($1::text[])),
      (select min(expires_at) from approvals where expires_at > $2 and status = 'pending'),
      (select min(due_at) from effects where due_at > 0 and due_at > $2 and not claimed and ${isNext})
    ) as due`,
    [timers, after],
  );
  return row?.due ?? undefined;
}
