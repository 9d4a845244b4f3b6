import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { withApprovalsSection } from "#domain/commit-trailers.ts";
import { ToolError } from "#domain/errors.ts";
import { canWrite, type GitHub, type PullRequest, type ReviewComment } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import { threadsOf } from "#toolsets/github/read-reviews.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { evidenceNote, withEvidenceSection } from "./evidence.ts";
import { alreadyClosed, pullRequestTexts, resultOf, toSingleLine, updateTexts } from "./open-pull-request.ts";
import { lastPushed, previewPush, pushChanges, pushesProtectedFile } from "./push-changes.ts";
import { requestNextReviews } from "./request-review.ts";

const input = z.object({
  message: z
    .string()
    .trim()
    .min(1)
    .max(250)
    .describe("One line that summarizes the update; used as the commit message"),
  title: z.string().trim().min(1).max(250).optional().describe("A new title"),
  body: z.string().max(60_000).optional().describe("A new description, in Markdown"),
});
type Input = z.infer<typeof input>;

const tool = "update_pull_request";

/** Pushes further changes to the pull request that the run opened, and optionally updates its title and description. */
export function createUpdatePullRequestTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<Input, ToolResult> {
  const { github, branch, spec, sanitize, history } = services;
  const isForeign = spec.pullRequestBranch !== undefined;
  const configured = configuredApproval(tool, approval);
  return {
    name: tool,
    description:
      "Push further changes to the pull request that this run opened or was started on, and optionally update its title and description.",
    inputSchema: input,
    // Someone else's branch is changed only with approval, whatever the worker's settings say.
    needsApproval: async (_, { abortSignal }) =>
      configured() || isForeign || pushesProtectedFile(services, abortSignal),
    approvalReason: () => `The worker wants to update its pull request. ${evidenceNote}`,
    preview: ({ message, title, body }, { abortSignal }) => {
      const texts = {
        "Commit message": sanitize(message),
        "New title": title && sanitize(title),
        "New description": body && sanitize(body),
      };
      return previewPush(services, texts, abortSignal);
    },
    execute: async ({ message, title, body }, context) => {
      const pull = await (isForeign ? github.getPullRequest(spec.origin.thread) : github.findPullRequest(branch));
      if (!pull) {
        throw new ToolError("This run has not opened a pull request.", {
          code: "FILE_NOT_FOUND",
          suggestion: "Call open_pull_request first.",
        });
      }
      if (pull.state === "closed") throw alreadyClosed(pull);

      const before = lastPushed(history());
      const pushed = await pushChanges({ services, context, message });
      const description = body === undefined ? pull.body : pullRequestTexts({ title: message, body }, services).body;
      const sections = async () =>
        withEvidenceSection(withApprovalsSection(description, (await services.approvals?.()) ?? []), services);
      const change = {
        ...(title === undefined ? {} : { title: toSingleLine(sanitize(title)) }),
        // The author's own description is not changed.
        ...(isForeign && body === undefined ? {} : { body: await sections() }),
      };
      const updated = await updateTexts(pull, change, services);
      const unchanged = before?.commit === pushed.commit && title === undefined && body === undefined;
      const result = resultOf(updated, { pushed, done: unchanged ? "No new changes for" : "Updated" });
      return {
        ...result,
        llmContent: [result.llmContent, ...(await nextSteps(services, updated, pushed.commit).catch(() => []))].join(
          "\n",
        ),
      };
    },
  };
}

/** Requests another review where changes were requested, and lists the review comments without an answer. */
async function nextSteps({ github }: ToolServices, { number }: PullRequest, commit: string): Promise<string[]> {
  const [requested, open] = await Promise.all([
    requestNextReviews(github, number, commit),
    unansweredComments(github, number),
  ]);
  return [
    ...(requested.length > 0 ? [`Requested another review from ${requested.join(", ")}.`] : []),
    ...(open.length > 0
      ? [
          `Review comments without an answer by you: ${open.map(({ id }) => id).join(", ")}. Answer each with reply_to_review.`,
        ]
      : []),
  ];
}

/** Returns the last comments of the threads that are not resolved and in which a person with write access spoke last. */
async function unansweredComments(github: GitHub, number: number): Promise<ReviewComment[]> {
  const [comments, login] = await Promise.all([github.listReviewComments(number), github.ownLogin()]);
  const last = threadsOf(comments)
    .flatMap((thread) => thread.at(-1) ?? [])
    .filter(({ author }) => author !== login && !author.endsWith("[bot]"));
  const authors = [...new Set(last.map(({ author }) => author))];
  const permissions = await Promise.all(authors.map((author) => github.getPermission(author)));
  const writers = authors.filter((_, index) => canWrite(permissions[index] ?? "none"));
  const open = last.filter(({ author }) => writers.includes(author));
  if (open.length === 0) return [];
  const resolved = (await github.listReviewThreads(number)).filter(({ isResolved }) => isResolved);
  return open.filter(
    ({ id, inReplyTo }) => !resolved.some(({ firstCommentId }) => firstCommentId === (inReplyTo ?? id)),
  );
}
