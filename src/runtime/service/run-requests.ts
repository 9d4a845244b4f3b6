import { randomUUID } from "node:crypto";
import { findPolicyModelProblem } from "#config/deployment-policy.ts";
import { UserError } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import type { RepositoryRef } from "#domain/github.ts";
import { type RunSpec, type RunState, shortId } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { modelMatches } from "#models/models.ts";
import { pricedModels } from "#models/prices.ts";
import { stateName } from "#runtime/apply-events.ts";
import { remainingBudget } from "#runtime/daily-budget.ts";
import { chosenModel } from "#runtime/read-log.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";
import type { RunsOptions } from "#runtime/runs-options.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import type { RunStarter } from "#runtime/start/start-run.ts";
import { type NewEffect, type RunRow, readable, type Store, type StoredRun } from "#runtime/store/store.ts";
import { noWorkerRunning } from "#ui/run-commands.ts";
import { checkApprover } from "./decide-approvals.ts";

const maxListedModels = 30;
/** The maximum number of runs among which those of closed pull requests are looked for. */
const maxClosedRuns = 200;

type Requested = Parameters<Runs["requestExit"]>[1];

export async function requestExit(options: RunsOptions, thread: ThreadRef, request: Requested): Promise<number[]> {
  const { by, via, deliveryId, runId } = request;
  const known = await knownClosed(options.store, thread, deliveryId);
  if (known) return known;
  const { live, closed } = await continuingRuns(options.store, thread, runId);
  const [ended] = live.length > 0 ? [] : closed;
  const run = ended ?? (await newestLive(options, thread, { runId }));
  const numbers = await recordClosed(options.store, ended ? [ended] : [], deliveryId);
  await append(options, run, { type: "run.exit", by, via }, deliveryId);
  return numbers;
}

/**
 * Returns the closed pull requests of the runs that a command ends, and records them: these runs no longer continue with them,
 * and the delivery may be processed again because the reply was lost.
 */
export async function recordClosed(
  store: Store,
  closed: readonly RunRow[],
  deliveryId: string | undefined,
): Promise<number[]> {
  const numbers = numbersOf(closed);
  if (deliveryId !== undefined)
    for (const number of numbers) await store.ingest({ deliveryId: closedKey(deliveryId, number), events: [] });
  return numbers;
}

/** Returns the pull requests that were recorded for a delivery; undefined if it is new. */
export async function knownClosed(
  store: Store,
  thread: ThreadRef,
  deliveryId: string | undefined,
): Promise<number[] | undefined> {
  if (deliveryId === undefined || !(await store.hasDelivery(deliveryId))) return undefined;
  const recorded = new Set<number>();
  for (const run of await store.runsOfThread(thread)) {
    const number = run.unreadable ? undefined : run.snapshot.context.pullRequest;
    if (number !== undefined && (await store.hasDelivery(closedKey(deliveryId, number)))) recorded.add(number);
  }
  return [...recorded];
}

function closedKey(deliveryId: string, number: number): string {
  return `${deliveryId} of closed #${number}`;
}

export async function requestRetry(
  options: RunsOptions,
  starter: RunStarter,
  thread: ThreadRef,
  { origin, seen, ...request }: Parameters<Runs["requestRetry"]>[1],
): Promise<void> {
  const { by, via, deliveryId, runId } = request;
  if (deliveryId !== undefined && (await options.store.hasDelivery(deliveryId))) return;
  const run = (await options.store.runsOfThread(thread)).find(({ id }) => id === (runId ?? id));
  if (!run) throw new UserError(noWorkerRunning);
  if (run.unreadable) throw new UserError(run.unreadable.message);

  const { spec, snapshot, status } = run;
  if (status === "done") {
    const task = { worker: spec.worker.name, text: spec.task ?? "" };
    await starter.start({ ...task, origin, seen, ...(deliveryId === undefined ? {} : { deliveryId }) });
    return;
  }
  const state = stateName(snapshot);
  if (state === "interrupted") throw new UserError(`${spec.worker.name} is paused. Continue it with \`/resume\`.`);
  if (state !== "retrying") {
    throw new UserError(
      `${spec.worker.name} has not failed, so there is nothing to try again. /status shows what it is doing.`,
    );
  }
  await append(options, run, { type: "retry.requested", by, via }, deliveryId);
}

