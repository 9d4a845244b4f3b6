import { z } from "zod";
import { UnreadableDataError } from "#domain/stored-data.ts";
import type { Effect, EffectProblem, EffectQueue, NewEffect, Store } from "#runtime/store/store.ts";
import {
  EffectColumns,
  NextEffectColumns,
  readEffect,
  readProblem,
  serializeRecord,
  serializeRequest,
} from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

// The oldest effect of its queue, for which the others wait.
const isNext = `not exists (select 1 from effects as older
  where older.run_id = effects.run_id and older.queue = effects.queue and older.id < effects.id)`;

const Id = z.object({ id: z.string() });
const Owner = z.object({ runId: z.string() });
const Due = z.object({ due: z.number().nullable() });

/** Adds effects with new keys. A known effect that is being performed will be performed again. */
export async function addEffects(sql: Sql, effects: readonly NewEffect[]): Promise<void> {
  // One statement must not touch a row twice.
  const distinct = effects.filter(({ key }, index) => effects.findIndex((other) => other.key === key) === index);
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

/** Claims the oldest effect of the queue, if it is due and no replica other than `holder` has the run. */
export async function claimEffect(
  sql: Pick<Sql, "query" | "run">,
  { runId, queue, now, holder }: { runId: string; queue: EffectQueue; now: number; holder: number | undefined },
): Promise<Effect | undefined> {
  const [claimed] = await sql.query(
    EffectColumns,
    `update effects set attempts = attempts + 1, claimed = true, problem = null
      where id = (select id from effects where run_id = $1 and queue = $2 order by id limit 1) and due_at <= $3
        and ($4::bigint is null or exists (select 1 from runs where id = $1 and holder = $4))
      returning key, kind, input, due_at, attempts`,
    [runId, queue, now, holder ?? null],
  );
  if (!claimed) return undefined;
  try {
    return readEffect(claimed, { runId, queue });
  } catch (error) {
    if (error instanceof UnreadableDataError) {
      await sql.run("update effects set attempts = attempts - 1, claimed = false where key = $1", [claimed.key]);
    }
    throw error;
  }
}

/**
 * Removes the effect, or resets it if it was requested again while it was performed. Returns the id of its run;
 * undefined if there is no such effect.
 */
export async function removeCompleted(sql: Sql, key: string): Promise<string | undefined> {
  const [completed] = await sql.query(
    Owner,
    `with repeated as (
        update effects set repeat = false, claimed = false, attempts = 0, due_at = 0 where key = $1 and repeat
          returning run_id
      ), removed as (
        delete from effects where key = $1 and not repeat returning run_id
      )
      select run_id as "runId" from repeated union all select run_id from removed`,
    [key],
  );
  return completed?.runId;
}

export async function postponeEffect(
  sql: Sql,
  { key, dueAt, holder }: { key: string; dueAt: number; holder: number | undefined },
  { isUncounted, problem }: Parameters<Store["postponeEffect"]>[2] = {},
): Promise<void> {
  await sql.run(
    `update effects set due_at = $2, claimed = false, attempts = attempts - $3, problem = $4
      where key = $1 and ($5::bigint is null or exists (select 1 from runs where id = run_id and holder = $5))`,
    [key, dueAt, isUncounted ? 1 : 0, problem ? serializeRecord(problem) : null, holder ?? null],
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

/**
 * Returns the runs that have not ended and have an unseen event, and the runs with an effect that can be performed.
 * Skips runs held by other replicas.
 */
export async function findDueRuns(sql: Pick<Sql, "query">, now: number, holder: number | undefined): Promise<string[]> {
  const rows = await sql.query(
    Id,
    `select id from runs where last_event > last_seen_event and status <> 'done' and (holder is null or holder = $2)
      union
      select run_id from effects join runs on runs.id = effects.run_id
        where due_at <= $1 and ${isNext} and (holder is null or holder = $2)`,
    [now, holder ?? null],
  );
  return rows.map(({ id }) => id);
}

/** Returns the time when the next timer of a known name, approval or postponed effect is due. */
export async function nextDueAt(sql: Pick<Sql, "query">, timers: readonly string[]): Promise<number | undefined> {
  const [row] = await sql.query(
    Due,
    `select least(
      (select min(due_at) from timers where timer = any ($1::text[])),
      (select min(expires_at) from approvals where status = 'pending'),
      (select min(due_at) from effects where due_at > 0 and not claimed and ${isNext})
    ) as due`,
    [timers],
  );
  return row?.due ?? undefined;
}
