import type { Approval } from "#domain/approval.ts";
import type { Channel } from "#domain/channel.ts";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { ReportedLocation, RepositoryLocation } from "#domain/repository-location.ts";
import type { RunSpec } from "#domain/run.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";

/**
 * Each queue does one thing at a time for a run, in order: `work` is the job itself, `thread` what people must be told,
 * `status` the living comment, whose pace must hold up neither.
 */
export type EffectQueue = "work" | "thread" | "status";

export interface NewEffect {
  /**
   * Names this effect for ever. Adding a key that is there already changes nothing, unless that one is under way: then it
   * is done once more, since what it saw may be out of date.
   */
  key: string;
  runId: string;
  queue: EffectQueue;
  kind: string;
  /** JSON. */
  input: unknown;
  /** Not before this time; milliseconds since 1970. Default: at once. */
  dueAt?: number;
}

export interface Effect extends NewEffect {
  dueAt: number;
  /** How often it was begun, this time included. Above 1: it may have happened already, ask the outside world first. */
  attempts: number;
}

export interface NewEvent {
  runId: string;
  event: RunEvent;
  /** An event with a key that the store has seen is not appended again. */
  dedupe?: string;
}

export interface NewRun {
  spec: RunSpec;
  snapshot: unknown;
  effects: NewEffect[];
}

/** Asleep runs cost a row: `waiting` for people or timers, `done` for ever. */
export type RunStatus = "active" | "waiting" | "done";

export interface RunRow {
  /** Its origin says where the repository is today. */
  spec: RunSpec;
  status: RunStatus;
  /** The machine's snapshot, under 2 KB of JSON. */
  snapshot: unknown;
  /** Grows by one with every advance. */
  version: number;
  /** How many change sets are stored. */
  changeSets: number;
  updatedAt: number;
}

/** One fold of the mailbox into the machine, written whole or not at all. */
export interface Advance {
  runId: string;
  /** The version this was computed from; anything else in the store means another writer was faster. */
  version: number;
  /** Ids of the events taken in. Events left out stay in the inbox, parked. */
  consumed: number[];
  /**
   * The highest event id of the inbox this was computed from, 0 when it was empty. Later events are unseen and keep the
   * run awake, even if they arrived before this was written; those up to here that were left out do not.
   */
  seen: number;
  snapshot: unknown;
  status: RunStatus;
  /** May belong to another run of the tree: a child has its root's status drawn again. */
  effects: NewEffect[];
  /** Effects not begun yet that are no longer wanted; what is under way is aborted by the caller. */
  cancelEffects?: { kinds: string[] };
  timers?: { set?: { timer: "retry" | "deadline"; dueAt: number }[]; clear?: ("retry" | "deadline")[] };
  /** Pending approvals of this run become `withdrawn`. */
  withdrawApprovals?: boolean;
}

/** What an effect came to. */
export interface EffectCompletion {
  key: string;
  events?: NewEvent[];
  changes?: StepChanges;
  approvals?: Approval[];
  /** The approval this effect has spent. */
  usedApproval?: string;
  /** A comment that now stands in the thread, under a name that is looked up before it is posted again. */
  post?: { name: string; commentId: number };
  effects?: NewEffect[];
  /** A child run to be made with it. */
  run?: NewRun;
  /** Changes a child hands to its parent. */
  parentChanges?: { runId: string; changes: StepChanges };
}

export interface Decision {
  approvalId: string;
  decision: "approved" | "denied";
  by: string;
  via?: Channel | undefined;
  note?: string;
  remember?: "none" | "session";
  /** Arguments that replace the asked ones, and the digest that covers them. */
  changed?: { args: unknown; digest: string };
  now: number;
  deliveryId?: string;
}

export type DecisionResult =
  | { kind: "decided"; approval: Approval }
  /** It was not pending any more; the approval says what became of it. */
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
}

/** Webhook deliveries between their acknowledgement and their processing. */
export interface DeliveryStore {
  /** Stores a delivery; false when one with this key was stored within a month. */
  saveDelivery(delivery: NewDelivery): Promise<boolean>;
  /** Claims a delivery that is due and the oldest of its queue. It is due again at `until` unless it is completed before. */
  claimDelivery(now: number, until: number): Promise<Delivery | undefined>;
  /** Changes when a claimed delivery is due again: to keep the claim, or to retry. */
  postponeDelivery(key: string, dueAt: number): Promise<void>;
  /** Removes a delivery that was processed. Its key stays known. */
  completeDelivery(key: string): Promise<void>;
  /** When the next delivery is due. */
  nextDeliveryAt(): Promise<number | undefined>;
}

