import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { withRetries } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import {
  GitHubRefusalError,
  type NewCheckRun,
  type NewReviewComment,
  type PullRequest,
  type PullRequestFile,
} from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import { isRunBranch } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { hasAnyMarker, markImitations, postMarker } from "#text/comment-marker.ts";
import { pluralize } from "#text/pluralize.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import { ownPullRequest } from "#toolsets/github/pull-request.ts";
import { lastPushed } from "#toolsets/pull-request/push-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { type EarlierFinding, earlierFindings, findingMarker, ownReviews } from "./findings.ts";
import { type DiffHunks, describeHunks, lastReadCommit, linesOf, notChanged, parseHunks } from "./pull-request-diff.ts";

const Key = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{1,60}$/)
  .describe("A short name of the problem, the same in every review, such as total-counts-twice");
const finding = z.object({
  key: Key,
  path: z.string().min(1),
  line: z.number().int().positive().describe("The last line it is about, from read_pull_request_diff"),
  start_line: z.number().int().positive().optional().describe("The first line; default: line"),
  side: z.enum(["LEFT", "RIGHT"]).default("RIGHT").describe("LEFT for line numbers before the change"),
  text: z.string().trim().min(1).max(10_000).describe("What goes wrong and when, and what to do instead, in Markdown"),
  suggestion: z
    .string()
    .max(10_000)
    .optional()
    .describe("The exact text that replaces these lines, without a code fence"),
});
export const ReviewInput = z.object({
  summary: z.string().trim().min(1).max(10_000).describe("The summary of the review, in Markdown"),
  findings: z.array(finding).max(30).default([]).describe("At most one per problem, each on lines of the diff"),
  fixed: z.array(Key).max(100).default([]).describe("Keys of earlier findings that are fixed now"),
});
type Input = z.infer<typeof ReviewInput>;
type Finding = z.infer<typeof finding>;

const tool = "create_review";

export interface ReviewSettings {
  approval?: ApprovalConfig | undefined;
  /** True if a review with new findings requests changes instead of commenting. */
  requestChanges: boolean;
}

/** Reviews the pull request once per call, even after a crash. A review never approves, and never repeats an earlier finding. */
export function createCreateReviewTool(
  services: ToolServices,
  { approval, requestChanges }: ReviewSettings,
): NamedTool<Input, ToolResult> {
  const { github, sanitize } = services;
  return {
    name: tool,
    description:
      "Review the pull request: one summary, and findings on lines of its diff. Findings that are already open are not repeated, and nothing is posted when a later review finds nothing new.",
    inputSchema: ReviewInput,
    needsApproval: configuredApproval(tool, approval),
    approvalReason: ({ findings }) =>
      `The worker wants to post a review with ${pluralize(findings.length, "comment")}.`,
    postsWithoutSecrets: true,
    preview: async ({ summary, findings, fixed }) => {
      const pull = await readPullRequest(services);
      checkFindings(findings, await github.readDiff(pull.number), pull.number);
      const list = findings.map((one) => `${one.path}:${one.line}\n${bodyOf(one, sanitize)}`);
      return [
        markImitations(sanitize(summary)),
        ...list,
        ...(fixed.length > 0 ? [`Resolves: ${fixed.join(", ")}`] : []),
        // Not taken from GitHub: a call that a crash interrupted has the same preview when it is repeated.
        ...(requestChanges && findings.length === 0
          ? ["Dismisses this app's requests for changes, if none of its findings is open."]
          : []),
      ].join("\n\n");
    },
    execute: async ({ summary, findings, fixed }, context) => {
      const pull = await readPullRequest(services);
      checkFindings(findings, await github.readDiff(pull.number), pull.number);
      const earlier = await earlierFindings(github, pull.number);
      const known = new Map(earlier.map((one) => [one.key, one]));
      const added = findings.filter(({ key }) => {
        const posted = known.get(key);
        return !posted || isOfThisCall(posted.comment.body, context);
      });
      // An interrupted attempt of this call may have posted the first one.
      const isFirst = (await ownReviews(github, pull.number)).every(({ body }) => isOfThisCall(body, context));
      const event = requestChanges && added.length > 0 ? "REQUEST_CHANGES" : "COMMENT";
      const url =
        added.length > 0 || isFirst
          ? await postOnce(services, context, {
              pull,
              event,
              summary,
              comments: added.map((one) => toComment(one, services, context)),
            })
          : undefined;

      const login = (await github.ownLogin()).replace(/\[bot\]$/, "");
      const returned = findings.flatMap(({ key }) => known.get(key) ?? []).filter((one) => wasResolvedBy(one, login));
      const gone = fixed.flatMap((key) => known.get(key) ?? []).filter(({ thread }) => thread?.isResolved === false);
      for (const { thread } of gone) if (thread) await github.setThreadResolved(thread.id, true);
      for (const { thread } of returned) if (thread) await github.setThreadResolved(thread.id, false);
      const isSettled = (one: EarlierFinding) => one.thread?.isResolved === true || gone.includes(one);
      const mayLift = requestChanges && findings.length === 0 && earlier.every(isSettled);
      const dismissal = mayLift ? await dismissRequests(services, context, pull) : { dismissed: [], refused: [] };
      const checked = { commit: pull.head.commit, summary, findings, blocks: requestChanges };
      const note = await reportCheckRun(services, context, checked);
      const result = toReviewResult({ pull, url, event, findings, added, returned, gone, ...dismissal });
      return { ...result, llmContent: [result.llmContent, note].filter(Boolean).join("\n") };
    },
  };
}

