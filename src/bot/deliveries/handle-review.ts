import { canWrite } from "#domain/github.ts";
import { handleMention, mentionKey } from "./handle-comment.ts";
import { defineHandler, ignoreThread, queueOf, threadOf } from "./handler.ts";
import { ignoreAuthor, readReviewSummary } from "./incoming-comment.ts";
import { ReviewPayload } from "./payloads.ts";

/**
 * Passes a review by someone with write access to the run of the pull request. Without such a run, a mention in its summary
 * is handled like one in a comment.
 */
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
    const by = review.user?.login ?? "ghost";
    const mention = () => handleMention(readReviewSummary(payload), review.id, context);
    const isOpen = pull_request.state === "open";
    if ((await runs().threadActivity(thread, { isOpen })) !== "live") return mention();
    // One of its comments started the run, which reads a mention in the summary as a message.
    if (await runs().hasRecorded(mentionKey(review.id))) return mention();
    const byId = review.user?.id;
    if (!canWrite(await openGitHub(thread).getPermission(by, byId))) return;

    const { id, state, body } = review;
    const isDelivered = await runs().deliverReview(thread, {
      by,
      byId,
      review: { id, state: state.toLowerCase(), body: body ?? "" },
      deliveryId: `review ${id}`,
    });
    if (!isDelivered) await mention();
  },
});
