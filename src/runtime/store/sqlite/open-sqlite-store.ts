import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { LoggedEvent } from "#domain/events.ts";
import { ledgerDraft } from "#domain/ledger.ts";
import type { RunSpec } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import {
  applyDecision,
  applyExecution,
  applyRevocation,
  executionDraft,
  expire,
} from "#runtime/store/apply-decision.ts";
import type { NewDelivery } from "#runtime/store/delivery-store.ts";
import {
  type Advance,
  type Backlog,
  type ChangesOfRun,
  clockToleranceMs,
  type Decision,
  type DecisionResult,
  type EffectCompletion,
  type Execution,
  type ExpiredData,
  type NewRun,
  type NextStep,
  OutdatedMergeError,
  type Post,
  type Revocation,
  RunLimitError,
  type StepResult,
  type Store,
  type StoredRun,
} from "#runtime/store/store.ts";
import {
  ifReadable,
  maxRemovedDeliveries,
  PostColumns,
  readApproval,
  readBacklogRows,
  readDecision,
  readPost,
  serializeRecord,
  TimerColumns,
  unreadableRetryMs,
} from "#runtime/store/stored-rows.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";
import { ApprovalsTable, LedgerTable } from "./approval-tables.ts";
import { ChangesTable } from "./changes-table.ts";
import { openMemoryConnection, openReadOnlyConnection, openSqliteConnection } from "./open-database.ts";
import { DeliveriesTable, LocationsTable, PendingDeliveriesTable, UsageTable } from "./repository-tables.ts";
import { EffectsTable, EventsTable, RunsTable } from "./run-tables.ts";
import { GroupCommits, type SqliteConnection, Table } from "./sqlite-connection.ts";

/**
 * Opens the store in a SQLite file, which is created with its folder if it does not exist. Only one process can use a
 * file. Throws a UserError for a file that is in use, or that another program or a newer release created.
 */
export async function openSqliteStore(path: string): Promise<Store> {
  return sqliteStore(await openSqliteConnection(path));
}

/** Opens the store in a SQLite file for reading, even while another process uses it. Writes fail. */
export function openSqliteStoreReadOnly(path: string): Store {
  return storeOver(openReadOnlyConnection(path));
}

/** A store in a database that only this process uses. */
export function sqliteStore(sql: SqliteConnection): Store {
  new PendingDeliveriesTable(sql).releaseAll();
  return storeOver(sql);
}

export interface MemoryStore extends Store {
  /** Removes a root run with every run below it, and returns its spec. */
  forget(rootId: string): RunSpec | undefined;
}

/** Opens a store for embedding programs and tests, which ends with the process. */
export function openMemoryStore(): MemoryStore {
  const sql = openMemoryConnection();
  const tables = new Tables(sql);
  return { ...storeOver(sql, tables), forget: (rootId) => tables.forget(rootId) };
}

