import { isTemporary, SerialQueue } from "#domain/async-work.ts";
import { DatabaseError, OutageError, UserError } from "#domain/errors.ts";
import type { LoggedEvent } from "#domain/events.ts";
import { GitHubRefusalError } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { LeaseLostError, logFieldsOf, withLease, withLogContext } from "#domain/work-context.ts";
import { type AppliedEvents, applyEvents, hasWork, isInterruptible, statusEffect } from "#runtime/apply-events.ts";
import { type EffectHandler, type EffectHandlers, PostponedError } from "#runtime/effects/effect-handler.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import {
  type Effect,
  type EffectQueue,
  type NextStep,
  OutdatedMergeError,
  type RunRow,
  readable,
  type StepResult,
  type Store,
} from "#runtime/store/store.ts";
import { unreadableRetryMs } from "#runtime/store/stored-rows.ts";
import type { ActiveRun } from "./active-run.ts";
import type { RunObserver } from "./run-observer.ts";

/** The methods of the scheduler that a session uses. */
export interface SessionHost {
  store: Store;
  /** False if the run does not count toward the limit of runs: it must not begin to work. */
  isCounted: boolean;
  handlers: () => Promise<EffectHandlers>;
  openActiveRun(runId: string): Promise<ActiveRun>;
  observer: Required<RunObserver>;
  now(): number;
  /** Something may have happened to this run. */
  wake(runId: string): void;
  /** Rejects if another process performs the run now. */
  confirmLease(runId: string): Promise<void>;
  /** A timer was set for this time, or an effect was postponed until then. */
  onDueLater(dueAt: number): void;
  /** True once no more effects may be started. */
  isDraining(): boolean;
  /** The session has nothing left to do. It is not used after this call. */
  onIdle(session: RunSession): void;
  /** Shows in the run's status why it does not continue. Returns false if it shows that already. */
  showProblem(runId: string, reason: string): Promise<boolean>;
  clearProblem(runId: string): void;
  onError(error: unknown, about: { runId: string; kind?: string }): void;
}

/** Applied events, with the time on the monotonic clock of this process. */
type TimedEvents = AppliedEvents & { appliedAt: number };

const queues: readonly EffectQueue[] = ["work", "thread", "status"];
const firstBackoffMs = 1_000;
const maxBackoffMs = 5 * 60_000;
/** The work of a run that has failed several times because of an outage is tried again this often, however long it lasts. */
const outageRetryMs = 30_000;
/** A comment that GitHub does not accept because of an outage is given up after a day: later ones of the run wait for it. */
const maxOutageAttempts = 300;
const noResponse = "GitHub does not respond. The run continues when it does.";

/** Processes one run as its only writer. Events are applied during effects, so people can interrupt it. */
export class RunSession {
  readonly runId: string;
  readonly #host: SessionHost;
  #active: Promise<ActiveRun>;
  /** Opened for an earlier location of the repository. Effects may still be using them. */
  readonly #outdated: ActiveRun[] = [];
  readonly #inbox = new SerialQueue();
  #passes = 0;
  readonly #busyQueues = new Set<EffectQueue>();
  /** Queues to check again, since something may have been added while they were processed. */
  readonly #notifiedQueues = new Set<EffectQueue>();
  readonly #performing = new Map<string, { kind: string; queue: EffectQueue; controller: AbortController }>();
  readonly #closed = Promise.withResolvers<void>();
  #lastSeenEventId = 0;
  /** The time at which events were last applied or, at first, the session was opened, on the monotonic clock of this process. */
  #appliedAt = performance.now();
  /** The run or its inbox cannot be read: only its status is performed. */
  #isUnreadable = false;
  #leaseRevoked = false;
  #mayWork: boolean;
  #awaitsTurn = false;
  /** Other changes were stored than those that the open sandbox has. */
  #isSandboxOutdated = false;

  constructor(runId: string, host: SessionHost) {
    this.runId = runId;
    this.#host = host;
    this.#mayWork = host.isCounted;
    this.#active = this.#openActiveRun();
  }

  /** Resolves when the session has been closed. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get leaseRevoked(): boolean {
    return this.#leaseRevoked;
  }

  /** True if the run has to work, which it may not do before it counts toward the limit of runs. */
  get awaitsTurn(): boolean {
    return this.#awaitsTurn;
  }

