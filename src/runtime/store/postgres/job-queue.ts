import { PgBoss } from "pg-boss";
import type { PostgresConnection, Sql } from "./postgres-connection.ts";

/** A run that someone has taken to drive it. */
export interface Job {
  id: string;
  runId: string;
  /** How often the job was taken from a replica that fell silent. */
  retryCount: number;
}

/**
 * Runs that have something to do and nobody who drives them. A run is in it once at most, waiting or taken; with
 * transactions of the caller's, so that a job and what the store knows of it are never apart.
 */
export interface JobQueue {
  put(runs: readonly { id: string; repository: string }[], sql: Pick<Sql, "raw">): Promise<void>;
  take(most: number, sql: Pick<Sql, "raw">): Promise<Job[]>;
  drop(jobIds: readonly string[], sql: Pick<Sql, "raw">): Promise<void>;
  /** Says that these are being worked on. Gives those of which that is true: others were given to somebody else. */
  touch(jobs: readonly Job[]): Promise<Job[]>;
  close(): Promise<void>;
}

const name = "runs";
/** Whoever does not touch a job for so long has lost it: the least that pg-boss allows. */
const heartbeatSeconds = 10;

export async function openJobQueue(
  connection: PostgresConnection,
  options: { runsPerRepository: number | undefined; onError: (error: unknown) => void },
): Promise<JobQueue> {
  const boss = new PgBoss({
    db: on(connection),
    schema: "golem_forge_queue",
    schedule: false,
    superviseIntervalSeconds: 5,
    monitorIntervalSeconds: 5,
  });
  boss.on("error", options.onError);
  await boss.start();
  // Not `stately`: it lets a second job of a run wait while the first is active, and whoever then takes several at a time
  // takes none, since taking that one breaks the policy and with it the whole batch.
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
      if (jobs.length > 0) await boss.insert(name, jobs, { db: on(sql) });
    },
    take: async (most, sql) => {
      const groupConcurrency = options.runsPerRepository;
      const jobs = await boss.fetch<{ runId: string }>(name, {
        batchSize: most,
        db: on(sql),
        ...(groupConcurrency !== undefined && { groupConcurrency }),
      });
      return jobs.map(({ id, data, retryCount }) => ({ id, retryCount, runId: data.runId }));
    },
    drop: async (jobIds, sql) => {
      if (jobIds.length > 0) await boss.deleteJob(name, [...jobIds], { db: on(sql) });
    },
    touch: async (jobs) => {
      if (jobs.length === 0) return [];
      const { settled } = (await boss.touch(name, [...jobs])) as { settled?: string[] | null };
      return jobs.filter(({ id }) => settled?.includes(id));
    },
    close: () => boss.stop({ graceful: false }),
  };
}

function on(sql: Pick<Sql, "raw">): { executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> } {
  return { executeSql: (text, values) => sql.raw(text, values) };
}
