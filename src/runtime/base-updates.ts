import type { RunEvent } from "#domain/events.ts";
import type { RepositoryRef } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import { readBaseCommit } from "./read-log.ts";
import type { Runs, ThreadRef } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import { readable } from "./store/store.ts";

/** Returns the task of a run whose pull request needs the new commits of its base branch. */
function updateTask(base: string, { pullRequestBranch }: Pick<RunSpec, "pullRequestBranch">): string {
  const merge = pullRequestBranch === undefined ? "git_pull" : `git_merge with the branch ${base}`;
  return `Merge the branch ${base} into your pull request: call ${merge}, with with_conflicts: true if there are conflicts, resolve them, run the tests, and push with update_pull_request.`;
}

/** The number of events at the start of a log among which the base commit is found. */
const firstEvents = 50;

/** See `Runs.openPullRequests`. */
export async function openPullRequests(
  { store }: RunsOptions,
  { installationId, repositoryId }: RepositoryRef,
): Promise<{ number: number; base: string | undefined }[]> {
  if (repositoryId === undefined) return [];
  const live = (await store.liveRuns({ installationId, repositoryIds: [repositoryId] })).filter(
    (run) => !run.unreadable,
  );
  const proposed = live.map(readable).flatMap(({ id, spec, snapshot }) => {
    const { pullRequest } = snapshot.context;
    return pullRequest === undefined ? [] : [{ id, spec, number: pullRequest }];
  });
  return Promise.all(
    proposed.map(async ({ id, spec, number }) => ({
      number,
      base:
        spec.pullRequestBranch === undefined
          ? readBaseCommit(await store.log(id, undefined, firstEvents))?.branch
          : spec.pullRequestBase,
    })),
  );
}

/** See `Runs.requestBaseMerge`. */
export async function requestBaseMerge(
  { store, scheduler }: RunsOptions,
  thread: ThreadRef,
  { base, reason, replyThread = thread.thread, deliveryId }: Parameters<Runs["requestBaseMerge"]>[1],
): Promise<void> {
  const live = (await store.runsOfThread(thread)).filter((run) => !run.unreadable && run.status !== "done");
  const own = live.map(readable).filter(({ snapshot }) => snapshot.context.pullRequest === thread.thread);
  const messageTo = (spec: RunSpec): RunEvent => {
    const text = `${reason} ${updateTask(base, spec)}`;
    return { type: "message.received", kind: "prompt", text, by: "golem-forge", thread: replyThread };
  };
  await store.ingest({ deliveryId, events: own.map(({ id, spec }) => ({ runId: id, event: messageTo(spec) })) });
  for (const { id } of own) scheduler.wake(id);
}
