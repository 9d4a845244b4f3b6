import { expire } from "#runtime/store/expire.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Appends the events of timers and approvals that ran out, and gives the runs they belong to. */
export function fireTimers({ timers, approvals, events }: SqliteTables, now: number): string[] {
  const due = timers.takeDue(now);
  for (const { runId, timer } of due) events.append({ runId, event: { type: "timer.due", timer } }, now);

  const expired = approvals.expired(now).map(expire);
  for (const { approval, event } of expired) {
    approvals.settle(approval);
    events.append({ runId: approval.runId, event }, now);
  }

  return [...new Set([...due, ...expired.map(({ approval }) => approval)].map(({ runId }) => runId))];
}
