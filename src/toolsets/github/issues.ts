import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { withRetries } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { Comment, Issue, IssueDetails } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { markImitations, postMarker } from "#text/comment-marker.ts";
import { pluralize } from "#text/pluralize.ts";
import { untrustedText } from "#text/untrusted.ts";
import { quoted } from "#text/visible-text.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const readIssueInput = z.object({
  number: z.number().int().positive().optional().describe("Another issue or pull request of this repository"),
});
type ReadIssueInput = z.infer<typeof readIssueInput>;

/** Reads the current state of the issue or pull request of the run's thread, or of another of the repository. */
export function createReadIssueTool({ github, spec }: ToolServices): NamedTool<ReadIssueInput, ToolResult> {
  return {
    name: "read_issue",
    description: "Read the issue of this thread: title, text, labels and state.",
    inputSchema: readIssueInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ number: asked = spec.origin.thread }) => {
      const issue = await github.getIssue(asked);
      if (!issue) throw missing(asked);

      const { number, state, labels, author, title } = issue;
      const facts = `#${number}, ${state}, by @${author}`;
      // People without write access may set labels.
      const details = [`Labels: ${labels.join(", ") || "none"}`, ...describeDetails(issue)].join("\n");
      return {
        llmContent: `${facts}\n${untrustedText(`${title}\n\n${issue.body}\n\n${details}`, `@${author}`)}`,
        value: { kind: "github.issue", data: issueData(issue), summary: `#${number} ${title}` },
      };
    },
  };
}

/** Returns a line for each detail of an issue that people of its organization may have set. */
export function describeDetails({ type, fields = [], subIssues }: IssueDetails): string[] {
  const lines = [
    ...(type === undefined ? [] : [`Type: ${type}`]),
    ...fields.map(({ name, value }) => `${name}: ${value}`),
    ...(subIssues ? [`Sub-issues: ${subIssues.completed} of ${subIssues.total} completed`] : []),
  ];
  return lines.map((line) => line.replace(/\s+/g, " ").trim());
}

function issueData({ number, title, body, author, state, labels, type, fields, subIssues }: Issue) {
  return { number, title, body, author, state, labels, type, fields, subIssues };
}

function missing(number: number): ToolError {
  return new ToolError(`#${number} was not found.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "It may have been deleted or transferred. Report this and stop.",
  });
}

const listIssuesInput = z.object({
  state: z.enum(["open", "closed", "all"]).optional().describe("Default: open"),
  labels: z.array(z.string().min(1).max(100)).max(10).optional().describe("Only issues with all of these labels"),
  limit: z.number().int().min(1).max(100).optional().describe("Maximum number of issues; default: 30"),
});
type ListIssuesInput = z.infer<typeof listIssuesInput>;

export function createListIssuesTool({ github }: ToolServices): NamedTool<ListIssuesInput, ToolResult> {
  return {
    name: "list_issues",
    description: "List the issues of this repository by number, labels and title, newest first.",
    inputSchema: listIssuesInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ state = "open", labels, limit = 30 }) => {
      const issues = await github.listIssues({ state, limit, ...(labels ? { labels } : {}) });
      const lines = issues.map(({ number, title, labels: names }) => `#${number} [${names.join(", ")}] ${title}`);
      const summary = pluralize(issues.length, "issue");
      return {
        llmContent:
          issues.length === 0 ? "No issues." : `${summary}.\n${untrustedText(lines.join("\n"), "issue titles")}`,
        value: {
          kind: "github.issues",
          data: { issues: issues.map(issueData) },
          summary,
          preview: lines.join("\n"),
          display: { preferredView: "table" },
        },
      };
    },
  };
}

const addLabelsInput = z.object({
  labels: z.array(z.string().trim().min(1).max(50)).min(1).max(10).describe("Label names"),
});
type AddLabelsInput = z.infer<typeof addLabelsInput>;

