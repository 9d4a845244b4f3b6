import { postComment } from "#bot/github/post-comment.ts";
import { code, inline } from "#bot/render/markdown.ts";
import { UserError } from "#domain/errors.ts";
import { startTriggered } from "./handle-triggers.ts";
import {
  type DeliveryContext,
  defineHandler,
  ignoreThread,
  mayBeOutOfOrder,
  queueOf,
  threadEventKey,
  threadOf,
} from "./handler.ts";
import { IssuePayload, locationOf, PullRequestPayload, RemovedIssuePayload, type ThreadPayload } from "./payloads.ts";

/** Stops the runs of a closed thread, which can be resumed when it is reopened. */
export const issueClosed = defineHandler(IssuePayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) => ignoreThread(payload, payload.issue.updated_at, scope),
  handle: async (payload, context) => {
    const { number, updated_at } = payload.issue;
    const thread = threadOf(payload, number);
    if (mayBeOutOfOrder(updated_at) && (await context.runs().threadActivity(thread)) === "live") {
      // It was reopened before this was processed.
      if ((await context.openGitHub(thread).getIssue(number))?.state === "open") return;
    }
    await endThread("requestStop", payload, payload.issue, context);
  },
});

/** Ends the runs that opened this pull request, and stops the other runs of its thread. */
export const pullRequestClosed = defineHandler(PullRequestPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) => ignoreThread(payload, payload.pull_request.updated_at, scope),
  handle: async (payload, context) => {
    const { number, merged = false, updated_at } = payload.pull_request;
    const by = payload.sender?.login ?? "ghost";
    const thread = threadOf(payload, number);
    const runs = context.runs();
    if ((await runs.threadActivity(thread, { isOpen: true })) === "live") {
      const key = threadEventKey(payload, number, updated_at) ?? context.deliveryId;
      const pull = await context.openGitHub(thread).getPullRequest(number);
      // It was reopened before this was processed. An answer older than the event may be out of date.
      if (pull?.state === "open" && updated_at && pull.updatedAt && pull.updatedAt >= updated_at) return;
      const commit = merged ? pull?.mergeCommit : pull?.head.commit;
      await runs.pullRequestClosed(thread, { by, merged, commit, deliveryId: `${key} of its run` });
    }
    await endThread("requestStop", payload, payload.pull_request, context);
  },
});

/** Continues the run that opened a pull request which was closed without merging and is open again. */
export const pullRequestReopened = defineHandler(PullRequestPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) => ignoreThread(payload, payload.pull_request.updated_at, scope),
  handle: async (payload, context) => {
    const { number, updated_at } = payload.pull_request;
    const key = threadEventKey(payload, number, updated_at) ?? context.deliveryId;
    const by = payload.sender?.login ?? "ghost";
    await context.runs().pullRequestReopened(threadOf(payload, number), { by, deliveryId: key });
    await startTriggered("pull_request", payload, payload.pull_request, context);
  },
});

/** Ends the runs of an issue that was deleted or transferred, since they can no longer be resumed. */
export const issueRemoved = defineHandler(RemovedIssuePayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) => ignoreThread(payload, payload.issue.updated_at, scope),
  handle: async (payload, context) => {
    const key = await endThread("requestCancel", payload, payload.issue, context);
    if (await context.runs().hasRecorded(key)) await reportTransfer(payload, key, context);
  },
});

/** Says in the thread that an issue has become why its run, whose status has moved with it, does nothing there. */
async function reportTransfer(payload: RemovedIssuePayload, key: string, context: DeliveryContext): Promise<void> {
  const { repository, installation, issue, changes } = payload;
  if (!changes) return;
  const { number } = changes.new_issue;
  const thread = threadOf({ installation, repository: changes.new_repository }, number);
  const views = await context.runs().listRunViews(threadOf(payload, issue.number));
  // Without a reason, a command had ended the run before.
  const ended = views.find(({ outcome }) => !outcome || (outcome.kind === "cancelled" && outcome.reason));
  if (!ended || !context.serves(thread)) return;
  const name = inline(ended.spec.worker.name);
  const where = `${repository.owner.login}/${repository.name}`;
  const pull =
    ended.pullRequest === undefined ? "" : ` Its pull request is still there: ${where}#${ended.pullRequest}.`;
  const text = `The run of ${name} ended when this issue was transferred from ${where}, because a run belongs to one repository.${pull} Its comments above no longer change. ${code(`/run ${ended.spec.worker.name}`)} starts another run here.`;
  // Where the app is not installed, GitHub refuses this, and the log says so.
  const body = context.sanitize(text);
  await postComment(context.openGitHub(thread), { thread: number, name: `transferred/${key}`, body });
}

/** Stops or ends the runs of a thread. Returns the key that is recorded if there are any. */
async function endThread(
  how: "requestStop" | "requestCancel",
  payload: ThreadPayload,
  { number, updated_at }: { number: number; updated_at?: Date | undefined },
  { runs, deliveryId }: DeliveryContext,
): Promise<string> {
  const location = locationOf(payload.repository, payload.installation.id, updated_at);
  if (location) await runs().reportLocation(location);
  const by = payload.sender?.login ?? "ghost";
  const key = threadEventKey(payload, number, updated_at) ?? deliveryId;
  try {
    const request = { by, deliveryId: key };
    const thread = threadOf(payload, number);
    if (how === "requestCancel") {
      await runs().requestCancel(thread, { ...request, reason: `@${by} ${payload.action} issue #${number}.` });
    }
    // With a reason it is not a person's /stop, which would keep triggers off when the thread is reopened.
    else await runs().requestStop(thread, { ...request, reason: `@${by} closed #${number}.` });
  } catch (error) {
    // Most threads have no runs.
    if (!(error instanceof UserError)) throw error;
  }
  return key;
}
