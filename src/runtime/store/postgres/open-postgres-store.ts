import { UnreadableDataError } from "#domain/stored-data.ts";
import type { Dispatch } from "#runtime/scheduler/dispatch.ts";
import type { DeliveryStore, NewDelivery } from "#runtime/store/delivery-store.ts";
import { type Post, type Store, StoreClosedError } from "#runtime/store/store.ts";
import { PostColumns, readPost, TimerColumns } from "#runtime/store/stored-rows.ts";
import { advance, type Completion, completeEffects, touchedRuns } from "./advance.ts";
import { findCommands, readBacklog, readInboxes, readLedger, readLog, selectDailyCosts } from "./append-only-tables.ts";
import { beginExecution, decide, findApprovals, revokeStored } from "./approvals.ts";
import { readChanges } from "./changes.ts";
import {
  claimEffects,
  findDueRuns,
  findEffectProblem,
  findPostponedRuns,
  nextDueAt,
  postponeEffect,
  type QueueToClaim,
  setEffectProblem,
} from "./effects.ts";
import { bringForward, fireTimers } from "./fire-timers.ts";
import { openJobQueue } from "./job-queue.ts";
import {
  claimDeliveries,
  holdsDelivery,
  ingest,
  latestTime,
  nextDeliveryInMs,
  postponeDelivery,
  saveDeliveries,
} from "./pending-deliveries.ts";
import { type Outcome, openPostgresConnection, type PostgresConnection, type Sql } from "./postgres-connection.ts";
import { PostgresDispatch } from "./postgres-dispatch.ts";
import { removeExpired } from "./remove-expired.ts";
import {
  costSince,
  costsOfWorker,
  countRuns,
  findLiveRuns,
  findLocation,
  findRuns,
  isLocationCurrent,
  saveLocation,
} from "./runs.ts";
import { WriteBatches } from "./write-batches.ts";

/**
 * The store in a PostgreSQL database that several processes may share. `holder` returns the current number of this
 * replica: work is stored only for runs that this replica holds, so that a replica that has lost its runs cannot
 * overwrite the work of another. Closing the store closes the connection.
 */
export function openPostgresStore(
  connection: PostgresConnection,
  holder: () => number | undefined = () => undefined,
): Store {
  const operations = new Operations(connection);
  const read = operations.read.bind(operations);
  const write = operations.write.bind(operations);

  return {
    ingest: (delivery) => write(touchedBy(delivery), (sql) => ingest(sql, delivery)),
    ...deliveriesIn(operations, holder),
    ...effectsIn(operations, holder),
    findRun: (id) => read([id], async (sql) => (await findRuns(sql, "id", [id]))[0]),
    runsOfThread: ({ repositoryId, owner, repo, thread }) =>
      read(undefined, (sql) =>
        repositoryId === undefined
          ? findRuns(sql, "name", [owner, repo, thread])
          : findRuns(sql, "thread", [repositoryId, thread]),
      ),
    childrenOf: (runId) => read(undefined, (sql) => findRuns(sql, "parent", [runId])),
    countRuns: (query) => read(undefined, (sql) => countRuns(sql, query)),
    costSince: (query) => read(undefined, (sql) => costSince(sql, query)),
    costsOfWorker: (query) => read(undefined, (sql) => costsOfWorker(sql, query)),
    liveRuns: (where) => read(undefined, (sql) => findLiveRuns(sql, where)),
    dailyCosts: (days) => read([], (sql) => selectDailyCosts(sql, days)),
    readBacklog: (now) => read([], (sql) => readBacklog(sql, now)),
    latestRuns: ({ before, limit }) =>
      read(undefined, (sql) =>
        findRuns(sql, "latest", [before?.createdAt ?? Number.MAX_SAFE_INTEGER, before?.id ?? "", limit]),
      ),
    findLocation: (repositoryId) => read(undefined, (sql) => findLocation(sql, repositoryId)),
    saveLocation: async (reported) => {
      if (await read(undefined, (sql) => isLocationCurrent(sql, reported))) return;
      await write(undefined, (sql) => saveLocation(sql, reported));
    },
    inbox: (runId) => read([runId], async (sql) => (await readInboxes(sql, [runId]))(runId)),
    log: (runId, after, limit) => read([runId], (sql) => readLog(sql, { runId, after, limit })),
    commandsOf: (runId) => read([runId], (sql) => findCommands(sql, runId)),
    advance: (step) =>
      write([step.runId, ...step.effects.map(({ runId }) => runId)], (sql) => advance(sql, step, holder())),
    effectProblem: (runId) => read([runId], (sql) => findEffectProblem(sql, runId)),
    dueRuns: (now) => read(undefined, (sql) => findDueRuns(sql, now, holder())),
    bringForward: (now) => write(undefined, (sql) => bringForward(sql, now)),
    fireTimers: async (now, expiredBy = now) => {
      const runIds = new Set<string>();
      for (;;) {
        const fired = await write(undefined, (sql) => fireTimers(sql, now, expiredBy));
        for (const runId of fired.runIds) runIds.add(runId);
        if (!fired.hasMore) return [...runIds];
      }
    },
    postponedRuns: (now) => read(undefined, (sql) => findPostponedRuns(sql, now, holder())),
    nextDueAt: (after) => read(undefined, (sql) => nextDueAt(sql, TimerColumns.shape.timer.options, after)),
    findApproval: (id) => read(undefined, async (sql) => (await findApprovals(sql, "id = $1", id))[0]),
    approvalsOf: (rootId) => read(undefined, (sql) => findApprovals(sql, "root_id = $1", rootId)),
    decideApproval: (decision) => write(undefined, (sql) => decide(sql, decision)),
    revokeApproval: (revocation) => write(undefined, (sql) => revokeStored(sql, revocation)),
    beginExecution: (execution) => write([execution.runId], (sql) => beginExecution(sql, execution, holder())),
    readLedger: (after, limit) => read(undefined, (sql) => readLedger(sql, { after, limit })),
    changesOf: (runId, upTo) => read([runId], (sql) => readChanges(sql, runId, upTo)),
    findPost: (name) => read(undefined, (sql) => findPost(sql, name)),
    removeExpired: (expired) => write([], (sql) => removeExpired(sql, expired)),
    latestTime: () => read([], latestTime),
    ping: () => read([], (sql) => sql.ping()),
    close: () => operations.close(),
  };
}

