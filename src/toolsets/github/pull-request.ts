import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import {
  type Check,
  type GitHub,
  GitHubRefusalError,
  type PullRequest,
  type ReviewComment,
  type ReviewThread,
} from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { fencedBlock } from "#text/markdown-code.ts";
import { pluralize } from "#text/pluralize.ts";
import { untrustedText } from "#text/untrusted.ts";
import { lastPushed } from "#toolsets/pull-request/push-changes.ts";
import { findingKeyIn, lastReviewedCommit } from "#toolsets/reviews/findings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

/** Returns the pull request that the run opened, or else the one of its thread. Throws a ToolError if there is neither. */
export async function ownPullRequest({ github, spec, branch }: ToolServices): Promise<PullRequest> {
  const { isPullRequest, thread } = spec.origin;
  const opened = spec.pullRequestBranch === undefined ? await github.findPullRequest(branch) : undefined;
  const pull = opened ?? (isPullRequest ? await github.getPullRequest(thread) : undefined);
  if (pull) return pull;
  throw new ToolError("This run has no pull request yet.", {
    code: "FILE_NOT_FOUND",
    suggestion: "Open one with open_pull_request when the change is ready.",
  });
}

export function createReadPullRequestTool(services: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_pull_request",
    description: "Read the pull request this run works on or opened, with its review comments and their ids.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async () => {
      const pull = await ownPullRequest(services);
      const all = await services.github.listReviewComments(pull.number);
      const comments =
        all.length === 0 ? [] : withoutMinimized(all, await services.github.listReviewThreads(pull.number));
      const state = pull.merged ? "merged" : `${pull.state}${pull.draft ? ", draft" : ""}`;
      // The owner of a fork names its branches and files.
      const branch = pull.head.fromFork ? "a fork" : pull.head.branch;
      const facts = `#${pull.number}, ${state}, ${branch} at ${pull.head.commit.slice(0, 7)} into ${pull.base.branch}`;
      const reviews = comments.map((comment) => `Review comment ${comment.id}:\n${describeFirst(comment)}`);
      const { number, url, title, body, draft, merged, head, base } = pull;
      return {
        llmContent: [`${facts}\n${untrustedText(`${title}\n\n${body}`, "the pull request's author")}`, ...reviews].join(
          "\n\n",
        ),
        value: {
          kind: "github.pull_request",
          data: { number, url, title, body, draft, merged, state: pull.state, head, base, comments },
          summary: `#${number} ${title}`,
        },
      };
    },
  };
}

