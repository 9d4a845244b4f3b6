import { expire } from "./expire.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Appends the events of timers and approvals that ran out, and gives the runs they belong to. */
export function fireTimers(tables: SqliteTables, now: number): string[] {
  const due = tables.timers.takeDue(now);
  for (const { runId, timer } of due) tables.events.append({ runId, event: { type: "timer.due", timer } }, now);

  const expired = tables.approvals.expired(now);
  for (const approval of expired) expire(tables, approval, now);

  return [...new Set([...due, ...expired].map(({ runId }) => runId))];
}
