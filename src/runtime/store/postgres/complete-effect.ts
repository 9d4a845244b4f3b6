import type { EffectCompletion } from "#runtime/store/store.ts";
import { addChanges } from "./add-changes.ts";
import { addEffects } from "./add-effects.ts";
import { addRun } from "./add-run.ts";
import { appendEvents } from "./append-events.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

/**
 * Ends an effect and writes what it came to; false when it was cancelled meanwhile, or when another replica than `holder`
 * has taken its run over.
 */
export async function completeEffect(
  sql: Sql,
  finished: EffectCompletion,
  holder: number | undefined,
): Promise<Outcome<boolean>> {
  const { key, events = [], effects = [], approvals = [], usedApproval, post, run, changes, parentChanges } = finished;
  const now = Date.now();
  // The child first, since events and effects may be addressed to it.
  if (run) await addRun(sql, run);
  const others = [...events, ...effects, ...(parentChanges ? [parentChanges] : [])].map(({ runId }) => runId);
  // In one round trip, and one after the other all the same.
  const [locked, owner] = await Promise.all([lockRuns(sql, others, key), end(sql, key)]);
  if (owner === undefined) return { undo: true, result: false };
  if (holder !== undefined && locked.get(owner)?.holder !== holder) return { undo: true, result: false };

  await Promise.all([
    appendEvents(sql, events, now),
    addEffects(sql, effects),
    addChanges(sql, [...(changes ? [{ runId: owner, changes }] : []), ...(parentChanges ? [parentChanges] : [])]),
    ...approvals.map((approval) =>
      sql.query(
        "insert into approvals (id, run_id, root_id, status, expires_at, approval) values ($1, $2, $3, $4, $5, $6)",
        [approval.id, approval.runId, approval.rootId, approval.status, approval.expiresAt, JSON.stringify(approval)],
      ),
    ),
    usedApproval !== undefined &&
      sql.query("update approvals set status = 'used' where id = $1 and status = 'approved'", [usedApproval]),
    post &&
      sql.query(
        `insert into posts (name, comment_id, updated_at) values ($1, $2, $3)
          on conflict (name) do update set comment_id = excluded.comment_id, updated_at = excluded.updated_at`,
        [post.name, post.commentId, now],
      ),
  ]);
  return { result: true };
}

/** Its row goes, or starts anew if it was asked for again while it was under way. Gives the run it belongs to. */
async function end(sql: Sql, key: string): Promise<string | undefined> {
  const [ended] = await sql.query<{ runId: string }>(
    `with anew as (
        update effects set again = false, under_way = false, attempts = 0, due_at = 0 where key = $1 and again
          returning run_id
      ), gone as (
        delete from effects where key = $1 and not again returning run_id
      )
      select run_id as "runId" from anew union all select run_id from gone`,
    [key],
  );
  return ended?.runId;
}