/**
 * Everything that outlives the process. Each method is one transaction; it resolves after the commit is on disk, and
 * what it returns was true at that commit. Commits of one turn of the event loop are grouped. One conformance suite
 * holds every implementation.
 */
export interface Store extends DeliveryStore {
  /**
   * Takes in what a front end heard. False, and nothing is written, when the delivery was taken in before.
   * A run whose id exists is not made again; its events are appended all the same unless their dedupe key is known.
   * `effects` are for runs that are there already.
   */
  ingest(heard: { deliveryId?: string; run?: NewRun; events: NewEvent[]; effects?: NewEffect[] }): Promise<boolean>;

  /** True for a delivery that was taken in before. */
  hasDelivery(deliveryId: string): Promise<boolean>;

  findRun(id: string): Promise<RunRow | undefined>;
  /** The root runs of an issue or pull request, newest first: those of its repository's number, or those without a number of its name. */
  runsOfThread(thread: {
    repositoryId?: number | undefined;
    owner: string;
    repo: string;
    thread: number;
  }): Promise<RunRow[]>;
  childrenOf(runId: string): Promise<RunRow[]>;
  /** Root runs that this person asked for, or of this repository, since then; for rate limits. */
  countRuns(query: {
    requestedBy?: string;
    repositoryId?: number;
    owner?: string;
    repo?: string;
    since: number;
  }): Promise<number>;
  /** US dollars that root runs created since then have cost, with their children: of one repository, or of all. */
  costOfRuns(query: { repositoryId?: number; since: number }): Promise<number>;
  /** Root runs that are not done: of an installation as it is today, less those of repositories that are not named. */
  liveRuns(where: { installationId: number; repositoryIds?: readonly number[] }): Promise<RunRow[]>;

  /** Where the repository of this number was last. */
  findLocation(repositoryId: number): Promise<RepositoryLocation | undefined>;
  /**
   * Notes where a repository is, as `settlePlace` has it; the origins of its runs say so from here on. Runs without a number
   * that were made there become its own.
   */
  saveLocation(heard: ReportedLocation): Promise<void>;

  /** Events not taken in yet, in order: new ones and parked ones. */
  inbox(runId: string): Promise<LoggedEvent[]>;
  /** The events of the run, in order, from after the given event id: all of them, or so many. */
  log(runId: string, after?: number, limit?: number): Promise<LoggedEvent[]>;

  /** False, and nothing is written, when the version has moved on. */
  advance(step: Advance): Promise<boolean>;

  /** The effect of this queue to do next, its oldest, if it is due; it counts as begun from here on. Undefined otherwise. */
  claimEffect(runId: string, queue: EffectQueue, now: number): Promise<Effect | undefined>;
  /** The effect is over: its row goes, its consequences are written. False when it had been cancelled meanwhile; then nothing is written. */
  completeEffect(finish: EffectCompletion): Promise<boolean>;
  /** Try again then. The attempt stays counted. */
  postponeEffect(key: string, dueAt: number): Promise<void>;

  /** Runs with something to do at that time: an unseen event or a due effect. For the start, and for the sweep. */
  dueRuns(now: number): Promise<string[]>;
  /** Appends the events of timers and approvals that ran out. Resolves to the runs that woke. */
  fireTimers(now: number): Promise<string[]>;
  /** When the next timer, approval or postponed effect is due. */
  nextDueAt(): Promise<number | undefined>;

  findApproval(id: string): Promise<Approval | undefined>;
  /** Approvals of a root run's tree, oldest first. */
  approvalsOf(rootId: string): Promise<Approval[]>;
  /** One decision for ever: the first wins. Appends the event to the run. */
  decideApproval(decision: Decision): Promise<DecisionResult>;

  /** The run's stored changes, oldest first. */
  changesOf(runId: string, upTo?: number): Promise<StepChanges[]>;
  findPost(name: string): Promise<Post | undefined>;

  /** Answers when the database does. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
