import type { Approval, Channel, Quorum } from "#domain/approval.ts";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { ReportedLocation, RepositoryLocation, RepositoryRef } from "#domain/github.ts";
import type { LedgerEntry, StoredLedgerEntry } from "#domain/ledger.ts";
import type { RunSpec, TokenUsage } from "#domain/run.ts";
import type { UnreadableDataError } from "#domain/stored-data.ts";
import type { WorkerSnapshot } from "#machines/worker-snapshot.ts";
import type { ShownRequest } from "#runtime/front-end.ts";
import type { RuntimeEffect } from "#runtime/runtime-effect.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";
import type { DeliveryStore } from "./delivery-store.ts";

/**
 * The queues of a run. Each performs one effect at a time, in order: `work` does the job, `thread` posts what people
 * must see, and `status` updates the status comment. Slow status updates never delay the other two.
 */
export type EffectQueue = "work" | "thread" | "status";

export interface NewEffect {
  /** The idempotency key. Adding a known key has no effect, but one that is being performed is performed again. */
  key: string;
  runId: string;
  queue: EffectQueue;
  request: RuntimeEffect;
  /** The earliest time to perform it; milliseconds since 1970. Default: immediately. */
  dueAt?: number;
}

export interface Effect<Request extends RuntimeEffect = RuntimeEffect> extends NewEffect {
  request: Request;
  dueAt: number;
  /** Counted from 1. Above 1, the effect may already have happened, so the external system has to be checked first. */
  attempts: number;
}

/** The reason that an effect of a run is not performed. */
export interface EffectProblem {
  /** `unreadable`: this release cannot read it. `postponed`: something outside this process has to respond first. */
  kind: "unreadable" | "postponed";
  /** A sentence for people. */
  reason: string;
}

export interface NewEvent {
  runId: string;
  event: RunEvent;
  /** An event with a known key is not appended. */
  dedupe?: string;
}

export interface NewRun {
  spec: RunSpec;
  snapshot: WorkerSnapshot;
  effects: NewEffect[];
}

/** Selects the root runs since a time that a person requested, or those of a repository. */
export interface RunsQuery {
  requestedBy?: string;
  repositoryId?: number;
  owner?: string;
  repo?: string;
  since: number;
}

/** The maximum number of runs that match a query. */
export interface RunLimit extends RunsQuery {
  max: number;
}

/** A run was not stored, because as many others as a limit allows have been started. */
export class RunLimitError extends Error {
  override readonly name = "RunLimitError";
  readonly limit: RunLimit;
  /** The number of runs that were started. */
  readonly count: number;

  constructor(limit: RunLimit, count: number) {
    super("Too many runs were started.");
    this.limit = limit;
    this.count = count;
  }
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
  /** The time when its log, files and approvals were removed because they had expired. */
  logRemovedAt?: number;
  /** Its origin has the current location of the repository. */
  spec: RunSpec;
  /** Under 2 KB of JSON. */
  snapshot: WorkerSnapshot;
  /** Incremented by every advance. */
  version: number;
  changeSets: number;
}

/** The events that stop, resume or end a run, and why an earlier one cannot be read. */
export interface RunCommands {
  events: LoggedEvent[];
  unreadable: UnreadableDataError | undefined;
}

/** A run whose spec or snapshot this release cannot read. It is shown as paused, and none of its effects are performed. */
export interface UnreadableRun extends RunSummaryRow {
  unreadable: UnreadableDataError;
  /** The readable parts of the spec, for display only; undefined if not even the origin can be read. */
  displaySpec: RunSpec | undefined;
}

export type StoredRun = RunRow | UnreadableRun;

