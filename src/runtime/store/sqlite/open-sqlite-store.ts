import type { Store } from "#runtime/store/store.ts";
import { advance } from "./advance.ts";
import { finish } from "./complete-effect.ts";
import { decide } from "./decide.ts";
import { wakeQueries } from "./due-queries.ts";
import { fireTimers } from "./fire-timers.ts";
import { groupCommits } from "./group-commits.ts";
import { ingest } from "./ingest.ts";
import { openSqliteConnection } from "./sqlite-connection.ts";
import { sqliteTables } from "./sqlite-tables.ts";

/**
 * The store in one SQLite file, made with its folder when there is none; `:memory:` for one that goes with the process.
 * One process at a time: a second one gets a UserError, as does a file that is not ours or newer than this program.
 */
export async function openSqliteStore(path: string): Promise<Store> {
  const sql = await openSqliteConnection(path);
  const tables = sqliteTables(sql);
  const { repositories, runs, events, effects, approvals, changes, posts, deliveries } = tables;
  const { awake, nextDue } = wakeQueries(sql);
  const { write, read, close } = groupCommits(sql);

  return {
    ingest: (heard) => write(() => ingest(tables, heard)),
    heard: (guid) => read(() => deliveries.resultOf({ guid, part: "" }) !== undefined),
    run: (id) => read(() => runs.find(id)),
    runsOfThread: (thread) => read(() => runs.ofThread(thread)),
    childrenOf: (runId) => read(() => runs.childrenOf(runId)),
    countRuns: (query) => read(() => runs.count(query)),
    liveRuns: (where) => read(() => runs.live(where)),
    repository: (repositoryId) => read(() => repositories.find(repositoryId)),
    place: (heard) => write(() => repositories.place(heard)),
    inbox: (runId) => read(() => events.inbox(runId)),
    log: (runId, after = 0, limit) => read(() => events.log(runId, after, limit)),
    advance: (step) => write(() => advance(tables, step)),
    begin: (runId, lane, now) => write(() => effects.begin(runId, lane, now)),
    finish: (finished) => write(() => finish(tables, finished)),
    postpone: (key, dueAt) => write(() => effects.postpone(key, dueAt)),
    cancelEffects: (keys) => write(() => effects.removeAll(keys)),
    awake: (now) => read(() => awake(now)),
    fireTimers: (now) => write(() => fireTimers(tables, now)),
    nextDue: () => read(nextDue),
    approval: (id) => read(() => approvals.find(id)),
    approvalsOf: (rootId) => read(() => approvals.ofRoot(rootId)),
    decide: (decision) => write(() => decide(tables, decision)),
    changesOf: (runId, upTo) => read(() => changes.of(runId, upTo)),
    post: (name) => read(() => posts.find(name)),
    ping: () => read(() => sql.ping()),
    close: () => close(),
  };
}
