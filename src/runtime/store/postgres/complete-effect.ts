import { type LedgerDraft, ledgerDraft } from "#domain/ledger.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { executionDraft } from "#runtime/store/apply-decision.ts";
import type { EffectCompletion, NextStep, StepResult } from "#runtime/store/store.ts";
import { ifReadable } from "#runtime/store/stored-rows.ts";
import { storeAdvance } from "./advance.ts";
import { addApproval, findApprovals, saveApprovals } from "./approvals.ts";
import { addChanges } from "./changes.ts";
import { addEffects, claimEffect, removeCompleted } from "./effects.ts";
import { appendEvents, readInbox } from "./events.ts";
import { appendLedger } from "./ledger.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { addRun, findRuns } from "./runs.ts";

/**
 * Removes a performed effect and stores its result. Returns false if it was cancelled, or if a replica other than
 * `holder` has taken over its run.
 */
export async function completeEffect(
  sql: Sql,
  completion: EffectCompletion,
  holder: number | undefined,
): Promise<Outcome<boolean>> {
  const owner = await removeEffect(sql, completion, holder);
  if (owner === undefined) return { undo: true, result: false };
  await storeResult(sql, completion, owner);
  return { result: true };
}

/**
 * Completes an effect, advances its run and claims the next effect. Statements that do not depend on earlier results
 * share a round trip.
 */
export async function completeStep(
  sql: Sql,
  completion: EffectCompletion,
  { runId, queue, now, ...next }: NextStep,
  holder: number | undefined,
): Promise<Outcome<StepResult | undefined>> {
  const owner = await removeEffect(sql, completion, holder);
  if (owner === undefined) return { undo: true, result: undefined };
  const [, [run], inbox] = await Promise.all([
    storeResult(sql, completion, owner),
    findRuns(sql, "id", [runId]),
    readInbox(sql, runId).catch(undefinedIfUnreadable),
  ]);
  const step = run && inbox && ifReadable(() => next.advance(run, inbox));
  const [advanced, claimed] = await Promise.all([
    step ? storeAdvance(sql, step) : false,
    claimEffect(sql, { runId, queue, now, holder }).catch(undefinedIfUnreadable),
  ]);
  // The run is locked, so its inbox cannot have changed before the advance.
  if (step && !advanced) throw new Error(`The inbox of the run ${runId} changed while it was locked.`);
  return { result: { advanced, claimed } };
}

function undefinedIfUnreadable(error: unknown): undefined {
  if (!(error instanceof UnreadableDataError)) throw error;
}

/** Locks the runs, removes the effect and creates the child. Returns the run of the effect; undefined if it is not ours. */
async function removeEffect(
  sql: Sql,
  { key, events = [], effects = [], run, parentChanges }: EffectCompletion,
  holder: number | undefined,
): Promise<string | undefined> {
  // The child is created first, since events and effects may refer to it.
  if (run) await addRun(sql, run);
  const others = [...events, ...effects, ...(parentChanges ? [parentChanges] : [])].map(({ runId }) => runId);
  // Both share a round trip, and are executed in this order.
  const [locked, owner] = await Promise.all([lockRuns(sql, others, key), removeCompleted(sql, key)]);
  return owner === undefined || (holder !== undefined && locked.get(owner)?.holder !== holder) ? undefined : owner;
}

async function storeResult(sql: Sql, completion: EffectCompletion, owner: string): Promise<void> {
  const { events = [], effects = [], approvals = [], ...result } = completion;
  const { post, changes, parentChanges, pullRequest } = result;
  const now = Date.now();
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
}

/** Records when the request for an approval was first posted. */
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
