import { randomUUID } from "node:crypto";
import { OutageError, UserError } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import { branchOf, isPushingTool, type RunState, shortId } from "#domain/run.ts";
import { redisplayEffects, stateName } from "#runtime/apply-events.ts";
import type { ToolReply } from "#runtime/front-end.ts";
import { pushedCommits, reportedDigests } from "#runtime/read-log.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";
import type { RunsOptions } from "#runtime/runs-options.ts";
import { readAttachments } from "#runtime/start/attachments.ts";
import { RunStarter } from "#runtime/start/start-run.ts";
import { TriggeredRuns } from "#runtime/start/triggered-runs.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import type { NewEffect, NewEvent, RunRow, StoredRun } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import { cleanText } from "#text/untrusted.ts";
import { noWorkerRunning } from "#ui/run-commands.ts";
import { decideApprovals, pendingApprovals, revokeApproval } from "./decide-approvals.ts";
import { findQuestion } from "./open-questions.ts";
import {
  changeModel,
  clearConversation,
  closedPullRequest,
  continuingRuns,
  dividePaused,
  findReadingProblem,
  knownClosed,
  listClosedPullRequests,
  listModels,
  listOpenPullRequests,
  numbersOf,
  raiseCostLimit,
  recordClosed,
  requestBaseMerge,
  requestExit,
  requestRetry,
  showChanges,
} from "./run-requests.ts";

/** The maximum number of runs that `/status` shows. */
const maxShownRuns = 5;

/** Implements the operations that front ends offer on runs, with a store and a scheduler. */
export class RunService implements Runs {
  readonly #options: RunsOptions;
  readonly #starter: RunStarter;
  readonly #triggers: TriggeredRuns;