function effectsIn(
  operations: Operations,
  holder: () => number | undefined,
): Pick<Store, "claimEffect" | "completeEffect" | "completeStep" | "postponeEffect" | "setEffectProblem"> {
  const completions = new WriteBatches(
    (batch: readonly Completion[]) => operations.open().transaction((sql) => completeEffects(sql, batch, holder())),
    {
      maxConcurrent: 2,
      maxItems: 50,
      isAlone: ({ completion: { run, parentChanges } }) => (run ?? parentChanges?.mergedWith) !== undefined,
    },
  );
  const claims = new WriteBatches(
    (queues: readonly QueueToClaim[]) => claimEffects(operations.open(), queues, holder()),
    { maxConcurrent: 2, maxItems: 100 },
  );
  const complete = (completion: Completion) =>
    operations.writeBatched(touchedRuns(completion), () => completions.write(completion));

  return {
    claimEffect: (runId, queue, now) =>
      operations.writeBatched([runId], async () => {
        const effect = await claims.write({ runId, queue, now });
        if (effect instanceof UnreadableDataError) throw effect;
        return effect;
      }),
    completeEffect: async (completion) => (await complete({ completion })) !== undefined,
    completeStep: (completion, next) => complete({ completion, next }),
    postponeEffect: async (effect, dueAt, options) => {
      await operations.write([effect.runId], async (sql) => {
        await postponeEffect(sql, { ...effect, dueAt, holder: holder() }, options);
        return { result: undefined };
      });
    },
    setEffectProblem: async (runId, problem, now) => {
      await operations.write([runId], async (sql) => {
        await setEffectProblem(sql, { runId, problem, now, holder: holder() });
        return { result: undefined };
      });
    },
  };
}

function deliveriesIn(
  operations: Operations,
  holder: () => number | undefined,
): DeliveryStore & Pick<Store, "hasDelivery"> {
  const batches = new WriteBatches((batch: readonly NewDelivery[]) => saveDeliveries(operations.open(), batch), {
    maxConcurrent: 1,
    maxItems: 1_000,
  });
  const completions = new WriteBatches(
    async (keys: readonly string[]) => {
      await operations.open().run("delete from pending_deliveries where key = any ($1::text[])", [keys]);
      return keys.map(() => undefined);
    },
    { maxConcurrent: 1, maxItems: 1_000 },
  );
  return {
    hasDelivery: (guid) => operations.read([deliveryName(guid)], (sql) => hasDelivery(sql, guid)),
    saveDelivery: (delivery) => operations.writeBatched([deliveryName(delivery.key)], () => batches.write(delivery)),
    claimDeliveries: (query) =>
      operations.writeAlone(["claimed delivery"], (sql) => claimDeliveries(sql, query, holder())),
    holdsDelivery: (claim) => operations.read([deliveryName(claim.key)], (sql) => holdsDelivery(sql, claim)),
    postponeDelivery: (claim, delayMs, { hasFailed = false } = {}) =>
      operations.writeAlone([deliveryName(claim.key)], (sql) =>
        postponeDelivery(sql, { ...claim, delayMs, hasFailed }),
      ),
    completeDelivery: (key) => operations.writeBatched([deliveryName(key)], () => completions.write(key)),
    nextDeliveryInMs: () => operations.read(["claimed delivery"], nextDeliveryInMs),
  };
}

