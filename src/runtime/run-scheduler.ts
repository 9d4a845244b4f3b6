import { UserError } from "#domain/errors.ts";
import { interruptible } from "#machines/effects.ts";
import type { Effect, Finish, Lane, Store } from "#runtime/store/store.ts";
import type { Desk } from "./active-run.ts";
import { fold } from "./apply-events.ts";
import type { Dispatch, Driver } from "./dispatch.ts";

/** What one kind of effect does. It may be called again for the same key after a crash: `effect.attempts` is above 1 then. */
export interface EffectHandler {
  /** Does it once and says what it came to. `Postponed` puts it off; the signal's reason is thrown when it is abandoned. */
  perform(effect: Effect, desk: Desk, signal: AbortSignal): Promise<Done>;
  /** What to write down when it failed for good. */
  giveUp(effect: Effect, desk: Desk, error: unknown): Promise<Done>;
  /** How often to try when the outside world fails. */
  attempts: number;
}

export interface Done extends Omit<Finish, "key"> {
  /** Runs once the result is on disk. */
  afterCommit?: () => void;
  /** Runs instead when the effect had been cancelled meanwhile. */
  afterCancel?: () => void;
}

/** Thrown by a handler to be called again then, without counting as a failure. */
export class Postponed extends Error {
  readonly until: number;

  constructor(until: number) {
    super("Postponed");
    this.until = until;
  }
}

export interface DriveOptions {
  store: Store;
  handlers: Record<string, EffectHandler>;
  openDesk: (runId: string) => Promise<Desk>;
  /** Hears of runs that are not open here. */
  dispatch: Pick<Dispatch, "wake">;
  now: () => number;
  onError: (error: unknown, about: { runId: string; kind?: string }) => void;
}

export interface Drive extends Omit<Driver, "sweep"> {
  /** Something may have happened to this run: whoever drives it folds it and does what it wants. Returns at once. */
  wake(runId: string): void;
  /** Sets the alarm for the next timer, expiry or postponed effect of any run. */
  schedule(): Promise<void>;
  /** How many runs are in memory. */
  awake(): number;
  /** Resolves when nothing is in hand. */
  idle(): Promise<void>;
  /** Begins nothing new, waits this long for what is in hand, then leaves it to the next start. */
  stop(graceMs: number): Promise<void>;
}

const lanes: readonly Lane[] = ["work", "thread", "status"];
const firstBackoffMs = 1_000;
const longestBackoffMs = 5 * 60_000;

interface Session {
  runId: string;
  desk: Promise<Desk>;
  /** Another process drives the run now. */
  lost: boolean;
  closed: PromiseWithResolvers<void>;
  folding: Promise<void>;
  busy: Set<Lane>;
  /** Lanes that were woken while they looked for the last time. */
  again: Set<Lane>;
  underWay: Map<string, { kind: string; controller: AbortController }>;
  /** The highest event id a fold has dealt with. */
  seen: number;
}

/**
 * Keeps runs going: one session for each run that has something to do, and none for the rest. A session is the run's
 * single writer. It folds what arrives while an effect is under way, so that a person can always interrupt.
 */
