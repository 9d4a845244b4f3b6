import { OutageError } from "#domain/errors.ts";
import type { RepositoryRef } from "#domain/github.ts";
import { readSettings } from "#runtime/run-environment.ts";
import { mayChangeSchedules, saveSchedules } from "./handle-schedule.ts";
import { type DeliveryContext, defineHandler } from "./handler.ts";
import { PushPayload } from "./payloads.ts";
import { ignoreThread, queueOf, threadOf } from "./thread.ts";

const branchPrefix = "refs/heads/";

/**
 * The base branch of a run's pull request may have moved: a conflict continues the run, which resolves it. On the default
 * branch, the settings or a worker may bring schedules.
 */
export const branchPushed = defineHandler(PushPayload, {
  queue: (payload) => `${queueOf(payload, 0)} push`,
  ignore: (payload, scope) => {
    if (payload.deleted || !payload.ref.startsWith(branchPrefix)) return "it does not move a branch";
    return ignoreThread(payload, undefined, scope);
  },
  handle: async (payload, context) => {
    const base = payload.ref.slice(branchPrefix.length);
    const { thread: _, ...repository } = threadOf(payload, 0);
    if (mayChangeSchedules(payload)) await saveSchedules(repository, context);
    const pulls = await context.runs().openPullRequests(repository);
    for (const { number } of pulls.filter((pull) => pull.base === base)) {
      await updatePullRequest({ ...repository, number, base, baseCommit: payload.after }, context);
    }
  },
});

async function updatePullRequest(
  { number, base, baseCommit, ...repository }: RepositoryRef & { number: number; base: string; baseCommit: string },
  { openGitHub, runs }: DeliveryContext,
): Promise<void> {
  const github = openGitHub(repository);
  const pull = await github.getPullRequest(number);
  if (!pull || pull.state === "closed" || pull.base.branch !== base) return;
  // GitHub computes it in the background; the delivery is retried until it has.
  if (pull.mergeable === undefined) throw new OutageError(`GitHub does not know yet whether #${number} has conflicts.`);

  const thread = { ...repository, thread: number };
  const head = `${repository.repositoryId}#${number} ${pull.head.commit}`;
  if (!pull.mergeable) {
    const reason = `Your pull request #${number} has conflicts with ${base}.`;
    // Once for each state of the pull request, however often its base moves.
    await runs().requestBaseMerge(thread, { base, reason, deliveryId: `conflict ${head}` });
  } else if ((await readSettings(github)).update_pull_requests) {
    const reason = `The branch ${base} has new commits.`;
    await runs().requestBaseMerge(thread, { base, reason, deliveryId: `update ${head} ${baseCommit}` });
  }
}
