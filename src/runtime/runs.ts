import type { Approval } from "#domain/approval.ts";
import type { Channel } from "#domain/channel.ts";
import type { ReportedLocation } from "#domain/repository-location.ts";
import type { RunOrigin, RunSpec, RunView } from "#domain/run.ts";
import type { ParsedCommand } from "#ui/command.ts";

/** An issue or pull request: where root runs live. */
export interface ThreadRef {
  /** GitHub's number of the repository: runs are found by it, whatever they were called when they were made. */
  repositoryId?: number | undefined;
  installationId: number;
  owner: string;
  repo: string;
  thread: number;
}

/** What an app reaches by an installation, or some of it. */
export type InstallationScope = { installationId: number; repositoryIds?: readonly number[] };

/** Words of a person, with what names their delivery: each name counts once. */
interface PersonRequest {
  by: string;
  /** Default: in the thread. */
  via?: Channel;
  /** Whoever delivers twice gives the same; made of what cannot be forged. */
  deliveryId?: string;
}

/**
 * The door to the runtime: what front ends ask of runs. Authorisation is the caller's work. Every method resolves
 * after its effect is on disk; what a person did wrong throws a UserError that says how to do it right; a delivery
 * heard before resolves like the first time and changes nothing.
 */
export interface Runs {
  /** Starts a worker on a thread with the person's words as its task. Refuses an unknown or broken worker, a model that cannot be used, too many runs. */
  startRun(request: {
    origin: RunOrigin;
    worker: string;
    text: string;
    /** The issue as the person saw it, and when; default: as it is now. Nothing written later is told to the worker. */
    seen?: { at: Date; title: string; body: string };
    deliveryId?: string;
  }): Promise<RunSpec>;
  /** A plain sentence: answers the oldest open question of the thread's live runs, or steers the newest live run. False when nobody listens. */
  deliverMessage(thread: ThreadRef, words: PersonRequest & { text: string }): Promise<boolean>;
  /**
   * Decides one approval by id, or `all` that are pending in the thread; without an id the only one pending. A request
   * that is not posted yet, or was posted after the deciding comment, is not decided.
   */
  decideApprovals(
    thread: ThreadRef,
    decision: PersonRequest & {
      target: string | undefined;
      approve: boolean;
      note?: string;
      remember?: "none" | "session";
      /** Arguments in place of the asked ones; validated before anything runs. */
      changedArgs?: unknown;
      /** The comment that decides. It counts for requests that were posted before it alone, by GitHub's order of comments. */
      commentId?: number | undefined;
    },
  ): Promise<Approval[]>;
  /** Interrupts the thread's live runs and their children; they can be resumed. */
  requestStop(thread: ThreadRef, heard: PersonRequest): Promise<RunSpec[]>;
  /** Goes on with stopped runs, with the person's words if there are any. */
  requestResume(thread: ThreadRef, heard: PersonRequest & { text?: string }): Promise<RunSpec[]>;
  /** Ends the thread's live runs for good. */
  requestCancel(thread: ThreadRef, heard: PersonRequest): Promise<RunSpec[]>;
  /**
   * Runs a command for the tools of the thread's newest run, live or ended: `/tool name --option value`, `/name …`, `/tool
   * name -i`, `/tools`. The reply is posted to the thread once the run can do it; until then the thread says what it waits
   * for. `mayBeForeign`: the command may be another bot's, so there is no reply unless a tool has its name. Refuses a
   * thread without runs.
   */
  runToolCommand(
    thread: ThreadRef,
    request: PersonRequest & { command: ParsedCommand; mayBeForeign?: boolean },
  ): Promise<void>;
  /**
   * Notes where a repository is, as a delivery says. What is older than the last word on it changes nothing. When it came
   * to another owner its live runs are stopped, with all they asked: other people decide there now.
   */
  reportLocation(heard: ReportedLocation): Promise<void>;
  /** Stops the live runs of an installation or of repositories that the app may not reach any more, and says why. */
  stopUnreachable(where: InstallationScope, why: { reason: string; deliveryId?: string }): Promise<void>;
  /**
   * Shows once more what is live where the app may reach it again: it may not have been shown. What is known of the given
   * places is brought up to date first.
   */
  refreshReachable(where: InstallationScope, places: readonly ReportedLocation[]): Promise<void>;
  /** True for the first time this key is given within a month, across restarts. */
  recordOnce(key: string): Promise<boolean>;
  /** Whether a worker was ever started in the thread, and whether one is still alive. Cheap: it is asked of every comment. */
  threadActivity(thread: ThreadRef): Promise<"none" | "ended" | "live">;
  /** The thread's root runs, newest first, with their children. */
  status(thread: ThreadRef): Promise<RunView[]>;
  pendingApprovals(thread: ThreadRef): Promise<Approval[]>;
  /** The workers one can start in this repository. */
  listWorkers(thread: ThreadRef): Promise<{ name: string; description?: string }[]>;
  /** One run with its children, by id. */
  view(runId: string): Promise<RunView | undefined>;
}
