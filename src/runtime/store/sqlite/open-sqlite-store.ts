import type { Store } from "#runtime/store/store.ts";
import { advance } from "./advance.ts";
import { completeEffect } from "./complete-effect.ts";
import { decide } from "./decide.ts";
import { dueQueries } from "./due-queries.ts";
import { fireTimers } from "./fire-timers.ts";
import { groupCommits } from "./group-commits.ts";
import { ingest, saveDelivery } from "./ingest.ts";
import { pendingDeliveriesTable } from "./pending-deliveries-table.ts";
import { openReadOnlyConnection, openSqliteConnection, type SqliteConnection } from "./sqlite-connection.ts";
import { sqliteTables } from "./sqlite-tables.ts";

/**
 * The store in one SQLite file, made with its folder when there is none; `:memory:` for one that goes with the process.
 * One process at a time: a second one gets a UserError, as does a file that is not ours or newer than this program.
 */
export async function openSqliteStore(path: string): Promise<Store> {
  const sql = await openSqliteConnection(path);
  pendingDeliveriesTable(sql).releaseAll();
  return sqliteStore(sql);
}

/** Opens the store in a SQLite file for reading, also while another process uses it. Writing to it fails. */
export function openSqliteStoreReadOnly(path: string): Store {
  return sqliteStore(openReadOnlyConnection(path));
}

function sqliteStore(sql: SqliteConnection): Store {
  const tables = sqliteTables(sql);
  const {
    locations: repositories,
    runs,
    events,
    effects,
    approvals,
    changes,
    posts,
    deliveries,
    pendingDeliveries,
  } = tables;
  const { dueRuns: awake, nextDueAt: nextDue } = dueQueries(sql);
  const { write, read, close } = groupCommits(sql);

  return {
    ingest: (heard) => write(() => ingest(tables, heard)),
    hasDelivery: (guid) => read(() => deliveries.resultOf({ guid, part: "" }) !== undefined),
    saveDelivery: (delivery) => write(() => saveDelivery(tables, delivery)),
    claimDelivery: (now, until) => write(() => pendingDeliveries.claim(now, until)),
    postponeDelivery: (key, dueAt) => write(() => pendingDeliveries.postpone(key, dueAt)),
    completeDelivery: (key) => write(() => pendingDeliveries.remove(key)),
    nextDeliveryAt: () => read(() => pendingDeliveries.nextDueAt()),
    findRun: (id) => read(() => runs.find(id)),
    runsOfThread: (thread) => read(() => runs.ofThread(thread)),
    childrenOf: (runId) => read(() => runs.childrenOf(runId)),
    countRuns: (query) => read(() => runs.count(query)),
    costOfRuns: (query) => read(() => runs.cost(query)),
    liveRuns: (where) => read(() => runs.live(where)),
    findLocation: (repositoryId) => read(() => repositories.find(repositoryId)),
    saveLocation: (heard) => write(() => repositories.save(heard)),
    inbox: (runId) => read(() => events.inbox(runId)),
    log: (runId, after = 0, limit) => read(() => events.log(runId, after, limit)),
    advance: (step) => write(() => advance(tables, step)),
    claimEffect: (runId, queue, now) => write(() => effects.claim(runId, queue, now)),
    completeEffect: (finished) => write(() => completeEffect(tables, finished)),
    postponeEffect: (key, dueAt) => write(() => effects.postpone(key, dueAt)),
    dueRuns: (now) => read(() => awake(now)),
    fireTimers: (now) => write(() => fireTimers(tables, now)),
    nextDueAt: () => read(nextDue),
    findApproval: (id) => read(() => approvals.find(id)),
    approvalsOf: (rootId) => read(() => approvals.ofRoot(rootId)),
    decideApproval: (decision) => write(() => decide(tables, decision)),
    changesOf: (runId, upTo) => read(() => changes.of(runId, upTo)),
    findPost: (name) => read(() => posts.find(name)),
    ping: () => read(() => sql.ping()),
    close: () => close(),
  };
}
