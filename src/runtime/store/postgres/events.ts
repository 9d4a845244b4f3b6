import { type LoggedEvent, RunEvent } from "#domain/events.ts";
import { parseStored } from "#runtime/store/parse-stored.ts";
import type { Sql } from "./postgres-connection.ts";

interface Row {
  id: number;
  at: number;
  event: string;
}

/** Events not taken in yet, in order. */
export async function readInbox(sql: Pick<Sql, "query">, runId: string): Promise<LoggedEvent[]> {
  const rows = await sql.query<Row>(
    `select events.id, at, event from inbox join events on events.id = inbox.event_id
      where inbox.run_id = $1 order by inbox.event_id`,
    [runId],
  );
  return rows.map((row) => logged(runId, row));
}

/** The events of the run from after the given one, in order: all of them, or so many. */
export async function readLog(
  sql: Pick<Sql, "query">,
  { runId, after = 0, limit }: { runId: string; after?: number | undefined; limit?: number | undefined },
): Promise<LoggedEvent[]> {
  const rows = await sql.query<Row>(
    "select id, at, event from events where run_id = $1 and id > $2 order by id limit $3",
    [runId, after, limit ?? null],
  );
  return rows.map((row) => logged(runId, row));
}

function logged(runId: string, { id, at, event }: Row): LoggedEvent {
  return { id, runId, at, event: parseStored(RunEvent, event, { table: "events", id }) };
}
