import type { z } from "zod";
import { canWrite, type GitHub } from "#domain/github.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import { defineHandler } from "./handler.ts";
import { ignoreAuthor } from "./incoming-comment.ts";
import { CheckSuitePayload, ReviewPayload } from "./payloads.ts";
import { ignoreThread, queueOf, threadOf } from "./thread.ts";

/** A review reaches the run that opened the pull request, if its author has write access. */
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

    const github = openGitHub(thread);
    const byId = review.user?.id;
    if (!canWrite(await github.getPermission(by, byId))) return;
    const text = await describeReview(github, { by, number: pull_request.number, review });
    const requestsChanges = review.state.toLowerCase() === "changes_requested";
    await runs().deliverReview(thread, { by, byId, text, requestsChanges, deliveryId: `review ${review.id}` });
  },
});

type Review = z.infer<typeof ReviewPayload>["review"];

const verbs: Record<string, string> = { changes_requested: "requests changes on", approved: "approved" };

/** The review and its comments, with what the model needs to answer each in its own thread. */
async function describeReview(
  github: GitHub,
  { by, number, review }: { by: string; number: number; review: Review },
): Promise<string> {
  const comments = await github.listCommentsOfReview(number, review.id);
  const parts = comments.map(
    ({ id, path, line, body, diffHunk }) =>
      `Review comment ${id} on ${path}${line === null ? "" : `, line ${line}`}:\n${indent(diffHunk)}\n@${by} says: ${body}`,
  );
  const verb = verbs[review.state.toLowerCase()] ?? "commented on";
  const how =
    comments.length > 0
      ? "Change what is asked for, push with update_pull_request, then answer each review comment with reply_to_review."
      : undefined;
  return [`@${by} ${verb} pull request #${number}.`, review.body?.trim(), ...parts, how].filter(Boolean).join("\n\n");
}

/** The last lines of a hunk are the ones that the comment stands below. */
function indent(hunk: string): string {
  return hunk
    .split("\n")
    .slice(-8)
    .map((line) => `    ${line}`)
    .join("\n");
}

/** When every check on a commit has completed, the run that pushed it learns the result. */
export const checksCompleted = defineHandler(CheckSuitePayload, {
  queue: (payload) => queueOf(payload, payload.check_suite.pull_requests[0]?.number ?? 0),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.check_suite.updated_at, scope) ??
    (payload.check_suite.app?.id === scope.appId ? "it is a check suite of this app" : undefined),
  handle: async (payload, { runs, openGitHub }) => {
    const { head_sha: commit, pull_requests } = payload.check_suite;
    for (const { number } of pull_requests) {
      const thread = threadOf(payload, number);
      if ((await runs().threadActivity(thread)) !== "live") continue;
      const checks = await openGitHub(thread).listChecks(commit);
      // A queued job has no check run yet, and a suite without runs never completes: what has run decides.
      if (checks.length === 0 || checks.some(({ status }) => status !== "completed")) continue;
      const failed = checks.filter(({ conclusion }) =>
        ["failure", "timed_out", "action_required"].includes(conclusion ?? ""),
      );
      const text = failed.map(
        ({ name, conclusion, summary, url }) => `${name}: ${conclusion}\n${summary ?? ""}\n${url ?? ""}`,
      );
      await runs().reportChecks(thread, {
        commit,
        passed: failed.length === 0,
        text: `These checks failed on ${commit.slice(0, 7)}. Find out why, repair it and push with update_pull_request:\n${wrapUntrusted(text.join("\n\n"), "check results")}`,
        deliveryId: `checks ${commit} ${payload.check_suite.updated_at?.toISOString() ?? ""}`,
      });
    }
  },
});
