import type { Store } from "#runtime/store/store.ts";
import { advance } from "./advance.ts";
import { findApprovals } from "./approvals.ts";
import { readChanges } from "./changes.ts";
import { claimEffect } from "./claim-effect.ts";
import { completeEffect } from "./complete-effect.ts";
import { decide } from "./decide.ts";
import { findDueRuns, nextDueAt } from "./due-queries.ts";
import { readInbox, readLog } from "./events.ts";
import { fireTimers } from "./fire-timers.ts";
import { ingest } from "./ingest.ts";
import { findLocation, isLocationCurrent, saveLocation } from "./locations.ts";
import { operationOrder } from "./operation-order.ts";
import { claimDelivery, nextDeliveryAt, saveDelivery } from "./pending-deliveries.ts";
import type { PostgresConnection } from "./postgres-connection.ts";
import { costOfRuns, countRuns, findLive, findRuns } from "./runs.ts";

/**
 * The store in a PostgreSQL database that several processes may share. With `holder`, which gives the number this replica
 * goes by at the moment, it writes what a drive asks for only to runs that this replica holds: a replica that lost its
 * runs cannot write over the one that has them now. Closing it closes the connection.
 */
export function openPostgresStore(
  connection: PostgresConnection,
  holder: () => number | undefined = () => undefined,
): Store {
  const order = operationOrder();
  /** The run of each effect that was begun here and is not over. */
  const begun = new Map<string, string>();
  let closed = false;

  function open(): PostgresConnection {
    if (closed) throw new Error("The store is closed.");
    return connection;
  }
  type Work<Result> = Parameters<typeof connection.transaction<Result>>[0];
  const write = async <Result>(touched: readonly string[] | undefined, work: Work<Result>): Promise<Result> => {
    const { transaction } = open();
    return order.write(touched, () => transaction(work));
  };
  const read = async <Result>(
    touched: readonly string[] | undefined,
    work: (sql: PostgresConnection) => Promise<Result>,
  ): Promise<Result> => {
    const sql = open();
    return order.read(touched, () => work(sql));
  };
  const runOf = (key: string): string[] | undefined => {
    const runId = begun.get(key);
    return runId === undefined ? undefined : [runId];
  };

  return {
    ingest: (heard) => write(touchedBy(heard), (sql) => ingest(sql, heard)),
    hasDelivery: (guid) =>
      read([deliveryName(guid)], async (sql) => {
        return (await sql.query("select 1 from deliveries where guid = $1 and part = ''", [guid])).length > 0;
      }),
    saveDelivery: (delivery) => write([deliveryName(delivery.key)], (sql) => saveDelivery(sql, delivery)),
    claimDelivery: (now, until) => {
      const sql = open();
      return order.write(["claimed delivery"], () => claimDelivery(sql, now, until));
    },
    postponeDelivery: async (key, dueAt) => {
      const sql = open();
      await order.write([deliveryName(key)], () =>
        sql.query("update pending_deliveries set due_at = $2 where key = $1", [key, dueAt]),
      );
    },
    completeDelivery: async (key) => {
      const sql = open();
      await order.write([deliveryName(key)], () => sql.query("delete from pending_deliveries where key = $1", [key]));
    },
    nextDeliveryAt: () => read(["claimed delivery"], nextDeliveryAt),
    findRun: (id) => read([id], async (sql) => (await findRuns(sql, "id", [id]))[0]),
    runsOfThread: ({ repositoryId, owner, repo, thread }) =>
      read(undefined, (sql) =>
        repositoryId === undefined
          ? findRuns(sql, "name", [owner, repo, thread])
          : findRuns(sql, "thread", [repositoryId, thread]),
      ),
    childrenOf: (runId) => read(undefined, (sql) => findRuns(sql, "parent", [runId])),
    countRuns: (query) => read(undefined, (sql) => countRuns(sql, query)),
    costOfRuns: (query) => read(undefined, (sql) => costOfRuns(sql, query)),
    liveRuns: (where) => read(undefined, (sql) => findLive(sql, where)),
    findLocation: (repositoryId) => read(undefined, (sql) => findLocation(sql, repositoryId)),
    saveLocation: async (heard) => {
      if (await read(undefined, (sql) => isLocationCurrent(sql, heard))) return;
      await write(undefined, (sql) => saveLocation(sql, heard));
    },
    inbox: (runId) => read([runId], (sql) => readInbox(sql, runId)),
    log: (runId, after, limit) => read([runId], (sql) => readLog(sql, { runId, after, limit })),
    advance: (step) =>
      write([step.runId, ...step.effects.map(({ runId }) => runId)], (sql) => advance(sql, step, holder())),
    claimEffect: async (runId, queue, now) => {
      const sql = open();
      return order.write([runId], async () => {
        const effect = await claimEffect(sql, { runId, queue, now, holder: holder() });
        if (effect) begun.set(effect.key, runId);
        return effect;
      });
    },
    completeEffect: async (finished) => {
      const { key, events = [], effects = [], run, parentChanges } = finished;
      const owner = runOf(key);
      const others = [...events, ...effects, ...(parentChanges ? [parentChanges] : [])].map(({ runId }) => runId);
      const touched = owner && [...owner, ...others, ...(run ? [run.spec.id] : [])];
      const written = await write(touched, (sql) => completeEffect(sql, finished, holder()));
      begun.delete(key);
      return written;
    },
    postponeEffect: async (key, dueAt) => {
      await write(runOf(key), async (sql) => {
        await sql.query(
          `update effects set due_at = $2, under_way = false
            where key = $1 and ($3::bigint is null or exists (select 1 from runs where id = run_id and holder = $3))`,
          [key, dueAt, holder() ?? null],
        );
        return { result: undefined };
      });
      begun.delete(key);
    },
    dueRuns: (now) => read(undefined, (sql) => findDueRuns(sql, now, holder())),
    fireTimers: async (now) => {
      const woken = new Set<string>();
      for (;;) {
        const fired = await write(undefined, (sql) => fireTimers(sql, now));
        for (const runId of fired.woken) woken.add(runId);
        if (!fired.more) return [...woken];
      }
    },
    nextDueAt: () => read(undefined, nextDueAt),
    findApproval: (id) => read(undefined, async (sql) => (await findApprovals(sql, "id = $1", [id]))[0]),
    approvalsOf: (rootId) => read(undefined, (sql) => findApprovals(sql, "root_id = $1", [rootId])),
    decideApproval: (decision) => write(undefined, (sql) => decide(sql, decision)),
    changesOf: (runId, upTo) => read([runId], (sql) => readChanges(sql, runId, upTo)),
    findPost: (name) =>
      read(undefined, async (sql) => {
        const [post] = await sql.query<{ commentId: number; updatedAt: number }>(
          'select comment_id as "commentId", updated_at as "updatedAt" from posts where name = $1',
          [name],
        );
        return post;
      }),
    ping: () =>
      read([], async (sql) => {
        await sql.query("select 1");
      }),
    close: async () => {
      if (closed) return;
      closed = true;
      await order.settled();
      await connection.close();
    },
  };
}

function touchedBy({ deliveryId, run, events, effects = [] }: Parameters<Store["ingest"]>[0]): string[] {
  const runIds = [...events, ...effects].map(({ runId }) => runId);
  return [...runIds, ...(run ? [run.spec.id] : []), ...(deliveryId === undefined ? [] : [deliveryName(deliveryId)])];
}

function deliveryName(guid: string): string {
  return `delivery ${guid}`;
}
