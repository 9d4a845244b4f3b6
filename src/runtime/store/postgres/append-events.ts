import type { NewEvent } from "#runtime/store/store.ts";
import type { Sql } from "./postgres-connection.ts";

/** Appends to logs and inboxes in the order given, and wakes the runs. Known dedupe keys are passed over. The runs must be locked. */
export async function appendEvents(sql: Sql, events: readonly NewEvent[], at: number): Promise<void> {
  if (events.length === 0) return;

  await sql.query(
    `with appended as (
        insert into events (run_id, at, dedupe, event)
          select run_id, $1::double precision, dedupe, event
            from unnest($2::text[], $3::text[], $4::json[]) with ordinality as given (run_id, dedupe, event, position)
            order by position
          on conflict (dedupe) where dedupe is not null do nothing
          returning id, run_id
      ), unread as (
        insert into inbox (run_id, event_id) select run_id, id from appended
      )
      update runs set latest = newest.id, updated_at = greatest(updated_at, $1)
        from (select run_id, max(id) as id from appended group by run_id) as newest where runs.id = newest.run_id`,
    [
      at,
      events.map(({ runId }) => runId),
      events.map(({ dedupe }) => dedupe ?? null),
      events.map(({ event }) => JSON.stringify(event)),
    ],
  );
}
