import { canWrite } from "#domain/github.ts";
import { defineHandler } from "./handler.ts";
import { ignoreAuthor } from "./incoming-comment.ts";
import { ReviewPayload } from "./payloads.ts";
import { ignoreThread, queueOf, threadOf } from "./thread.ts";

/** A review reaches the run of the pull request, if its author has write access. */
export const reviewSubmitted = defineHandler(ReviewPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.review.submitted_at, scope) ??
    ignoreAuthor(payload.review, payload.sender, scope.appId),
  handle: async (payload, { runs, openGitHub, allowAppComments }) => {
    const { review, pull_request } = payload;
    // Its author may not have seen a review that another app submitted with their token. It never decides anything.
    if (review.performed_via_github_app && !allowAppComments) return;
    const thread = threadOf(payload, pull_request.number);
    const by = review.user?.login ?? "ghost";
    if ((await runs().threadActivity(thread)) !== "live") return;
    const byId = review.user?.id;
    if (!canWrite(await openGitHub(thread).getPermission(by, byId))) return;

    const { id, state, body } = review;
    await runs().deliverReview(thread, {
      by,
      byId,
      review: { id, state: state.toLowerCase(), body: body ?? "" },
      deliveryId: `review ${id}`,
    });
  },
});