  /** Applies new events and performs the effects they request. Returns immediately. */
  notify(): void {
    this.#passes += 1;
    void this.#inbox
      .run(() => this.#applyInbox())
      .then(
        () => {
          this.#isUnreadable = false;
        },
        (error) => {
          this.#isUnreadable = error instanceof UnreadableDataError;
          return this.#report(error);
        },
      )
      .then(() => {
        this.#passes -= 1;
        for (const queue of queues) this.#startQueue(queue);
      });
  }

  /** Another process performs the run now: aborts effects in progress and writes nothing more. */
  revokeLease(): void {
    this.#leaseRevoked = true;
    this.abort(new Error("Another process works on the run now."));
  }

  abort(reason: Error): void {
    for (const { controller } of this.#performing.values()) controller.abort(reason);
  }

  /** Releases what the run holds in memory. */
  async close(): Promise<void> {
    try {
      for (const active of [...this.#outdated, await this.#active]) await active.close();
    } finally {
      this.#closed.resolve();
    }
  }

  async #applyInbox(): Promise<void> {
    const { store } = this.#host;
    while (!this.#leaseRevoked) {
      const [run, inbox] = await Promise.all([store.findRun(this.runId), store.inbox(this.runId)]);
      if (!run) return;
      const row = readable(run);
      await this.#followLocation(row.spec);
      if (!this.#checkTurn(row, inbox)) return;
      const newestId = inbox.at(-1)?.id ?? 0;
      if (newestId <= this.#lastSeenEventId) return;

      const applied = this.#apply(row, inbox);
      if (!applied) return;
      const isStored = await store.advance(applied.advance).catch(async (error: unknown) => {
        await this.#dropOutdated(applied);
        throw error;
      });
      // Another event was stored first, so read again.
      if (!isStored) continue;
      await this.#onAdvanced(applied, row.rootId);
    }
  }

  #openActiveRun(): Promise<ActiveRun> {
    const active = this.#host.openActiveRun(this.runId);
    active.catch(() => undefined);
    return active;
  }

  /** Performs later effects with the repository's current installation and name, if these have changed. */
  async #followLocation({ origin }: RunSpec): Promise<void> {
    const active = await this.#active.catch(() => undefined);
    if (!active) return;
    const { installationId, owner, repo } = active.spec.origin;
    if (origin.installationId === installationId && origin.owner === owner && origin.repo === repo) return;
    this.#outdated.push(active);
    this.#active = this.#openActiveRun();
  }

  /** Returns false if the run has to wait for its turn before it applies these events or continues to work. */
  #checkTurn(row: RunRow, inbox: readonly LoggedEvent[]): boolean {
    if (this.#host.isCounted) return true;
    this.#mayWork = !hasWork(row, inbox);
    this.#awaitsTurn ||= !this.#mayWork;
    return this.#mayWork;
  }

  #apply(row: RunRow, inbox: readonly LoggedEvent[]): TimedEvents | undefined {
    const appliedAt = performance.now();
    const applied = applyEvents(row, inbox, { now: this.#host.now(), elapsedMs: appliedAt - this.#appliedAt });
    return applied && { ...applied, appliedAt };
  }

  async #onAdvanced(applied: TimedEvents, rootId: string): Promise<void> {
    this.#appliedAt = applied.appliedAt;
    const { run, events, advance } = applied;
    this.#host.observer.transitionStored({ run, events, after: advance });
    this.#lastSeenEventId = Math.max(this.#lastSeenEventId, advance.seen);
    await this.#dropOutdated(applied);
    for (const { dueAt } of advance.timers?.set ?? []) this.#host.onDueLater(dueAt);
    if (rootId !== this.runId) this.#host.wake(rootId);
  }

  /**
   * Aborts what these events have interrupted, and drops the sandbox if they have changed it, even if it is unknown
   * whether they were stored: what is aborted too early is performed again.
   */
  async #dropOutdated({ interrupted, sandboxChanged }: AppliedEvents): Promise<void> {
    if (interrupted) this.#abortInterruptible();
    if (sandboxChanged) this.#isSandboxOutdated = true;
    await this.#discardOutdatedSandbox();
  }

  /** A call that is being executed keeps its sandbox and tools until its end. */
  async #discardOutdatedSandbox(): Promise<void> {
    const isInUse = [...this.#performing.values()].some(({ queue }) => queue === "work");
    if (!this.#isSandboxOutdated || isInUse) return;
    this.#isSandboxOutdated = false;
    await (await this.#active).discardWorkspace();
  }

  #abortInterruptible(): void {
    for (const { kind, controller } of this.#performing.values()) {
      if (isInterruptible(kind)) controller.abort(new Error("The run was interrupted."));
    }
  }

  #startQueue(queue: EffectQueue): void {
    if (this.#isUnreadable && queue !== "status") return;
    if (queue === "work" && !this.#mayWork) return;
    if (this.#busyQueues.has(queue)) this.#notifiedQueues.add(queue);
    else void this.#runQueue(queue);
  }

  async #runQueue(queue: EffectQueue): Promise<void> {
    this.#busyQueues.add(queue);
    try {
      do {
        this.#notifiedQueues.delete(queue);
        await this.#emptyQueue(queue);
      } while (this.#notifiedQueues.has(queue) && !this.#host.isDraining());
    } catch (error) {
      await this.#report(error);
    } finally {
      this.#busyQueues.delete(queue);
      // An unfinished pass starts the queues again, and the last of them gets here.
      if (this.#passes === 0 && this.#busyQueues.size === 0) this.#host.onIdle(this);
    }
  }

  async #emptyQueue(queue: EffectQueue): Promise<void> {
    while (!this.#host.isDraining() && !this.#leaseRevoked) {
      let effect = await this.#host.store.claimEffect(this.runId, queue, this.#host.now());
      if (!effect) return;
      while (effect) effect = await this.#perform(effect);
    }
  }

  /** Returns the next effect of the queue if it was claimed together with storing this one's result. */
  async #perform(effect: Effect): Promise<Effect | undefined> {
    const { spec } = await this.#active;
    return withLogContext(logFieldsOf(spec), () => this.#performLogged(effect));
  }

  async #performLogged(effect: Effect): Promise<Effect | undefined> {
    const controller = new AbortController();
    this.#performing.set(effect.key, { kind: effect.request.kind, queue: effect.queue, controller });
    try {
      const result = await this.#attempt(effect, controller.signal);
      return result && (await this.#complete(effect, result));
    } finally {
      this.#performing.delete(effect.key);
      await this.#discardOutdatedSandbox();
    }
  }

  async #confirmLease(): Promise<void> {
    if (this.#leaseRevoked) throw new LeaseLostError();
    await this.#host.confirmLease(this.runId);
  }

  /** Returns undefined if there is nothing to store, because the effect was aborted or postponed. */
  async #attempt(effect: Effect, signal: AbortSignal): Promise<EffectResult | undefined> {
    const { handlers, observer, now, onError } = this.#host;
    const handler: EffectHandler = (await handlers())[effect.request.kind];
    const active = await this.#active;
    observer.effectStarted(effect, active.spec);
    // The lease is confirmed before anything leaves the process. From then on, the attempt counts.
    let mayHaveHappened = false;
    const confirm = async () => {
      await this.#confirmLease();
      mayHaveHappened = true;
    };
    try {
      return await withLease(confirm, () =>
        observer.around(effect, active.spec, () => handler.perform(effect, active, signal), signal),
      );
    } catch (error) {
      if (signal.aborted) {
        // Work that ignores its signal may still write to this sandbox, so it must not be used again.
        await active.discardWorkspace();
        if (mayHaveHappened && this.#leaseRevoked) await this.#showStatusAgain(effect);
        return undefined;
      }
      if (error instanceof PostponedError) {
        const { until, reason, cause } = error;
        await this.#postpone(effect, { until, reason, cause, isCounted: mayHaveHappened });
        return undefined;
      }
      if (error instanceof UnreadableDataError) {
        const problem = { kind: "unreadable" as const, reason: error.message };
        await this.#postponeUntil(effect, now() + unreadableRetryMs, { isUncounted: true, problem });
        await this.#report(error);
        return undefined;
      }
      if (error instanceof DatabaseError) {
        onError(error, { runId: this.runId, kind: effect.request.kind });
        await this.#postponeUntil(effect, now() + backoffMs(effect.attempts), { isUncounted: !mayHaveHappened });
        return undefined;
      }
      if (error instanceof UserError) {
        const isLast = !mayPass(error) || effect.attempts >= (handler.maxRefusals ?? 1);
        // A retry does not help if a person has to act.
        if (isLast) return handler.onFailure(effect, active, error);
        await this.#postponeUntil(effect, now() + backoffMs(effect.attempts));
        return undefined;
      }
      if (error instanceof OutageError && error.retryAt !== undefined) {
        await this.#postpone(effect, { until: error.retryAt, reason: error.message, cause: error, isCounted: true });
        return undefined;
      }
      const isOutage = isTemporary(error);
      if (isOutage && effect.queue === "work" && effect.attempts >= handler.maxAttempts) {
        const until = now() + outageRetryMs;
        await this.#postpone(effect, { until, reason: noResponse, cause: error, isCounted: true });
        return undefined;
      }
      onError(error, { runId: this.runId, kind: effect.request.kind });
      const isLast = effect.attempts >= (isOutage ? maxOutageAttempts : handler.maxAttempts);
      if (isLast) return handler.onFailure(effect, active, error);
      await this.#postponeUntil(effect, now() + backoffMs(effect.attempts));
      return undefined;
    }
  }

  async #complete(effect: Effect, given: EffectResult): Promise<Effect | undefined> {
    const { observer, wake } = this.#host;
    const { rootId } = (await this.#active).spec;
    const { completed, applied, result } = await this.#store(effect, given, rootId).catch((error: unknown) => {
      given.afterCancel?.();
      // Its changes may have been stored.
      if (effect.queue === "work") this.#isSandboxOutdated = true;
      throw error;
    });
    if (!completed) {
      given.afterCancel?.();
      await this.#showStatusAgain(effect);
      return undefined;
    }
    result.afterCommit?.();
    if (completed.advanced && applied) await this.#onAdvanced(applied, rootId);
    if (effect.queue !== "status") this.#host.clearProblem(this.runId);
    observer.effectCompleted(effect, result);
    const { run, events = [], effects = [] } = result;
    const woken = new Set([...events, ...effects].map(({ runId }) => runId));
    if (run) woken.add(run.spec.id);
    // Its inbox has just been applied, and this queue continues anyway.
    if (completed.advanced) {
      woken.delete(this.runId);
      const requested = [...effects, ...(applied?.advance.effects ?? [])];
      for (const queue of queues) {
        if (queue !== effect.queue && requested.some((one) => one.queue === queue)) this.#startQueue(queue);
      }
    }
    for (const runId of woken) wake(runId);
    return this.#unlessDraining(completed.claimed);
  }

  /** Stores an effect's result with the step that follows. `result`: after merging changes again, if necessary. */
  async #store(
    effect: Effect,
    result: EffectResult,
    rootId: string,
  ): Promise<{ completed: StepResult | undefined; applied: TimedEvents | undefined; result: EffectResult }> {
    const { store, now } = this.#host;
    const { afterCommit, afterCancel, mergeAgain, ...completion } = result;
    let applied: TimedEvents | undefined;
    const step: NextStep = {
      rootId,
      queue: effect.queue,
      now: now(),
      advance: (run, inbox) => {
        applied = run.unreadable || !this.#checkTurn(run, inbox) ? undefined : this.#apply(run, inbox);
        return applied?.advance;
      },
    };
    try {
      const completed = await store.completeStep({ runId: this.runId, key: effect.key, ...completion }, step);
      return { completed, applied, result };
    } catch (error) {
      if (error instanceof OutdatedMergeError) {
        if (mergeAgain) return this.#store(effect, await mergeAgain(), rootId);
        await store.postponeEffect(effect, now(), { isUncounted: true });
        return { completed: undefined, applied, result };
      }
      if (applied) await this.#dropOutdated(applied);
      throw error;
    }
  }

  /** Another process, which performs the run now, may have shown a newer status before this one reached GitHub. */
  async #showStatusAgain({ queue }: Effect): Promise<void> {
    if (queue !== "status") return;
    this.revokeLease();
    await this.#host.store.ingest({ events: [], effects: [statusEffect(this.runId)] });
    this.#host.wake(this.runId);
  }

  /** Releases a claimed effect without counting an attempt, if this process will not perform it. */
  async #unlessDraining(effect: Effect | undefined): Promise<Effect | undefined> {
    if (!effect || (!this.#host.isDraining() && !this.#leaseRevoked)) return effect;
    await this.#host.store.postponeEffect(effect, effect.dueAt, { isUncounted: true });
    this.#host.wake(this.runId);
    return undefined;
  }

  /** Postpones an effect. Tells people if something outside this process has to respond first. */
  async #postpone(
    effect: Effect,
    { until, reason, cause, isCounted }: Pick<PostponedError, "until" | "reason" | "cause"> & { isCounted: boolean },
  ): Promise<void> {
    const { showProblem, onError } = this.#host;
    const problem = reason === undefined ? undefined : { kind: "postponed" as const, reason };
    await this.#postponeUntil(effect, until, { isUncounted: !isCounted, ...(problem && { problem }) });
    if (reason !== undefined && (await showProblem(this.runId, reason))) {
      onError(cause, { runId: this.runId, kind: effect.request.kind });
    }
  }

  async #postponeUntil(effect: Effect, dueAt: number, options?: Parameters<Store["postponeEffect"]>[2]): Promise<void> {
    await this.#host.store.postponeEffect(effect, dueAt, options);
    this.#host.onDueLater(dueAt);
  }

  /** Reports an error. After the lease was revoked, failures are expected. */
  async #report(error: unknown): Promise<void> {
    if (this.#leaseRevoked) return;
    const { showProblem, onError } = this.#host;
    const about = { runId: this.runId };
    // The session has to go on, and end, even if the store fails here as well.
    const show = (reason: string) =>
      showProblem(this.runId, reason).catch((failure) => {
        onError(failure, about);
        return true;
      });
    const isShown = error instanceof UnreadableDataError && !(await show(error.message));
    if (!isShown) onError(error, about);
  }
}

/** True for a refusal that GitHub may give for a moment about what was just created or changed. */
function mayPass(error: UserError): boolean {
  return error instanceof GitHubRefusalError && (error.status === 403 || error.status === 404);
}

function backoffMs(attempts: number): number {
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** (attempts - 1));
}