  // The operations of other files.
  readonly startRun: Runs["startRun"] = (request) => this.#starter.start(request);
  readonly startTriggered: Runs["startTriggered"] = (event) => this.#triggers.start(event);
  readonly listSchedules: Runs["listSchedules"] = (...request) => this.#triggers.listSchedules(...request);
  readonly startScheduled: Runs["startScheduled"] = (request) => this.#triggers.startScheduled(request);
  readonly decideApprovals: Runs["decideApprovals"] = (...decision) => decideApprovals(this.#options, ...decision);
  readonly revokeApproval: Runs["revokeApproval"] = (...request) => revokeApproval(this.#options, ...request);
  readonly pendingApprovals: Runs["pendingApprovals"] = (thread) => pendingApprovals(this.#options, thread);
  readonly listOpenPullRequests: Runs["listOpenPullRequests"] = (repository) =>
    listOpenPullRequests(this.#options, repository);
  readonly listClosedPullRequests: Runs["listClosedPullRequests"] = (repository) =>
    listClosedPullRequests(this.#options, repository);
  readonly requestBaseMerge: Runs["requestBaseMerge"] = (...request) => requestBaseMerge(this.#options, ...request);
  readonly requestExit: Runs["requestExit"] = (...request) => requestExit(this.#options, ...request);
  readonly requestRetry: Runs["requestRetry"] = (...request) => requestRetry(this.#options, this.#starter, ...request);
  readonly clearConversation: Runs["clearConversation"] = (...request) => clearConversation(this.#options, ...request);
  readonly listModels: Runs["listModels"] = (...request) => listModels(this.#options, ...request);
  readonly changeModel: Runs["changeModel"] = (...request) => changeModel(this.#options, ...request);
  readonly raiseCostLimit: Runs["raiseCostLimit"] = (...request) => raiseCostLimit(this.#options, ...request);
  readonly showChanges: Runs["showChanges"] = (...request) => showChanges(this.#options, ...request);

  constructor(options: RunsOptions) {
    this.#options = options;
    this.#starter = new RunStarter(options);
    this.#triggers = new TriggeredRuns(this.#starter, options);
  }

  async deliverMessage(thread: ThreadRef, message: Parameters<Runs["deliverMessage"]>[1]): Promise<string | undefined> {
    const { by, byId, via, text, deliveryId, runId, commentId, mayAnswer = true, question: name } = message;
    const live = await this.#liveRuns(thread, runId);
    const newest =
      (await this.#newestKept(live)) ?? (await this.#runsOfPullRequest(thread)).find(({ id }) => id === (runId ?? id));
    if (!newest) return undefined;

    const readableRuns = live.filter((run) => !run.unreadable);
    const { store } = this.#options;
    const question = mayAnswer ? await findQuestion(store, readableRuns, { commentId, name, answer: text }) : undefined;
    if (name !== undefined && !question) throw new UserError(questionClosed);
    const event: RunEvent = question
      ? {
          type: "question.answered",
          callId: question.callId,
          step: question.step,
          text: cleanText(text).text,
          by,
          byId,
          via,
        }
      : await this.#composeMessage(newest, { thread, by, byId, via, text });
    if (await this.#hasEndedSince(newest)) return this.deliverMessage(thread, message);
    const reader = question?.runId ?? newest.id;
    await this.#append([{ runId: reader, event }], deliveryId);
    return reader;
  }

  /** Returns the first of these runs that nobody has cancelled: one that cannot be read only ends when it can be. */
  async #newestKept(live: readonly StoredRun[]): Promise<StoredRun | undefined> {
    for (const run of live) {
      const { events } = await this.#options.store.commandsOf(run.id);
      if (events.at(-1)?.event.type !== "run.cancel") return run;
    }
    return undefined;
  }

  /** True if a run that was live has ended: reading attachments and reviews takes time, and ended runs read no messages. */
  async #hasEndedSince({ id, status }: StoredRun): Promise<boolean> {
    return status !== "done" && (await this.#options.store.findRun(id))?.status === "done";
  }

  async #composeMessage(
    run: StoredRun,
    { thread, by, byId, via, text }: Parameters<Runs["deliverMessage"]>[1] & { thread: ThreadRef },
  ): Promise<RunEvent> {
    const { files, note } = run.unreadable
      ? { files: [], note: "" }
      : await readAttachments(this.#options.openGitHub(thread), thread.thread, [text], run.spec.worker);
    return {
      type: "message.received",
      kind: "comment",
      text: [cleanText(text).text, note].filter(Boolean).join("\n\n"),
      by,
      byId,
      via,
      thread: thread.thread,
      ...(files.length > 0 && { attachments: files }),
    };
  }

  readonly continueRun: Runs["continueRun"] = async (thread, { worker, text, by, byId, via, deliveryId }) => {
    const live = (await this.#liveRuns(thread)).filter((run) => !run.unreadable);
    const run = live.find(({ spec, snapshot }) => spec.worker.name === worker && snapshot.context.pullRequest);
    if (!run) return false;
    const prompt = `@${by} asks you to continue with pull request #${run.snapshot.context.pullRequest}.`;
    const message: RunEvent =
      text === ""
        ? { type: "message.received", kind: "prompt", text: prompt, by: "golem-forge", thread: thread.thread }
        : await this.#composeMessage(run, { thread, by, byId, via, text });
    if (await this.#hasEndedSince(run)) return false;
    const { paused } = await dividePaused(this.#options.store, [run]);
    const events: RunEvent[] = paused.length > 0 ? [message, { type: "run.resume", by, via }] : [message];
    await this.#appendToEach([run], events, deliveryId);
    return true;
  };

  readonly deliverReview: Runs["deliverReview"] = async (thread, { by, byId, review, deliveryId }) => {
    const [newest] = await this.#runsOfPullRequest(thread);
    if (!newest) return undefined;
    const github = this.#options.openGitHub(thread);
    // Loads toolsets, which the app does not need before its first run.
    const { describeReview } = await import("./describe-feedback.ts");
    const { text, resumesRun } = await describeReview(github, { by, number: thread.thread, review });
    if (await this.#hasEndedSince(newest)) return this.deliverReview(thread, { by, byId, review, deliveryId });
    const event: RunEvent = { type: "pull_request.reviewed", by, byId, requestsChanges: resumesRun, text };
    await this.#append([{ runId: newest.id, event }], deliveryId);
    return newest.id;
  };

  readonly reportChecks: Runs["reportChecks"] = async (repository, { commit, branches }, announce) => {
    const { store, openGitHub } = this.#options;
    const { installationId, repositoryId, owner, repo } = repository;
    const live = await store.liveRuns({ installationId, ...(repositoryId && { repositoryIds: [repositoryId] }) });
    for (const { id, spec, snapshot } of live.filter((run) => !run.unreadable)) {
      const { pullRequest } = snapshot.context;
      const isHere = repositoryId !== undefined || (spec.origin.owner === owner && spec.origin.repo === repo);
      if (!isHere || !branches.includes(branchOf(spec))) continue;
      const log = await store.log(id);
      if (pullRequest === undefined || pushedCommits(log).at(-1) !== commit) {
        if (!isPushing(snapshot)) continue;
        // Checks may be faster than the call that pushed their commit.
        throw new OutageError(`The push of the run ${id} is not recorded yet.`);
      }
      const { describeChecks } = await import("./describe-feedback.ts");
      const report = await describeChecks(openGitHub(repository), { number: pullRequest, commit });
      if (!report) continue;
      const { passed, failedOnBase, text, digest } = report;
      const earlier = reportedDigests(log, commit);
      if (earlier.at(-1) === digest) continue;
      await announce({ thread: pullRequest, ...report });
      const event: RunEvent = { type: "checks.completed", commit, passed, failedOnBase, text, digest };
      // A check that failed may pass when it runs again, and fail again: the number tells equal results apart.
      const again = earlier.length > 0 ? ` ${earlier.length}` : "";
      await this.#append([{ runId: id, event }], `checks ${commit} ${digest} ${id}${again}`);
    }
  };

  readonly pullRequestClosed: Runs["pullRequestClosed"] = async (thread, { by, merged, commit, deliveryId }) => {
    const runs = await this.#runsOfPullRequest(thread);
    const event: RunEvent = { type: "pull_request.closed", number: thread.thread, merged, by, commit };
    return (await this.#appendToEach(runs, [event], deliveryId)).length > 0;
  };

  readonly pullRequestReopened: Runs["pullRequestReopened"] = async (thread, { by, deliveryId }) => {
    const runs = await this.#runsOfPullRequest(thread);
    await this.#appendToEach(runs, [{ type: "pull_request.reopened", number: thread.thread, by }], deliveryId);
  };

  readonly repostRequest: Runs["repostRequest"] = async (thread, { approvalId, deliveryId, isAltered }) => {
    const { store, scheduler } = this.#options;
    const approval = await store.findApproval(approvalId);
    const roots = await store.runsOfThread(thread);
    if (!approval || !roots.some(({ id }) => id === approval.rootId)) return;
    const { runId } = approval;
    const replaces = isAltered ? (await this.findRequest(approvalId))?.commentId : undefined;
    const request = { kind: "approval.post" as const, approvalId, ...(replaces !== undefined && { replaces }) };
    const effect: NewEffect = { key: `${runId}/${approvalId}/${deliveryId}`, runId, queue: "thread", request };
    await store.ingest({ deliveryId, events: [], effects: [effect] });
    scheduler.wake(runId);
  };

  readonly findRequest: Runs["findRequest"] = (approvalId) => {
    return this.#options.store.findPost(`approval/${approvalId}`);
  };

  readonly requestStop: Runs["requestStop"] = async (thread, { by, via, reason, deliveryId, runId }) => {
    const { store } = this.#options;
    const { live, closed: ended } = await continuingRuns(store, thread, runId);
    const closed = reason === undefined ? ended : [];
    if (!(await this.#isKnown(deliveryId))) {
      // What has paused a run before, such as closing the thread, does not keep events from starting workers. A person's stop does.
      const stopping = reason === undefined ? [...live, ...closed] : (await dividePaused(store, live)).running;
      if (stopping.length === 0) throw new UserError(noWorkerRunning);
      await this.#appendToEach(stopping, [{ type: "run.stop", by, via, reason }], deliveryId);
    }
    return numbersOf(closed);
  };

  readonly requestResume: Runs["requestResume"] = async (thread, { by, byId, via, text, deliveryId, runId }) => {
    if (await this.#isKnown(deliveryId)) return [];
    const live = await this.#liveRuns(thread, runId);
    const { paused } = await dividePaused(this.#options.store, live);
    if (paused.length === 0) {
      const unreadable = live.find((run) => run.unreadable)?.unreadable;
      if (unreadable) throw new UserError(unreadable.message);
      // A run that waits for a review continues with the message.
      const message = { by, byId, via, text: text ?? "", deliveryId, mayAnswer: false, ...(runId && { runId }) };
      if (text && (await this.deliverMessage(thread, message))) return [];
      throw new UserError(
        live.length > 0
          ? "No worker is paused in this thread. Comment to tell the worker what to do."
          : noWorkerRunning,
      );
    }
    const message = text ? cleanText(text).text : "";
    const events: RunEvent[] = message
      ? [{ type: "message.received", kind: "comment", text: message, by, byId, thread: thread.thread, via }]
      : [];
    return this.#appendToEach(paused, [...events, { type: "run.resume", by, via }], deliveryId);
  };

  readonly requestCancel: Runs["requestCancel"] = async (thread, request) => {
    const { by, via, reason, deliveryId, runId } = request;
    const { store } = this.#options;
    const { live, closed } = await continuingRuns(store, thread, runId);
    const problems = await Promise.all(live.map((run) => findReadingProblem(store, run)));
    const unreadable = problems.flatMap((problem) => problem?.message ?? []);
    const known = await knownClosed(store, thread, deliveryId);
    if (known) return { closed: known, unreadable };
    if (live.length + closed.length === 0) throw new UserError(noWorkerRunning);
    const numbers = await recordClosed(store, closed, deliveryId);
    await this.#appendToEach([...live, ...closed], [{ type: "run.cancel", by, via, reason }], deliveryId);
    return { closed: numbers, unreadable };
  };

  readonly reportLocation: Runs["reportLocation"] = async (reported) => {
    const { store } = this.#options;
    const known = await store.findLocation(reported.repositoryId);
    // Runs are stopped before the location is saved, so that a crash cannot prevent it.
    if (known && resolveLocation(known, reported)?.ownerChanged) {
      const [previous, current] = [`${known.owner}/${known.repo}`, `${reported.owner}/${reported.repo}`];
      await this.stopUnreachable(
        { installationId: known.installationId, repositoryIds: [reported.repositoryId] },
        { reason: `The repository was transferred from ${previous} to ${current}, which has another owner.` },
      );
    }
    await store.saveLocation(reported);
  };

  readonly stopUnreachable: Runs["stopUnreachable"] = async (where, { reason, deliveryId }) => {
    if (await this.#isKnown(deliveryId)) return;
    const live = await this.#options.store.liveRuns(where);
    const running = live.filter((run) => stateOf(run) !== "interrupted");
    await this.#appendToEach(running, [{ type: "run.stop", by: "golem-forge", reason }], deliveryId);
  };

  readonly refreshReachable: Runs["refreshReachable"] = async (where, locations) => {
    const { store, scheduler } = this.#options;
    for (const location of locations) {
      if (await store.findLocation(location.repositoryId)) await this.reportLocation(location);
    }
    const live = (await store.liveRuns(where)).filter((run) => !run.unreadable);
    await store.ingest({ events: [], effects: live.flatMap(({ spec }) => redisplayEffects(spec)) });
    for (const { id } of live) scheduler.wake(id);
  };

  readonly runToolCommand: Runs["runToolCommand"] = async (
    thread,
    { by, byId, runId: wanted, command, mayBeForeign = false, commentId, deliveryId },
  ) => {
    if (await this.#isKnown(deliveryId)) return;
    const { store, scheduler } = this.#options;
    const newest = (await store.runsOfThread(thread)).find(({ id }) => id === (wanted ?? id));
    if (!newest) throw new UserError(noWorkerRunning);
    const runId = newest.id;
    const callId = `by-${shortId(deliveryId ?? randomUUID(), 8)}`;
    const key = `${runId}/${callId}`;
    const where = { thread: thread.thread, commentId };
    const request = { kind: "command.run" as const, callId, by, byId, command, mayBeForeign, ...where };
    const effects: NewEffect[] = [{ key, runId, queue: "work", request }];
    const behind = currentWork(newest);
    if (behind && !mayBeForeign) {
      const reply: ToolReply = { kind: "queued", by, behind };
      effects.push({
        key: `${key}/queued`,
        runId,
        queue: "thread",
        request: { kind: "tool.reply", callId, reply, thread: thread.thread },
      });
    }
    await store.ingest({ deliveryId, events: [], effects });
    scheduler.wake(runId);
  };

  readonly recordKey: Runs["recordKey"] = async (key) => {
    await this.#options.store.ingest({ deliveryId: key, events: [] });
  };

  readonly hasRecorded: Runs["hasRecorded"] = (key) => {
    return this.#options.store.hasDelivery(key);
  };

  readonly threadActivity: Runs["threadActivity"] = async (thread, { isOpen = false } = {}) => {
    const runs = await this.#options.store.runsOfThread(thread);
    if (runs.length === 0) return "none";
    const live = runs.filter(({ status }) => status !== "done");
    const isReopened = (run: StoredRun) => isOpen && closedPullRequest(run) === thread.thread;
    if (live.some((run) => !run.unreadable) || runs.some(isReopened)) return "live";
    return (await this.#newestKept(live)) ? "live" : "ended";
  };

  readonly findPaused: Runs["findPaused"] = async (runId) => {
    const { store } = this.#options;
    const run = await store.findRun(runId);
    if (!run || run.unreadable || (await dividePaused(store, [run])).paused.length === 0) return undefined;
    // A pause ends when someone resumes the run.
    const { events } = await store.commandsOf(runId);
    const resumed = events.findLast(({ event }) => event.type === "run.resume");
    return { worker: run.spec.worker.name, key: `pause of ${runId} since ${resumed?.id ?? "its start"}` };
  };

  readonly mayAnswer: Runs["mayAnswer"] = async (thread, commentId) => {
    const live = (await this.#liveRuns(thread)).filter((run) => !run.unreadable);
    try {
      return (await findQuestion(this.#options.store, live, { commentId, name: undefined })) !== undefined;
    } catch (error) {
      // The question is still being posted, or cannot be read.
      if (error instanceof OutageError || error instanceof UserError) return false;
      throw error;
    }
  };

  readonly listRunViews: Runs["listRunViews"] = async (thread) => {
    const { store } = this.#options;
    const runs = (await store.runsOfThread(thread)).slice(0, maxShownRuns);
    const views = await Promise.all(runs.map(({ id }) => readView(store, id)));
    return views.filter((view) => view !== undefined);
  };

  readonly listWorkers: Runs["listWorkers"] = (thread) => {
    const { catalog, openGitHub } = this.#options;
    return catalog.list(openGitHub(thread));
  };

  readonly findRunView: Runs["findRunView"] = (runId) => {
    return readView(this.#options.store, runId);
  };

  async #isKnown(deliveryId: string | undefined): Promise<boolean> {
    return deliveryId !== undefined && this.#options.store.hasDelivery(deliveryId);
  }

  async #liveRuns(thread: ThreadRef, runId?: string): Promise<StoredRun[]> {
    const runs = await this.#options.store.runsOfThread(thread);
    return runs.filter(({ id, status }) => status !== "done" && id === (runId ?? id));
  }

  /**
   * Runs that opened the pull request of this thread: live ones, and those that continue when it is reopened. Each takes
   * its events in their order, so a run that has ended may be about to take the event that reopens the pull request.
   */
  async #runsOfPullRequest(thread: ThreadRef): Promise<RunRow[]> {
    const runs = (await this.#options.store.runsOfThread(thread)).filter((run) => !run.unreadable);
    return runs.filter(
      (run) =>
        (run.status !== "done" && run.snapshot.context.pullRequest === thread.thread) ||
        closedPullRequest(run) === thread.thread,
    );
  }

  async #appendToEach(
    runs: readonly StoredRun[],
    events: readonly RunEvent[],
    deliveryId: string | undefined,
  ): Promise<string[]> {
    const runIds = runs.map(({ id }) => id);
    await this.#append(
      runIds.flatMap((runId) => events.map((event) => ({ runId, event }))),
      deliveryId,
    );
    return runIds;
  }

  async #append(events: NewEvent[], deliveryId: string | undefined): Promise<void> {
    const { store, scheduler } = this.#options;
    await store.ingest({ deliveryId, events });
    for (const { runId } of events) scheduler.wake(runId);
  }
}

const questionClosed =
  "This question was answered already, or its worker was paused or has ended. Nothing was sent. Reload the page to see what it asks now.";

/** True while a call that pushes to the run's branch is being executed. */
function isPushing({ context }: RunRow["snapshot"]): boolean {
  return context.openCalls.some(({ tool, status }) => status === "running" && isPushingTool(tool));
}

function stateOf(run: StoredRun): RunState | undefined {
  return run.unreadable ? undefined : stateName(run.snapshot);
}

/** Returns the work that a person's call has to wait for. */
function currentWork(run: StoredRun): Extract<ToolReply, { kind: "queued" }>["behind"] | undefined {
  switch (stateOf(run)) {
    case "callingModel":
      return "model";
    case "executing":
      return "tool";
    case "preparing":
    case "reviewing":
      return "step";
    case "retrying":
    case "evaluatingAnswer":
    case "evaluatingCalls":
    case "checkingLimits":
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingChild":
    case "awaitingBudget":
    case "idle":
    case "interrupted":
    case "ended":
    case undefined:
      return undefined;
  }
}
