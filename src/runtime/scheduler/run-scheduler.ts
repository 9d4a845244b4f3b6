import { createBoundedCache } from "#domain/bounded-cache.ts";
import { withLease } from "#domain/work-context.ts";
import { statusEffect } from "#runtime/apply-events.ts";
import { type EffectHandler, type EffectHandlers, PostponedError } from "#runtime/effects/effect-handler.ts";
import type { Store } from "#runtime/store/store.ts";
import type { ActiveRun } from "./active-run.ts";
import type { Dispatch, DispatchTarget, Processed } from "./dispatch.ts";
import type { RunObserver } from "./run-observer.ts";
import { RunSession } from "./run-session.ts";

export interface RunSchedulerOptions {
  store: Store;
  /** Called once. */
  loadHandlers: () => Promise<EffectHandlers>;
  openActiveRun: (runId: string) => Promise<ActiveRun>;
  /** Notified of runs that have no session here. */
  dispatch: Pick<Dispatch, "wake" | "confirmLease">;
  observer: Required<RunObserver>;
  now: () => number;
  /** The time for what cannot be undone: the expiry of approvals. */
  cautiousNow: () => number;
  onError: (error: unknown, about: { runId: string; kind?: string }) => void;
}

/** Timers of Node.js overflow after 24 days. */
const maxTimerMs = 60 * 60_000;

/** Keeps a session for each run that has something to do. */
export class RunScheduler implements Omit<DispatchTarget, "sweep"> {
  readonly #options: RunSchedulerOptions;
  readonly #sessions = new Map<string, RunSession>();
  #handlers: Promise<EffectHandlers> | undefined;
  /** The problems that the statuses of runs show. One that is forgotten is shown again. */
  readonly #shownProblems = createBoundedCache<string, string>(1_000);
  #idle = Promise.withResolvers<void>();
  #timer: NodeJS.Timeout | undefined;
  /** The time that the timer is set for; undefined if there is none. */
  #alarmAt: number | undefined;
  #isDraining = false;

  constructor(options: RunSchedulerOptions) {
    this.#options = options;
  }

  activeRuns(): number {
    return this.#sessions.size;
  }

  /** Applies the new events of a run and performs its effects, if there are any, here or in another process. */
  wake(runId: string): void {
    if (!this.notify(runId)) this.#options.dispatch.wake(runId);
  }

  notify(runId: string): boolean {
    const session = this.#sessions.get(runId);
    if (!session || session.leaseRevoked || this.#isDraining) return false;
    session.notify();
    return true;
  }

  async process(runId: string, isCounted = true): Promise<Processed> {
    const known = this.#sessions.get(runId);
    if (known?.leaseRevoked) {
      await known.closed;
      return this.process(runId, isCounted);
    }
    if (this.#isDraining) return "finished";

    const session = known ?? this.#open(runId, isCounted);
    session.notify();
    await session.closed;
    return session.awaitsTurn ? "awaitsTurn" : "finished";
  }

  async showWaiting(runId: string, reason: string, confirmLease: () => Promise<void>): Promise<boolean> {
    const { store, openActiveRun, now } = this.#options;
    // The next effect is not claimed: after a crash it would count as begun. After an approval, there is not even one yet.
    const explain = () => store.setEffectProblem(runId, { kind: "postponed", reason }, now());
    await store.ingest({ events: [], effects: [statusEffect(runId)] });
    const status = await store.claimEffect(runId, "status", now());
    await explain();
    if (!status) return false;
    const active = await openActiveRun(runId);
    try {
      const handler: EffectHandler = (await this.#loadHandlers())[status.request.kind];
      const result = await withLease(confirmLease, () => handler.perform(status, active, new AbortController().signal));
      // Requests another status, for when it is the run's turn.
      await store.completeEffect({ runId, key: status.key, ...result, effects: [statusEffect(runId)] });
      await explain();
      return true;
    } catch (error) {
      if (!(error instanceof PostponedError)) {
        await store.postponeEffect(status, now());
        throw error;
      }
      await store.postponeEffect(status, error.until, { isUncounted: true });
      return false;
    } finally {
      await active.close();
    }
  }

  revokeLease(runId: string): void {
    this.#sessions.get(runId)?.revokeLease();
  }

  /** Sets the alarm for the first timer, approval or postponed effect of any run that is due after this time. */
  async schedule(after?: number): Promise<void> {
    this.#clearAlarm();
    const dueAt = await this.#options.store.nextDueAt(after);
    if (dueAt !== undefined) this.#setAlarm(dueAt);
  }

  /** Keeps an alarm that is set for an earlier time. */
  #setAlarm(dueAt: number): void {
    if (this.#isDraining || (this.#alarmAt !== undefined && this.#alarmAt <= dueAt)) return;
    this.#clearAlarm();
    const waitMs = Math.min(Math.max(0, dueAt - this.#options.now()), maxTimerMs);
    this.#alarmAt = dueAt;
    this.#timer = setTimeout(() => {
      this.#alarmAt = undefined;
      this.#inBackground(this.#fireDueTimers());
    }, waitMs);
  }

  #clearAlarm(): void {
    clearTimeout(this.#timer);
    this.#alarmAt = undefined;
  }

  /** Resolves when no run is in memory. */
  async idle(): Promise<void> {
    while (this.#sessions.size > 0) await this.#idle.promise;
  }

  /** Waits at most this long for effects in progress and starts no others, which wait for the next start. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    clearTimeout(this.#timer);
    const { promise: timeout, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([this.idle(), timeout]);
    clearTimeout(timer);
    for (const session of this.#sessions.values()) session.abort(new Error("The process is stopping."));
  }

  #open(runId: string, isCounted: boolean): RunSession {
    const session = new RunSession(runId, {
      ...this.#options,
      isCounted,
      handlers: () => this.#loadHandlers(),
      wake: (id) => this.wake(id),
      confirmLease: async (id) => this.#options.dispatch.confirmLease?.(id),
      onDueLater: (dueAt) => this.#setAlarm(dueAt),
      showProblem: (id, reason) => this.#showProblem(id, reason),
      clearProblem: (id) => this.#shownProblems.delete(id),
      isDraining: () => this.#isDraining,
      onIdle: (idle) => this.#inBackground(this.#close(idle)),
    });
    this.#sessions.set(runId, session);
    return session;
  }

  #loadHandlers(): Promise<EffectHandlers> {
    this.#handlers ??= this.#options.loadHandlers();
    return this.#handlers;
  }

  async #close(session: RunSession): Promise<void> {
    const { runId } = session;
    this.#sessions.delete(runId);
    await session.close().catch((error) => this.#options.onError(error, { runId }));
    await this.schedule().catch((error) => this.#options.onError(error, { runId: "" }));
    if (this.#sessions.size > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers();
  }

  async #showProblem(runId: string, reason: string): Promise<boolean> {
    if (this.#shownProblems.get(runId) === reason) return false;
    const run = await this.#options.store.findRun(runId);
    if (run) await this.#options.store.ingest({ events: [], effects: [statusEffect(run.rootId)] });
    this.#shownProblems.set(runId, reason);
    if (run) this.wake(run.rootId);
    return true;
  }

  async #fireDueTimers(): Promise<void> {
    const { store, now, cautiousNow } = this.#options;
    const time = now();
    const due = new Set([...(await store.fireTimers(time, cautiousNow())), ...(await store.postponedRuns(time))]);
    for (const runId of due) this.wake(runId);
    await this.schedule(time);
  }

  #inBackground(work: Promise<void>): void {
    work.catch((error) => this.#options.onError(error, { runId: "" }));
  }
}
