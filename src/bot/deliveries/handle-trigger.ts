import type { z } from "zod";
import { postComment } from "#bot/github/post-comment.ts";
import { isRunBranch } from "#domain/run.ts";
import { saveMergeCheck } from "./handle-merge-check.ts";
import { updateTriggers } from "./handle-schedule.ts";
import { type DeliveryContext, defineHandler, ignoreThread, queueOf, threadEventKey, threadOf } from "./handler.ts";
import { ignoreAuthor } from "./incoming-comment.ts";
import { IssuePayload, locationOf, PullRequestPayload, type ThreadPayload } from "./payloads.ts";

/** Starts the workers whose triggers match an event of an issue. */
export const issueTriggered = defineHandler(IssuePayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.issue.updated_at, scope) ??
    ignoreAuthor({ user: payload.sender }, payload.sender, scope.appId),
  handle: (payload, context) => startTriggered("issues", payload, payload.issue, context),
});

/** Starts the workers whose triggers match an event of a pull request. */
export const pullRequestTriggered = defineHandler(PullRequestPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.pull_request.updated_at, scope) ??
    (hasRunBranch(payload) ? undefined : ignoreAuthor({ user: payload.sender }, payload.sender, scope.appId)),
  handle: async (payload, context) => {
    const { number, head } = payload.pull_request;
    const { thread: _, ...repository } = threadOf(payload, number);
    // It may already have conflicts, which otherwise only a later push to the base would reveal.
    if (head && hasRunBranch(payload)) await saveMergeCheck({ repository, number }, `head ${head.sha}`, context);
    await startTriggered("pull_request", payload, payload.pull_request, context);
  },
});

/** True for a pull request from a branch that a run made. */
function hasRunBranch({ pull_request: { head } }: z.infer<typeof PullRequestPayload>): boolean {
  return head !== undefined && isRunBranch(head.ref);
}

/** Starts the workers whose triggers match. Posts why some did not start, for people with write access. */
export async function startTriggered(
  event: "issues" | "pull_request",
  payload: ThreadPayload,
  thread: z.infer<typeof IssuePayload>["issue"],
  context: DeliveryContext,
): Promise<void> {
  const { action: type, sender, label, assignee, requested_reviewer: reviewer } = payload;
  const { number, updated_at: at } = thread;
  if (thread.state === "closed" || thread.locked || ignoreAuthor({ user: sender }, sender, context.appId)) return;
  const location = locationOf(payload.repository, payload.installation.id, at);
  if (location) await context.runs().reportLocation(location);

  const ref = threadOf(payload, number);
  const subject = label?.name ?? assignee?.login ?? reviewer?.login ?? "";
  const deliveryId = `trigger ${threadEventKey(payload, number, at) ?? context.deliveryId} ${subject}`;
  const problems = await context.runs().startTriggered({
    event,
    type,
    author: thread.user?.login ?? "ghost",
    labels: thread.labels.map(({ name }) => name),
    label: label?.name,
    assignee: (type === "review_requested" ? reviewer : assignee)?.login,
    baseBranch: thread.base?.ref,
    origin: {
      ...ref,
      isPullRequest: event === "pull_request",
      requestedBy: sender?.login ?? "ghost",
      requestedById: sender?.id,
    },
    seen: at && { at, title: thread.title ?? "", body: thread.body ?? "" },
    deliveryId,
  });
  await updateTriggers(ref, context);
  if (problems.length === 0) return;
  const body = context.sanitize(problems.join("\n\n"));
  await postComment(context.openGitHub(ref), { thread: number, name: `reply/${deliveryId}`, body });
}
