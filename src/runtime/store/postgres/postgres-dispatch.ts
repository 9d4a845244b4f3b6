import { setTimeout as pause } from "node:timers/promises";
import type { Dispatch, DispatchTarget } from "#runtime/dispatch.ts";
import type { Job, JobQueue } from "./job-queue.ts";
import type { PostgresConnection } from "./postgres-connection.ts";
import { joinReplicas, type Replica } from "./replica.ts";
import { createRunLeases } from "./run-leases.ts";

export interface PostgresDispatch extends Dispatch {
  /** The number this replica goes by; 0, which holds nothing, while it is cut off from the others. */
  holder(): number;
}

export interface PostgresDispatchOptions {
  connection: PostgresConnection;
  queue: JobQueue;
  onError: (error: unknown) => void;
}

/** How often the others are looked at, and the queue besides, should a notification be lost. */
const lookMs = 500;
const touchMs = 2_000;
const retryMs = 1_000;
const takenAtOnce = 50;

/**
 * The dispatch of replicas that share a PostgreSQL database. A replica that dies is noticed by its lock, within a second,
 * and its runs go on elsewhere; one that hangs, when it has not touched its jobs for ten seconds. A replica that loses its
 * lock aborts what it has under way and joins again under another number.
 */
export function createPostgresDispatch({ connection, queue, onError }: PostgresDispatchOptions): PostgresDispatch {
  const claims = createRunLeases(connection, queue);
  const held = new Map<string, Job>();
  const releasing = new Set<Promise<unknown>>();
  const ringing = new Set<string>();
  let driver: DispatchTarget | undefined;
  let replica: Replica | undefined;
  let taking: Promise<void> | undefined;
  let takeAgain = false;
  let flushing: Promise<void> | undefined;
  let stopping = false;
  let stopped = false;
  const timers: NodeJS.Timeout[] = [];

  const holder = () => replica?.id ?? 0;

  async function start(given: DispatchTarget): Promise<void> {
    driver = given;
    await join();
    timers.push(setInterval(() => void look().catch(onError), lookMs));
    timers.push(setInterval(() => void touch().catch(onError), touchMs));
    await settleIn([]);
  }

  async function join(): Promise<void> {
    const joined = await joinReplicas(connection, hear);
    if (stopped) return joined.leave();
    replica = joined;
    void joined.lost.then(async () => {
      if (replica === joined) await rejoin(joined.id);
    });
  }

  /** Whoever saw the lock go may have these runs already. */
  async function rejoin(former: number): Promise<void> {
    replica = undefined;
    for (const runId of held.keys()) driver?.revokeLease(runId);
    held.clear();
    onError(new Error("The session that says that this replica lives was lost; its runs go on wherever there is one."));
    while (!replica && !stopped) {
      try {
        await join();
      } catch (error) {
        onError(error);
        await pause(retryMs);
      }
    }
    await settleIn([former]).catch(onError);
    await driver?.sweep().catch(onError);
  }

  async function settleIn(former: number[]): Promise<void> {
    if (replica) await claims.reclaim(replica.id, former);
    take();
  }

  function hear(runId: string): void {
    if (runId === "" || !driver?.notify(runId)) take();
  }

  function wake(runId: string): void {
    ringing.add(runId);
    ringAll();
  }

  function ringAll(): void {
    flushing ??= flush().finally(() => {
      flushing = undefined;
      if (ringing.size > 0 && !stopped) ringAll();
    });
  }

  /** All that is asked in one turn goes together. */
  async function flush(): Promise<void> {
    await Promise.resolve();
    while (ringing.size > 0 && !stopped) {
      const runIds = [...ringing].sort();
      ringing.clear();
      try {
        await claims.requestWake(runIds);
      } catch (error) {
        onError(error);
        for (const runId of runIds) ringing.add(runId);
        await pause(retryMs);
      }
    }
  }

  function take(): void {
    takeAgain = true;
    taking ??= takeAll()
      .catch(onError)
      .finally(() => {
        taking = undefined;
        if (takeAgain && replica && !stopping) take();
      });
  }

  async function takeAll(): Promise<void> {
    while (takeAgain && replica && !stopping) {
      takeAgain = false;
      const id = replica.id;
      const jobs = await claims.acquire(id, takenAtOnce);
      for (const job of jobs) void hold(id, job).catch(onError);
      if (jobs.length === takenAtOnce) takeAgain = true;
    }
  }

  async function hold(id: number, job: Job): Promise<void> {
    const { runId } = job;
    held.set(runId, job);
    do await driver?.process(runId);
    while ((await release(id, job)) === "again");
    if (held.get(runId) === job) held.delete(runId);
    take();
  }

  async function release(id: number, job: Job): Promise<"released" | "again" | "lost"> {
    const work = giveUp(id, job);
    releasing.add(work);
    return work.finally(() => releasing.delete(work));
  }

  /** Tried until it stands, since a run that is held by someone who does nothing is driven by nobody. */
  async function giveUp(id: number, job: Job): Promise<"released" | "again" | "lost"> {
    // What was lost to another is not ours to give up.
    while (holder() === id && held.get(job.runId) === job) {
      try {
        return await claims.release(id, job, stopping);
      } catch (error) {
        onError(error);
        await pause(retryMs);
      }
    }
    return "lost";
  }

  async function look(): Promise<void> {
    if (!replica || stopping) return;
    take();
    const dead = await replica.dead().catch(() => []);
    if (dead.length === 0 || !replica) return;
    await claims.reclaim(replica.id);
    await driver?.sweep();
  }

  async function touch(): Promise<void> {
    const touched = [...held.values()];
    const ours = new Set(await queue.touch(touched));
    for (const job of touched) {
      if (ours.has(job) || held.get(job.runId) !== job) continue;
      held.delete(job.runId);
      driver?.revokeLease(job.runId);
    }
  }

  async function stop(finish: () => Promise<void>): Promise<void> {
    stopping = true;
    await taking;
    await finish();
    await Promise.all(releasing);
    await flushing;
    stopped = true;
    for (const timer of timers) clearInterval(timer);
    const leaving = replica;
    replica = undefined;
    if (leaving) {
      // What was not done in time is somebody else's.
      await claims.reclaim(leaving.id, [leaving.id]).catch(onError);
      await leaving.leave();
    }
  }

  return { attach: start, wake, holder, detach: stop };
}
