import { type LoggedEvent, RunEvent } from "#domain/events.ts";
import { parseStored } from "#runtime/store/parse-stored.ts";
import type { NewEvent } from "#runtime/store/store.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** The log of all runs, only ever appended to, and beside it the inbox: which of its events are not taken in yet. */
export interface EventsTable {
  /** Appends and wakes the run. Nothing happens when the dedupe key is known. Throws when there is no such run. */
  append(event: NewEvent, at: number): void;
  inbox(runId: string): LoggedEvent[];
  log(runId: string, after: number, limit: number | undefined): LoggedEvent[];
  isInInbox(runId: string, eventId: number): boolean;
  takeFromInbox(runId: string, eventId: number): void;
}

interface EventRow {
  id: number;
  at: number;
  event: string;
}

export function eventsTable(sql: SqliteConnection): EventsTable {
  const logged = (runId: string, { id, at, event }: EventRow): LoggedEvent => ({
    id,
    runId,
    at,
    event: parseStored(RunEvent, event, { table: "events", id }),
  });

  return {
    append: ({ runId, event, dedupe }, at) => {
      if (dedupe !== undefined && sql.get("select 1 from events where dedupe = :dedupe", { dedupe })) return;

      const id = sql.insert("insert into events (run_id, at, dedupe, event) values (:runId, :at, :dedupe, :event)", {
        runId,
        at,
        dedupe: dedupe ?? null,
        event: JSON.stringify(event),
      });
      sql.run("insert into inbox (run_id, event_id) values (:runId, :id)", { runId, id });
      const woken = sql.run("update runs set latest = :id, updated_at = max(updated_at, :at) where id = :runId", {
        runId,
        id,
        at,
      });
      if (woken === 0) throw new Error(`There is no run ${runId}.`);
    },
    inbox: (runId) =>
      sql
        .all<EventRow>(
          `select events.id, at, event from inbox join events on events.id = inbox.event_id
            where inbox.run_id = :runId order by inbox.event_id`,
          { runId },
        )
        .map((row) => logged(runId, row)),
    log: (runId, after, limit) =>
      sql
        .all<EventRow>(
          "select id, at, event from events where run_id = :runId and id > :after order by id limit :limit",
          // SQLite reads -1 as no limit.
          { runId, after, limit: limit ?? -1 },
        )
        .map((row) => logged(runId, row)),
    isInInbox: (runId, eventId) =>
      sql.get("select 1 from inbox where run_id = :runId and event_id = :eventId", { runId, eventId }) !== undefined,
    takeFromInbox: (runId, eventId) => {
      sql.run("delete from inbox where run_id = :runId and event_id = :eventId", { runId, eventId });
    },
  };
}
