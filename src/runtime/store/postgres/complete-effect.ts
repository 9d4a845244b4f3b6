import { type LedgerDraft, ledgerDraft } from "#domain/ledger.ts";
import { executionDraft } from "#runtime/store/apply-decision.ts";
import type { EffectCompletion } from "#runtime/store/store.ts";
import { addApproval, findApprovals, saveApprovals } from "./approvals.ts";
import { addChanges } from "./changes.ts";
import { addEffects, removeCompleted } from "./effects.ts";
import { appendEvents } from "./events.ts";
import { appendLedger } from "./ledger.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { addRun } from "./runs.ts";

/**
 * Removes a performed effect and stores its result. Returns false when it was cancelled, or when another replica than
 * `holder` has taken its run over.
 */
export async function completeEffect(
  sql: Sql,
  completion: EffectCompletion,
  holder: number | undefined,
): Promise<Outcome<boolean>> {
  const { key, events = [], effects = [], approvals = [], ...result } = completion;
  const { post, run, changes, parentChanges, pullRequest } = result;
  const now = Date.now();
  // The child first, since events and effects may be for it.
  if (run) await addRun(sql, run);
  const others = [...events, ...effects, ...(parentChanges ? [parentChanges] : [])].map(({ runId }) => runId);
  // Both share a round trip, and are carried out in this order.
  const [locked, owner] = await Promise.all([lockRuns(sql, others, key), removeCompleted(sql, key)]);
  if (owner === undefined) return { undo: true, result: false };
  if (holder !== undefined && locked.get(owner)?.holder !== holder) return { undo: true, result: false };

  await Promise.all([
    appendEvents(sql, events, now),
    addEffects(sql, effects),
    addChanges(sql, [...(changes ? [{ runId: owner, changes }] : []), ...(parentChanges ? [parentChanges] : [])]),
    ...approvals.map((approval) => addApproval(sql, approval)),
    pullRequest !== undefined && sql.run("update runs set pull_request = $2 where id = $1", [owner, pullRequest]),
    post &&
      sql.run(
        `insert into posts (name, comment_id, updated_at) values ($1, $2, $3)
          on conflict (name) do update set comment_id = excluded.comment_id, updated_at = excluded.updated_at`,
        [post.name, post.commentId, now],
      ),
  ]);
  await saveShown(sql, result, now);
  await appendLedger(sql, await draftsOf(sql, completion, now));
  return { result: true };
}

/** Notes when the request for an approval was posted first. */
async function saveShown(sql: Sql, { shownApproval }: Pick<EffectCompletion, "shownApproval">, now: number) {
  if (shownApproval === undefined) return;
  const [approval] = await findApprovals(sql, "id = $1", shownApproval);
  if (approval && approval.shownAt === undefined) await saveApprovals(sql, [{ ...approval, shownAt: now }]);
}

async function draftsOf(
  sql: Sql,
  { approvals = [], execution }: EffectCompletion,
  now: number,
): Promise<LedgerDraft[]> {
  const requested = approvals.map((approval) => ledgerDraft("requested", approval, { at: approval.requestedAt }));
  const [executed] = execution ? await findApprovals(sql, "id = $1", execution.approvalId) : [];
  return execution && executed ? [...requested, executionDraft(executed, execution, now)] : requested;
}