/** The result of applying inbox events to a run's machine. It is stored atomically. */
export interface Advance {
  runId: string;
  /** The version this was computed from. If the run has a different version now, nothing is stored. */
  version: number;
  /** Ids of the events that were applied. The others stay in the inbox. */
  consumed: number[];
  /**
   * The highest event id in the inbox this was computed from; 0 if it was empty. Later events make the run due again,
   * even if they arrived before this was stored. Earlier events that stay in the inbox do not.
   */
  seen: number;
  snapshot: WorkerSnapshot;
  status: RunStatus;
  /** May belong to another run of the tree: a child requests an update of its root's status. */
  effects: NewEffect[];
  /** Removes the run's effects of these kinds. The caller aborts those in progress. */
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

/** The number of items waiting in the store. */
export interface Backlog {
  /** Runs that have not ended: waiting ones by their state, all others as `working`. */
  runs: { state: string; count: number }[];
  /** `waiting`: due, and not claimed. `postponed`: due later. */
  effects: { queue: string; waiting: number; performing: number; postponed: number; oldestWaitingAt?: number }[];
  /** Deliveries that have not been processed. */
  deliveries: { waiting: number; oldestAt?: number };
  pendingApprovals: number;
}

/** The work that follows a completed effect in the same transaction, so that a step of a run needs only one commit. */
export interface NextStep {
  rootId: string;
  /** Computes the advance from the run and its inbox. May be called again if the transaction is repeated. */
  advance(run: StoredRun, inbox: readonly LoggedEvent[]): Advance | undefined;
  /** The queue whose next effect to claim. */
  queue: EffectQueue;
  now: number;
}

export interface StepResult {
  /** False if there was nothing to advance, or if the run or its inbox cannot be read. */
  advanced: boolean;
  claimed: Effect | undefined;
}

/** Identifies a stored effect. */
export type EffectId = Pick<Effect, "runId" | "key">;

/** An effect that has been performed, with all changes that its result makes. */
export interface EffectCompletion extends EffectId {
  events?: NewEvent[];
  changes?: StepChanges;
  /** The number of change sets that `changes` were made over. If there are more now, an OutdatedMergeError is thrown. */
  mergedWith?: number;
  approvals?: Approval[];
  /** The pull request that the effect's run opened. From now on, the run can also be found by its thread. */
  pullRequest?: number;
  /** The call was executed under an approval, or refused because the approval no longer applies. */
  execution?: Pick<LedgerEntry, "commit" | "reason"> & { approvalId: string; outcome: "executed" | "refused" };
  /** The approval whose request was posted. */
  shownApproval?: string;
  /** The posted or edited comment, under each name by which it can be found. */
  posts?: ({ name: string } & Omit<Post, "updatedAt">)[];
  effects?: NewEffect[];
  /** A child run to create. */
  run?: NewRun;
  /** The changes that a child hands over to its parent, with the number of the parent's change sets that they were merged with. */
  parentChanges?: ChangesOfRun;
}

/** Changes of a run, with the number of its change sets that they were merged with. Undefined: they are stored over any others. */
export interface ChangesOfRun {
  runId: string;
  changes: StepChanges;
  mergedWith?: number | undefined;
}

/** Changes have to be merged again, because others have been stored for the run meanwhile. */
export class OutdatedMergeError extends Error {
  override readonly name = "OutdatedMergeError";

  constructor(runId: string) {
    super(`The files of the run ${runId} have changed meanwhile.`);
  }
}

/** Thrown by every method once the store is closed. */
export class StoreClosedError extends Error {
  override readonly name = "StoreClosedError";

