import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { withRetries } from "#domain/async-work.ts";
import { withApprovalsSection, withSection } from "#domain/commit-trailers.ts";
import { messageOf, ToolError } from "#domain/errors.ts";
import { canWrite, type GitHub, GitHubRefusalError, type PullRequest, type ReviewComment } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { markImitations } from "#text/comment-marker.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine } from "#text/truncate.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import { threadsOf } from "#toolsets/github/pull-request.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { lastPushed, type Pushed, previewPush, pushChanges, pushesProtectedFile } from "./push-changes.ts";
import { requestNextReviews } from "./reviewers.ts";

const openInput = z.object({
  title: z.string().trim().min(1).max(250).describe("One line that summarizes the change"),
  body: z.string().max(60_000).default("").describe("Description for the reviewer: what changed and why, in Markdown"),
  closes_issue: z.boolean().optional().describe("Close the issue of this thread when the pull request is merged"),
});
type OpenInput = z.infer<typeof openInput>;

const openTool = "open_pull_request";

/** Opens a draft pull request with the run's changes. The approval shows the complete diff. */
export function createOpenPullRequestTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<OpenInput, ToolResult> {
  const { sandbox, github, branch } = services;
  const configured = configuredApproval(openTool, approval);
  return {
    name: openTool,
    description:
      "Commit all changes of this run to its own branch and open a draft pull request. Check git_diff first.",
    inputSchema: openInput,
    needsApproval: async (_, { abortSignal }) => configured() || pushesProtectedFile(services, abortSignal),
    approvalReason: () => `The worker wants to open a draft pull request. ${evidenceNote}`,
    postsWithoutSecrets: true,
    preview: async (args, { abortSignal }) => {
      assertHasNone(services);
      await checkOpenPullRequests(services);
      const { title, body } = pullRequestTexts(args, services);
      return previewPush(services, { Title: title, Description: body }, abortSignal);
    },
    execute: async (args, context) => {
      const { title, body: written } = pullRequestTexts(args, services);
      const body = withEvidenceSection(withApprovalsSection(written, (await services.approvals?.()) ?? []), services);
      assertHasNone(services);
      const existing = await github.findPullRequest(branch);
      if (existing?.state === "closed") throw alreadyClosed(existing);
      if (!existing) await checkOpenPullRequests(services);

      const pushed = await pushChanges({ services, context, message: `${title}\n\n${args.body}` });
      try {
        const pull = existing
          ? await updateTexts(existing, { title, body }, services)
          : await withRetries(
              () => create(github, { head: branch, base: sandbox.base.branch, title, body, draft: true }),
              { signal: context.abortSignal },
            );
        // An existing pull request at the pushed commit comes from an earlier, interrupted attempt of this call.
        const isNew = !existing || (pull === existing && existing.head.commit === pushed.commit);
        return resultOf(pull, {
          pushed,
          done: isNew ? "Opened" : "Updated",
          note: isNew && !pull.draft ? noDrafts : "",
        });
      } catch (error) {
        throw failedAfterPush(error, pushed, { branch, tool: openTool, failed: "opening the pull request" });
      }
    },
  };
}

/** The error of a call that failed after its push. Its details record the push, so that the next one continues from it. */
function failedAfterPush(
  error: unknown,
  pushed: Pushed,
  { branch, tool, failed }: { branch: string; tool: string; failed: string },
): ToolError {
  const isForbidden = error instanceof GitHubRefusalError && error.status === 403;
  return new ToolError(`The branch ${branch} was pushed, but ${failed} failed: ${messageOf(error)}`, {
    code: "UNAVAILABLE",
    suggestion: isForbidden
      ? `Do not try again. Repeat the reason in your answer; once it is resolved, you can be asked to call ${tool} again.`
      : `Call ${tool} again; the pushed commit is reused.`,
    details: { pushed },
    cause: error,
  });
}

/** Throws if the repository's limit of open pull requests is reached, before anyone is asked to approve another. */
async function checkOpenPullRequests({ github, branch, maxOpenPullRequests }: ToolServices): Promise<void> {
  const max = await maxOpenPullRequests?.();
  if (max === undefined || (await github.findPullRequest(branch))) return;
  const open = await github.countOwnPullRequests();
  if (open < max) return;
  throw new ToolError(
    `This repository allows ${pluralize(max, "open pull request")} of this app, and ${pluralize(open, "is", "are")} open.`,
    {
      code: "CONFLICT",
      suggestion:
        "Do not try again. Say in your answer what you would have proposed, and that a pull request has to be merged or closed first.",
    },
  );
}

function assertHasNone({ spec }: ToolServices): void {
  if (spec.pullRequestBranch === undefined) return;
  throw new ToolError(`This run works on pull request #${spec.origin.thread}.`, {
    code: "CONFLICT",
    suggestion: "Push the changes to it with update_pull_request.",
  });
}

