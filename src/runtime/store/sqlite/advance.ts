import type { Advance } from "#runtime/store/store.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Writes one fold of the mailbox; false when the run moved on, or an event was taken in, since it was computed. */
export function advance({ runs, events, effects, timers, approvals }: SqliteTables, step: Advance): boolean {
  const { runId } = step;
  if (!runs.isAt(runId, step.version)) return false;
  if (!step.consumed.every((eventId) => events.isInInbox(runId, eventId))) return false;

  for (const eventId of step.consumed) events.takeFromInbox(runId, eventId);
  runs.advance({ ...step, seen: Math.max(step.seen, ...step.consumed) }, Date.now());

  effects.removeKinds(runId, step.cancelEffects?.kinds ?? []);
  for (const effect of step.effects) effects.insert(effect);
  for (const timer of step.timers?.clear ?? []) timers.clear(runId, timer);
  for (const { timer, dueAt } of step.timers?.set ?? []) timers.set(runId, timer, dueAt);
  if (step.withdrawApprovals) approvals.withdraw(runId);
  return true;
}
