import { type LedgerDraft, ledgerDraft } from "#domain/ledger.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { executionDraft } from "#runtime/store/apply-decision.ts";
import type { Advance, EffectCompletion, NextStep, StepResult } from "#runtime/store/store.ts";
import { countedState, ifReadable, serializeSnapshot } from "#runtime/store/stored-rows.ts";
import { addHourlyUsage, appendEvents, appendLedger, readInboxes } from "./append-only-tables.ts";
import { addApproval, findApprovals, saveApprovals, withdrawApprovals } from "./approvals.ts";
import { addChanges, checkMerges } from "./changes.ts";
import { addEffects, claimEffects, removeCompleted } from "./effects.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { addRun, findRuns, lockRuns } from "./runs.ts";

/**
 * Stores the result of applying events. Returns false if the run's version has changed or one of the events was already
 * consumed. Throws if a replica other than `holder` has the run; `holder` is undefined without replicas.
 */
export async function advance(sql: Sql, step: Advance, holder: number | undefined): Promise<Outcome<boolean>> {
  const { runId } = step;
  const locked = await lockRuns(sql, [runId, ...step.effects.map((effect) => effect.runId)]);
  const run = locked.get(runId);
  if (holder !== undefined && run?.holder !== holder) throw new Error(`Another replica has the run ${runId} now.`);
  if (run?.version !== step.version) return { undo: true, result: false };
  const stored = await storeAdvances(sql, [step]);
  if (!stored) return { undo: true, result: false };
  await appendLedger(sql, stored.ledger);
  return { result: true };
}

/**
 * Stores advances of different runs, which are locked. Returns the entries of the ledger that have to be appended;
 * undefined if one of the events was already consumed.
 */
async function storeAdvances(sql: Sql, steps: readonly Advance[]): Promise<{ ledger: LedgerDraft[] } | undefined> {
  if (steps.length === 0) return { ledger: [] };
  const consumed = steps.flatMap(({ runId, consumed }) => [...new Set(consumed)].map((id) => ({ runId, id })));
  const [removed] = await Promise.all([
    sql.run(
      `delete from inbox using unnest($1::text[], $2::bigint[]) as given (run_id, event_id)
        where inbox.run_id = given.run_id and inbox.event_id = given.event_id`,
      [consumed.map(({ runId }) => runId), consumed.map(({ id }) => id)],
    ),
    updateRuns(sql, steps),
    cancelEffects(sql, steps),
    addEffects(
      sql,
      steps.flatMap(({ effects }) => effects),
    ),
    setTimers(sql, steps),
    addHourlyUsage(
      sql,
      steps.flatMap(({ runId, usage }) => (usage ? [{ ...usage, runId }] : [])),
    ),
  ]);
  if (removed !== consumed.length) return undefined;

  const at = Date.now();
  const withdrawn = await Promise.all(
    steps.map(({ runId, withdrawApprovals: isWithdrawn }) => (isWithdrawn ? withdrawApprovals(sql, runId) : [])),
  );
  return { ledger: withdrawn.flat().map((approval) => ledgerDraft("withdrawn", approval, { at })) };
}

function updateRuns(sql: Sql, steps: readonly Advance[]): Promise<number> {
  return sql.run(
    `update runs set version = version + 1, last_seen_event = greatest(last_seen_event, given.seen),
        snapshot = given.snapshot, status = given.status, updated_at = greatest(updated_at, $6), state = given.state
      from unnest($1::text[], $2::bigint[], $3::json[], $4::text[], $5::text[]) as given (id, seen, snapshot, status, state)
      where runs.id = given.id`,
    [
      steps.map(({ runId }) => runId),
      steps.map(({ seen, consumed }) => Math.max(seen, ...consumed)),
      steps.map(({ snapshot }) => serializeSnapshot(snapshot)),
      steps.map(({ status }) => status),
      steps.map(countedState),
      Date.now(),
    ],
  );
}

async function cancelEffects(sql: Sql, steps: readonly Advance[]): Promise<void> {
  await Promise.all(
    steps.map(
      ({ runId, cancelEffects }) =>
        cancelEffects &&
        sql.run("delete from effects where run_id = $1 and kind = any ($2::text[])", [runId, cancelEffects.kinds]),
    ),
  );
}

/** A timer that is both cleared and set ends up set. */
async function setTimers(sql: Sql, steps: readonly Advance[]): Promise<void> {
  const cleared = steps.flatMap(({ runId, timers }) => (timers?.clear ?? []).map((timer) => ({ runId, timer })));
  const latest = steps.flatMap(({ runId, timers }) =>
    [...new Map((timers?.set ?? []).map(({ timer, dueAt }) => [timer, dueAt]))].map(([timer, dueAt]) => ({
      runId,
      timer,
      dueAt,
    })),
  );
  await Promise.all([
    cleared.length > 0 &&
      sql.run(
        `delete from timers using unnest($1::text[], $2::text[]) as given (run_id, timer)
          where timers.run_id = given.run_id and timers.timer = given.timer`,
        [cleared.map(({ runId }) => runId), cleared.map(({ timer }) => timer)],
      ),
    latest.length > 0 &&
      sql.run(
        `insert into timers (run_id, timer, due_at) select * from unnest($1::text[], $2::text[], $3::double precision[])
          on conflict (run_id, timer) do update set due_at = excluded.due_at`,
        [latest.map(({ runId }) => runId), latest.map(({ timer }) => timer), latest.map(({ dueAt }) => dueAt)],
      ),
  ]);
}

/** An effect to complete, and the step of its run that follows in the same transaction. */
export interface Completion {
  completion: EffectCompletion;
  next?: NextStep;
}