async function create(github: GitHub, pull: Parameters<GitHub["createPullRequest"]>[0]): Promise<PullRequest> {
  try {
    return await github.createPullRequest(pull);
  } catch (error) {
    if (error instanceof GitHubRefusalError && error.status === 422) {
      // The default branch may have been renamed since the run started.
      const { defaultBranch } = await github.getRepository();
      if (defaultBranch !== pull.base) return create(github, { ...pull, base: defaultBranch });
    }
    // The request may have succeeded even if its response was lost; a branch has at most one open pull request.
    const existing = await github.findPullRequest(pull.head).catch(() => undefined);
    if (existing?.state === "open") return existing;
    throw error;
  }
}

/** Returns the sanitized title and body. Only this function links the run's issue; `sanitize` removes other closing keywords. */
function pullRequestTexts({ title, body, closes_issue = false }: OpenInput, services: ToolServices) {
  const { sanitize } = services;
  return {
    title: titleLine(title, sanitize),
    body: `${markImitations(sanitize(body)).trim()}\n\n---\n${issueLink(services, closes_issue)}`.trimStart(),
  };
}

function issueLink({ spec: { origin, worker } }: ToolServices, closesIssue: boolean): string {
  const link = closesIssue && !origin.isPullRequest ? "Closes" : "For";
  return `${link} #${origin.thread}. Proposed by the worker \`${worker.name}\`.`;
}

/** Returns a title on one line. It becomes the message of a squashed commit, where backticks make nothing harmless. */
function titleLine(title: string, sanitize: ToolServices["sanitize"]): string {
  return sanitize(title, "plain").replace(/\s+/g, " ").trim();
}

/** Updates the title and body of a pull request, if they differ. */
async function updateTexts(
  pull: PullRequest,
  change: { title?: string; body?: string },
  { github }: ToolServices,
): Promise<PullRequest> {
  const { title = pull.title, body = pull.body } = change;
  if (title === pull.title && body === pull.body) return pull;
  return github.updatePullRequest(pull.number, change);
}

function alreadyClosed({ number, merged }: PullRequest): ToolError {
  return new ToolError(`Pull request #${number} of this run has already been ${merged ? "merged" : "closed"}.`, {
    code: "CONFLICT",
    suggestion: "Do not open another one. Report what is left to do and stop.",
  });
}

const noDrafts = "This repository has no draft pull requests, so it is ready for review at once.";

function resultOf(
  pull: PullRequest,
  { pushed, done, note = "" }: { pushed: unknown; done: string; note?: string },
): ToolResult {
  const { number, url, title, draft } = pull;
  const summary = `${note && `${note} `}${done} ${draft ? "draft " : ""}pull request #${number}`;
  return {
    llmContent: `${summary}: ${title}\n${url}`,
    value: { kind: "pull_request", data: { number, url, title, draft, pushed }, summary: `${summary}: ${url}` },
  };
}

const updateInput = z.object({
  message: z
    .string()
    .trim()
    .min(1)
    .max(250)
    .describe("One line that summarizes the update; used as the commit message"),
  title: z.string().trim().min(1).max(250).optional().describe("A new title"),
  body: z.string().max(60_000).optional().describe("A new description, in Markdown"),
});
type UpdateInput = z.infer<typeof updateInput>;

const updateTool = "update_pull_request";

