import type { RunEvent } from "#domain/events.ts";
import type { RepositoryRef } from "#domain/github.ts";
import type { Runs, ThreadRef } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import { readable } from "./store/store.ts";

/** Returns the task of a run whose pull request needs the new commits of its base branch. */
const updateTask = (base: string) =>
  `Merge the branch ${base} into your pull request: call git_merge with the branch ${base}, with with_conflicts: true if there are conflicts, resolve them, run the tests, and push with update_pull_request.`;

/** See `Runs.openPullRequests`. */
export async function openPullRequests(
  { store }: RunsOptions,
  { installationId, repositoryId }: RepositoryRef,
): Promise<number[]> {
  if (repositoryId === undefined) return [];
  const live = await store.liveRuns({ installationId, repositoryIds: [repositoryId] });
  const numbers = live.filter((run) => !run.unreadable).map((run) => readable(run).snapshot.context.pullRequest);
  return [...new Set(numbers.filter((number) => number !== undefined))];
}

/** See `Runs.requestBaseMerge`. */
export async function requestBaseMerge(
  { store, scheduler }: RunsOptions,
  thread: ThreadRef,
  { base, reason, replyThread = thread.thread, deliveryId }: Parameters<Runs["requestBaseMerge"]>[1],
): Promise<void> {
  const live = (await store.runsOfThread(thread)).filter((run) => !run.unreadable && run.status !== "done");
  const own = live.map(readable).filter(({ snapshot }) => snapshot.context.pullRequest === thread.thread);
  const text = `${reason} ${updateTask(base)}`;
  const event: RunEvent = { type: "message.received", kind: "prompt", text, by: "golem-forge", thread: replyThread };
  await store.ingest({ deliveryId, events: own.map(({ id }) => ({ runId: id, event })) });
  for (const { id } of own) scheduler.wake(id);
}