function storeOver(sql: SqliteConnection, tables = new Tables(sql)): Store {
  const { locations, runs, events, effects, approvals, changes, deliveries, pendingDeliveries } = tables;
  const commits = new GroupCommits(sql);

  /** Stores large contents before the transaction that refers to them, so that it does not block the event loop. */
  async function storeLargeContents({ changes: own, parentChanges }: EffectCompletion): Promise<void> {
    for (const { content } of [...(own?.changes ?? []), ...(parentChanges?.changes.changes ?? [])]) {
      if (content && content.length > maxContentBytes) await commits.write(() => changes.addBlob(content));
    }
  }

  return {
    ingest: (delivery) => commits.write(() => tables.ingest(delivery)),
    hasDelivery: (guid) => commits.read(() => deliveries.resultOf({ guid, part: "" }) !== undefined),
    saveDelivery: (delivery) => commits.write(() => tables.saveDelivery(delivery)),
    claimDeliveries: (query) => commits.write(() => pendingDeliveries.claim(query)),
    holdsDelivery: (claim) => commits.read(() => pendingDeliveries.holds(claim)),
    postponeDelivery: (claim, delayMs, options) =>
      commits.write(() => pendingDeliveries.postpone(claim, delayMs, options)),
    completeDelivery: (key) => commits.write(() => pendingDeliveries.remove(key)),
    nextDeliveryInMs: () => commits.read(() => pendingDeliveries.nextInMs()),
    findRun: (id) => commits.read(() => runs.find(id)),
    runsOfThread: (thread) => commits.read(() => runs.ofThread(thread)),
    childrenOf: (runId) => commits.read(() => runs.childrenOf(runId)),
    countRuns: (query) => commits.read(() => runs.count(query)),
    costSince: (query) => commits.read(() => tables.usage.costSince(query)),
    costsOfWorker: (query) => commits.read(() => runs.costsOfWorker(query)),
    liveRuns: (where) => commits.read(() => runs.live(where)),
    dailyCosts: (days) => commits.read(() => tables.usage.daily(days)),
    readBacklog: (now) => commits.read(() => tables.readBacklog(now)),
    latestRuns: (query) => commits.read(() => runs.latest(query)),
    findLocation: (repositoryId) => commits.read(() => locations.find(repositoryId)),
    saveLocation: (reported) => commits.write(() => locations.save(reported)),
    inbox: (runId) => commits.read(() => events.inbox(runId)),
    log: (runId, after = 0, limit) => commits.read(() => events.log(runId, after, limit)),
    commandsOf: (runId) => commits.read(() => events.commands(runId)),
    advance: (step) => commits.write(() => tables.advance(step)),
    claimEffect: async (runId, queue, now) => {
      // Mostly there is none, and reading takes no transaction.
      if (!effects.findDue(runId, queue, now)) return commits.read(() => undefined);
      return commits.write(() => effects.claim(runId, queue, now));
    },
    completeEffect: async (completion) => {
      await storeLargeContents(completion);
      return commits.write(() => tables.completeEffect(completion));
    },
    completeStep: async (completion, next) => {
      await storeLargeContents(completion);
      return commits.write(() => tables.completeStep(completion, next));
    },
    postponeEffect: (effect, dueAt, options) => commits.write(() => effects.postpone(effect, dueAt, options)),
    setEffectProblem: (runId, problem, now) => commits.write(() => effects.setProblem(runId, problem, now)),
    effectProblem: (runId) => commits.read(() => effects.problemOf(runId)),
    dueRuns: (now) => commits.read(() => [...new Set([...tables.runsWithEvents(), ...effects.dueRuns(now)])]),
    bringForward: (now) => commits.write(() => tables.bringForward(now)),
    fireTimers: (now, expiredBy = now) => commits.write(() => tables.fireTimers(now, expiredBy)),
    postponedRuns: (now) => commits.read(() => effects.postponedRuns(now)),
    nextDueAt: (after = 0) => commits.read(() => tables.nextDueAt(after)),
    findApproval: (id) => commits.read(() => approvals.find(id)),
    approvalsOf: (rootId) => commits.read(() => approvals.ofRoot(rootId)),
    decideApproval: (decision) => commits.write(() => tables.decide(decision)),
    revokeApproval: (revocation) => commits.write(() => tables.revoke(revocation)),
    beginExecution: (execution) => commits.write(() => tables.beginExecution(execution)),
    readLedger: (after, limit) => commits.read(() => tables.ledger.read(after, limit)),
    changesOf: async (runId, upTo) => {
      const steps: StepChanges[] = [];
      const loop = new EventLoopYielder();
      for (const { id, step } of await commits.read(() => changes.setsOf(runId, upTo))) {
        steps.push({ step, changes: await commits.read(() => changes.inSet(id)) });
        if (loop.isDue) await loop.turn();
      }
      return steps;
    },
    findPost: (name) => commits.read(() => tables.findPost(name)),
    removeExpired: (expired) => commits.write(() => tables.removeExpired(expired)),
    latestTime: () => commits.read(() => tables.latestTime()),
    ping: () => commits.write(() => sql.ping()),
    close: () => commits.close(),
  };
}

/** Larger contents are stored before the transaction that refers to them. */
const maxContentBytes = 1_000_000;

const Id = z.object({ id: z.string() });
const Due = z.object({ due: z.number() });

// Timers of a newer release are left unchanged.
const Latest = z.object({ latest: z.number().nullable() });
const isKnownTimer = `timer in (${TimerColumns.shape.timer.options.map((name) => `'${name}'`).join(", ")})`;

