import { UserError } from "#domain/errors.ts";

import { interruptibleEffects } from "#machines/effects.ts";
import type { Effect, EffectCompletion, EffectQueue, Store } from "#runtime/store/store.ts";
import type { ActiveRun } from "./active-run.ts";
import { applyEvents } from "./apply-events.ts";
import type { Dispatch, DispatchTarget } from "./dispatch.ts";
import type { StoredWork } from "./run-environment.ts";
import type { RunObserver } from "./run-observer.ts";

/** What one kind of effect does. It may be called again for the same key after a crash: `effect.attempts` is above 1 then. */
export interface EffectHandler {
  /** Does it once and says what it came to. `Postponed` puts it off; the signal's reason is thrown when it is abandoned. */
  perform(effect: Effect, desk: ActiveRun, signal: AbortSignal): Promise<EffectResult>;
  /** What to write down when it failed for good. */
  onFailure(effect: Effect, desk: ActiveRun, error: unknown): Promise<EffectResult>;
  /** How often to try when the outside world fails. */
  maxAttempts: number;
}

/** Everything an effect asks to be stored, and the callbacks of its workspace changes. */
export type EffectResult = Omit<EffectCompletion, "key"> & StoredWork;

/** Thrown by a handler to be called again then, without counting as a failure. */
export class Postponed extends Error {
  readonly until: number;

  constructor(until: number) {
    super("Postponed");
    this.until = until;
  }
}

export interface RunSchedulerOptions {
  store: Store;
  handlers: Record<string, EffectHandler>;
  openActiveRun: (runId: string) => Promise<ActiveRun>;
  /** Hears of runs that are not open here. */
  dispatch: Pick<Dispatch, "wake">;
  observer?: RunObserver | undefined;
  now: () => number;
  onError: (error: unknown, about: { runId: string; kind?: string }) => void;
}

export interface RunScheduler extends Omit<DispatchTarget, "sweep"> {
  /** Something may have happened to this run: whoever drives it folds it and does what it wants. Returns at once. */
  wake(runId: string): void;
  /** Sets the alarm for the next timer, expiry or postponed effect of any run. */
  schedule(): Promise<void>;
  /** How many runs are in memory. */
  activeRuns(): number;
  /** Resolves when nothing is in hand. */
  idle(): Promise<void>;
  /** Begins nothing new, waits this long for what is in hand, then leaves it to the next start. */
  drain(graceMs: number): Promise<void>;
}

const queues: readonly EffectQueue[] = ["work", "thread", "status"];
const firstBackoffMs = 1_000;
const longestBackoffMs = 5 * 60_000;

interface Session {
  runId: string;
  desk: Promise<ActiveRun>;
  /** Another process drives the run now. */
  lost: boolean;
  closed: PromiseWithResolvers<void>;
  folding: Promise<void>;
  busy: Set<EffectQueue>;
  /** Lanes that were woken while they looked for the last time. */
  again: Set<EffectQueue>;
  underWay: Map<string, { kind: string; controller: AbortController }>;
  /** The highest event id a fold has dealt with. */
  seen: number;
}

/**
 * Keeps runs going: one session for each run that has something to do, and none for the rest. A session is the run's
 * single writer. It folds what arrives while an effect is under way, so that a person can always interrupt.
 */