/** Adds labels to the issue or pull request of the run's thread. */
export function createAddLabelsTool(
  { github, spec, sanitize }: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<AddLabelsInput, ToolResult> {
  const { thread } = spec.origin;
  return {
    name: "add_labels",
    description: "Add labels to the issue of this thread.",
    inputSchema: addLabelsInput,
    needsApproval: configuredApproval("add_labels", approval),
    approvalReason: ({ labels }) => `The worker wants to add labels to #${thread}: ${labels.map(quoted).join(", ")}.`,
    preview: ({ labels }) => `Labels for #${thread}: ${labels.join(", ")}`,
    execute: async ({ labels }, { abortSignal: signal }) => {
      const clean = labels.map((label) => sanitize(label, "plain"));
      const now = await withRetries(() => github.addLabels(thread, clean), { signal });
      const summary = `#${thread} has the labels ${now.join(", ")}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { labels: now }, summary } };
    },
  };
}

const readThreadInput = z.object({
  limit: z.number().int().min(1).max(100).optional().describe("Maximum number of comments; default: the latest 30"),
});
type ReadThreadInput = z.infer<typeof readThreadInput>;

// Comments by this app are mostly status reports, which the run does not need.
const maxOwnCommentChars = 300;

export function createReadThreadTool({ github, spec }: ToolServices): NamedTool<ReadThreadInput, ToolResult> {
  return {
    name: "read_thread",
    description: "Read the latest comments of this thread, oldest first.",
    inputSchema: readThreadInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ limit = 30 }) => {
      const { thread, isPullRequest } = spec.origin;
      const hidden = new Set(await github.listMinimizedComments({ number: thread, isPullRequest }).catch(() => []));
      const all = (await github.listComments(thread)).filter(({ id }) => !hidden.has(id));
      const comments = all.slice(-limit);
      const earlier = all.length - comments.length;
      const shown = comments.map((comment) => describeComment(comment, spec.createdAt));
      const summary = `${pluralize(all.length, "comment")} on #${spec.origin.thread}`;
      return {
        llmContent: [
          `${summary}.`,
          ...(earlier > 0 ? [`(${pluralize(earlier, "earlier comment is", "earlier comments are")} not shown)`] : []),
          ...shown,
        ].join("\n\n"),
        value: {
          kind: "github.thread",
          data: { comments: comments.map(({ id, author, body, createdAt }) => ({ id, author, body, createdAt })) },
          summary,
        },
      };
    },
  };
}

function describeComment({ author, body, own, createdAt, updatedAt }: Comment, runStartedAt: number): string {
  const at = createdAt.toISOString().slice(0, 16).replace("T", " ");
  // The app's own comments quote untrusted text too.
  if (own) return untrustedText(body.slice(0, maxOwnCommentChars), `this app, ${at}`);
  const edited = updatedAt > createdAt && updatedAt.getTime() >= runStartedAt ? ", edited after this run started" : "";
  return untrustedText(body, `@${author}, ${at}${edited}`);
}

const replyInput = z.object({ text: z.string().trim().min(1).max(60_000).describe("The comment, in Markdown") });
type ReplyInput = z.infer<typeof replyInput>;

/** Posts a comment in the run's own thread: exactly once per call, even after a crash. */
export function createReplyTool(
  { github, spec, sanitize }: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<ReplyInput, ToolResult> {
  const { thread } = spec.origin;
  return {
    name: "reply",
    description:
      "Post a comment in this thread. Your final answer is posted automatically; use this tool only for other comments.",
    inputSchema: replyInput,
    needsApproval: configuredApproval("reply", approval),
    approvalReason: () => `The worker wants to comment on #${thread}.`,
    postsWithoutSecrets: true,
    preview: ({ text }) => markImitations(sanitize(text)),
    execute: async ({ text }, { idempotencyKey, abortSignal: signal }) => {
      const marker = postMarker(idempotencyKey);
      const post = async () => {
        const earlier = (await github.listComments(thread)).find(({ own, body }) => own && body.includes(marker));
        return earlier ?? github.createComment(thread, `${markImitations(sanitize(text))}\n\n${marker}`);
      };
      const { id } = await withRetries(post, { signal });
      const summary = `Commented on #${thread}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { commentId: id }, summary } };
    },
  };
}
