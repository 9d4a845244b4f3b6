import type { Approval, Quorum } from "#domain/approval.ts";
import type { Channel } from "#domain/channel.ts";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { RepositoryRef } from "#domain/github.ts";
import type { LedgerEntry, StoredLedgerEntry } from "#domain/ledger.ts";
import type { ReportedLocation, RepositoryLocation } from "#domain/repository-location.ts";
import type { RunSpec, TokenUsage } from "#domain/run.ts";
import type { UnreadableDataError } from "#domain/stored-data.ts";
import type { WorkerSnapshot } from "#machines/worker-snapshot.ts";
import type { RuntimeEffect } from "#runtime/runtime-effect.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";

/**
 * The queues of a run. Each performs one effect at a time, in order: `work` does the job, `thread` posts what people have
 * to see, and `status` updates the status comment. Slow status updates never delay the other two.
 */
export type EffectQueue = "work" | "thread" | "status";

export interface NewEffect {
  /**
   * The idempotency key. Adding a known key changes nothing, unless that effect is being performed: then it is performed
   * again afterwards, since what it read may be out of date.
   */
  key: string;
  runId: string;
  queue: EffectQueue;
  request: RuntimeEffect;
  /** Not before this time; milliseconds since 1970. Default: at once. */
  dueAt?: number;
}

export interface Effect<Request extends RuntimeEffect = RuntimeEffect> extends NewEffect {
  request: Request;
  dueAt: number;
  /** Counted from 1. Above 1 the effect may have happened already, so the outside world has to be asked first. */
  attempts: number;
}

/** Why an effect of a run is not performed. */
export interface EffectProblem {
  /** `unreadable`: this release cannot read it. `postponed`: something outside this process has to answer first. */
  kind: "unreadable" | "postponed";
  /** A sentence for people. */
  reason: string;
}

export interface NewEvent {
  runId: string;
  event: RunEvent;
  /** An event with a known key is not appended again. */
  dedupe?: string;
}

export interface NewRun {
  spec: RunSpec;
  snapshot: WorkerSnapshot;
  effects: NewEffect[];
}

export type TimerName = "retry" | "deadline";

/** `active` runs work, `waiting` runs wait for people or timers, `done` runs have ended. */
export type RunStatus = "active" | "waiting" | "done";

interface RunSummaryRow {
  id: string;
  rootId: string;
  status: RunStatus;
  updatedAt: number;
}

export interface RunRow extends RunSummaryRow {
  unreadable?: undefined;
  /** When its log, files and approvals were removed, because it had ended long before. */
  logRemovedAt?: number;
  /** Its origin has the current location of the repository. */
  spec: RunSpec;
  /** Under 2 KB of JSON. */
  snapshot: WorkerSnapshot;
  /** Incremented by every advance. */
  version: number;
  /** The number of stored change sets. */
  changeSets: number;
}

/** A run whose spec or snapshot this release cannot read. Nothing of it is performed, and it is shown as stopped. */
export interface UnreadableRun extends RunSummaryRow {
  unreadable: UnreadableDataError;
  /** The spec as far as it can be read, for display only; undefined when not even the origin can be read. */
  displaySpec: RunSpec | undefined;
}

export type StoredRun = RunRow | UnreadableRun;

/** The result of applying events of the inbox to a run's machine. It is stored completely or not at all. */
export interface Advance {
  runId: string;
  /** The version this was computed from. Nothing is stored when the run has another version by now. */
  version: number;
  /** Ids of the events that were applied. The others stay in the inbox. */
  consumed: number[];
  /**
   * The highest event id in the inbox this was computed from, 0 when it was empty. A run with later events is due again,
   * even when they arrived before this was stored. Events up to this id that stay in the inbox do not make it due.
   */
  seen: number;
  snapshot: WorkerSnapshot;
  status: RunStatus;
  /** May belong to another run of the tree: a child requests an update of its root's status. */
  effects: NewEffect[];
  /** Removes the run's effects of these kinds. The caller aborts those that are being performed. */
  cancelEffects?: { kinds: string[] };
  timers?: { set?: { timer: TimerName; dueAt: number }[]; clear?: TimerName[] };
  /** Withdraws the run's pending approvals. */
  withdrawApprovals?: boolean;
  /** The model calls among the applied events, added to the costs of this hour. */
  usage?: HourlyUsage;
}

