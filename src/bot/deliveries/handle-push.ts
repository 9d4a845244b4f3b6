import { saveMergeCheck } from "./handle-merge-check.ts";
import { mayChangeSchedules, saveSchedules } from "./handle-schedule.ts";
import { defineHandler } from "./handler.ts";
import { PushPayload } from "./payloads.ts";
import { ignoreThread, queueOf, threadOf } from "./thread.ts";

const branchPrefix = "refs/heads/";

/**
 * Checks the pull requests of runs for conflicts when their base branch has moved, and stores the schedules that a push to
 * the default branch has added.
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
    const own = await context.runs().openPullRequests(repository);
    if (own.length === 0) return;
    // A person may have retargeted a pull request, so GitHub is asked for those that are based on the branch now.
    const based = await context.openGitHub(repository).listPullRequestsInto(base);
    for (const number of own.filter((one) => based.includes(one))) {
      await saveMergeCheck({ repository, number, baseCommit: payload.after }, `base ${payload.after}`, context);
    }
  },
});
