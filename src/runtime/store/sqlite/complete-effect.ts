import type { EffectCompletion } from "#runtime/store/store.ts";
import { insertRun } from "./insert-run.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Ends an effect and writes what it came to; false when it was cancelled meanwhile. */
export function completeEffect(tables: SqliteTables, finished: EffectCompletion): boolean {
  const { events, effects, approvals, changes, posts } = tables;
  const now = Date.now();
  const owner = effects.complete(finished.key);
  if (owner === undefined) return false;

  // The child first, since events and effects may be addressed to it.
  if (finished.run) insertRun(tables, finished.run);
  for (const event of finished.events ?? []) events.append(event, now);
  for (const effect of finished.effects ?? []) effects.insert(effect);
  if (finished.changes) changes.append(owner, finished.changes);
  if (finished.parentChanges) changes.append(finished.parentChanges.runId, finished.parentChanges.changes);
  for (const approval of finished.approvals ?? []) approvals.insert(approval);
  if (finished.usedApproval !== undefined) approvals.use(finished.usedApproval);
  if (finished.post) posts.put(finished.post, now);
  return true;
}
