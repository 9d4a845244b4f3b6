import { setTimeout as pause } from "node:timers/promises";
import { LeaseLostError, startStopwatch } from "#domain/work-context.ts";
import { type Dispatch, type DispatchTarget, type Processed, QueuePositions } from "#runtime/scheduler/dispatch.ts";
import type { JobQueue, QueueJob, WaitingRun } from "./job-queue.ts";
import type { PostgresConnection } from "./postgres-connection.ts";
import { joinReplicas, type Release, type Replica, RunLeases } from "./replicas.ts";

/** The interval for checking for dead replicas and, in case a notification was lost, for jobs. */
const pollMs = 500;
const heartbeatMs = 2_000;
const retryMs = 1_000;
/** Another replica takes over 10 s after the last heartbeat. For half of that, the lease needs no confirmation. */
const confirmedForMs = 5_000;
const batchSize = 50;

/**
 * Divides runs among the replicas that share a PostgreSQL database. If a replica dies, its runs continue elsewhere
 * within a second, since its lock is released; if it hangs, after 10 s without a heartbeat. A replica that loses its
 * lock aborts its work and joins again under another number.
 */
export class PostgresDispatch implements Dispatch {
  readonly #connection: PostgresConnection;
  readonly #queue: JobQueue;
  readonly #leases: RunLeases;
  readonly #onError: (error: unknown) => void;
  readonly #held = new Map<string, QueueJob>();
  /** The time since the database last confirmed each lease. */
  readonly #confirmed = new WeakMap<QueueJob, () => number>();
  readonly #releasing = new Set<Promise<unknown>>();
  /** Runs to wake, collected over one turn of the event loop. */
  readonly #toWake = new Set<string>();
  #target: DispatchTarget | undefined;
  #replica: Replica | undefined;
  #acquiring: Promise<void> | undefined;
  #mayHaveJobs = false;
  #flushing: Promise<void> | undefined;
  /** Undefined if there is no limit of runs per repository. */
  readonly #positions: QueuePositions | undefined;
  #isDetaching = false;
  #isDetached = false;
  readonly #timers: NodeJS.Timeout[] = [];

