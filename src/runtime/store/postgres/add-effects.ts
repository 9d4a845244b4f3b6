import type { NewEffect } from "#runtime/store/store.ts";
import type { Sql } from "./postgres-connection.ts";

/** Adds what is not there; what is there and under way is done once more. */
export async function addEffects(sql: Sql, effects: readonly NewEffect[]): Promise<void> {
  // One statement may not touch a row twice.
  const distinct = effects.filter(({ key }, index) => effects.findIndex((other) => other.key === key) === index);
  if (distinct.length === 0) return;

  await sql.query(
    `insert into effects (key, run_id, queue, kind, due_at, input)
      select key, run_id, queue, kind, due_at, input
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::double precision[], $6::json[])
          with ordinality as given (key, run_id, queue, kind, due_at, input, position)
        order by position
      on conflict (key) do update set again = true where effects.under_way`,
    [
      distinct.map(({ key }) => key),
      distinct.map(({ runId }) => runId),
      distinct.map(({ queue }) => queue),
      distinct.map(({ kind }) => kind),
      distinct.map(({ dueAt }) => dueAt ?? 0),
      distinct.map(({ input }) => JSON.stringify(input) ?? null),
    ],
  );
}
