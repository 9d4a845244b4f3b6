import { z } from "zod";
import { OutageError } from "#domain/errors.ts";
import type { RepositoryRef } from "#domain/github.ts";
import { readSettings } from "#runtime/run-environment.ts";
import { type DeliveryContext, defineHandler, ignoreThread, queueIn, queueOf, threadOf } from "./handler.ts";
import { EditedPullRequestPayload, StoredRepositoryRef } from "./payloads.ts";

/** GitHub is asked at least this often for an answer that it computes in the background. */
const maxPauseMs = 10 * 60_000;

/** The webhook of a pull request may arrive before the call that opened it has its result. */
const maxAttemptsForRun = 7;

const MergeCheck = z.object({
  repository: StoredRepositoryRef,
  number: z.number(),
  /** The new commit of the base branch, or of the new base branch; undefined after a push to the pull request itself. */
  baseCommit: z.string().optional(),
});
type MergeCheck = z.infer<typeof MergeCheck>;

/** The event of the deliveries that the app saves for itself to ask whether a pull request has conflicts. */
export const mergeCheckEvent = "merge-check.due";

/** Saves the check, so that it is repeated until GitHub knows the answer, and delays no other delivery. */
export async function saveMergeCheck(
  check: MergeCheck,
  commit: string,
  { saveDelivery }: Pick<DeliveryContext, "saveDelivery">,
): Promise<void> {
  const queue = queueOfCheck(check);
  const key = `${queue} ${commit}`;
  await saveDelivery({ key, queue, content: { id: key, event: mergeCheckEvent, payload: check } });
}

/** Checks a pull request that a person retargeted to another base branch. */
export const pullRequestEdited = defineHandler(EditedPullRequestPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) =>
    payload.changes?.base === undefined
      ? "its base branch is unchanged"
      : ignoreThread(payload, payload.pull_request.updated_at, scope),
  handle: async (payload, context) => {
    const { number, base, head } = payload.pull_request;
    const { thread: _, ...repository } = threadOf(payload, number);
    await saveMergeCheck(
      { repository, number, baseCommit: base.sha },
      `into ${base.ref} ${base.sha} ${head?.sha}`,
      context,
    );
  },
});

/** Asks the run of a pull request to merge the base branch: when there are conflicts, or where the settings say so. */
export const mergeCheckDue = defineHandler(MergeCheck, {
  queue: queueOfCheck,
  handle: async ({ repository, number, baseCommit }, { openGitHub, runs, attempts }) => {
    const retryAt = Date.now() + Math.min(1_000 * 2 ** (attempts - 1), maxPauseMs);
    if (!(await runs().listOpenPullRequests(repository)).includes(number)) {
      if (baseCommit !== undefined || attempts >= maxAttemptsForRun) return;
      // The run has ended with the pull request.
      if ((await openGitHub(repository).getPullRequest(number))?.state !== "open") return;
      throw new OutageError(`No run has recorded yet that #${number} is its pull request.`, { retryAt });
    }
    const github = openGitHub(repository);
    const pull = await github.getPullRequest(number);
    if (!pull || pull.state === "closed") return;
    if (pull.mergeable === undefined) {
      throw new OutageError(`GitHub does not know yet whether #${number} has conflicts.`, { retryAt });
    }

    const base = pull.base.branch;
    const thread = { ...repository, thread: number };
    const head = `${repository.repositoryId}#${number} ${pull.head.commit}`;
    if (!pull.mergeable) {
      const reason = `Your pull request #${number} has conflicts with ${base}.`;
      // Once for each state of the pull request, however often its base moves.
      await runs().requestBaseMerge(thread, { base, reason, deliveryId: `conflict ${base} ${head}` });
    } else if (baseCommit !== undefined && (await readSettings(github)).update_pull_requests) {
      const reason = `The branch ${base} has new commits.`;
      await runs().requestBaseMerge(thread, { base, reason, deliveryId: `update ${base} ${head} ${baseCommit}` });
    }
  },
});

function queueOfCheck({ repository, number }: { repository: RepositoryRef; number: number }): string {
  return `${queueIn(repository, number)} merge check`;
}
