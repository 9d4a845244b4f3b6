import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import type { Comment } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { postMarker } from "#text/comment-marker.ts";
import { untrustedText } from "#text/untrusted.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const readThreadInput = z.object({
  limit: z.number().int().min(1).max(100).optional().describe("Maximum number of comments; default: the latest 30"),
});
type ReadThreadInput = z.infer<typeof readThreadInput>;

// Comments by this app are mostly status reports, which the run does not need.
const maxOwnCommentChars = 300;

/** Reads the comments of the run's thread. */
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
      const shown = comments.map((comment) => describe(comment, spec.createdAt));
      const summary = `${all.length} ${all.length === 1 ? "comment" : "comments"} on #${spec.origin.thread}`;
      return {
        llmContent: [
          `${summary}.`,
          ...(earlier > 0 ? [`(${earlier} earlier comments are not shown)`] : []),
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

function describe({ author, body, own, createdAt, updatedAt }: Comment, runStartedAt: number): string {
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
    preview: ({ text }) => sanitize(text),
    execute: async ({ text }, { idempotencyKey, abortSignal: signal }) => {
      const marker = postMarker(idempotencyKey);
      const post = async () => {
        const earlier = (await github.listComments(thread)).find(({ own, body }) => own && body.includes(marker));
        return earlier ?? github.createComment(thread, `${sanitize(text)}\n\n${marker}`);
      };
      const { id } = await withRetries(post, { signal });
      const summary = `Commented on #${thread}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { commentId: id }, summary } };
    },
  };
}