/** The model calls of a run's worker in an hour. Those of child runs count for the child's worker. */
export interface HourlyUsage extends Required<TokenUsage> {
  rootId: string;
  worker: string;
  origin: RepositoryRef;
  /** Hours since 1970. */
  hour: number;
  modelCalls: number;
  /** US dollars; calls without a known price count as 0. */
  cost: number;
}

/** The model calls of a worker in a repository on one day. */
export interface DailyCost extends Required<TokenUsage> {
  /** In UTC, such as `2026-11-23`. */
  day: string;
  /** With the current name of the repository. */
  repository: RepositoryRef;
  worker: string;
  /** The number of root runs that the worker worked in. */
  runs: number;
  modelCalls: number;
  cost: number;
}

/** How much waits in the store at the moment. */
export interface Backlog {
  /** Runs that have not ended: those that wait by their state, all others as `working`. */
  runs: { state: string; count: number }[];
  /** `waiting`: due, and not claimed. `postponed`: due later. */
  effects: { queue: string; waiting: number; performing: number; postponed: number; oldestWaitingAt?: number }[];
  /** Deliveries that are not processed yet. */
  deliveries: { waiting: number; oldestAt?: number };
  pendingApprovals: number;
}

/** What follows a completed effect in the same transaction, so that a step of a run needs one commit. */
export interface NextStep {
  runId: string;
  rootId: string;
  /** Computes the advance from the run and its inbox. May be called again when the transaction is repeated. */
  advance(run: StoredRun, inbox: readonly LoggedEvent[]): Advance | undefined;
  /** The queue whose next effect is claimed. */
  queue: EffectQueue;
  now: number;
}

export interface StepResult {
  /** False when there was nothing to advance, or when the run or its inbox cannot be read. */
  advanced: boolean;
  claimed: Effect | undefined;
}

/** An effect that has been performed, with everything its result changes. */
export interface EffectCompletion {
  key: string;
  events?: NewEvent[];
  changes?: StepChanges;
  approvals?: Approval[];
  /** The pull request that the effect's run opened: from here on the run is also found by its thread. */
  pullRequest?: number;
  /** The call was executed under an approval, or refused because the approval no longer applies. */
  execution?: Pick<LedgerEntry, "commit" | "reason"> & { approvalId: string; outcome: "executed" | "refused" };
  /** The approval whose request was posted. */
  shownApproval?: string;
  /** A comment that was posted or edited, under the name by which it is found again. */
  post?: { name: string; commentId: number };
  effects?: NewEffect[];
  /** A child run to create. */
  run?: NewRun;
  /** Changes a child hands over to its parent. */
  parentChanges?: { runId: string; changes: StepChanges };
}

/** What a person does about an approval. */
interface ApprovalAction {
  approvalId: string;
  by: string;
  byId?: number | undefined;
  via?: Channel | undefined;
  note?: string | undefined;
  now: number;
  /** The same delivery gets the same result again. */
  deliveryId?: string | undefined;
  /** Added when the action changes the approval. */
  effects?: NewEffect[];
}

export interface Decision extends ApprovalAction {
  decision: "approved" | "denied";
  /** More people have to approve: the answer is recorded, and the request stays pending. */
  isPartial?: boolean;
  /** The revision of the approval this answer was computed from. With another one, the result is `changed`. */
  revision?: number;
  quorums?: Quorum[];
  remember?: "none" | "session";
  /** Arguments that replace the original ones, and the digest over them. */
  changed?: { args: unknown; digest: string };
}

export interface Revocation extends ApprovalAction {}

/** The beginning of a call's execution. */
export interface Execution {
  approvalId: string;
  callId: string;
  runId: string;
  effectKey: string;
  now: number;
}

export type DecisionResult =
  | { kind: "decided"; approval: Approval }
  /** The answer was recorded, and more people have to approve. */
  | { kind: "recorded"; approval: Approval }
  /** An answer or an approval was withdrawn. */
  | { kind: "revoked"; approval: Approval }
  /** Nothing was stored: someone else has answered in the meantime. */
  | { kind: "changed"; approval: Approval }
  /** The approval was no longer pending, or could not be revoked; its status says why. */
  | { kind: "settled"; approval: Approval }
  | { kind: "unknown" };

export interface Post {
  commentId: number;
  updatedAt: number;
}