/** Describes a comment with the place it is about. Anyone may have written it and named the file. */
function describeFirst(comment: ReviewComment): string {
  return untrustedText(`On ${describeLocation(comment)}:\n${comment.body}`, `@${comment.author}`);
}

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
      const [reviews, all, resolved, reviewed, login] = await Promise.all([
        github.listReviews(number),
        github.listReviewComments(number),
        github.listReviewThreads(number),
        lastReviewedCommit(github, number),
        github.ownLogin(),
      ]);
      const threads = threadsOf(withoutMinimized(all, resolved)).flatMap(([first, ...replies]) => {
        if (!first) return [];
        const thread = resolved.find(({ firstCommentId }) => firstCommentId === (first.inReplyTo ?? first.id));
        const key = first.author === login ? findingKeyIn(first.body) : undefined;
        return [{ first, replies, isResolved: thread?.isResolved ?? false, key }];
      });
      const open = threads.filter(({ isResolved }) => !isResolved).length;
      const summary = `${pluralize(reviews.length, "review")} of #${number}, ${pluralize(open, "open thread")}`;
      const shownReviews = reviews
        .filter(({ body, state }) => body !== "" || state !== "commented")
        .map(
          ({ author, state, body, commit }) =>
            `@${author} ${state} at ${commit?.slice(0, 7)}\n${untrustedText(body, `@${author}`)}`,
        );
      const shownThreads = threads.map(({ first, replies, isResolved, key }) =>
        [
          `Review comment ${first.id}, ${isResolved ? "resolved" : "open"}${key ? `, finding ${key}` : ""}:`,
          describeFirst(first),
          ...(replies.length > 0 ? [describeThread(replies)] : []),
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

/** Lines of the diff that are shown above a comment on one line. */
const minHunkLines = 8;
const maxHunkLines = 60;

/** Describes a review comment with the lines it is about, and any edit it suggests. The comment itself is not marked as untrusted. */
export function describeReviewComment(comment: ReviewComment, says: string): string {
  const { id, diffHunk, body } = comment;
  const edits = suggestedEdits(comment).map(
    (edit) => `It suggests this exact edit, for edit_file:\n${fencedBlock(JSON.stringify(edit), "json")}`,
  );
  const hunk = diffHunk.split("\n").slice(-Math.min(maxHunkLines, Math.max(minHunkLines, lineCount(comment))));
  return [
    `Review comment ${id} on ${describeLocation(comment)}:`,
    ...(comment.line === null ? [] : [fencedBlock(hunk.join("\n"), "diff")]),
    `${says}${body}`,
    ...edits,
  ].join("\n");
}

/** Describes the other comments of a thread, oldest first. Anyone may have written them. */
export function describeThread(comments: readonly ReviewComment[]): string {
  return comments.map(({ body, author }) => untrustedText(body, `@${author}`)).join("\n");
}

/** Returns the file and the lines of a comment, such as `src/total.js, lines 3-5`. */
function describeLocation({
  path,
  startLine,
  line,
  isOutdated,
  side,
}: Omit<ReviewComment, "id" | "body" | "author" | "diffHunk" | "reviewId">): string {
  // Paths are untrusted and may contain line breaks.
  const file = path.replace(/[\s\p{Cc}]+/gu, " ").slice(0, 300);
  if (line === null) return `${file}, the whole file`;
  const isRange = startLine !== null && startLine < line;
  const lines = isRange ? `lines ${startLine}-${line}` : `line ${line}`;
  return `${file}, ${lines}${side === "LEFT" ? " before the change" : ""}${isOutdated ? " when it was written; outdated now" : ""}`;
}

/** Leaves out the comments that people minimized. */
export function withoutMinimized(
  comments: readonly ReviewComment[],
  threads: readonly ReviewThread[],
): ReviewComment[] {
  const minimized = new Set(threads.flatMap((thread) => thread.minimized));
  return comments.filter(({ id }) => !minimized.has(id));
}

/** Returns the first comment of each thread with its replies, oldest first. */
export function threadsOf(comments: readonly ReviewComment[]): ReviewComment[][] {
  const threads = new Map<number, ReviewComment[]>();
  for (const comment of comments) {
    const first = comment.inReplyTo ?? comment.id;
    threads.set(first, [...(threads.get(first) ?? []), comment]);
  }
  return [...threads.values()];
}

/** Returns the edits of a comment's `suggestion` blocks: each replaces the commented lines. */
function suggestedEdits(comment: ReviewComment): { path: string; old_text: string; new_text: string }[] {
  const { path, side, body, diffHunk } = comment;
  if (side === "LEFT") return [];
  const current = diffHunk.split("\n").filter((line) => /^[ +]/.test(line));
  const old_text = current
    .slice(-lineCount(comment))
    .map((line) => line.slice(1))
    .join("\n");
  return suggestionsIn(body).map((new_text) => ({ path, old_text, new_text }));
}

/** Returns the texts of `suggestion` blocks, in linear time: anyone may have written the comment. */
function suggestionsIn(body: string): string[] {
  const texts: string[] = [];
  let block: { fence: string; lines: string[] } | undefined;
  for (const line of body.split(/\r?\n/)) {
    if (!block) {
      const [, fence] = /^(`{3,}|~{3,})suggestion/.exec(line) ?? [];
      if (fence) block = { fence, lines: [] };
    } else if (line.trimEnd() === block.fence) {
      texts.push(block.lines.join("\n"));
      block = undefined;
    } else block.lines.push(line);
  }
  return texts;
}

function lineCount({ startLine, line }: ReviewComment): number {
  return startLine === null || line === null ? 1 : Math.max(1, line - startLine + 1);
}

const maxSummaryChars = 4_000;
const maxDetailedChecks = 5;
const maxAnnotations = 20;
const maxLogLines = 120;
const maxLogChars = 8_000;

/** Reads the CI results of the commit that the run pushed last, or of the commit it started from. */
export function createReadChecksTool({ github, sandbox, history }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_checks",
    description:
      "Read the CI results of the last commit this run pushed, or of the one it started from, with the logs of what failed.",
    inputSchema: z.object({}),
    needsApproval: false,
    execute: async () => {
      const commit = lastPushed(history())?.commit ?? sandbox.base.commit;
      const { checks, unfinished, missingPermissions } = await github.readChecks(commit);
      const failed = checks.filter(isFailed);
      const others = checks
        .filter((check) => !isFailed(check))
        .map(({ name, status, conclusion }) => `${name}: ${conclusion ?? status}`);
      const details = await describeFailedChecks(github, failed);
      const summary = `${pluralize(checks.length, "check")} on ${commit.slice(0, 7)}: ${failed.length} failed, ${unfinished.length} not finished`;
      const missing = [...missingPermissions, ...details.missingPermissions].map(
        (permission) => `This app lacks the permission ${permission}, so what needs it is not shown.`,
      );
      return {
        // Workflows choose the names, and the summaries and logs contain output of the tested code.
        llmContent: [
          `${summary}.`,
          ...(checks.length === 0 ? [] : [untrustedText([details.text, ...others].filter(Boolean).join("\n"), "CI")]),
          ...missing,
        ].join("\n"),
        value: { kind: "github.checks", data: { commit, checks }, summary, display: { preferredView: "table" } },
      };
    },
  };
}

export function isFailed({ conclusion }: Check): boolean {
  return ["failure", "timed_out", "action_required", "startup_failure"].includes(conclusion ?? "");
}

/** Describes failed checks with their annotations and the ends of their logs. The text is not marked as untrusted yet. */
export async function describeFailedChecks(
  github: GitHub,
  failed: readonly Check[],
): Promise<{ text: string; missingPermissions: string[] }> {
  const missing = new Set<string>();
  const texts: string[] = [];
  for (const check of failed.slice(0, maxDetailedChecks)) {
    const { name, conclusion, summary, url } = check;
    const log = await readLog(github, check).catch((error) => {
      if (!(error instanceof GitHubRefusalError) || error.status !== 403) throw error;
      missing.add("actions: read");
      return undefined;
    });
    texts.push(
      [
        `${name}: ${conclusion}${url ? ` (${url})` : ""}`,
        summary?.slice(0, maxSummaryChars),
        ...(await annotationsOf(github, check)),
        log && `The end of its log:\n\`\`\`\n${log}\n\`\`\``,
      ]
        .filter(Boolean)
        .join("\n"),
    );
  }
  const rest = failed.slice(maxDetailedChecks).map(({ name, conclusion }) => `${name}: ${conclusion}`);
  return { text: [...texts, ...rest].join("\n\n"), missingPermissions: [...missing] };
}

async function annotationsOf(github: GitHub, { id, annotations }: Check): Promise<string[]> {
  if (id === undefined || annotations === 0) return [];
  const all = await github.listAnnotations(id);
  const lines = all.slice(0, maxAnnotations).map(({ path, line, level, message }) => {
    return `${path}:${line}: ${level}: ${message.slice(0, 1_000)}`;
  });
  const left = annotations - lines.length;
  return ["Annotations:", ...lines, ...(left > 0 ? [`(${left} more)`] : [])];
}

async function readLog(github: GitHub, { id, app }: Check): Promise<string | undefined> {
  if (id === undefined || app !== "github-actions") return undefined;
  const log = await github.readJobLog(id);
  return log && endOfLog(log);
}

/** Returns the last lines of a job's log up to its last error, without timestamps and colors. */
function endOfLog(log: string): string {
  const lines = log
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colors begin with the escape character
    .replace(/\u001b\[[0-9;]*[A-Za-z]/g, "")
    .split(/\r?\n/)
    .map((line) => line.replace(/^\uFEFF?\d{4}-\d\d-\d\dT[\d:.]+Z ?/, ""));
  const lastError = lines.findLastIndex((line) => line.startsWith("##[error]"));
  const relevant = lastError === -1 ? lines : lines.slice(0, lastError + 1);
  // The log must not be able to close the block it is shown in.
  return relevant.slice(-maxLogLines).join("\n").trim().slice(-maxLogChars).replaceAll("```", "'''");
}
