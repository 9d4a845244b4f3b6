import { PgBoss } from "pg-boss";
import { z } from "zod";
import type { PostgresConnection, Sql } from "./postgres-connection.ts";

/** A run that a replica has taken from the queue. */
export interface Job {
  id: string;
  runId: string;
  /** How often the job was taken back from a replica that did not answer. */
  retryCount: number;
}

/**
 * The runs that have something to do and that no replica works on. A run is in the queue at most once, waiting or taken.
 * Operations join the caller's transaction, so that a job always matches the rows of the store.
 */
export interface JobQueue {
  put(runs: readonly { id: string; repository: string }[], sql: Pick<Sql, "raw">): Promise<void>;
  take(limit: number, sql: Pick<Sql, "raw">): Promise<Job[]>;
  remove(jobIds: readonly string[], sql: Pick<Sql, "raw">): Promise<void>;
  /** Sends the heartbeat of these jobs, and returns those that still belong to this replica. */
  touch(jobs: readonly Job[]): Promise<Job[]>;
  close(): Promise<void>;
}

const name = "runs";
/** A job without a heartbeat for this long is given to another replica. It is the shortest time pg-boss allows. */
const heartbeatSeconds = 10;

/** pg-boss names the jobs it has touched, but its types do not. */
const Touched = z.object({ settled: z.array(z.string()).nullish() });

export async function openJobQueue(
  connection: PostgresConnection,
  options: { runsPerRepository: number | undefined; onError: (error: unknown) => void },
): Promise<JobQueue> {
  const boss = new PgBoss({
    db: databaseOf(connection),
    schema: "golem_forge_queue",
    schedule: false,
    superviseIntervalSeconds: 5,
    monitorIntervalSeconds: 5,
  });
  boss.on("error", options.onError);
  await boss.start();
  // Not the policy `stately`, which keeps a second job of a run waiting while the first is active: a batch that contains
  // the second one violates the policy, and nothing of the batch can be taken.
  const settings = { heartbeatSeconds, retryLimit: 1_000, expireInSeconds: 23 * 60 * 60 };
  await boss.createQueue(name, { ...settings, policy: "exclusive" });
  await boss.updateQueue(name, settings);

  return {
    put: async (runs, sql) => {
      const jobs = runs.map(({ id, repository }) => ({
        singletonKey: id,
        data: { runId: id },
        ...(options.runsPerRepository !== undefined && { group: { id: repository } }),
      }));
      if (jobs.length > 0) await boss.insert(name, jobs, { db: databaseOf(sql) });
    },
    take: async (limit, sql) => {
      const groupConcurrency = options.runsPerRepository;
      const jobs = await boss.fetch<{ runId: string }>(name, {
        batchSize: limit,
        db: databaseOf(sql),
        ...(groupConcurrency !== undefined && { groupConcurrency }),
      });
      return jobs.map(({ id, data, retryCount }) => ({ id, retryCount, runId: data.runId }));
    },
    remove: async (jobIds, sql) => {
      if (jobIds.length > 0) await boss.deleteJob(name, [...jobIds], { db: databaseOf(sql) });
    },
    touch: async (jobs) => {
      if (jobs.length === 0) return [];
      const { settled } = Touched.parse(await boss.touch(name, [...jobs]));
      return jobs.filter(({ id }) => settled?.includes(id));
    },
    close: () => boss.stop({ graceful: false }),
  };
}

function databaseOf(sql: Pick<Sql, "raw">): {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
} {
  return { executeSql: (text, values) => sql.raw(text, values) };
}