/** Pushes further changes to the pull request that the run opened, and optionally updates its title and description. */
export function createUpdatePullRequestTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<UpdateInput, ToolResult> {
  const { github, branch, spec, sanitize, history } = services;
  const isForeign = spec.pullRequestBranch !== undefined;
  const configured = configuredApproval(updateTool, approval);
  const findPull = () => (isForeign ? github.getPullRequest(spec.origin.thread) : github.findPullRequest(branch));
  const newBody = (body: string, pull: PullRequest | undefined) =>
    pullRequestTexts({ title: "", body, closes_issue: pull?.body.includes(issueLink(services, true)) }, services).body;
  return {
    name: updateTool,
    description: "Push further changes to this run's pull request, and optionally update its title and description.",
    inputSchema: updateInput,
    // Someone else's branch is changed only with approval, regardless of the worker's settings.
    needsApproval: async (_, { abortSignal }) =>
      configured() || isForeign || pushesProtectedFile(services, abortSignal),
    approvalReason: () => `The worker wants to update its pull request. ${evidenceNote}`,
    postsWithoutSecrets: true,
    preview: async ({ message, title, body }, { abortSignal }) => {
      const texts = {
        "Commit message": sanitize(message, "plain"),
        "New title": title && titleLine(title, sanitize),
        "New description": body === undefined ? undefined : newBody(body, await findPull()),
      };
      return previewPush(services, texts, abortSignal);
    },
    execute: async ({ message, title, body }, context) => {
      const pull = await findPull();
      if (!pull) {
        throw new ToolError("This run has not opened a pull request.", {
          code: "FILE_NOT_FOUND",
          suggestion: "Call open_pull_request first.",
        });
      }
      if (pull.state === "closed") throw alreadyClosed(pull);

      const before = lastPushed(history());
      const pushed = await pushChanges({ services, context, message });
      const description = body === undefined ? pull.body : newBody(body, pull);
      const update = async () => {
        const sections = withApprovalsSection(description, (await services.approvals?.()) ?? []);
        const change = {
          ...(title === undefined ? {} : { title: titleLine(title, sanitize) }),
          // The author's own description is not changed.
          ...(isForeign && body === undefined ? {} : { body: withEvidenceSection(sections, services) }),
        };
        return updateTexts(pull, change, services);
      };
      const updated = await update().catch((error: unknown) => {
        throw failedAfterPush(error, pushed, { branch, tool: updateTool, failed: "updating its description" });
      });
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

/** Returns the last comments of the threads that are not resolved and in which a person with write access wrote last. */
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

/** The maximum number of commands listed. The last ones are kept. */
const maxCommands = 20;
const maxTests = 20;

const TestRun = z.object({
  command: z.string(),
  exitCode: z.number().nullable(),
  passed: z.number().nullable(),
  failed: z.number().nullable(),
  failures: z.array(z.object({ name: z.string() })),
});
type TestRun = z.infer<typeof TestRun>;

const Command = z.object({ command: z.union([z.string(), z.array(z.string())]) });

/** Tells the approver what is added to the description shown in the request. */
const evidenceNote = "The commands it ran, with their exit codes, are added below the description.";

/** Adds or replaces the section about what the run executed, which is made from the log, not by the model. */
export function withEvidenceSection(
  body: string,
  { history, sanitize }: Pick<ToolServices, "history" | "sanitize">,
): string {
  const calls = history();
  const rows = calls.flatMap(rowOf);
  const tests = calls.flatMap(testRunOf);
  if (rows.length === 0) return withSection(body, "evidence", undefined);

  const left = rows.length - maxCommands;
  const repaired = repairedTests(tests);
  const parts = [
    "### What was run",
    ["| command | result |", "|---|---|", ...rows.slice(-maxCommands)].join("\n"),
    ...(left > 0 ? [`${pluralize(left, "earlier command is", "earlier commands are")} left out.`] : []),
    ...(repaired.length > 0
      ? [["Failed before, and passed in a later run:", "", ...repaired.map((name) => `- ${code(name)}`)].join("\n")]
      : []),
  ];
  return withSection(body, "evidence", sanitize(parts.join("\n\n")));
}

function rowOf(call: FinishedCall): string[] {
  const [test] = testRunOf(call);
  if (test) {
    const counts = test.passed === null ? "" : `, ${test.passed} passed, ${test.failed} failed`;
    return [`| ${code(test.command)} | ${describeExit(test.exitCode)}${counts} |`];
  }
  const { value } = call.result;
  if (value.kind !== "terminal" || !("content" in value) || value.exitCode === undefined) return [];
  const { command } = Command.safeParse(call.args).data ?? { command: call.tool };
  return [`| ${code(typeof command === "string" ? command : command.join(" "))} | ${describeExit(value.exitCode)} |`];
}

function testRunOf({ result: { value } }: FinishedCall): TestRun[] {
  const run = value.kind === "test.summary" && "data" in value && TestRun.safeParse(value.data).data;
  return run ? [run] : [];
}

function describeExit(exitCode: number | null): string {
  return exitCode === null ? "did not finish" : `exit code ${exitCode}`;
}

/** Returns the tests that failed and have passed in a later run. */
function repairedTests(runs: readonly TestRun[]): string[] {
  const repaired = new Map<string, boolean>();
  for (const [index, failed] of runs.entries()) {
    const isRepaired = runs.slice(index + 1).some((later) => hasRepaired(later, failed));
    for (const { name } of failed.failures) repaired.set(name, isRepaired);
  }
  return [...repaired].flatMap(([name, isRepaired]) => (isRepaired ? [name] : [])).slice(0, maxTests);
}

/**
 * True if all tests of a failed run have passed in a later one: of the same command, or of the command without the arguments
 * that limit it to some tests. A test that was removed or is skipped has not passed.
 */
function hasRepaired(later: TestRun, failed: TestRun): boolean {
  const hasAll = (later.passed ?? Number.POSITIVE_INFINITY) >= (failed.passed ?? 0) + (failed.failed ?? 0);
  return later.exitCode === 0 && hasAll && `${failed.command} `.startsWith(`${later.command} `);
}

/** Formats text as inline code in a table, so that it can end neither the cell nor the section. */
function code(text: string): string {
  const plain = text
    .replace(/<!--|-->|[`|\s]+/g, " ")
    .replace(/ +/g, " ")
    .trim();
  return `\`${truncateLine(plain, 150) || " "}\``;
}
