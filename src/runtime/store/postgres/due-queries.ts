import type { Sql } from "./postgres-connection.ts";

// The oldest of its queue: the others wait for it.
const isHead = `not exists (select 1 from effects as older
  where older.run_id = effects.run_id and older.queue = effects.queue and older.id < effects.id)`;

/**
 * Runs that are not done and have an unseen event, and runs of any status with an effect that can begin; less those that
 * another replica holds, which looks after them itself.
 */
export async function findDueRuns(sql: Pick<Sql, "query">, now: number, holder: number | undefined): Promise<string[]> {
  const rows = await sql.query<{ id: string }>(
    `select id from runs where latest > seen and status <> 'done' and (holder is null or holder = $2)
      union
      select run_id from effects join runs on runs.id = effects.run_id
        where due_at <= $1 and ${isHead} and (holder is null or holder = $2)`,
    [now, holder ?? null],
  );
  return rows.map(({ id }) => id);
}

/** When the next timer, approval or postponed effect is due. */
export async function nextDueAt(sql: Pick<Sql, "query">): Promise<number | undefined> {
  const [row] = await sql.query<{ due: number | null }>(
    `select least(
      (select min(due_at) from timers),
      (select min(expires_at) from approvals where status = 'pending'),
      (select min(due_at) from effects where due_at > 0 and not under_way and ${isHead})
    ) as due`,
  );
  return row?.due ?? undefined;
}