/** The tables of the database, and the transactions that touch several of them. */
class Tables extends Table {
  readonly runs = new RunsTable(this.sql);
  readonly events = new EventsTable(this.sql);
  readonly effects = new EffectsTable(this.sql);
  readonly approvals = new ApprovalsTable(this.sql);
  readonly changes = new ChangesTable(this.sql);
  readonly deliveries = new DeliveriesTable(this.sql);
  readonly pendingDeliveries = new PendingDeliveriesTable(this.sql);
  readonly locations = new LocationsTable(this.sql);
  readonly ledger = new LedgerTable(this.sql);
  readonly usage = new UsageTable(this.sql);

  ingest({ deliveryId, run, limits = [], events, effects = [] }: Parameters<Store["ingest"]>[0]): boolean {
    const now = Date.now();
    if (deliveryId !== undefined) {
      const delivery = { guid: deliveryId, part: "" };
      if (!this.deliveries.add({ ...delivery, result: null, now })) return false;
    }

    if (run && this.#addRun(run)) {
      for (const limit of limits) {
        const others = this.runs.count(limit) - 1;
        if (others >= limit.max) throw new RunLimitError(limit, others);
      }
    }
    for (const event of events) this.events.append(event, now);
    for (const effect of effects) this.effects.insert(effect);
    return true;
  }

  saveDelivery(delivery: NewDelivery): boolean {
    const now = Date.now();
    if (!this.deliveries.add({ guid: delivery.key, part: "", result: null, now })) return false;
    this.pendingDeliveries.insert(delivery, now);
    return true;
  }

  advance(step: Advance): boolean {
    const { runId } = step;
    if (!this.runs.isAt(runId, step.version)) return false;
    if (!step.consumed.every((eventId) => this.events.isInInbox(runId, eventId))) return false;
    this.#saveAdvance(step);
    return true;
  }

  /**
   * Stores a step of a run whose version and inbox were read in this transaction. `added`: the events that it added.
   * `before`: the run that was read.
   */
  #saveAdvance(step: Advance, added: ReadonlySet<number> = new Set(), before?: StoredRun): void {
    const { runId } = step;
    for (const eventId of step.consumed) if (!added.has(eventId)) this.events.removeFromInbox(runId, eventId);
    this.runs.advance({ ...step, seen: Math.max(step.seen, ...step.consumed) }, Date.now(), before);

