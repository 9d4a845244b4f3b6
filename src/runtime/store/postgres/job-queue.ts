import { randomBytes } from "node:crypto";
import { PgBoss } from "pg-boss";
import { z } from "zod";
import type { PostgresConnection, Sql } from "./postgres-connection.ts";

/** A run that a replica has taken from the queue. */
export interface QueueJob {
  id: string;
  runId: string;
  /** False if the run did not count toward the limit of runs when it was put into the queue. */
  isCounted: boolean;
  /** The number of times the job was taken back from a replica that did not respond. */
  retryCount: number;
}

/** A root run that waits because too many runs of its repository are active. */
const WaitingRun = z.object({
  runId: z.string(),
  /** Its position in the queue of its repository, from 1. */
  position: z.number(),
});
export type WaitingRun = z.infer<typeof WaitingRun>;

/** Runs that have waited for less time are about to be taken. */
const minWaitSeconds = 2;

const schema = "golem_forge_queue";
const name = "runs";
/** A job without a heartbeat for this long is given to another replica. It is the minimum that pg-boss allows. */
const heartbeatSeconds = 10;

/** pg-boss returns the jobs it has touched, but its types do not include them. */
const Touched = z.object({ settled: z.array(z.string()).nullish() });

/**
 * The runs that have something to do and are not held by a replica. A run is in the queue at most once, waiting or
 * taken. Operations join the caller's transaction, so that jobs always match the rows of the store.
 */
export type JobQueue = Awaited<ReturnType<typeof openJobQueue>>;

export async function openJobQueue(
  connection: PostgresConnection,
  options: { runsPerRepository: number | undefined; onError: (error: unknown) => void },
) {
  const boss = new PgBoss({
    db: databaseOf(connection),
    schema,
    schedule: false,
    superviseIntervalSeconds: 5,
    monitorIntervalSeconds: 5,
  });
  // pg-boss copies some errors into plain objects, which a log would show without their message.
  boss.on("error", (error) => options.onError(error instanceof Error ? error : Object.assign(new Error(), error)));
  await boss.start();
  // Not the policy `stately`, which keeps a second job of a run waiting while the first is active: then a batch
  // that contains the second one violates the policy, and none of its jobs can be taken.
  const settings = { heartbeatSeconds, retryLimit: 1_000, expireInSeconds: 23 * 60 * 60 };
  await boss.createQueue(name, { ...settings, policy: "exclusive" });
  await boss.updateQueue(name, settings);

  return {
    /** The maximum number of active runs per repository. */
    runsPerRepository: options.runsPerRepository,
    /** Returns the runs that wait because too many runs of their repository are active, by their position. */
    findWaiting: (): Promise<WaitingRun[]> =>
      options.runsPerRepository === undefined
        ? Promise.resolve([])
        : connection.query(
            WaitingRun,
            `select run_id as "runId", position from (
                select singleton_key as run_id, created_on,
                  row_number() over (partition by group_id order by id) as position
                from ${schema}.job where name = $1 and state < 'active' and group_id is not null) as waiting
              join runs on runs.id = run_id
              where parent_id is null and holder is null and created_on < now() - $2 * interval '1 second'
              order by position, created_on`,
            [name, minWaitSeconds],
          ),
    /** Runs without a repository count toward no limit. */
    put: async (runs: readonly { id: string; repository: string | null }[], sql: Pick<Sql, "raw">): Promise<void> => {
      const jobs = runs.map(({ id, repository }) => ({
        id: nextJobId(),
        singletonKey: id,
        data: { runId: id },
        ...(options.runsPerRepository !== undefined && repository !== null && { group: { id: repository } }),
      }));
      if (jobs.length > 0) await boss.insert(name, jobs, { db: databaseOf(sql) });
      // A run that waits for its turn may have been stopped meanwhile.
      const uncounted =
        options.runsPerRepository === undefined ? [] : runs.filter(({ repository }) => repository === null);
      if (uncounted.length === 0) return;
      await sql.raw(
        `update ${schema}.job set group_id = null where name = $1 and id in (
            select id from ${schema}.job
              where name = $1 and singleton_key = any ($2::text[]) and state < 'active' and group_id is not null
              for update skip locked)`,
        [name, uncounted.map(({ id }) => id)],
      );
    },
    take: async (limit: number, sql: Pick<Sql, "raw">): Promise<QueueJob[]> => {
      const groupConcurrency = options.runsPerRepository;
      const jobs = await boss.fetch<{ runId: string }>(name, {
        batchSize: limit,
        db: databaseOf(sql),
        ...(groupConcurrency !== undefined && { groupConcurrency }),
      });
      return jobs.map(({ id, data, retryCount, groupId }) => ({
        ...{ id, retryCount, runId: data.runId },
        isCounted: groupConcurrency === undefined || Boolean(groupId),
      }));
    },
    remove: async (jobIds: readonly string[], sql: Pick<Sql, "raw">): Promise<void> => {
      if (jobIds.length > 0) await boss.deleteJob(name, [...jobIds], { db: databaseOf(sql) });
    },
    /** Sends a heartbeat for these jobs, and returns those that still belong to this replica. */
    touch: async (jobs: readonly QueueJob[]): Promise<QueueJob[]> => {
      if (jobs.length === 0) return [];
      const { settled } = Touched.parse(await boss.touch(name, [...jobs]));
      return jobs.filter(({ id }) => settled?.includes(id));
    },
    close: () => boss.stop({ graceful: false }),
  };
}

let lastMs = 0;
let sequence = 0;

/** Returns a UUID of version 7. pg-boss takes the waiting jobs of a group in the order of their ids. */
function nextJobId(): string {
  const now = Date.now();
  sequence = now > lastMs ? 0 : sequence + 1;
  // Uses the next millisecond when the numbers of this one are used up.
  lastMs = Math.max(lastMs, now) + (sequence > 0xfff ? 1 : 0);
  sequence %= 0x1000;
  const digits = `${lastMs.toString(16).padStart(12, "0")}7${sequence.toString(16).padStart(3, "0")}8${randomBytes(8).toString("hex").slice(1)}`;
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function databaseOf(sql: Pick<Sql, "raw">): {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
} {
  return { executeSql: (text, values) => sql.raw(text, values) };
}