/**
 * Removes performed effects, stores their results, advances the runs of those with a next step and claims the next
 * effects, all in one transaction. The result of an effect that was cancelled, or whose run a replica other than
 * `holder` has taken over, is undefined, and nothing of it is stored. A completion that creates a child run, or merges
 * changes into another one, has to be alone. Statements that do not depend on earlier results share a round trip, and each statement serves all completions.
 */
export async function completeEffects(
  sql: Sql,
  completions: readonly Completion[],
  holder: number | undefined,
): Promise<Outcome<(StepResult | undefined)[]>> {
  const completed = await removeEffects(sql, completions, holder);
  if (completed.length === 0) return { undo: true, result: completions.map(() => undefined) };

  const now = Date.now();
  const steps = completed.flatMap(({ completion: { runId }, next }) => (next ? [{ ...next, runId }] : []));
  const [requested, advances] = await Promise.all([storeResults(sql, completed, now), computeAdvances(sql, steps)]);
  const [stored, claimed] = await Promise.all([
    storeAdvances(sql, [...advances.values()]),
    claimEffects(sql, steps, holder),
  ]);
  // The runs are locked, so their inboxes cannot have changed before the advances.
  if (!stored) throw new Error(`An inbox of ${[...advances.keys()].join(", ")} changed while its run was locked.`);
  await appendLedger(sql, [...requested, ...stored.ledger]);
  const results = new Map(
    completed.map(({ completion: { runId, key }, next }): [string, StepResult] => {
      const effect = next && claimed[steps.findIndex((step) => step.runId === runId && step.queue === next.queue)];
      return [
        key,
        {
          advanced: next !== undefined && advances.has(runId),
          claimed: effect instanceof UnreadableDataError ? undefined : effect,
        },
      ];
    }),
  );
  return { result: completions.map(({ completion: { key } }) => results.get(key)) };
}

/** Locks the runs, creates a child and removes the effects. Returns the completions whose effects were removed. */
async function removeEffects(
  sql: Sql,
  completions: readonly Completion[],
  holder: number | undefined,
): Promise<Completion[]> {
  // A child is created first, since events and effects may refer to it.
  for (const { completion } of completions) if (completion.run) await addRun(sql, completion.run);
  const effects = completions.map(({ completion }) => completion);
  // Both share a round trip, and are executed in this order.
  const [, removed] = await Promise.all([
    lockRuns(sql, completions.flatMap(touchedRuns)),
    removeCompleted(sql, effects, holder),
  ]);
  return completions.filter(({ completion }) => removed.has(completion.key));
}

/** Returns the runs that a completion writes. */
export function touchedRuns({ completion, next }: Completion): string[] {
  const { runId, events = [], effects = [], run, parentChanges } = completion;
  return [
    runId,
    ...[...events, ...effects, ...(parentChanges ? [parentChanges] : [])].map(({ runId }) => runId),
    ...(run ? [run.spec.id] : []),
    ...(next ? [next.rootId] : []),
  ];
}

/** Computes the advances of the runs, with the events that this transaction has appended. */
async function computeAdvances(
  sql: Sql,
  steps: readonly (NextStep & { runId: string })[],
): Promise<Map<string, Advance>> {
  const runIds = steps.map(({ runId }) => runId);
  const [runs, inboxes] = await Promise.all([findRuns(sql, "ids", [runIds]), readInboxes(sql, runIds)]);
  return new Map(
    steps.flatMap(({ runId, advance }) => {
      const run = runs.find(({ id }) => id === runId);
      const step = run && ifReadable(() => advance(run, inboxes(runId)));
      return step ? [[runId, step]] : [];
    }),
  );
}

/** Stores the results, and returns their entries of the ledger. */
async function storeResults(sql: Sql, completed: readonly Completion[], now: number): Promise<LedgerDraft[]> {
  const results = completed.map(({ completion }) => completion);
  const sets = results.flatMap(({ runId, changes, mergedWith, parentChanges }) => [
    ...(changes ? [{ runId, changes, mergedWith }] : []),
    ...(parentChanges ? [parentChanges] : []),
  ]);
  await Promise.all([
    checkMerges(sql, sets),
    appendEvents(
      sql,
      results.flatMap(({ events = [] }) => events),
      now,
    ),
    addEffects(
      sql,
      results.flatMap(({ effects = [] }) => effects),
    ),
    addChanges(sql, sets),
    ...results.flatMap(({ approvals = [] }) => approvals).map((approval) => addApproval(sql, approval)),
    ...results.map(
      ({ runId, pullRequest }) =>
        pullRequest !== undefined && sql.run("update runs set pull_request = $2 where id = $1", [runId, pullRequest]),
    ),
    savePosts(sql, results, now),
  ]);
  for (const result of results) await saveShown(sql, result, now);
  return (await Promise.all(results.map((result) => draftsOf(sql, result, now)))).flat();
}

async function savePosts(sql: Sql, results: readonly EffectCompletion[], now: number): Promise<void> {
  // One statement must not touch a row twice, and all transactions write them in the same order.
  const posts = new Map(results.flatMap(({ posts = [] }) => posts.map((post) => [post.name, post] as const)));
  if (posts.size === 0) return;
  const names = [...posts.keys()].sort();
  const shown = names.map((name) => posts.get(name)?.shown);
  await sql.run(
    `insert into posts (name, comment_id, shown, updated_at)
        select name, comment_id, shown, $4 from unnest($1::text[], $2::bigint[], $3::text[]) as given (name, comment_id, shown)
      on conflict (name) do update
        set comment_id = excluded.comment_id, shown = excluded.shown, updated_at = excluded.updated_at`,
    [names, names.map((name) => posts.get(name)?.commentId), shown.map((one) => one && JSON.stringify(one)), now],
  );
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