/**
 * Returns the pull request, unless somebody has pushed to it since the run read its diff: the review and the check run would
 * vouch for commits that nobody has reviewed, and the next review would leave them out.
 */
async function readPullRequest(services: ToolServices): Promise<PullRequest> {
  const pull = await ownPullRequest(services);
  const history = services.history();
  const { commit } = pull.head;
  if (commit === lastReadCommit(history) || commit === lastPushed(history)?.commit) return pull;
  throw new ToolError(`This run has not read the diff of #${pull.number} at its head ${commit.slice(0, 7)}.`, {
    code: "STALE",
    suggestion: "Call read_pull_request_diff, then call create_review again.",
  });
}

/** True if this App resolved the thread. A thread that people have resolved is not reopened. */
function wasResolvedBy({ thread }: EarlierFinding, login: string): boolean {
  return thread?.isResolved === true && thread.resolvedBy?.replace(/\[bot\]$/, "") === login;
}

/** True for what an interrupted attempt of this call has posted. */
function isOfThisCall(body: string, { idempotencyKey }: ToolContext): boolean {
  return body.includes(postMarker(idempotencyKey));
}

async function postOnce(
  { github, sanitize }: ToolServices,
  { idempotencyKey, abortSignal: signal }: ToolContext,
  review: { pull: PullRequest; event: "COMMENT" | "REQUEST_CHANGES"; summary: string; comments: NewReviewComment[] },
): Promise<string> {
  const { pull, summary, comments } = review;
  const marker = postMarker(idempotencyKey);
  const login = await github.ownLogin();
  // GitHub does not let authors request changes on their own pull requests.
  const isOwn = isRunBranch(pull.head.branch) && !pull.head.fromFork;
  const post = async () => {
    const posted = (await github.listReviews(pull.number)).find(
      ({ author, body }) => author === login && body.includes(marker),
    );
    if (posted) return `${pull.url}#pullrequestreview-${posted.id}`;
    const body = `${markImitations(sanitize(summary))}\n\n${marker}`;
    const event = isOwn ? "COMMENT" : review.event;
    return (await github.createReview(pull.number, { commit: pull.head.commit, event, body, comments })).url;
  };
  return withRetries(post, { signal });
}

/**
 * Dismisses the reviews of this App that request changes, so that they do not block the pull request any longer. A branch can
 * restrict who may do that. Returns the ids of those that were dismissed, and of those that GitHub refused to dismiss.
 */
function dismissRequests(
  { github }: ToolServices,
  { abortSignal: signal }: ToolContext,
  { number, head }: PullRequest,
): Promise<{ dismissed: number[]; refused: number[] }> {
  const message = `All findings of this review are resolved as of ${head.commit.slice(0, 7)}.`;
  const dismissed = new Set<number>();
  const refused: number[] = [];
  const dismiss = async () => {
    for (const { id, state, body } of await ownReviews(github, number)) {
      // In a job of GitHub Actions, other workflows have the same login.
      if (state !== "changes_requested" || !hasAnyMarker(body) || refused.includes(id)) continue;
      // Before the request, whose response may be lost.
      dismissed.add(id);
      try {
        await github.dismissReview(number, id, message);
      } catch (error) {
        if (!(error instanceof GitHubRefusalError) || (error.status !== 403 && error.status !== 422)) throw error;
        dismissed.delete(id);
        refused.push(id);
      }
    }
    return { dismissed: [...dismissed], refused };
  };
  return withRetries(dismiss, { signal });
}

function toComment(one: Finding, { sanitize }: ToolServices, { idempotencyKey }: ToolContext): NewReviewComment {
  const { key, path, line, start_line: startLine, side } = one;
  const body = `${bodyOf(one, sanitize)}\n\n${findingMarker(key)}\n${postMarker(idempotencyKey)}`;
  return { path, line, side, startLine, body };
}