export function createDrive({ store, handlers, openDesk, dispatch, now, onError }: DriveOptions): Drive {
  const sessions = new Map<string, Session>();
  const waiters = new Set<() => void>();
  let scheduled: NodeJS.Timeout | undefined;
  let stopping = false;

  function wake(runId: string): void {
    if (!nudge(runId)) dispatch.wake(runId);
  }

  function nudge(runId: string): boolean {
    const session = sessions.get(runId);
    if (!session || session.lost || stopping) return false;
    go(session);
    return true;
  }

  function open(runId: string): Promise<void> {
    const there = sessions.get(runId);
    if (there?.lost) return there.closed.promise.then(() => open(runId));
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
    void session.folding.then(() => runLanes(session));
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

  function letGo(runId: string): void {
    const session = sessions.get(runId);
    if (!session) return;
    session.lost = true;
    for (const { controller } of session.underWay.values()) {
      controller.abort(new Error("Another process drives the run now."));
    }
  }

  async function foldInbox(session: Session): Promise<void> {
    while (!session.lost) {
      const [row, inbox] = await Promise.all([store.run(session.runId), store.inbox(session.runId)]);
      const newest = inbox.at(-1)?.id ?? 0;
      if (!row || newest <= session.seen) return;

      const folded = fold(row, inbox, now());
      if (!folded) return;
      if (!(await store.advance(folded.advance))) continue;
      session.seen = newest;
      if (folded.abandoned) abandon(session);
      if (folded.treeChanged) await (await session.desk).reload();
      if (folded.advance.timers?.set) await schedule();
      if (row.spec.rootId !== session.runId) wake(row.spec.rootId);
    }
  }

  function abandon({ underWay }: Session): void {
    for (const { kind, controller } of underWay.values()) {
      if ((interruptible as readonly string[]).includes(kind)) controller.abort(new Error("The run was interrupted."));
    }
  }

  function runLanes(session: Session): void {
    for (const lane of lanes) {
      if (session.busy.has(lane)) session.again.add(lane);
      else void runLane(session, lane);
    }
  }

  async function runLane(session: Session, lane: Lane): Promise<void> {
    session.busy.add(lane);
    try {
      do {
        session.again.delete(lane);
        await emptyLane(session, lane);
      } while (session.again.has(lane) && !stopping);
    } catch (error) {
      if (!session.lost) onError(error, { runId: session.runId });
    } finally {
      session.busy.delete(lane);
      await closeIfQuiet(session);
    }
  }

  async function emptyLane(session: Session, lane: Lane): Promise<void> {
    while (!stopping && !session.lost) {
      const effect = await store.begin(session.runId, lane, now());
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
  async function attempt(session: Session, effect: Effect, signal: AbortSignal): Promise<Done | undefined> {
    const handler = handlers[effect.kind];
    if (!handler) throw new Error(`Nobody handles the effect ${effect.kind}`);
    const desk = await session.desk;
    try {
      return await handler.perform(effect, desk, signal);
    } catch (error) {
      if (signal.aborted) {
        // Work that does not listen to its signal may still be writing: into a tree that nobody looks at any more.
        await desk.reload();
        return undefined;
      }
      if (error instanceof Postponed) {
        await store.postpone(effect.key, error.until);
        return undefined;
      }
      // What someone has to put right does not get better by trying again.
      if (error instanceof UserError) return handler.giveUp(effect, desk, error);
      onError(error, { runId: session.runId, kind: effect.kind });
      if (effect.attempts >= handler.attempts) return handler.giveUp(effect, desk, error);
      const backoff = Math.min(longestBackoffMs, firstBackoffMs * 2 ** (effect.attempts - 1));
      await store.postpone(effect.key, now() + backoff);
      return undefined;
    }
  }

  async function finish(effect: Effect, { afterCommit, afterCancel, ...result }: Done): Promise<void> {
    const written = await store.finish({ key: effect.key, ...result });
    if (!written) {
      afterCancel?.();
      return;
    }
    afterCommit?.();
    const woken = new Set([effect.runId, ...(result.events ?? []).map(({ runId }) => runId)]);
    if (result.run) woken.add(result.run.spec.id);
    for (const other of result.effects ?? []) woken.add(other.runId);
    for (const runId of woken) wake(runId);
  }

  async function closeIfQuiet(session: Session): Promise<void> {
    const { folding } = session;
    await folding;
    // A newer fold runs the lanes once more, and the last of them comes here again.
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
    const due = await store.nextDue();
    if (due === undefined || stopping) return;
    clearTimeout(scheduled);
    // A timer cannot be set further ahead than 24 days; the loop comes back in an hour and looks again.
    const wait = Math.min(Math.max(0, due - now()), 60 * 60_000);
    scheduled = setTimeout(() => void ring().catch((error) => onError(error, { runId: "" })), wait);
  }

  async function ring(): Promise<void> {
    const time = now();
    const woken = new Set([...(await store.fireTimers(time)), ...(await store.awake(time))]);
    for (const runId of woken) wake(runId);
    if (woken.size === 0) await schedule();
  }

  async function idle(): Promise<void> {
    while (sessions.size > 0) await new Promise<void>((resolve) => waiters.add(resolve));
  }

  async function stop(graceMs: number): Promise<void> {
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

  return { wake, nudge, open, letGo, schedule, awake: () => sessions.size, idle, stop };
}
