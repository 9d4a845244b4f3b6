import type { Approval, Channel } from "#domain/approval.ts";
import type { IssueDetails, ReportedLocation, RepositoryRef } from "#domain/github.ts";
import type { RunOrigin, RunSpec, RunView } from "#domain/run.ts";
import type { Schedule, ThreadEvent } from "#domain/trigger.ts";
import type { ParsedCommand } from "#ui/command.ts";
import type { ChecksReport } from "./service/describe-feedback.ts";
import type { InvalidFile } from "./start/worker-catalog.ts";
import type { Post } from "./store/store.ts";

/** An issue or pull request, to which root runs belong. */
export interface ThreadRef extends RepositoryRef {
  thread: number;
}

/** Why no event starts a worker in a thread: a person has paused a run there. */
export interface ThreadPause {
  /** The same for every event until the run is resumed. */
  key: string;
  /** A sentence or two for the thread. Markdown. */
  text: string;
}

/** An issue or pull request as a person saw it. Undefined fields are read from GitHub. */
export interface SeenIssue extends IssueDetails {
  at: Date;
  title: string;
  body: string;
  author?: string;
  authorId?: number | undefined;
  labels?: string[];
  /** True if there were no comments yet. */
  hasNoComments?: boolean;
}

/** An installation, or some of its repositories. */
export type InstallationScope = { installationId: number; repositoryIds?: readonly number[] };

interface PersonRequest {
  by: string;
  /** The id of the person's account. */
  byId?: number | undefined;
  /** Default: the thread. */
  via?: Channel;
  /** The idempotency key, derived from data that cannot be forged. A request with a known key changes nothing. */
  deliveryId?: string;
}

interface RunRequest extends PersonRequest {
  /** A root run of the thread. Default: the newest or, where a request concerns several runs, all of them. */
  runId?: string;
}

interface StartRequest {
  origin: RunOrigin;
  /** Default: the repository's `default_worker`, or `main`. */
  worker?: string;
  /** The task. */
  text: string;
  /** The issue as the person saw it, without later edits and comments. Default: the current one. */
  seen?: SeenIssue | undefined;
  deliveryId?: string;
  /** The maximum cost in US dollars, if it is lower than the worker's limit. */
  maxCost?: number;
}

/**
 * The operations that front ends offer on runs. Callers have to authorize the person first. Every method resolves after
 * its effect is stored, and throws a UserError that says what to do if the request cannot be carried out. A repeated
 * delivery resolves as it did the first time and changes nothing.
 */
