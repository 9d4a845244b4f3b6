import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { postMarker } from "#text/comment-marker.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({ text: z.string().trim().min(1).max(60_000).describe("The comment, in Markdown") });
type Input = z.infer<typeof input>;

/** Posts a comment in the run's own thread: exactly once per call, even after a crash. */
export function createReplyTool(
  { github, spec, sanitize }: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<Input, ToolResult> {
  const { thread } = spec.origin;
  return {
    name: "reply",
    description:
      "Post a comment in this thread. Your final answer is posted automatically; use this tool only for other comments.",
    inputSchema: input,
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
