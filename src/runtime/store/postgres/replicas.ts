import type { Client, Notification } from "pg";
import { z } from "zod";
import type { JobQueue, QueueJob } from "./job-queue.ts";
import { releaseDeliveries } from "./pending-deliveries.ts";
import { type Outcome, type PostgresConnection, readableJson, type Sql } from "./postgres-connection.ts";

/** The notification channel. The payload is the id of a run that was woken, or empty if the queue may have a job. */
const channel = "golem_forge";

/** "GLMF": separates our advisory locks from those of other programs. */
export const lockClass = 0x474c4d46;

/** The driver returns bigint columns of plain queries as text. */
const Ids = z.array(z.object({ id: z.coerce.number() }));

/**
 * This process as one of the replicas that share the database. Its session holds a lock on a number that is never
 * reused. When the process dies, the server releases the lock and the other replicas see it immediately.
 */
export type Replica = Awaited<ReturnType<typeof joinReplicas>>;

const timeoutMs = 5_000;

/** Joins under a new number, and listens to the channel. */
export async function joinReplicas(connection: PostgresConnection, onNotification: (payload: string) => void) {
  const client = await connection.connect();
  /** Resolves when the session has ended. From then on, other replicas may take over its runs. */
  const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
  client.on("error", () => lose());
  client.on("end", () => lose());
  client.on("notification", ({ payload = "" }: Notification) => onNotification(payload));
  try {
    // The server notices within about 10 s if a host is gone without having closed the connection.
    await client.query("set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3");
    const id = await register(client);
    return { id, findDead: () => findDead(client, id), lost, leave: () => client.end() };
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

async function register(client: Client): Promise<number> {
  const { rows } = await client.query("select nextval('replica_ids') as id");
  const id = Ids.parse(rows)[0]?.id ?? 0;
  await client.query("select pg_advisory_lock($1, $2)", [lockClass, id]);
  await client.query(`listen ${channel}`);
  await client.query("insert into replicas (id) values ($1)", [id]);
  return id;
}

/** Returns the ids of dead replicas that have not been removed. Rejects if the session does not respond. */
async function findDead(client: Client, id: number): Promise<number[]> {
  // Without a response, it is unknown if the lock is lost. Ending the session makes sure that it is.
  const timeout = setTimeout(() => void client.end(), timeoutMs);
  try {
    const { rows } = await client.query(
      "select id from replicas where id <> $1 and pg_try_advisory_xact_lock($2, id::integer)",
      [id, lockClass],
    );
    return Ids.parse(rows).map((row) => row.id);
  } finally {
    clearTimeout(timeout);
  }
}

const Id = z.object({ id: z.string() });
const ReplicaId = z.object({ id: z.number() });
const Lease = z.object({ holder: z.number().nullable(), job: z.string().nullable(), wake_requested: z.boolean() });
const LeasedRun = z.object({ id: z.string(), job: z.string().nullable() });
const RunOfRepository = z.object({ id: z.string(), repository: z.string().nullable() });

/** `renewed`: the run was woken since it was acquired, and is kept. `lost`: another replica has it. */
export type Release = "released" | "renewed" | "lost";

/**
 * The leases of replicas on runs. The row of a run names its holder, and every change of the holder locks that row
 * first. So a wake-up reaches the holder or, if there is none, puts the run into the queue.
 */
export class RunLeases {
  readonly #connection: PostgresConnection;
  readonly #queue: JobQueue;

  constructor(connection: PostgresConnection, queue: JobQueue) {
    this.#connection = connection;
    this.#queue = queue;
  }

  /** Something may have happened to these runs. */
  async requestWake(runIds: readonly string[]): Promise<void> {
    const held = await this.#connection.query(
      Id,
      `update runs set wake_requested = true where id in
        (select id from runs where id = any ($1::text[]) and holder is not null order by id for no key update) returning id`,
      [runIds],
    );
    const free = runIds.filter((runId) => !held.some(({ id }) => id === runId));
    await this.#enqueue(this.#connection, free);
    await notify(this.#connection, runIds);
  }

  /** Acquires up to `limit` runs that no replica holds. */
  acquire(holder: number, limit: number): Promise<QueueJob[]> {
    return this.#connection.transaction(async (sql): Promise<Outcome<QueueJob[]>> => {
      const jobs = await this.#queue.take(limit, sql);
      if (jobs.length === 0) return { result: [], undo: true };

      const acquired = await sql.query(
        Id,
        `update runs set holder = $1, job = taken.job, wake_requested = false
          from (select runs.id, given.job from runs join unnest($2::text[], $3::uuid[]) as given (id, job) on given.id = runs.id
            order by runs.id for no key update of runs) as taken
          where runs.id = taken.id returning runs.id`,
        [holder, jobs.map(({ runId }) => runId), jobs.map(({ id }) => id)],
      );
      const isAcquired = ({ runId }: QueueJob) => acquired.some(({ id }) => id === runId);
      await this.#queue.remove(
        jobs.filter((job) => !isAcquired(job)).map(({ id }) => id),
        sql,
      );
      return { result: jobs.filter(isAcquired) };
    });
  }

  /** Holds a waiting run without taking it from the queue. Returns false if a replica holds it. */
  async borrow(holder: number, runId: string): Promise<boolean> {
    const text = "update runs set holder = $2, job = null where id = $1 and holder is null";
    return (await this.#connection.run(text, [runId, holder])) > 0;
  }

  async isBorrowed(holder: number, runId: string): Promise<boolean> {
    const text = "select 1 from runs where id = $1 and holder = $2 and job is null";
    return (await this.#connection.run(text, [runId, holder])) > 0;
  }

  /** Returns a borrowed run, unless a replica has taken it from the queue in the meantime. */
  giveBack(holder: number, runId: string): Promise<void> {
    return this.#connection.transaction(async (sql): Promise<Outcome<void>> => {
      const given = await sql.run(
        "update runs set holder = null, wake_requested = false where id = $1 and holder = $2 and job is null",
        [runId, holder],
      );
      // It may have been woken in the meantime. A run that is already in the queue is not added again.
      if (given > 0) await this.#enqueue(sql, [runId]);
      return { result: undefined };
    });
  }

  /** True for the replica that joined first, which shows the positions of waiting runs. */
  async isFirst(holder: number): Promise<boolean> {
    return (await this.#connection.run("select 1 from replicas having min(id) = $1", [holder])) > 0;
  }

  /**
   * Releases a run. With `handOver`, puts it back into the queue, since it may have something left to do. `awaitsTurn`: it has
   * work, so that it counts toward the limit of runs.
   */
  release(
    holder: number,
    job: QueueJob,
    { handOver, awaitsTurn = false }: { handOver: boolean; awaitsTurn?: boolean },
  ): Promise<Release> {
    return this.#connection.transaction(async (sql): Promise<Outcome<Release>> => {
      const [run] = await sql.query(
        Lease,
        "select holder, job, wake_requested from runs where id = $1 for no key update",
        [job.runId],
      );
      if (run?.holder !== holder || run.job !== job.id) return { result: "lost", undo: true };
      if (run.wake_requested && !handOver) {
        await sql.run("update runs set wake_requested = false where id = $1", [job.runId]);
        return { result: "renewed" };
      }

      await sql.run("update runs set holder = null, job = null, wake_requested = false where id = $1", [job.runId]);
      await this.#queue.remove([job.id], sql);
      if (handOver) {
        await this.#enqueue(sql, [job.runId], { awaitsTurn });
        await notify(sql, [""]);
      }
      return { result: "released" };
    });
  }

  /**
   * Puts the runs of dead replicas, and of the given ones, back into the queue, and returns their ids. The deliveries that they
   * claimed are due again.
   */
  reclaim(holder: number, replicas: readonly number[] = []): Promise<string[]> {
    return this.#connection.transaction(async (sql): Promise<Outcome<string[]>> => {
      const dead = await sql.query(
        ReplicaId,
        `select id from replicas where id <> $1 and (id = any ($2::bigint[]) or pg_try_advisory_xact_lock($3, id::integer))
          order by id for update skip locked`,
        [holder, replicas, lockClass],
      );
      const gone = [...new Set([...dead.map(({ id }) => id), ...replicas])];
      if (gone.length === 0) return { result: [], undo: true };

      const left = await sql.query(
        LeasedRun,
        "select id, job from runs where holder = any ($1::bigint[]) order by id for no key update",
        [gone],
      );
      const runIds = left.map(({ id }) => id);
      await sql.run("update runs set holder = null, job = null, wake_requested = false where id = any ($1::text[])", [
        runIds,
      ]);
      await this.#queue.remove(
        left.flatMap(({ job }) => (job === null ? [] : [job])),
        sql,
      );
      await this.#enqueue(sql, runIds);
      await releaseDeliveries(sql, gone);
      await sql.run("delete from replicas where id = any ($1::bigint[])", [gone]);
      await notify(sql, [""]);
      return { result: runIds };
    });
  }

  async #enqueue(
    sql: Pick<Sql, "query" | "raw">,
    runIds: readonly string[],
    { awaitsTurn = false } = {},
  ): Promise<void> {
    if (this.#queue.runsPerRepository === undefined) {
      const known = await sql.query(Id, "select id from runs where id = any ($1::text[])", [runIds]);
      return this.#queue.put(
        known.map(({ id }) => ({ id, repository: null })),
        sql,
      );
    }
    const runs = await sql.query(
      RunOfRepository,
      // Runs that are being stopped, or only have comments to post, count toward no limit. One that has to work nevertheless
      // finds that out before it begins, and awaits its turn.
      `select id, case when $2 or coalesce(last_control.resumes, status = 'active' or (status = 'waiting' and last_event > last_seen_event))
          then coalesce(repository_id::text, owner || '/' || repo) end as repository
        from runs left join lateral (
          select type in ('run.resume', 'pull_request.reopened') as resumes
            from inbox join events on events.id = inbox.event_id, lateral (select ${readableJson("event")} ->> 'type' as type) as read
            where inbox.run_id = runs.id and type in ('run.stop', 'run.cancel', 'run.exit', 'pull_request.closed',
              'run.resume', 'pull_request.reopened')
            order by inbox.event_id desc limit 1
        ) as last_control on true
        where runs.id = any ($1::text[])`,
      [runIds, awaitsTurn],
    );
    await this.#queue.put(runs, sql);
  }
}

/** Notifies all replicas, on commit, of a run or, with an empty string, of the queue. */
async function notify(sql: Pick<Sql, "run">, payloads: readonly string[]): Promise<void> {
  await sql.run("select pg_notify($1, payload) from unnest($2::text[]) as payload", [channel, payloads]);
}