  constructor({
    connection,
    queue,
    onError,
  }: { connection: PostgresConnection; queue: JobQueue; onError: (error: unknown) => void }) {
    this.#connection = connection;
    this.#queue = queue;
    this.#leases = new RunLeases(connection, queue);
    this.#onError = onError;
    const { runsPerRepository } = queue;
    if (runsPerRepository === undefined) return;
    this.#positions = new QueuePositions({
      runsPerRepository,
      findWaiting: () => this.#findWaiting(),
      show: (runId, reason) => this.#showWaiting(runId, reason),
      onError,
    });
  }

  /** The current number of this replica; 0, which holds nothing, while it is disconnected. */
  get holder(): number {
    return this.#replica?.id ?? 0;
  }

  get name(): string {
    return `replica ${this.holder}`;
  }

  async attach(target: DispatchTarget): Promise<void> {
    this.#target = target;
    await this.#join();
    this.#timers.push(setInterval(() => void this.#poll().catch(this.#onError), pollMs));
    this.#timers.push(setInterval(() => void this.#renew([...this.#held.values()]).catch(this.#onError), heartbeatMs));
    this.#positions?.start();
    await this.#reclaimAndAcquire([]);
  }

  wake(runId: string): void {
    this.#toWake.add(runId);
    this.#startFlush();
  }

  async confirmLease(runId: string): Promise<void> {
    const job = this.#held.get(runId);
    if (!job || !this.#replica) throw new LeaseLostError();
    if ((this.#confirmed.get(job)?.() ?? Number.POSITIVE_INFINITY) < confirmedForMs) return;
    await this.#renew([job]);
    if (this.#held.get(runId) !== job || !this.#replica) throw new LeaseLostError();
  }

  problem(): string | undefined {
    return this.#replica
      ? undefined
      : "This replica has lost its session with the database, and is joining again under another number.";
  }

  async detach(drain: () => Promise<void>): Promise<void> {
    this.#isDetaching = true;
    await this.#acquiring;
    await drain();
    await Promise.all(this.#releasing);
    await this.#positions?.stop();
    await this.#flushing;
    this.#isDetached = true;
    for (const timer of this.#timers) clearInterval(timer);
    const leaving = this.#replica;
    this.#replica = undefined;
    if (!leaving) return;
    // Other replicas take over the runs that were not finished in time.
    await this.#leases.reclaim(leaving.id, [leaving.id]).catch(this.#onError);
    await leaving.leave();
  }

  async #join(): Promise<void> {
    const joined = await joinReplicas(this.#connection, (payload) => this.#onNotification(payload));
    if (this.#isDetached) return joined.leave();
    this.#replica = joined;
    void joined.lost.then(async () => {
      if (this.#replica === joined) await this.#rejoin(joined.id);
    });
  }

  /** Joins again under another number. A replica that saw the lock released may already have our runs. */
  async #rejoin(previousId: number): Promise<void> {
    this.#replica = undefined;
    for (const runId of this.#held.keys()) this.#target?.revokeLease(runId);
    this.#held.clear();
    this.#onError(
      new Error("This replica lost its liveness lock. Its runs continue on any replica that holds a lock."),
    );
    while (!this.#replica && !this.#isDetached) {
      try {
        await this.#join();
      } catch (error) {
        this.#onError(error);
        await pause(retryMs);
      }
    }
    await this.#reclaimAndAcquire([previousId]).catch(this.#onError);
    await this.#target?.sweep().catch(this.#onError);
  }

  async #reclaimAndAcquire(replicas: readonly number[]): Promise<void> {
    if (this.#replica) await this.#leases.reclaim(this.#replica.id, replicas);
    this.#startAcquiring();
  }

  #onNotification(payload: string): void {
    if (payload === "" || !this.#target?.notify(payload)) this.#startAcquiring();
  }

  #startFlush(): void {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
      if (this.#toWake.size > 0 && !this.#isDetached) this.#startFlush();
    });
  }

  async #flush(): Promise<void> {
    // Wake-ups of the same turn of the event loop are sent together.
    await Promise.resolve();
    while (this.#toWake.size > 0 && !this.#isDetached) {
      const runIds = [...this.#toWake].sort();
      this.#toWake.clear();
      try {
        await this.#leases.requestWake(runIds);
      } catch (error) {
        this.#onError(error);
        for (const runId of runIds) this.#toWake.add(runId);
        await pause(retryMs);
      }
    }
  }

  #startAcquiring(): void {
    this.#mayHaveJobs = true;
    this.#acquiring ??= this.#acquire()
      .catch(this.#onError)
      .finally(() => {
        this.#acquiring = undefined;
        if (this.#mayHaveJobs && this.#replica && !this.#isDetaching) this.#startAcquiring();
      });
  }

  async #acquire(): Promise<void> {
    while (this.#mayHaveJobs && this.#replica && !this.#isDetaching) {
      this.#mayHaveJobs = false;
      const { id } = this.#replica;
      const elapsedMs = startStopwatch();
      const jobs = await this.#leases.acquire(id, batchSize);
      // The session was lost meanwhile, and what that number held may have been given back before.
      if (this.#replica?.id !== id) return this.#reclaimAndAcquire([id]);
      for (const job of jobs) this.#confirmed.set(job, elapsedMs);
      for (const job of jobs) void this.#process(id, job).catch(this.#onError);
      if (jobs.length === batchSize) this.#mayHaveJobs = true;
    }
  }

  async #process(replicaId: number, job: QueueJob): Promise<void> {
    const { runId } = job;
    this.#held.set(runId, job);
    await this.#positions?.settled(runId);
    let processed: Processed | undefined;
    do processed = await this.#target?.process(runId, job.isCounted);
    while ((await this.#release(replicaId, job, processed)) === "renewed");
    if (this.#held.get(runId) === job) this.#held.delete(runId);
    this.#startAcquiring();
  }

  async #release(replicaId: number, job: QueueJob, processed: Processed | undefined): Promise<Release> {
    const releasing = this.#tryRelease(replicaId, job, processed);
    this.#releasing.add(releasing);
    return releasing.finally(() => this.#releasing.delete(releasing));
  }

  /** Retries until it succeeds, since no other replica processes a run that is held here. */
  async #tryRelease(replicaId: number, job: QueueJob, processed: Processed | undefined): Promise<Release> {
    // A lost lease belongs to another replica.
    while (this.holder === replicaId && this.#held.get(job.runId) === job) {
      try {
        const awaitsTurn = processed === "awaitsTurn";
        return await this.#leases.release(replicaId, job, { handOver: awaitsTurn || this.#isDetaching, awaitsTurn });
      } catch (error) {
        this.#onError(error);
        await pause(retryMs);
      }
    }
    return "lost";
  }

  async #poll(): Promise<void> {
    if (!this.#replica || this.#isDetaching) return;
    this.#startAcquiring();
    const dead = await this.#replica.findDead().catch(() => []);
    if (dead.length === 0 || !this.#replica) return;
    await this.#leases.reclaim(this.#replica.id);
    await this.#target?.sweep();
  }

  /** Only one replica shows the positions. */
  async #findWaiting(): Promise<WaitingRun[]> {
    if (this.#isDetaching || !this.#replica || !(await this.#leases.isFirst(this.#replica.id))) return [];
    return this.#queue.findWaiting();
  }

  async #showWaiting(runId: string, reason: string): Promise<boolean> {
    const { holder } = this;
    if (!this.#target?.showWaiting || !(await this.#leases.borrow(holder, runId))) return false;
    try {
      return await this.#target.showWaiting(runId, reason, async () => {
        if (!(await this.#leases.isBorrowed(holder, runId))) throw new LeaseLostError();
      });
    } catch (error) {
      // A run whose turn has come updates its own status.
      if (error instanceof LeaseLostError) return false;
      throw error;
    } finally {
      await this.#leases.giveBack(holder, runId);
    }
  }

  /** Sends a heartbeat for these leases. Revokes those that another replica has taken over. */
  async #renew(jobs: readonly QueueJob[]): Promise<void> {
    const elapsedMs = startStopwatch();
    const ours = new Set(await this.#queue.touch(jobs));
    for (const job of jobs) {
      if (ours.has(job)) this.#confirmed.set(job, elapsedMs);
      if (ours.has(job) || this.#held.get(job.runId) !== job) continue;
      this.#held.delete(job.runId);
      this.#target?.revokeLease(job.runId);
    }
  }
}
