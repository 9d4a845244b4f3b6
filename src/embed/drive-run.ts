import type { RunEvent } from "#domain/events.ts";
import { applyEvents, initialRun, type Snapshot, stateName } from "#runtime/apply-events.ts";
import type { NewEffect, RunRow } from "#runtime/store/store.ts";
import { emptySummary, outcomeOf, summarize } from "#runtime/views/run-summary.ts";
import { carryOut } from "./carry-out.ts";
import { type Drive, type OngoingRun, person } from "./drive.ts";
import type { Session } from "./session.ts";

/**
 * Drives the worker machine in memory, from its first words to its end. The signal interrupts it: what is under way is
 * stopped, and the end is `interrupted`. Rejects only for a bug.
 */
export function driveRun(session: Session, words: RunEvent, interrupt: AbortSignal): OngoingRun {
  const first = initialRun({ ...session.spec, createdAt: Date.now() });
  const begin = session.log().length;
  const work = new AbortController();
  const timers = new Map<string, NodeJS.Timeout>();
  const underWay = new Set<Promise<void>>();
  const over = Promise.withResolvers<void>();
  let row: RunRow = { ...first, status: "active", version: 0, changeSets: 0, updatedAt: Date.now() };
  let inbox: ReturnType<Session["record"]>[] = [];

  const ownLog = () => session.log().slice(begin);
  const isOver = () => row.status === "done" || stateName(row.snapshot as Snapshot) === "interrupted";
  const drive: Drive = {
    session,
    signal: work.signal,
    row: () => row,
    approvals: new Map(),
    children: [],
    begin: driveRun,
    iteration: () => ownLog().filter(({ event }) => event.type === "model.answered").length,
    tell,
  };

  function tell(event: RunEvent): void {
    if (isOver()) return;
    inbox.push(session.record(event));
    advance();
  }

  function advance(): void {
    const folded = applyEvents(row, inbox, Date.now());
    if (!folded) return;
    const { snapshot, status, consumed, effects, timers: change } = folded.advance;
    row = { ...row, snapshot, status, version: row.version + 1, updatedAt: Date.now() };
    inbox = inbox.filter(({ id }) => !consumed.includes(id));
    for (const timer of change?.clear ?? []) clearTimeout(timers.get(timer));
    for (const { timer, dueAt } of change?.set ?? []) arm(timer, dueAt);
    if (isOver()) end();
    else for (const effect of effects) start(effect);
  }

  function arm(timer: "retry" | "deadline", dueAt: number): void {
    clearTimeout(timers.get(timer));
    const afterMs = Math.min(Math.max(0, dueAt - Date.now()), 2 ** 31 - 1);
    timers.set(
      timer,
      setTimeout(() => tell({ type: "timer.due", timer }), afterMs),
    );
  }

  function start(effect: NewEffect): void {
    const doing = async () => {
      if (work.signal.aborted) return;
      const done = carryOut(effect, drive).catch((error) => {
        if (!work.signal.aborted) over.reject(error);
      });
      underWay.add(done);
      await done;
      underWay.delete(done);
    };
    void (effect.queue === "work" ? session.lane.run(doing) : doing());
  }

  function end(): void {
    for (const timer of timers.values()) clearTimeout(timer);
    interrupt.removeEventListener("abort", stop);
    work.abort(interrupt.aborted ? interrupt.reason : new Error("The run is over."));
    void Promise.all(underWay).then(() => over.resolve());
  }

  function stop(): void {
    tell({ type: "run.stop", by: person });
  }

  interrupt.addEventListener("abort", stop, { once: true });
  session.record(words);
  inbox.push(...session.log().slice(-1));
  for (const effect of first.effects) start(effect);
  advance();

  return {
    tell,
    ended: over.promise.then(
      () => {
        const log = ownLog();
        const snapshot = row.snapshot as Snapshot;
        const summary = log.reduce(summarize, emptySummary);
        return {
          outcome: outcomeOf(snapshot, summary) ?? { kind: "interrupted" },
          usage: summary.usage,
          cost: snapshot.context.cost,
          iterations: drive.iteration(),
          calls: log.reduce((sum, { event }) => sum + (event.type === "model.answered" ? event.calls.length : 0), 0),
        };
      },
      (error) => {
        end();
        throw error;
      },
    ),
  };
}
