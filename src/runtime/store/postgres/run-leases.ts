import type { Job, JobQueue } from "./job-queue.ts";
import type { Outcome, PostgresConnection, Sql } from "./postgres-connection.ts";
import { channel, lockClass } from "./replica.ts";

/**
 * Which replica holds which run. A run's row names its holder, and everything that changes holders locks that row first;
 * so whoever rings for a run finds either somebody who will hear of it or nobody, and then puts it into the queue.
 */
export interface RunLeases {
  /** Something may have happened to these runs. */
  requestWake(runIds: readonly string[]): Promise<void>;
  /** Takes up to so many runs that nobody drives. */
  acquire(holder: number, most: number): Promise<Job[]>;
  /**
   * Gives a run up: `again` when it was rung for since it was taken, and is kept; `lost` when somebody else has it. With
   * `handOver` it goes back into the queue, since something may be left to do.
   */
  release(holder: number, job: Job, handOver: boolean): Promise<"released" | "again" | "lost">;
  /** Gives the runs of replicas that died, and of these, to the others. The runs it freed. */
  reclaim(holder: number, more?: readonly number[]): Promise<string[]>;
}

export function createRunLeases(connection: PostgresConnection, queue: JobQueue): RunLeases {
  return {
    requestWake: async (runIds) => {
      const held = await connection.query<{ id: string }>(
        `update runs set rung = true where id in
          (select id from runs where id = any ($1::text[]) and holder is not null order by id for no key update) returning id`,
        [runIds],
      );
      const free = runIds.filter((runId) => !held.some(({ id }) => id === runId));
      await queue.put(await withRepository(connection, free), connection);
      await say(connection, runIds);
    },
    acquire: (holder, most) => connection.transaction((sql) => take(sql, queue, { holder, most })),
    release: (holder, job, handOver) => connection.transaction((sql) => release(sql, queue, { holder, job, handOver })),
    reclaim: (holder, more = []) => connection.transaction((sql) => recover(sql, queue, { holder, more })),
  };
}

async function take(
  sql: Sql,
  queue: JobQueue,
  { holder, most }: { holder: number; most: number },
): Promise<Outcome<Job[]>> {
  const jobs = await queue.take(most, sql);
  if (jobs.length === 0) return { result: [], undo: true };

  const claimed = await sql.query<{ id: string }>(
    `update runs set holder = $1, job = taken.job, rung = false
      from (select runs.id, given.job from runs join unnest($2::text[], $3::uuid[]) as given (id, job) on given.id = runs.id
        order by runs.id for no key update of runs) as taken
      where runs.id = taken.id returning runs.id`,
    [holder, jobs.map(({ runId }) => runId), jobs.map(({ id }) => id)],
  );
  const isThere = ({ runId }: Job) => claimed.some(({ id }) => id === runId);
  await queue.drop(
    jobs.filter((job) => !isThere(job)).map(({ id }) => id),
    sql,
  );
  return { result: jobs.filter(isThere) };
}

async function release(
  sql: Sql,
  queue: JobQueue,
  { holder, job, handOver }: { holder: number; job: Job; handOver: boolean },
): Promise<Outcome<"released" | "again" | "lost">> {
  const [run] = await sql.query<{ holder: number | null; job: string | null; rung: boolean }>(
    "select holder, job, rung from runs where id = $1 for no key update",
    [job.runId],
  );
  if (run?.holder !== holder || run.job !== job.id) return { result: "lost", undo: true };
  if (run.rung && !handOver) {
    await sql.query("update runs set rung = false where id = $1", [job.runId]);
    return { result: "again" };
  }

  await sql.query("update runs set holder = null, job = null, rung = false where id = $1", [job.runId]);
  await queue.drop([job.id], sql);
  if (handOver) {
    await queue.put(await withRepository(sql, [job.runId]), sql);
    await say(sql, [""]);
  }
  return { result: "released" };
}

async function recover(
  sql: Sql,
  queue: JobQueue,
  { holder, more }: { holder: number; more: readonly number[] },
): Promise<Outcome<string[]>> {
  const dead = await sql.query<{ id: number }>(
    `select id from replicas where id <> $1 and (id = any ($2::bigint[]) or pg_try_advisory_xact_lock($3, id::integer))
      order by id for update skip locked`,
    [holder, more, lockClass],
  );
  const gone = [...new Set([...dead.map(({ id }) => id), ...more])];
  if (gone.length === 0) return { result: [], undo: true };

  const left = await sql.query<{ id: string; job: string }>(
    "select id, job from runs where holder = any ($1::bigint[]) order by id for no key update",
    [gone],
  );
  const runIds = left.map(({ id }) => id);
  await sql.query("update runs set holder = null, job = null, rung = false where id = any ($1::text[])", [runIds]);
  await queue.drop(
    left.map(({ job }) => job),
    sql,
  );
  await queue.put(await withRepository(sql, runIds), sql);
  await sql.query("delete from replicas where id = any ($1::bigint[])", [gone]);
  await say(sql, [""]);
  return { result: runIds };
}

function withRepository(
  sql: Pick<Sql, "query">,
  runIds: readonly string[],
): Promise<{ id: string; repository: string }[]> {
  return sql.query(
    "select id, coalesce(repository_id::text, owner || '/' || repo) as repository from runs where id = any ($1::text[])",
    [runIds],
  );
}

/** Heard when the transaction stands. */
async function say(sql: Pick<Sql, "query">, words: readonly string[]): Promise<void> {
  await sql.query("select pg_notify($1, word) from unnest($2::text[]) as word", [channel, words]);
}