/** The reads and writes of this process until the store is closed, ordered by what they touch. */
class Operations {
  readonly #connection: PostgresConnection;
  readonly #order = new OperationOrder();
  #isClosed = false;

  constructor(connection: PostgresConnection) {
    this.#connection = connection;
  }

  async write<Result>(
    touched: readonly string[] | undefined,
    work: (sql: Sql) => Promise<Outcome<Result>>,
  ): Promise<Result> {
    const { transaction } = this.open();
    return this.#order.write(touched, () => transaction(work));
  }

  /** Writes that are single statements, each of which is a transaction. */
  async writeAlone<Result>(
    touched: readonly string[],
    work: (sql: PostgresConnection) => Promise<Result>,
  ): Promise<Result> {
    const connection = this.open();
    return this.#order.write(touched, () => work(connection));
  }

  /** Writes that join a transaction with others, none of which touches the same names. */
  async writeBatched<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result> {
    this.open();
    return this.#order.write(touched, work);
  }

  async read<Result>(
    touched: readonly string[] | undefined,
    work: (sql: PostgresConnection) => Promise<Result>,
  ): Promise<Result> {
    const connection = this.open();
    return this.#order.read(touched, () => work(connection));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#order.settled();
    await this.#connection.close();
  }

  /** Returns the connection. Throws once the store is closed. */
  open(): PostgresConnection {
    if (this.#isClosed) throw new StoreClosedError();
    return this.#connection;
  }
}

async function hasDelivery(sql: Pick<Sql, "run">, guid: string): Promise<boolean> {
  return (await sql.run("select 1 from deliveries where guid = $1 and part = ''", [guid])) > 0;
}

async function findPost(sql: Pick<Sql, "query">, name: string): Promise<Post | undefined> {
  const text = 'select comment_id as "commentId", updated_at as "updatedAt", shown from posts where name = $1';
  const [row] = await sql.query(PostColumns, text, [name]);
  return row && readPost(row, name);
}

function touchedBy({ deliveryId, run, events, effects = [] }: Parameters<Store["ingest"]>[0]): string[] {
  const runIds = [...events, ...effects].map(({ runId }) => runId);
  return [...runIds, ...(run ? [run.spec.id] : []), ...(deliveryId === undefined ? [] : [deliveryName(deliveryId)])];
}

function deliveryName(guid: string): string {
  return `delivery ${guid}`;
}

/**
 * Orders the operations of one process, which run on several connections: an operation waits for earlier writes that
 * touch the same names. Reads never make another operation wait.
 */
class OperationOrder {
  /** The last write of each name. */
  readonly #last = new Map<string, Promise<void>>();
  readonly #writes = new Set<Promise<void>>();
  readonly #pending = new Set<Promise<void>>();
  /** The last write that may touch anything. */
  #fence: Promise<void> | undefined;

  /** `touched` contains the names that the work writes; undefined means that it may write anything. */
  write<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result> {
    const { result, ended } = this.#start(touched, work);
    this.#writes.add(ended);
    if (touched) for (const name of touched) this.#last.set(name, ended);
    else this.#fence = ended;
    void ended.then(() => {
      this.#writes.delete(ended);
      if (this.#fence === ended) this.#fence = undefined;
      for (const name of touched ?? []) if (this.#last.get(name) === ended) this.#last.delete(name);
    });
    return result;
  }

  read<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result> {
    return this.#start(touched, work).result;
  }

  /** Resolves when all operations so far have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#pending);
  }

  #start<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>) {
    const before = touched ? [this.#fence, ...touched.map((name) => this.#last.get(name))] : [...this.#writes];
    const result = Promise.all(before).then(work);
    const ended = result.then(
      () => undefined,
      () => undefined,
    );
    this.#pending.add(ended);
    void ended.then(() => this.#pending.delete(ended));
    return { result, ended };
  }
}

export interface SharedDatabase {
  url: string;
  /** The maximum number of active runs per repository, over all replicas. Default: no limit. */
  runsPerRepository?: number | undefined;
}

/** Opens the store and the dispatch that divides its runs among replicas, which must be detached first. */
export async function openSharedStore(
  { url, runsPerRepository }: SharedDatabase,
  { onError }: { onError: (error: unknown) => void },
): Promise<{ store: Store; dispatch: Dispatch }> {
  const connection = await openPostgresConnection(url);
  try {
    const queue = await openJobQueue(connection, { runsPerRepository, onError });
    const dispatch = new PostgresDispatch({ connection, queue, onError });
    const store = openPostgresStore(connection, () => dispatch.holder);
    const close = async () => {
      await queue.close();
      await store.close();
    };
    return { store: { ...store, close }, dispatch };
  } catch (error) {
    await connection.close();
    throw error;
  }
}
