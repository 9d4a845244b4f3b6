import { postComment } from "#bot/github/post-comment.ts";
import { inline } from "#bot/render/markdown.ts";
import { renderPaused } from "#bot/render/render-reply.ts";
import { canWrite, type GitHub, GitHubRefusalError } from "#domain/github.ts";
import { reportMissingPermission } from "#runtime/missing-permission.ts";
import type { Runs } from "#runtime/runs.ts";
import {
  handleMention,
  hasWaitingNotice,
  mentionKey,
  postProblem,
  reportMention,
  respondsAgain,
  wasDeleted,
} from "./handle-comment.ts";
import {
  type DeliveryContext,
  defineHandler,
  ignoreThread,
  queueOf,
  repositoryOf,
  repositoryQueue,
  threadOf,
} from "./handler.ts";
import { ignoreAuthor, readReviewSummary } from "./incoming-comment.ts";
import { CheckSuitePayload, ReviewPayload, StatusPayload, type ThreadPayload, WorkflowRunPayload } from "./payloads.ts";

/** Reports the checks of a commit when a check suite of an App has completed. */
export const checkSuiteCompleted = defineHandler(CheckSuitePayload, {
  queue: (payload) => `${repositoryQueue(payload)} checks`,
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.check_suite.updated_at, scope) ??
    (scope.appId !== undefined && payload.check_suite.app?.id === scope.appId
      ? "it is a check suite of this app"
      : undefined) ??
    (payload.check_suite.head_branch ? undefined : "its commit is not on a branch of the repository"),
  handle: (payload, context) => {
    const { head_sha, head_branch } = payload.check_suite;
    return reportChecks(payload, { commit: head_sha, branches: [head_branch ?? ""] }, context);
  },
});

/** Reports the checks of a commit when a workflow of GitHub Actions has completed. */
export const workflowRunCompleted = defineHandler(WorkflowRunPayload, {
  queue: (payload) => `${repositoryQueue(payload)} checks`,
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.workflow_run.updated_at, scope) ??
    (payload.workflow_run.conclusion === "action_required"
      ? "it waits for someone to approve the workflow run"
      : undefined) ??
    (payload.workflow_run.head_branch ? undefined : "its commit is not on a branch of the repository"),
  handle: (payload, context) => {
    const { head_sha, head_branch } = payload.workflow_run;
    return reportChecks(payload, { commit: head_sha, branches: [head_branch ?? ""] }, context);
  },
});

/** Reports the checks of a commit when a commit status was set, as CI systems outside GitHub do. */
export const statusSet = defineHandler(StatusPayload, {
  queue: (payload) => `${repositoryQueue(payload)} checks`,
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.updated_at, scope) ?? (payload.state === "pending" ? "it is pending" : undefined),
  handle: (payload, context) =>
    reportChecks(payload, { commit: payload.sha, branches: payload.branches.map(({ name }) => name) }, context),
});

/** Passes the result to the runs that pushed the commit, once every check has completed. */
async function reportChecks(
  payload: Omit<ThreadPayload, "action">,
  pushed: { commit: string; branches: string[] },
  context: DeliveryContext,
): Promise<void> {
  const repository = repositoryOf(payload);
  await context.runs().reportChecks(repository, pushed, async (report) => {
    const announced = announceChecks(report, pushed.commit, { github: context.openGitHub(repository), context });
    // The run needs the result all the same.
    await unlessRefused(
      announced,
      `The checks of ${pushed.commit} could not be announced in #${report.thread}`,
      context,
    );
  });
}

/** Waits until something is posted. If GitHub refuses it, as in a locked conversation, only the log says so. */
async function unlessRefused(posted: Promise<unknown>, problem: string, { log }: DeliveryContext): Promise<void> {
  try {
    await posted;
  } catch (error) {
    if (!(error instanceof GitHubRefusalError)) throw error;
    log.info(`${problem}: ${error.message}`);
  }
}

/** Says in the thread which failures the worker does not repair, and which permissions are missing. */
async function announceChecks(
  { thread, base, baseFailures, missingPermissions }: Parameters<Parameters<Runs["reportChecks"]>[2]>[0],
  commit: string,
  { github, context }: { github: GitHub; context: DeliveryContext },
): Promise<void> {
  if (baseFailures.length > 0) {
    const links = baseFailures.map(({ name, url }) => (url ? `[${inline(name)}](${url})` : inline(name)));
    const markdown = `Not caused by this pull request: ${links.join(", ")} also ${links.length === 1 ? "fails" : "fail"} on ${inline(base)}. The worker does not repair this.`;
    await postComment(github, { thread, name: `checks/${commit}`, body: context.sanitize(markdown) });
  }
  for (const permission of missingPermissions) {
    await reportMissingPermission(permission, { github, thread, keys: context.runs() });
  }
}