export function createRunScheduler({
  store,
  handlers,
  openActiveRun: openDesk,
  dispatch,
  observer,
  now,
  onError,
}: RunSchedulerOptions): RunScheduler {
  const sessions = new Map<string, Session>();
  const waiters = new Set<() => void>();
  let scheduled: NodeJS.Timeout | undefined;
  let stopping = false;

  function wake(runId: string): void {
    if (!notify(runId)) dispatch.wake(runId);
  }

  function notify(runId: string): boolean {
    const session = sessions.get(runId);
    if (!session || session.lost || stopping) return false;
    go(session);
    return true;
  }

  function process(runId: string): Promise<void> {
    const there = sessions.get(runId);
    if (there?.lost) return there.closed.promise.then(() => process(runId));
    if (stopping) return Promise.resolve();

    const session = there ?? openSession(runId);
    go(session);
    return session.closed.promise;
  }

  function go(session: Session): void {
    const { runId } = session;
    session.folding = session.folding
      .then(() => foldInbox(session))
      .catch((error) => session.lost || onError(error, { runId }))
      .then(() => undefined);
    void session.folding.then(() => runQueues(session));
  }

  function openSession(runId: string): Session {
    const desk = openDesk(runId);
    desk.catch(() => undefined);
    const session: Session = {
      runId,
      desk,
      lost: false,
      closed: Promise.withResolvers(),
      folding: Promise.resolve(),
      busy: new Set(),
      again: new Set(),
      underWay: new Map(),
      seen: 0,
    };
    sessions.set(runId, session);
    return session;
  }

  function revokeLease(runId: string): void {
    const session = sessions.get(runId);
    if (!session) return;
    session.lost = true;
    for (const { controller } of session.underWay.values()) {
      controller.abort(new Error("Another process drives the run now."));
    }
  }

  async function foldInbox(session: Session): Promise<void> {
    while (!session.lost) {
      const [row, inbox] = await Promise.all([store.findRun(session.runId), store.inbox(session.runId)]);
      const newest = inbox.at(-1)?.id ?? 0;
      if (!row || newest <= session.seen) return;

      const folded = applyEvents(row, inbox, now());
      if (!folded) return;
      if (!(await store.advance(folded.advance))) continue;
      session.seen = newest;
      if (folded.interrupted) abandon(session);
      if (folded.sandboxChanged) await (await session.desk).discardWorkspace();
      if (folded.advance.timers?.set) await schedule();
      if (row.spec.rootId !== session.runId) wake(row.spec.rootId);
    }
  }

  function abandon({ underWay }: Session): void {
    for (const { kind, controller } of underWay.values()) {
      if ((interruptibleEffects as readonly string[]).includes(kind))
        controller.abort(new Error("The run was interrupted."));
    }
  }

  function runQueues(session: Session): void {
    for (const queue of queues) {
      if (session.busy.has(queue)) session.again.add(queue);
      else void runQueue(session, queue);
    }
  }

  async function runQueue(session: Session, queue: EffectQueue): Promise<void> {
    session.busy.add(queue);
    try {
      do {
        session.again.delete(queue);
        await processQueue(session, queue);
      } while (session.again.has(queue) && !stopping);
    } catch (error) {
      if (!session.lost) onError(error, { runId: session.runId });
    } finally {
      session.busy.delete(queue);
      await closeIfQuiet(session);
    }
  }

  async function processQueue(session: Session, queue: EffectQueue): Promise<void> {
    while (!stopping && !session.lost) {
      const effect = await store.claimEffect(session.runId, queue, now());
      if (!effect) return;
      await perform(session, effect);
    }
  }

  async function perform(session: Session, effect: Effect): Promise<void> {
    const controller = new AbortController();
    session.underWay.set(effect.key, { kind: effect.kind, controller });
    try {
      const done = await attempt(session, effect, controller.signal);
      if (done) await finish(effect, done);
    } finally {
      session.underWay.delete(effect.key);
    }
  }

  /** Undefined when there is nothing to write: it was abandoned or put off. */
  async function attempt(session: Session, effect: Effect, signal: AbortSignal): Promise<EffectResult | undefined> {
    const handler = handlers[effect.kind];
    if (!handler) throw new Error(`Nobody handles the effect ${effect.kind}`);
    const desk = await session.desk;
    observer?.effectStarted(effect, desk.spec);
    try {
      return await handler.perform(effect, desk, signal);
    } catch (error) {
      if (signal.aborted) {
        // Work that does not listen to its signal may still be writing: into a tree that nobody looks at any more.
        await desk.discardWorkspace();
        return undefined;
      }
      if (error instanceof Postponed) {
        await store.postponeEffect(effect.key, error.until);
        return undefined;
      }
      // What someone has to put right does not get better by trying again.
      if (error instanceof UserError) return handler.onFailure(effect, desk, error);
      onError(error, { runId: session.runId, kind: effect.kind });
      if (effect.attempts >= handler.maxAttempts) return handler.onFailure(effect, desk, error);
      const backoff = Math.min(longestBackoffMs, firstBackoffMs * 2 ** (effect.attempts - 1));
      await store.postponeEffect(effect.key, now() + backoff);
      return undefined;
    }
  }

  async function finish(effect: Effect, { afterCommit, afterCancel, ...result }: EffectResult): Promise<void> {
    const written = await store.completeEffect({ key: effect.key, ...result });
    if (!written) {
      afterCancel?.();
      return;
    }
    afterCommit?.();
    observer?.effectCompleted(effect, result);
    const woken = new Set([effect.runId, ...(result.events ?? []).map(({ runId }) => runId)]);
    if (result.run) woken.add(result.run.spec.id);
    for (const other of result.effects ?? []) woken.add(other.runId);
    for (const runId of woken) wake(runId);
  }

  async function closeIfQuiet(session: Session): Promise<void> {
    const { folding } = session;
    await folding;
    // A newer fold runs the queues once more, and the last of them comes here again.
    if (session.folding !== folding || session.busy.size > 0 || sessions.get(session.runId) !== session) return;

    sessions.delete(session.runId);
    await session.desk.then((desk) => desk.close()).catch((error) => onError(error, { runId: session.runId }));
    session.closed.resolve();
    await schedule().catch((error) => onError(error, { runId: "" }));
    if (sessions.size > 0) return;
    for (const waiter of waiters) waiter();
    waiters.clear();
  }

  async function schedule(): Promise<void> {
    clearTimeout(scheduled);
    const due = await store.nextDueAt();
    if (due === undefined || stopping) return;
    clearTimeout(scheduled);
    // A timer cannot be set further ahead than 24 days; the loop comes back in an hour and looks again.
    const wait = Math.min(Math.max(0, due - now()), 60 * 60_000);
    scheduled = setTimeout(() => void fireDueTimers().catch((error) => onError(error, { runId: "" })), wait);
  }

  async function fireDueTimers(): Promise<void> {
    const time = now();
    const woken = new Set([...(await store.fireTimers(time)), ...(await store.dueRuns(time))]);
    for (const runId of woken) wake(runId);
    if (woken.size === 0) await schedule();
  }

  async function idle(): Promise<void> {
    while (sessions.size > 0) await new Promise<void>((resolve) => waiters.add(resolve));
  }

  async function drain(graceMs: number): Promise<void> {
    stopping = true;
    clearTimeout(scheduled);
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([idle(), late]);
    clearTimeout(timer);
    for (const { underWay } of sessions.values()) {
      for (const { controller } of underWay.values()) controller.abort(new Error("The process is stopping."));
    }
  }

  return { wake, notify, process, revokeLease, schedule, activeRuns: () => sessions.size, idle, drain };
}
