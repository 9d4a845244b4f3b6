import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import { lastReviewedCommit } from "#toolsets/reviews/findings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { describeLocation, describeThread, threadsOf } from "./describe-review.ts";
import { ownPullRequest } from "./read-pull-request.ts";

/** Reads the reviews of the pull request, with the threads of their comments and which of these are resolved. */
export function createReadReviewsTool(services: ToolServices): NamedTool<object, ToolResult> {
  const { github } = services;
  return {
    name: "read_reviews",
    description:
      "Read the reviews of the pull request and the threads of their comments, with ids, the keys of this app's findings, and which are resolved.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async () => {
      const { number, head } = await ownPullRequest(services);
      const [reviews, comments, resolved, reviewed] = await Promise.all([
        github.listReviews(number),
        github.listReviewComments(number),
        github.listReviewThreads(number),
        lastReviewedCommit(github, number),
      ]);
      const threads = threadsOf(comments).flatMap(([first, ...replies]) => {
        if (!first) return [];
        const thread = resolved.find(({ firstCommentId }) => firstCommentId === first.id);
        const key = /<!-- golem-forge:finding ([a-z0-9-]+) -->/.exec(first.body)?.[1];
        return [{ first, replies, isResolved: thread?.isResolved ?? false, key }];
      });
      const open = threads.filter(({ isResolved }) => !isResolved).length;
      const summary = `${reviews.length} reviews of #${number}, ${open} open threads`;
      const shownReviews = reviews
        .filter(({ body, state }) => body !== "" || state !== "commented")
        .map(
          ({ author, state, body, commit }) =>
            `@${author} ${state} at ${commit?.slice(0, 7)}\n${untrustedText(body, `@${author}`)}`,
        );
      const shownThreads = threads.map(({ first, replies, isResolved, key }) =>
        [
          `Review comment ${first.id} on ${describeLocation(first)}, ${isResolved ? "resolved" : "open"}${key ? `, finding ${key}` : ""}`,
          describeThread([first, ...replies]),
        ].join("\n"),
      );
      const own = reviewed
        ? [`This app last reviewed ${reviewed.slice(0, 7)}; the head is ${head.commit.slice(0, 7)}.`]
        : [];
      return {
        llmContent: [`${summary}.`, ...own, ...shownReviews, ...shownThreads].join("\n\n"),
        value: {
          kind: "github.reviews",
          data: {
            reviews,
            threads: threads.map(({ first, isResolved, key }) => ({
              id: first.id,
              path: first.path,
              line: first.line,
              isResolved,
              key,
            })),
          },
          summary,
        },
      };
    },
  };
}