/** The states in which a run waits for something that it would lose with its conversation. */
const waitsFor: Partial<Record<RunState, string>> = {
  awaitingApproval: "approval",
  awaitingAnswer: "an answer",
  awaitingChild: "another worker",
};

export async function clearConversation(options: RunsOptions, thread: ThreadRef, request: Requested): Promise<void> {
  const { by, via } = request;
  await appendToNewest(options, thread, request, ({ spec, snapshot }) => {
    const state = stateName(snapshot);
    if (state !== "idle" && state !== "interrupted" && state !== "awaitingBudget") {
      const reason = waitsFor[state];
      const activity = reason === undefined ? "is still working" : `is waiting for ${reason}`;
      throw new UserError(`${spec.worker.name} ${activity}. Pause it with \`/stop\`, then comment \`/clear\`.`);
    }
    return { type: "conversation.cleared", by, via };
  });
}

export async function listModels(
  options: RunsOptions,
  thread: ThreadRef,
  request: Parameters<Runs["listModels"]>[1] = {},
): Promise<{ current: string; available: string[] }> {
  const { store, models } = options;
  const { spec } = await newestLive(options, thread, request);
  const current = chosenModel(await store.log(spec.id)) ?? spec.model;
  const candidates = [...new Set([current, models.defaultModel ?? spec.model, ...pricedModels])];
  const available = candidates.filter((model) => findModelProblem(options, spec, model) === undefined);
  return { current, available: available.slice(0, maxListedModels) };
}

export async function changeModel(
  options: RunsOptions,
  thread: ThreadRef,
  { model, ...request }: Parameters<Runs["changeModel"]>[1],
): Promise<void> {
  const { by, via } = request;
  await appendToNewest(options, thread, request, ({ spec }) => {
    const problem = findModelProblem(options, spec, model);
    if (problem) throw new UserError(problem);
    return { type: "model.changed", model, by, via };
  });
}