function bodyOf({ text, suggestion }: Finding, sanitize: ToolServices["sanitize"]): string {
  const prose = markImitations(sanitize(text));
  if (suggestion === undefined) return prose;
  const longest = Math.max(2, ...[...suggestion.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  // An empty suggestion deletes the lines.
  const lines = suggestion === "" ? "" : `${suggestion.replace(/\n$/, "")}\n`;
  return `${prose}\n\n${sanitize(`${fence}suggestion\n${lines}${fence}`)}`;
}

/** Throws a ToolError for the first finding that GitHub would refuse, or whose suggestion would not apply. */
function checkFindings(findings: readonly Finding[], files: readonly PullRequestFile[], number: number): void {
  for (const { path, line, start_line: startLine = line, side, suggestion, key } of findings) {
    const file = files.find((one) => one.path === path);
    if (!file) throw notChanged(path, number);
    const hunks: DiffHunks = parseHunks(file.patch ?? "");
    const lines = startLine <= line ? linesOf(hunks, { startLine, line, side }) : undefined;
    if (!lines) {
      throw invalid(
        `The diff of ${path} has no lines ${startLine}-${line} in one hunk on the ${side} side.`,
        `Choose lines within one of these: ${describeHunks(hunks, side)}.`,
      );
    }
    if (suggestion === undefined) continue;
    if (side === "LEFT")
      throw invalid(`A suggestion for ${path} cannot be on the LEFT side.`, "Use lines after the change.");
    if (suggestion.replace(/\n$/, "") === lines.join("\n")) {
      throw invalid(`The suggestion of ${key} changes nothing.`, "Give the new text, or leave the suggestion out.");
    }
  }
  const twice = findings.find(({ key }, index) => findings.findIndex((one) => one.key === key) !== index);
  if (twice) throw invalid(`Two findings have the key ${twice.key}.`, "Give each finding its own key.");
}

function invalid(message: string, suggestion: string): ToolError {
  return new ToolError(message, { code: "INVALID_ARGUMENTS", suggestion });
}

function toReviewResult({
  pull,
  url,
  event,
  findings,
  added,
  returned,
  gone,
  dismissed,
  refused,
}: {
  pull: PullRequest;
  url: string | undefined;
  event: string;
  findings: readonly Finding[];
  added: readonly Finding[];
  returned: readonly EarlierFinding[];
  gone: readonly EarlierFinding[];
  dismissed: readonly number[];
  refused: readonly number[];
}): ToolResult {
  const changes = [
    ...(returned.length > 0 ? [`reopened ${returned.map(({ key }) => key).join(", ")}`] : []),
    ...(gone.length > 0 ? [`resolved ${gone.map(({ key }) => key).join(", ")}`] : []),
    ...(dismissed.length > 0 ? [`dismissed ${pluralize(dismissed.length, "request")} for changes`] : []),
    ...(refused.length > 0
      ? [`GitHub did not let this app dismiss ${pluralize(refused.length, "request")} for changes: a maintainer can`]
      : []),
  ];
  const posted = url
    ? `Reviewed #${pull.number} with ${pluralize(added.length, "new comment")}`
    : `Nothing new on #${pull.number}: no review was posted`;
  const summary = [posted, ...changes].join("; ");
  const data = {
    number: pull.number,
    commit: pull.head.commit,
    ...(url && { url, event }),
    findings: findings.map(({ key, path, line }) => ({ key, path, line, isNew: added.some((one) => one.key === key) })),
    resolved: gone.map(({ key }) => key),
    reopened: returned.map(({ key }) => key),
    dismissed,
  };
  return { llmContent: `${summary}.${url ? `\n${url}` : ""}`, value: { kind: "github.review", data, summary } };
}

/**
 * Creates a check run with the findings as annotations, if the repository's settings request it. Findings on removed
 * lines are not annotated, since annotations refer to the files after the change. Returns a note for the model, empty
 * if there is nothing to say. If the installation lacks the permission, people are told once.
 */
async function reportCheckRun(
  services: ToolServices,
  context: ToolContext,
  review: { commit: string; summary: string; findings: readonly Omit<Finding, "suggestion">[]; blocks: boolean },
): Promise<string> {
  const { github, spec, sanitize, usesCheckRun, reportMissingPermission } = services;
  if (!(await usesCheckRun?.())) return "";
  const { commit, summary, findings, blocks } = review;
  const run: NewCheckRun = {
    commit,
    name: `golem-forge: ${spec.worker.name}`,
    key: postMarker(context.idempotencyKey),
    conclusion: findings.length === 0 ? "success" : blocks ? "failure" : "neutral",
    title: pluralize(findings.length, "finding"),
    summary: sanitize(summary),
    annotations: findings
      .filter(({ side }) => side === "RIGHT")
      .map(({ key, path, line, start_line: startLine = line, text }) => {
        return { path, startLine, line, title: key, message: sanitize(text, "plain") };
      }),
  };
  try {
    await withRetries(() => github.createCheckRun(run), { signal: context.abortSignal });
    return `A check run shows ${run.title} on ${commit.slice(0, 7)}.`;
  } catch (error) {
    if (!(error instanceof GitHubRefusalError) || error.status !== 403) throw error;
    await reportMissingPermission?.("checks: write");
    return "No check run was created: this app lacks the permission checks: write.";
  }
}