/** A webhook delivery that has to be processed. */
export interface NewDelivery {
  /** Identifies the delivery by what was signed: a second one with this key is not stored. */
  key: string;
  /** Deliveries of one queue are processed one at a time, in the order in which they arrived. */
  queue: string;
  /** JSON. */
  content: unknown;
}

export interface Delivery extends NewDelivery {
  receivedAt: number;
  /** How often it was claimed, this time included. Above 1: it may have been processed already. */
  attempts: number;
  /** How often its processing has failed for another reason than an outage. */
  failures: number;
}

/** Which data has expired; milliseconds since 1970. */
export interface ExpiredData {
  /** Undefined where the logs of all runs are kept. */
  runsEndedBefore: number | undefined;
  deliveriesBefore: number;
}

/** Webhook deliveries between their acknowledgement and their processing. */
export interface DeliveryStore {
  /** Stores a delivery; false when one with this key is known. */
  saveDelivery(delivery: NewDelivery): Promise<boolean>;
  /** Claims a delivery that is due and the oldest of its queue. It is due again at `until` unless it is completed before. */
  claimDelivery(now: number, until: number): Promise<Delivery | undefined>;
  /** Changes when a claimed delivery is due again: to keep the claim, or to retry. */
  postponeDelivery(key: string, dueAt: number, options?: { hasFailed?: boolean }): Promise<void>;
  /** Removes a delivery that was processed. Its key stays known. */
  completeDelivery(key: string): Promise<void>;
  /** When the next delivery is due. */
  nextDeliveryAt(): Promise<number | undefined>;
}

/**
 * Everything that outlives the process. Each method is one transaction, resolves when it is committed, and returns what was
 * true at that commit. Commits of one turn of the event loop are grouped. A commit is durable at the latest when
 * `confirmLease` resolves, which is called before anything leaves the process; most stores have it on disk earlier. All
 * implementations pass one conformance suite. Reading data that this release cannot read throws UnreadableDataError, unless
 * a method says otherwise.
 */
export interface Store extends DeliveryStore {
  /**
   * Stores a delivery with its events. Returns false, and stores nothing, for a delivery that was stored before. A run
   * whose id exists is not created again; its events are appended unless their dedupe key is known. `effects` are for
   * existing runs.
   */
  ingest(delivery: { deliveryId?: string; run?: NewRun; events: NewEvent[]; effects?: NewEffect[] }): Promise<boolean>;

  hasDelivery(deliveryId: string): Promise<boolean>;

  /** Does not throw for a run that cannot be read. */
  findRun(id: string): Promise<StoredRun | undefined>;
  /**
   * The root runs of an issue or pull request, newest first: those with this repository id or, without an id, those that
   * were stored without one under this name. Does not throw for runs that cannot be read.
   */
  runsOfThread(thread: {
    repositoryId?: number | undefined;
    owner: string;
    repo: string;
    thread: number;
  }): Promise<StoredRun[]>;
  /** Does not throw for runs that cannot be read. */
  childrenOf(runId: string): Promise<StoredRun[]>;
  /** Counts the root runs since a time that a person requested, or those of a repository; for rate limits. */
  countRuns(query: {
    requestedBy?: string;
    repositoryId?: number;
    owner?: string;
    repo?: string;
    since: number;
  }): Promise<number>;
  /** US dollars that root runs created since then have cost, with their children: of one repository, or of all. */
  costOfRuns(query: { repositoryId?: number; since: number }): Promise<number>;
  /** US dollars that the latest ended root runs of a worker in a repository have cost, those without a price left out. */
  costsOfWorker(query: { repositoryId: number; worker: string; limit: number }): Promise<number[]>;
  /** Returns the costs of the days from `from` up to `to`, both in UTC and included: the newest day first, then the largest cost. */
  dailyCosts(days: { from: string; to: string }): Promise<DailyCost[]>;
  /** Counts what waits, from indexes alone, so that it can be read every few seconds. */
  readBacklog(now: number): Promise<Backlog>;
  /**
   * The root runs of an installation, or of some of its repositories, that have not ended. Does not throw for runs that
   * cannot be read.
   */
  liveRuns(where: { installationId: number; repositoryIds?: readonly number[] }): Promise<StoredRun[]>;

  /** All root runs, newest first, at most `limit`, after the given one in this order. Does not throw for runs that cannot be read. */
  latestRuns(query: { before?: { id: string; createdAt: number } | undefined; limit: number }): Promise<StoredRun[]>;