  constructor() {
    super("The store is closed.");
  }
}

/** A person's action on an approval. */
interface ApprovalAction {
  approvalId: string;
  by: string;
  byId?: number | undefined;
  via?: Channel | undefined;
  note?: string | undefined;
  now: number;
  /** The same delivery always gets the same result. */
  deliveryId?: string | undefined;
  /** A delivery that is stored with the action if it changes the approval, as there is nothing else to do for it. */
  completes?: string | undefined;
  /** Added if the action changes the approval. */
  effects?: NewEffect[];
}

export interface Decision extends ApprovalAction {
  decision: "approved" | "denied";
  /** True if more people have to approve: the answer is recorded, and the request stays pending. */
  isPartial?: boolean;
  /** The revision of the approval this answer was computed from. If it has changed, the result is `changed`. */
  revision?: number;
  quorums?: Quorum[];
  remember?: "none" | "session";
  /** Arguments that replace the original ones, and their digest. */
  changed?: { args: unknown; digest: string };
}

export interface Revocation extends ApprovalAction {}

/** The start of a call's execution. */
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
  /** Nothing was stored, since someone else has answered in the meantime. */
  | { kind: "changed"; approval: Approval }
  /** The approval was no longer pending, or could not be revoked. Its status says why. */
  | { kind: "settled"; approval: Approval }
  | { kind: "unknown" };

export interface Post {
  commentId: number;
  /** The time of the last edit by the app. */
  updatedAt: number;
  /** The request that was posted; undefined for other posts, and for those of an earlier version. */
  shown?: ShownRequest | undefined;
}

/**
 * The post that is stored when a backup is restored. Its time is a day later: runs that start until then may repeat some that
 * started after the backup, such as those of a schedule.
 */
export const restoredPost = { name: "restored", forMs: 24 * 60 * 60_000 };

/** The times before which data has expired; milliseconds since 1970. */
export interface ExpiredData {
  /** Undefined if the logs of all runs are kept. */
  runsEndedBefore: number | undefined;
  deliveriesBefore: number;
}

/** Clocks of processes that share a store may differ by this. */
export const clockToleranceMs = 5_000;

/**
 * All state that outlives the process. Each method is one transaction, resolves when it is committed, and returns the
 * state as of that commit. Calls that are made at about the same time share a commit. A commit is durable at the latest when
 * `confirmLease` resolves, which is called before anything leaves the process; most stores have it on disk earlier. All
 * implementations pass one conformance suite. Reading data that this release cannot read throws UnreadableDataError,
 * unless a method says otherwise.
 */
export interface Store extends DeliveryStore {
  /**
   * Stores a delivery with its events. Returns false, and stores nothing, if the delivery was already stored. A run
   * whose id exists is not created again; its events are appended unless their dedupe key is known. `effects` are for
   * existing runs. Throws a RunLimitError, and stores nothing, if a new run would exceed one of the limits.
   */
  ingest(delivery: {
    deliveryId?: string;
    run?: NewRun;
    limits?: readonly RunLimit[];
    events: NewEvent[];
    effects?: NewEffect[];
  }): Promise<boolean>;

  hasDelivery(deliveryId: string): Promise<boolean>;

  /** Does not throw for a run that cannot be read. */
  findRun(id: string): Promise<StoredRun | undefined>;
  /**
   * Returns the root runs of an issue or pull request, newest first: those with this repository id or, without an id,
   * those stored without one under this name. Does not throw for runs that cannot be read.
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
  countRuns(query: RunsQuery): Promise<number>;
  /** Returns the US dollars that model calls have cost since the start of this hour: in one repository, or in all. */
  costSince(query: { repositoryId?: number; since: number }): Promise<number>;
  /** Returns the costs in US dollars of a worker's latest ended root runs in a repository, without those of unknown price. */
  costsOfWorker(query: { repositoryId: number; worker: string; limit: number }): Promise<number[]>;
  /** Returns the costs of the days from `from` through `to`, in UTC: newest day first, then largest cost. */
  dailyCosts(days: { from: string; to: string }): Promise<DailyCost[]>;
  /** Counts waiting items using indexes alone, so that it can be called every few seconds. */
  readBacklog(now: number): Promise<Backlog>;
  /** Returns the live root runs of an installation or of some of its repositories, including unreadable ones. */
  liveRuns(where: { installationId: number; repositoryIds?: readonly number[] }): Promise<StoredRun[]>;

  /** Returns at most `limit` root runs after the given one, newest first, including unreadable ones. */
  latestRuns(query: { before?: { id: string; createdAt: number } | undefined; limit: number }): Promise<StoredRun[]>;

  findLocation(repositoryId: number): Promise<RepositoryLocation | undefined>;
  /**
   * Saves the location of a repository as determined by `resolveLocation`. From then on, the origins of its runs have
   * it. Runs stored there without a repository id are assigned to the repository.
   */
  saveLocation(reported: ReportedLocation): Promise<void>;

  /** Returns the events that have not been consumed, in order. */
  inbox(runId: string): Promise<LoggedEvent[]>;
  /** Returns the events of a run after the given event id, in order: all, or at most `limit`. */
  log(runId: string, after?: number, limit?: number): Promise<LoggedEvent[]>;

  /**
   * Returns the events that stop, resume or end a run when somebody asks for it, in order, consumed or not: those after the last
   * that cannot be read, and why it cannot. Reads no other events, and does not throw.
   */
  commandsOf(runId: string): Promise<RunCommands>;

  /** Returns false, and stores nothing, if the version has changed. */
  advance(step: Advance): Promise<boolean>;