export interface Runs {
  /** Starts a worker on a thread. Throws for an unknown or invalid worker, an unusable model, and too many runs. */
  startRun(request: StartRequest): Promise<RunSpec>;
  /**
   * Starts the workers whose triggers match an event of an issue or pull request. Returns why some did not start: the pause
   * of the thread, or a sentence each, if the person who caused the event has write access.
   */
  startTriggered(
    event: ThreadEvent & {
      /** `requestedBy` caused the event. */
      origin: RunOrigin;
      /** Resolves to true if an app caused it with the token of that person, who then counts as one without write access. */
      isViaApp?: () => Promise<boolean>;
      seen?: SeenIssue | undefined;
      deliveryId: string;
    },
  ): Promise<{ problems: string[]; pause?: ThreadPause }>;
  /**
   * Returns the schedules of a repository's workers, and the files that are invalid, so that their triggers have no effect.
   * `isChanged`: the files may have changed just now.
   */
  listSchedules(
    repository: RepositoryRef,
    options?: { isChanged?: boolean | undefined },
  ): Promise<{ schedules: { worker: string; schedule: Schedule }[]; invalidFiles: InvalidFile[] }>;
  /**
   * Starts a scheduled run unless its issue is closed or a person has paused a worker there, which is returned. Throws like
   * `startRun`, and if policy forbids it.
   */
  startScheduled(request: {
    repository: RepositoryRef;
    worker: string;
    schedule: Schedule;
    deliveryId: string;
  }): Promise<ThreadPause | undefined>;
  /**
   * Delivers a plain comment: as the answer to the oldest open question of the thread's live runs, or as a message to the
   * newest live run. With `mayAnswer: false` it is always a message, and a comment answers only questions that were posted
   * before it. With `question`, the name of a question's post, it answers only that one, or throws a UserError. Returns
   * the id of the run that gets it; undefined when no run is live.
   */
  deliverMessage(
    thread: ThreadRef,
    message: RunRequest & {
      text: string;
      mayAnswer?: boolean;
      commentId?: number | undefined;
      question?: string | undefined;
    },
  ): Promise<string | undefined>;
  /** Passes a task to this worker's newest live run with a pull request here. Returns false without one. */
  continueRun(thread: ThreadRef, request: PersonRequest & { worker: string; text: string }): Promise<boolean>;
  /**
   * Decides one approval by its id, with `all` every pending one in the thread or, without a target, the only pending
   * one. A request that is not posted yet, or was posted after the deciding comment, is not decided. If several people
   * have to approve, the answer is recorded and the approval stays pending until the last of them has approved.
   */
  decideApprovals(
    thread: ThreadRef,
    decision: PersonRequest & {
      target: string | undefined;
      approve: boolean;
      note?: string;
      remember?: "none" | "session";
      /** Arguments that replace the original ones. They are validated first. */
      changedArgs?: unknown;
      /** The deciding comment. Only requests posted before it, in GitHub's order of comments, are decided. */
      commentId?: number | undefined;
    },
  ): Promise<Approval[]>;
  /** Revokes an approval whose call has not begun, the person's own answer, or an approval for the session. */
  revokeApproval(thread: ThreadRef, request: PersonRequest & { target: string; note?: string }): Promise<Approval>;
  /**
   * Passes a review, with all its comments, to the newest live run of the pull request. One that requests changes, mentions
   * the app or replies to it continues the run. Returns its id; undefined when there is no such run.
   */
  deliverReview(
    thread: ThreadRef,
    request: PersonRequest & { review: { id: number; state: string; body: string } },
  ): Promise<string | undefined>;
  /**
   * Reads the checks of a commit and, when all have completed, reports them to the runs that pushed it to their branch.
   * Calls `announce` for each report before it is stored: when that fails, the next call reports the same again.
   */
  reportChecks(
    repository: Omit<ThreadRef, "thread">,
    pushed: { commit: string; branches: readonly string[] },
    announce: (report: { thread: number } & ChecksReport) => Promise<void>,
  ): Promise<void>;
  /** Ends the runs that opened this pull request. Returns false when there are none. */
  pullRequestClosed(
    thread: ThreadRef,
    closed: PersonRequest & {
      merged: boolean;
      /** The commit that GitHub reports: the merge commit, or the last proposed one. */
      commit?: string | undefined;
    },
  ): Promise<boolean>;
  /** Continues the runs that ended when this pull request was closed without merging. */
  pullRequestReopened(thread: ThreadRef, reopened: PersonRequest): Promise<void>;
  /**
   * Posts a request of this thread again in its current state, because somebody edited its comment. One that was altered
   * is posted in a new comment, so that only answers written from then on decide it.
   */
  repostRequest(
    thread: ThreadRef,
    request: { approvalId: string; deliveryId: string; isAltered: boolean },
  ): Promise<void>;
  /** Returns what was posted to ask for an approval, once it is known. */
  findRequest(approvalId: string): Promise<Post | undefined>;
  listOpenPullRequests(repository: RepositoryRef): Promise<number[]>;
  /** Returns the numbers of the pull requests that were closed without merging, whose runs continue when they are reopened. */
  listClosedPullRequests(repository: RepositoryRef): Promise<number[]>;
  /** Asks the live runs that opened this pull request to merge its base branch. */
  requestBaseMerge(
    thread: ThreadRef,
    request: {
      base: string;
      /** A sentence. */
      reason: string;
      /** The thread to reply in. Default: where the conversation is. */
      replyThread?: number;
      deliveryId?: string;
    },
  ): Promise<void>;
  /**
   * Stops the thread's live runs and their children, which can be resumed. Without a reason, a person asked for it: then no
   * event starts a worker in the thread until a person continues, even if its runs were paused already, and runs that have ended
   * with their pull request are paused when it is reopened. Returns these pull requests.
   */
  requestStop(thread: ThreadRef, request: RunRequest & { reason?: string }): Promise<number[]>;
  /** Resumes the thread's paused runs, with a message if there is one. Returns the ids of the runs. */
  requestResume(thread: ThreadRef, request: RunRequest & { text?: string }): Promise<string[]>;
  /**
   * Ends the thread's live runs for good, and those that have ended with their pull requests: they do not continue when these are
   * reopened. Returns these pull requests, and why runs cannot be read: these end as soon as they can be. `reason`: a sentence, if
   * no command asked for it.
   */
  requestCancel(
    thread: ThreadRef,
    request: RunRequest & { reason?: string },
  ): Promise<{ closed: number[]; unreadable: string[] }>;
  /**
   * Ends the thread's newest live run, with its work so far as its result. Without a live run, the newest that has ended with its
   * pull request does not continue when that is reopened. Returns this pull request.
   */
  requestExit(thread: ThreadRef, request: RunRequest): Promise<number[]>;
  /** Retries the failed model call of the newest run, or its task if it has ended. Throws if nothing failed. */
  requestRetry(thread: ThreadRef, request: RunRequest & Pick<StartRequest, "origin" | "seen">): Promise<void>;
  /** Drops the conversation of the thread's newest live run, but not its files. Throws while the run is working. */
  clearConversation(thread: ThreadRef, request: PersonRequest): Promise<void>;
  /** Returns the model of the thread's newest live run, and the models with a known price that it may use. */
  listModels(thread: ThreadRef, request?: Pick<RunRequest, "runId">): Promise<{ current: string; available: string[] }>;
  /** Changes the model for the next calls of the thread's newest live run. Throws for a model that it may not use. */
  changeModel(thread: ThreadRef, request: RunRequest & { model: string }): Promise<void>;
  /**
   * Raises the cost limit of the run that has used it up, and continues it. Returns the new limit in US dollars, also for
   * a known delivery; undefined if that limit is in no log that can be read. Throws if several runs have used up theirs
   * and none is named, if the person may not approve, or if the deployment's policy does not allow as much.
   */
  raiseCostLimit(thread: ThreadRef, request: RunRequest & { amount: number }): Promise<number | undefined>;
  /** Posts the changes of the thread's newest run, live or ended, as a diff. Throws for a thread without runs. */
  showChanges(thread: ThreadRef, request: PersonRequest): Promise<void>;
  /**
   * Runs a command for the tools of the thread's newest run, live or ended: `/tool name --option value`, `/name …`,
   * `/tool name -i`, `/tools`. The reply is posted in the thread. While the run is busy, the reply says what the
   * command is waiting for. With `mayBeForeign`, the command may be meant for another bot, so it is ignored unless a
   * tool has that name. Throws for a thread without runs.
   */
  runToolCommand(
    thread: ThreadRef,
    request: RunRequest & { command: ParsedCommand; mayBeForeign?: boolean; commentId?: number | undefined },
  ): Promise<void>;
  /**
   * Saves the location of a repository that a delivery reports, unless a newer one is known. If the repository has a
   * new owner, stops its live runs and withdraws their requests, since other people have write access now.
   */
  reportLocation(reported: ReportedLocation): Promise<void>;
  /** Stops the live runs of an installation or of repositories that the app can no longer reach. */
  stopUnreachable(where: InstallationScope, why: { reason: string; deliveryId?: string }): Promise<void>;
  /** Posts requests and statuses again after the app regained access, and first updates the given locations. */
  refreshReachable(where: InstallationScope, locations: readonly ReportedLocation[]): Promise<void>;
  /** Records a key for a month, across restarts. */
  recordKey(key: string): Promise<void>;
  hasRecorded(key: string): Promise<boolean>;
  /**
   * Returns the state of the thread's runs. Cheap enough to call for every comment. `isOpen`: what happened in the thread
   * happened while it was open. Then the run of a pull request that was closed counts as live: it continues, even if it
   * has not been reported yet that the pull request was reopened.
   */
  threadActivity(thread: ThreadRef, options?: { isOpen?: boolean }): Promise<"none" | "ended" | "live">;
  /** Returns the worker of a run that is paused, and a key of this pause; undefined if the run is not paused. */
  findPaused(runId: string): Promise<{ worker: string; key: string } | undefined>;
  /** True if this comment would answer an open question of the thread's live runs, if a person with write access had written it. */
  mayAnswer(thread: ThreadRef, commentId: number | undefined): Promise<boolean>;
  /** Returns the thread's root runs, newest first, with their children. */
  listRunViews(thread: ThreadRef): Promise<RunView[]>;
  pendingApprovals(thread: ThreadRef): Promise<Approval[]>;
  /** Returns the workers that can be started in this repository. */
  listWorkers(thread: ThreadRef): Promise<{ name: string; description?: string }[]>;
  findRunView(runId: string): Promise<RunView | undefined>;
}
