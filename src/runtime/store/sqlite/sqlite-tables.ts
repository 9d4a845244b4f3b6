import { type ApprovalsTable, approvalsTable } from "./approvals-table.ts";
import { type ChangesTable, changesTable } from "./changes-table.ts";
import { type DeliveriesTable, deliveriesTable } from "./deliveries-table.ts";
import { type EffectsTable, effectsTable } from "./effects-table.ts";
import { type EventsTable, eventsTable } from "./events-table.ts";
import { type LocationsTable, locationsTable } from "./locations-table.ts";
import { type PendingDeliveriesTable, pendingDeliveriesTable } from "./pending-deliveries-table.ts";
import { type PostsTable, postsTable } from "./posts-table.ts";
import { type RunsTable, runsTable } from "./runs-table.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";
import { type TimersTable, timersTable } from "./timers-table.ts";

export interface SqliteTables {
  deliveries: DeliveriesTable;
  pendingDeliveries: PendingDeliveriesTable;
  locations: LocationsTable;
  runs: RunsTable;
  events: EventsTable;
  effects: EffectsTable;
  timers: TimersTable;
  approvals: ApprovalsTable;
  changes: ChangesTable;
  posts: PostsTable;
}

export function sqliteTables(sql: SqliteConnection): SqliteTables {
  return {
    deliveries: deliveriesTable(sql),
    pendingDeliveries: pendingDeliveriesTable(sql),
    locations: locationsTable(sql),
    runs: runsTable(sql),
    events: eventsTable(sql),
    effects: effectsTable(sql),
    timers: timersTable(sql),
    approvals: approvalsTable(sql),
    changes: changesTable(sql),
    posts: postsTable(sql),
  };
}