  /** Claims the oldest effect of the queue if it is due. An effect that cannot be read is not claimed. */
  claimEffect(runId: string, queue: EffectQueue, now: number): Promise<Effect | undefined>;
  /** Removes a performed effect and stores its result. Returns false, and stores nothing, if it was cancelled. */
  completeEffect(completion: EffectCompletion): Promise<boolean>;
  /**
   * Completes an effect, advances its run and claims the next effect, all in one transaction. Returns undefined, and
   * stores nothing, if the effect was cancelled. Never throws because of data that this release cannot read.
   */
  completeStep(completion: EffectCompletion, next: NextStep): Promise<StepResult | undefined>;
  /** Postpones a claimed effect. `isUncounted`: nothing was attempted. `problem` is kept until the next claim. */
  postponeEffect(
    effect: EffectId,
    dueAt: number,
    options?: { isUncounted?: boolean; problem?: EffectProblem },
  ): Promise<void>;
  /** Sets why a run's next effect and status, if due, are not performed. Kept until they are claimed. */
  setEffectProblem(runId: string, problem: EffectProblem, now: number): Promise<void>;
  effectProblem(runId: string): Promise<EffectProblem | undefined>;

  /** Returns the runs with an unseen event or a due effect at that time. */
  dueRuns(now: number): Promise<string[]>;
  /**
   * Makes effects, timers and deliveries due that a clock that was ahead has postponed: those of runs whose last change is
   * more than five seconds in the future, statuses that were last posted then, and deliveries that are due later than any is
   * postponed to.
   */
  bringForward(now: number): Promise<void>;
  /**
   * Appends the events of due timers and of pending approvals that have expired, and returns the ids of their runs.
   * `expiredBy`: the time for approvals, which never become pending again. Default: now.
   */
  fireTimers(now: number, expiredBy?: number): Promise<string[]>;
  /** Returns the runs with a postponed effect that is due at that time and is not being performed. */
  postponedRuns(now: number): Promise<string[]>;
  /** Returns the first time after this one, or of all, at which a timer, approval or postponed effect is due. */
  nextDueAt(after?: number): Promise<number | undefined>;

  findApproval(id: string): Promise<Approval | undefined>;
  /** Returns the approvals of a root run and its descendants, oldest first. */
  approvalsOf(rootId: string): Promise<Approval[]>;
  /** Decides a pending approval and appends the event to its run, or records an answer. The first decision is final. */
  decideApproval(decision: Decision): Promise<DecisionResult>;
  /** Withdraws an answer, an unused approval, or a used one that still covers further calls of the session. */
  revokeApproval(revocation: Revocation): Promise<DecisionResult>;
  /** Marks an approval as used, after which it cannot be revoked. Returns undefined if it is not valid for the call. */
  beginExecution(execution: Execution): Promise<Approval | undefined>;
  /**
   * Returns the ledger entries after a number, in order, at most `limit`. Each approval that is requested, answered,
   * revoked, used, refused, withdrawn or expires adds an entry, in the same transaction.
   */
  readLedger(after: number, limit: number): Promise<StoredLedgerEntry[]>;

  /** Returns the stored changes of a run, oldest first: all, or the first `upTo` sets. */
  changesOf(runId: string, upTo?: number): Promise<StepChanges[]>;
  findPost(name: string): Promise<Post | undefined>;

  /**
   * Removes a batch of data that is no longer needed: the log, files and approvals of a run whose tree ended before a
   * time, and deliveries stored before a time. The runs themselves and the ledger are kept. Returns false if nothing is
   * left to remove.
   */
  removeExpired(expired: ExpiredData): Promise<boolean>;

  /**
   * Returns a time that has passed, without the clock of this process: that of the database's clock or, without one, of the
   * newest delivery or event. Undefined if there is none.
   */
  latestTime(): Promise<number | undefined>;

  /** Resolves if the database responds. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** Returns the run for work on it. Throws UnreadableDataError if this release cannot read it. */
export function readable(run: StoredRun): RunRow {
  if (run.unreadable) throw run.unreadable;
  return run;
}

/** Returns the run with this id for work on it. Throws if it does not exist, or if this release cannot read it. */
export async function requireRun(store: Pick<Store, "findRun">, id: string): Promise<RunRow> {
  const run = await store.findRun(id);
  if (!run) throw new Error(`Run ${id} not found.`);
  return readable(run);
}