/** Passes a review by someone with write access to the run, or else handles a mention in its summary. */
export const reviewSubmitted = defineHandler(ReviewPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.review.submitted_at, scope) ??
    ignoreAuthor(payload.review, payload.sender, scope.appId),
  handle: async (payload, context) => {
    const { runs, openGitHub, allowAppComments } = context;
    const { review, pull_request } = payload;
    // Its author may not have seen a review that another app submitted with their token. It never decides anything.
    if (review.performed_via_github_app && !allowAppComments) return;
    const thread = threadOf(payload, pull_request.number);
    // Late, it may also have been dismissed.
    const exists = async (github: GitHub) =>
      (await github.listReviews(thread.thread)).some(({ id, state }) => id === review.id && state !== "dismissed");
    if (await wasDeleted({ thread, at: review.submitted_at, exists }, context)) return;
    const by = review.user?.login ?? "ghost";
    const mention = () => handleMention(readReviewSummary(payload), review.id, context);
    const isOpen = pull_request.state === "open";
    if ((await runs().threadActivity(thread, { isOpen })) !== "live") {
      if (isOpen) await reportEnded(payload, context);
      return mention();
    }
    // One of its comments started the run, which reads a mention in the summary as a message.
    if (await runs().hasRecorded(mentionKey(review.id))) return mention();
    const byId = review.user?.id;
    const isWaiting = await hasWaitingNotice(reviewKey(payload), context);
    if (!canWrite(await openGitHub(thread).getPermission(by, byId))) {
      if (isWaiting)
        await replyToReview(payload, `${by}, workers only read reviews of people with write access.`, context);
      return;
    }

    const { id, state, body } = review;
    const runId = await runs().deliverReview(thread, {
      by,
      byId,
      review: { id, state: state.toLowerCase(), body: body ?? "" },
      deliveryId: reviewKey(payload),
    });
    if (runId === undefined) return mention();
    if (!requestsChanges(payload)) return;
    const paused = await runs().findPaused(runId);
    // Nobody should wait for the run.
    if (paused) await replyToReview(payload, renderPaused(paused.worker, "this review"), context);
    else if (isWaiting) await replyToReview(payload, respondsAgain("review"), context);
  },
  report: async (payload, context, problem) => {
    const thread = threadOf(payload, payload.pull_request.number);
    const isViaApp = payload.review.performed_via_github_app && !context.allowAppComments;
    if (isViaApp) return;
    if ((await context.runs().threadActivity(thread)) !== "live") {
      return reportMention(readReviewSummary(payload), payload.review.id, context, problem);
    }
    if (!requestsChanges(payload)) return;
    await postProblem("review", { key: reviewKey(payload), problem, context }, (text) =>
      replyToReview(payload, text, context),
    );
  },
});

function requestsChanges({ review }: ReviewPayload): boolean {
  return review.state.toLowerCase() === "changes_requested";
}

function reviewKey({ review }: ReviewPayload): string {
  return `review ${review.id}`;
}

async function replyToReview(
  { review, ...payload }: ReviewPayload,
  markdown: string,
  context: DeliveryContext,
): Promise<void> {
  const { number } = payload.pull_request;
  const comment = { thread: number, name: `review/${review.id}`, body: context.sanitize(markdown) };
  const posted = postComment(context.openGitHub(threadOf(payload, number)), comment);
  await unlessRefused(posted, `The review ${review.id} of #${number} got no reply`, context);
}

/** Replies to a review that requests changes where the run of the pull request has ended, so that nobody waits for it. */
async function reportEnded(payload: ReviewPayload, context: DeliveryContext): Promise<void> {
  const { review } = payload;
  if (!requestsChanges(payload)) return;
  const { number } = payload.pull_request;
  const thread = threadOf(payload, number);
  const ended = (await context.runs().listRunViews(thread)).find(({ pullRequest }) => pullRequest === number);
  const github = context.openGitHub(thread);
  if (!ended || !canWrite(await github.getPermission(review.user?.login ?? "ghost", review.user?.id))) return;
  // A mention starts a worker.
  const comments = (await github.listReviewComments(number)).filter(({ reviewId }) => reviewId === review.id);
  if ([review, ...comments].some(({ body }) => body?.startsWith("@"))) return;
  const { worker } = ended.spec;
  const body = `The run of ${worker.name} has ended, so no worker reads this review. \`/run ${worker.name}\` starts one that works on this branch and knows the open reviews.`;
  await replyToReview(payload, body, context);
}