  findLocation(repositoryId: number): Promise<RepositoryLocation | undefined>;
  /**
   * Saves the location of a repository as `resolveLocation` decides. From then on the origins of its runs have it. Runs
   * that were stored there without a repository id are assigned to the repository.
   */
  saveLocation(reported: ReportedLocation): Promise<void>;

  /** The events that were not consumed yet, in order. */
  inbox(runId: string): Promise<LoggedEvent[]>;
  /** The events of a run in order: all, or at most `limit`, after the given event id. */
  log(runId: string, after?: number, limit?: number): Promise<LoggedEvent[]>;

  /** Returns false, and stores nothing, when the version has changed. */
  advance(step: Advance): Promise<boolean>;

  /** Claims the oldest effect of the queue if it is due. An effect that cannot be read is not claimed. */
  claimEffect(runId: string, queue: EffectQueue, now: number): Promise<Effect | undefined>;
  /** Removes a performed effect and stores its result. Returns false, and stores nothing, when it was cancelled. */
  completeEffect(completion: EffectCompletion): Promise<boolean>;
  /**
   * Completes an effect, advances its run and claims the next effect, all in one transaction. Returns undefined, and stores
   * nothing, when the effect was cancelled. Never throws because of data that this release cannot read.
   */
  completeStep(completion: EffectCompletion, next: NextStep): Promise<StepResult | undefined>;
  /**
   * Puts a claimed effect off. `isUncounted`: nothing was attempted, so the attempt does not count. `problem`: the reason,
   * until the effect is claimed again.
   */
  postponeEffect(
    key: string,
    dueAt: number,
    options?: { isUncounted?: boolean; problem?: EffectProblem },
  ): Promise<void>;
  /** The problem of the effect to perform next in one of the run's queues. */
  effectProblem(runId: string): Promise<EffectProblem | undefined>;

  /** The runs with an unseen event or a due effect at that time. */
  dueRuns(now: number): Promise<string[]>;
  /** Appends the events of due timers and expired approvals, and returns the ids of their runs. */
  fireTimers(now: number): Promise<string[]>;
  /** The time when the next timer, approval or postponed effect is due. */
  nextDueAt(): Promise<number | undefined>;

  findApproval(id: string): Promise<Approval | undefined>;
  /** The approvals of a root run and its descendants, oldest first. */
  approvalsOf(rootId: string): Promise<Approval[]>;
  /** Decides a pending approval and appends the event to its run, or records an answer. The first decision is final. */
  decideApproval(decision: Decision): Promise<DecisionResult>;
  /** Withdraws an answer, an approval that was not used yet, or what is remembered of one. */
  revokeApproval(revocation: Revocation): Promise<DecisionResult>;
  /**
   * Marks an approval as used by a call whose execution begins. Returns undefined when it is not valid for the call. After
   * this, it is too late to revoke the approval.
   */
  beginExecution(execution: Execution): Promise<Approval | undefined>;
  /**
   * The entries of the ledger after a number, in order, at most `limit`. Each approval that is requested, answered, revoked,
   * used, refused, withdrawn or expires adds one, in the same transaction.
   */
  readLedger(after: number, limit: number): Promise<StoredLedgerEntry[]>;

  /** The stored changes of a run, oldest first: all, or the first `upTo` sets. */
  changesOf(runId: string, upTo?: number): Promise<StepChanges[]>;
  findPost(name: string): Promise<Post | undefined>;

  /**
   * Removes a batch of data that is no longer needed: the log, files and approvals of a run of a tree that ended before a
   * time, and deliveries that were stored before a time. The runs themselves and the ledger are kept. Returns false when
   * there is nothing left to remove.
   */
  removeExpired(expired: ExpiredData): Promise<boolean>;

  /** Resolves when the database answers. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** Returns the run for work on it. Throws UnreadableDataError for one that this release cannot read. */
export function readable(run: StoredRun): RunRow {
  if (run.unreadable) throw run.unreadable;
  return run;
}

/** Returns the run of this id for work on it. Throws when there is none, or when this release cannot read it. */
export async function requireRun(store: Pick<Store, "findRun">, id: string): Promise<RunRow> {
  const run = await store.findRun(id);
  if (!run) throw new Error(`There is no run ${id}.`);
  return readable(run);
}