/** Returns a sentence that says why a run may not use a model; undefined if it may. */
function findModelProblem({ models, policy }: RunsOptions, { worker }: RunSpec, model: string): string | undefined {
  const problem = findPolicyModelProblem(policy, model);
  if (problem) return problem;
  if (!modelMatches(worker.compatible_models, model)) {
    return `${worker.name} works with ${worker.compatible_models?.join(", ")}, and not with ${model}.`;
  }
  try {
    modelFor(worker, model, models);
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}

export async function raiseCostLimit(
  options: RunsOptions,
  thread: ThreadRef,
  { amount, ...request }: Parameters<Runs["raiseCostLimit"]>[1],
): Promise<number | undefined> {
  const { by, byId, via, deliveryId, runId } = request;
  if (deliveryId !== undefined && (await options.store.hasDelivery(deliveryId))) {
    return lastRaisedLimit(options.store, thread, { by, runId });
  }

  const live = (await options.store.runsOfThread(thread)).filter(({ status }) => status !== "done");
  const waiting = live.flatMap((run) => (!run.unreadable && stateName(run.snapshot) === "awaitingBudget" ? [run] : []));
  const [run, ...others] = waiting.filter(({ id }) => id === (runId ?? id));
  if (!run) {
    const unreadable = live.find(({ id, unreadable }) => unreadable && id === (runId ?? id))?.unreadable;
    throw new UserError(unreadable?.message ?? "No run in this thread waits for a higher cost limit.");
  }
  if (others.length > 0) throw new UserError(severalWait(waiting, amount));

  await checkApprover(options, thread, { rootIds: [run.id], person: { login: by, id: byId } });
  const limit = run.snapshot.context.limits.cost + amount;
  const { limits } = options.policy;
  if (limit > limits.cost) {
    throw new UserError(
      `The deployment's policy allows at most $${limits.cost.toFixed(2)} per run. This run's limit is $${run.snapshot.context.limits.cost.toFixed(2)}.`,
    );
  }
  const remaining = await remainingBudget(options, run.spec.origin);
  if (amount > remaining) {
    throw new UserError(
      `Only $${remaining.toFixed(2)} of the deployment's daily budget is left. Try a smaller amount.`,
    );
  }
  await append(options, run, { type: "cost_limit.raised", limit, by, via }, deliveryId);
  return limit;
}

/** Returns the limit that a person set last in a thread; undefined if it is in no log that can be read. */
async function lastRaisedLimit(
  store: Store,
  thread: ThreadRef,
  { by, runId }: Pick<Requested, "by" | "runId">,
): Promise<number | undefined> {
  const runs = (await store.runsOfThread(thread)).filter(({ id, unreadable }) => !unreadable && id === (runId ?? id));
  const events = await Promise.all(runs.map(async ({ id }) => [...(await store.log(id)), ...(await store.inbox(id))]));
  const raised = events
    .flat()
    .flatMap(({ id, event }) => (event.type === "cost_limit.raised" && event.by === by ? [{ id, event }] : []));
  return raised.sort((one, other) => one.id - other.id).at(-1)?.event.limit;
}

function severalWait(waiting: readonly RunRow[], amount: number): string {
  const choices = waiting.map(({ id, spec }) => `\`/approve ${id} +$${amount}\` for ${spec.worker.name}`);
  return `${waiting.length} runs in this thread wait for a higher cost limit. Name one: ${choices.join(", ")}.`;
}

export async function showChanges(
  { store, scheduler }: RunsOptions,
  thread: ThreadRef,
  { by, deliveryId }: Requested,
): Promise<void> {
  if (deliveryId !== undefined && (await store.hasDelivery(deliveryId))) return;
  const [newest] = await store.runsOfThread(thread);
  if (!newest) throw new UserError(noWorkerRunning);
  const callId = `by-${shortId(deliveryId ?? randomUUID(), 8)}`;
  const request = { kind: "changes.show" as const, callId, by, thread: thread.thread };
  const effect: NewEffect = { key: `${newest.id}/${callId}`, runId: newest.id, queue: "thread", request };
  await store.ingest({ deliveryId, events: [], effects: [effect] });
  scheduler.wake(newest.id);
}

async function appendToNewest(
  options: RunsOptions,
  thread: ThreadRef,
  { deliveryId, runId }: Pick<Requested, "deliveryId" | "runId">,
  eventFor: (run: RunRow) => RunEvent,
): Promise<void> {
  if (deliveryId !== undefined && (await options.store.hasDelivery(deliveryId))) return;
  const run = await newestLive(options, thread, { runId });
  await append(options, run, eventFor(run), deliveryId);
}

/** Returns the requested live run. Default: the newest of the thread. */
async function newestLive(
  { store }: RunsOptions,
  thread: ThreadRef,
  { runId }: { runId?: string | undefined },
): Promise<RunRow> {
  const live = (await store.runsOfThread(thread)).filter(({ status }) => status !== "done");
  const newest = live.find(({ id }) => id === (runId ?? id));
  if (!newest) throw new UserError(noWorkerRunning);
  if (newest.unreadable) throw new UserError(newest.unreadable.message);
  return newest;
}

async function append(
  { store, scheduler }: RunsOptions,
  { id }: RunRow,
  event: RunEvent,
  deliveryId: string | undefined,
): Promise<void> {
  await store.ingest({ deliveryId, events: [{ runId: id, event }] });
  scheduler.wake(id);
}

/** Returns the task of a run whose pull request needs the new commits of its base branch. */
const updateTask = (base: string) =>
  `Merge the branch ${base} into your pull request: call git_merge with the branch ${base}, with with_conflicts: true if there are conflicts, resolve them, run the tests, and push with update_pull_request.`;

export async function listOpenPullRequests(
  { store }: RunsOptions,
  { installationId, repositoryId }: RepositoryRef,
): Promise<number[]> {
  if (repositoryId === undefined) return [];
  const live = await store.liveRuns({ installationId, repositoryIds: [repositoryId] });
  const numbers = live.filter((run) => !run.unreadable).map((run) => run.snapshot.context.pullRequest);
  return [...new Set(numbers.filter((number) => number !== undefined))];
}

export async function listClosedPullRequests(
  { store }: RunsOptions,
  { repositoryId }: RepositoryRef,
): Promise<number[]> {
  const latest = await store.latestRuns({ limit: maxClosedRuns });
  const numbers = latest.flatMap((run) => {
    const number = closedPullRequest(run);
    const isHere = !run.unreadable && run.spec.origin.repositoryId === repositoryId;
    return isHere && number !== undefined ? [number] : [];
  });
  return [...new Set(numbers)];
}

/** Returns the live runs of a thread, and those that have ended with their pull requests and continue when these are reopened. */
export async function continuingRuns(
  store: Store,
  thread: ThreadRef,
  runId: string | undefined,
): Promise<{ live: StoredRun[]; closed: RunRow[] }> {
  const runs = (await store.runsOfThread(thread)).filter(({ id }) => id === (runId ?? id));
  return {
    live: runs.filter(({ status }) => status !== "done"),
    closed: runs.filter((run) => !run.unreadable).filter((run) => closedPullRequest(run) !== undefined),
  };
}

/** Returns the pull requests of runs that have ended with them. */
export function numbersOf(closed: readonly RunRow[]): number[] {
  return [...new Set(closed.map(closedPullRequest))].filter((number) => number !== undefined);
}

/** Returns the pull request that was closed without merging, which ended the run. It continues when that is reopened. */
export function closedPullRequest(run: StoredRun): number | undefined {
  if (run.unreadable || run.logRemovedAt !== undefined) return undefined;
  const { isPullRequestClosed, pullRequest } = run.snapshot.context;
  return isPullRequestClosed ? pullRequest : undefined;
}

export async function requestBaseMerge(
  { store, scheduler }: RunsOptions,
  thread: ThreadRef,
  { base, reason, replyThread, deliveryId }: Parameters<Runs["requestBaseMerge"]>[1],
): Promise<void> {
  const live = (await store.runsOfThread(thread)).filter((run) => !run.unreadable && run.status !== "done");
  const own = live.map(readable).filter(({ snapshot }) => snapshot.context.pullRequest === thread.thread);
  const text = `${reason} ${updateTask(base)}`;
  const event: RunEvent = { type: "message.received", kind: "prompt", text, by: "golem-forge", thread: replyThread };
  await store.ingest({ deliveryId, events: own.map(({ id }) => ({ runId: id, event })) });
  for (const { id } of own) scheduler.wake(id);
}

/**
 * Divides live runs into those that are or will be paused when they have applied their inbox, and the others. Leaves out
 * those that have ended meanwhile, or will: a stop would pause them when their pull request is reopened.
 */
export async function dividePaused(
  store: Store,
  live: readonly StoredRun[],
): Promise<{ paused: StoredRun[]; running: StoredRun[] }> {
  const divided: Record<"paused" | "running", StoredRun[]> = { paused: [], running: [] };
  for (const run of live) {
    const activity = run.unreadable ? "running" : await activityOf(store, run.id);
    if (activity !== "ended") divided[activity].push(run);
  }
  return divided;
}

async function activityOf(store: Store, id: string): Promise<"paused" | "running" | "ended"> {
  // Read before the state, so that an event is found in one of them. A run whose inbox is unreadable applies none of it.
  const inbox = await store.inbox(id).catch((error: unknown) => {
    if (error instanceof UnreadableDataError) return [];
    throw error;
  });
  const last = (...types: RunEvent["type"][]) => inbox.findLast(({ event }) => types.includes(event.type))?.event.type;
  if (last("pull_request.closed", "pull_request.reopened") === "pull_request.closed") return "ended";
  const pending = last("run.stop", "run.resume");
  if (pending) return pending === "run.stop" ? "paused" : "running";
  const run = await store.findRun(id);
  if (run?.status === "done") return "ended";
  return run && !run.unreadable && stateName(run.snapshot) === "interrupted" ? "paused" : "running";
}

/** Returns why a run or its inbox cannot be read, so that it applies no event. */
export async function findReadingProblem(store: Store, run: StoredRun): Promise<UnreadableDataError | undefined> {
  if (run.unreadable) return run.unreadable;
  try {
    await store.inbox(run.id);
    return undefined;
  } catch (error) {
    if (error instanceof UnreadableDataError) return error;
    throw error;
  }
}