    this.effects.removeKinds(runId, step.cancelEffects?.kinds ?? []);
    for (const effect of step.effects) this.effects.insert(effect);
    this.#setTimers(step);
    if (step.usage) this.usage.add(runId, step.usage);
    if (step.withdrawApprovals) {
      const at = Date.now();
      this.ledger.append(this.approvals.withdraw(runId).map((approval) => ledgerDraft("withdrawn", approval, { at })));
    }
  }

  completeEffect(completion: EffectCompletion): boolean {
    const logged = this.#storeResult(completion);
    for (const event of logged ?? []) this.events.addToInbox(event);
    return logged !== undefined;
  }

  /** Returns the events, which are not in an inbox yet; undefined if there is no such effect. */
  #storeResult({
    runId,
    key,
    events = [],
    effects = [],
    approvals = [],
    ...result
  }: EffectCompletion): LoggedEvent[] | undefined {
    const now = Date.now();
    if (!this.effects.complete({ runId, key })) return undefined;

    const { run, changes, mergedWith, parentChanges, execution, shownApproval, posts = [], pullRequest } = result;
    // The child is created first, since events and effects may refer to it.
    if (run) this.#addRun(run);
    const logged = events.map((event) => this.events.appendToLog(event, now)).filter((event) => event !== undefined);
    for (const effect of effects) this.effects.insert(effect);
    if (pullRequest !== undefined) this.runs.linkPullRequest(runId, pullRequest);
    if (changes) this.#addChanges({ runId, changes, mergedWith });
    if (parentChanges) this.#addChanges(parentChanges);
    for (const approval of approvals) this.approvals.insert(approval);
    this.ledger.append(approvals.map((approval) => ledgerDraft("requested", approval, { at: approval.requestedAt })));
    const executed = execution && this.approvals.find(execution.approvalId);
    if (executed) this.ledger.append([executionDraft(executed, execution, now)]);
    const shown = shownApproval === undefined ? undefined : this.approvals.find(shownApproval);
    if (shown && shown.shownAt === undefined) this.approvals.save({ ...shown, shownAt: now });
    for (const post of posts) this.#savePost(post, now);
    return logged;
  }

  completeStep(completion: EffectCompletion, { queue, now, ...next }: NextStep): StepResult | undefined {
    const { runId } = completion;
    const logged = this.#storeResult(completion);
    if (!logged) return undefined;
    const own = logged.filter((event) => event.runId === runId);
    const run = this.runs.find(runId);
    const advance = ifReadable(() => run && next.advance(run, [...this.events.inbox(runId), ...own]));
    // An event that is consumed at once is never in the inbox.
    for (const event of logged) {
      if (event.runId !== runId || !advance?.consumed.includes(event.id)) this.events.addToInbox(event);
    }
    if (advance) this.#saveAdvance(advance, new Set(own.map(({ id }) => id)), run);
    return { advanced: advance !== undefined, claimed: ifReadable(() => this.effects.claim(runId, queue, now)) };
  }

  decide(decision: Decision): DecisionResult {
    // One delivery may decide several approvals: `/approve all`.
    return this.#once(decision, "approval", (approval) => applyDecision(approval, decision));
  }

  revoke(revocation: Revocation): DecisionResult {
    return this.#once(revocation, "revoke", (approval) => applyRevocation(approval, revocation));
  }

  beginExecution(execution: Execution): Approval | undefined {
    const begun = applyExecution(this.approvals.find(execution.approvalId), execution);
    if (begun) this.approvals.save(begun);
    return begun;
  }

  bringForward(now: number): void {
    const ofRunAhead =
      "due_at > :now and exists (select 1 from runs where id = run_id and updated_at > :now + :toleranceMs)";
    const values = { now, toleranceMs: clockToleranceMs };
    this.sql.run(`update effects set due_at = :now where ${ofRunAhead}`, values);
    this.sql.run(
      `update effects set due_at = :now where queue = 'status' and due_at > :now
        and exists (select 1 from posts where name = 'status/' || run_id and updated_at > :now + :toleranceMs)`,
      values,
    );
    this.sql.run(`update timers set due_at = :now where ${ofRunAhead}`, values);
    this.pendingDeliveries.bringForward();
  }

  latestTime(): number | undefined {
    const { latest } =
      this.sql.get(
        Latest,
        `select max(at) as latest from (
          select max(received_at) as at from deliveries
          union all select at from (select at from events order by id desc limit 1))`,
        {},
      ) ?? {};
    return latest ?? undefined;
  }

  fireTimers(now: number, expiredBy: number): string[] {
    const due = this.sql.all(
      TimerColumns,
      `select run_id as runId, timer, due_at as dueAt from timers where due_at <= :now and ${isKnownTimer} order by due_at`,
      { now },
    );
    this.sql.run(`delete from timers where due_at <= :now and ${isKnownTimer}`, { now });
    for (const { runId, timer } of due) this.events.append({ runId, event: { type: "timer.due", timer } }, now);

    const expired = this.approvals.expired(expiredBy).flatMap((row) => this.#expire(row, now));
    return [...new Set([...due.map(({ runId }) => runId), ...expired])];
  }

  runsWithEvents(): string[] {
    return this.sql
      .all(
        Id,
        // A cross join starts with the inboxes.
        "select distinct id from inbox cross join runs on id = run_id where event_id > last_seen_event",
      )
      .map(({ id }) => id);
  }

  readBacklog(now: number): Backlog {
    return readBacklogRows({
      runs: this.runs.countByState(),
      effects: this.effects.countByQueue(now),
      deliveries: this.pendingDeliveries.count(),
      pendingApprovals: this.approvals.countPending(),
    });
  }

  nextDueAt(after: number): number | undefined {
    const timer = this.sql.get(
      Due,
      `select due_at as due from timers where due_at > :after and ${isKnownTimer} order by due_at limit 1`,
      { after },
    )?.due;
    const due = [timer, this.approvals.nextExpiry(after), this.effects.nextDueAt(after)].filter(
      (at) => at !== undefined,
    );
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  findPost(name: string): Post | undefined {
    const row = this.sql.get(
      PostColumns,
      "select comment_id as commentId, updated_at as updatedAt, shown from posts where name = :name",
      { name },
    );
    return row && readPost(row, name);
  }

  removeExpired({ runsEndedBefore, deliveriesBefore }: ExpiredData): boolean {
    const deliveries = this.deliveries.removeBefore(deliveriesBefore, maxRemovedDeliveries);
    const runId = runsEndedBefore === undefined ? undefined : this.runs.findExpired(runsEndedBefore);
    if (runId === undefined) return deliveries > 0;
    this.events.removeLog(runId);
    this.approvals.removeOf(runId);
    this.changes.remove(runId);
    this.runs.markLogRemoved(runId, Date.now());
    return true;
  }

  forget(rootId: string): RunSpec | undefined {
    const root = this.runs.find(rootId);
    // Every other post is named after a run, and the ids of children begin with that of their root.
    this.sql.run(
      `delete from posts where instr(name, '/' || :rootId) > 0
        or name in (select 'approval/' || id from approvals where root_id = :rootId)`,
      { rootId },
    );
    for (const { id: runId } of this.sql.all(Id, "select id from runs where root_id = :rootId", { rootId })) {
      this.sql.run("delete from timers where run_id = :runId", { runId });
      this.sql.run("delete from effects where run_id = :runId", { runId });
      this.events.removeLog(runId);
      this.approvals.removeOf(runId);
      this.changes.remove(runId);
      this.sql.run("delete from specs where run_id = :runId", { runId });
      this.sql.run("delete from runs where id = :runId", { runId });
    }
    return root && !root.unreadable ? root.spec : undefined;
  }

  #addChanges({ runId, changes, mergedWith }: ChangesOfRun): void {
    if (mergedWith !== undefined && mergedWith !== this.changes.countSets(runId)) throw new OutdatedMergeError(runId);
    this.changes.append(runId, changes);
  }

  /** Returns false if a run with this id exists. */
  #addRun(run: NewRun): boolean {
    if (!this.runs.insert(run)) return false;
    for (const effect of run.effects) this.effects.insert(effect);
    return true;
  }

  /** A timer that is both cleared and set ends up set. */
  #setTimers({ runId, timers = {} }: Advance): void {
    for (const timer of timers.clear ?? []) {
      this.sql.run("delete from timers where run_id = :runId and timer = :timer", { runId, timer });
    }
    for (const { timer, dueAt } of timers.set ?? []) {
      this.sql.run(
        `insert into timers (run_id, timer, due_at) values (:runId, :timer, :dueAt)
          on conflict (run_id, timer) do update set due_at = excluded.due_at`,
        { runId, timer, dueAt },
      );
    }
  }

  #savePost({ name, commentId, shown }: NonNullable<EffectCompletion["posts"]>[number], now: number): void {
    this.sql.run(
      `insert into posts (name, comment_id, updated_at, shown) values (:name, :commentId, :now, :shown)
        on conflict (name) do update
          set comment_id = excluded.comment_id, updated_at = excluded.updated_at, shown = excluded.shown`,
      { name, commentId, now, shown: shown ? JSON.stringify(shown) : null },
    );
  }

  /** Acts on an approval. A repeated delivery gets the first result. */
  #once(
    { deliveryId, completes, approvalId, now, effects = [] }: Decision | Revocation,
    part: string,
    apply: (approval: Approval | undefined) => ReturnType<typeof applyDecision>,
  ): DecisionResult {
    const delivery = deliveryId === undefined ? undefined : { guid: deliveryId, part: `${part} ${approvalId}` };
    const earlier = delivery && this.deliveries.resultOf(delivery);
    if (earlier && deliveryId !== undefined) return readDecision(earlier, deliveryId);

    const { result, changed, event, ledger } = apply(this.approvals.find(approvalId));
    if (changed) {
      this.approvals.save(changed);
      for (const effect of effects) this.effects.insert(effect);
      if (completes !== undefined) this.deliveries.add({ guid: completes, part: "", result: null, now });
    }
    if (changed && event) this.events.append({ runId: changed.runId, event }, now);
    if (ledger) this.ledger.append([ledger]);
    // Someone else has answered in the meantime, so the same delivery is tried again.
    if (delivery && result.kind !== "changed") {
      this.deliveries.add({ ...delivery, result: serializeRecord(result), now });
    }
    return result;
  }

  /** Returns the approval's run. An unreadable approval stays pending for another release. */
  #expire(row: ReturnType<ApprovalsTable["expired"]>[number], now: number): string[] {
    try {
      const { changed, event, ledger } = expire(readApproval(row));
      this.approvals.save(changed);
      this.events.append({ runId: changed.runId, event }, now);
      this.ledger.append([ledger]);
      return [changed.runId];
    } catch (error) {
      if (!(error instanceof UnreadableDataError)) throw error;
      this.approvals.postponeExpiry(row.id, now + unreadableRetryMs);
      return [];
    }
  }
}
