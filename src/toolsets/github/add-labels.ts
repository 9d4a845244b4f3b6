import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { quoted } from "#text/visible-text.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  labels: z.array(z.string().trim().min(1).max(50)).min(1).max(10).describe("Label names"),
});
type Input = z.infer<typeof input>;

/** Adds labels to the issue or pull request of the run's thread. */
export function createAddLabelsTool(
  { github, spec, sanitize }: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<Input, ToolResult> {
  const { thread } = spec.origin;
  return {
    name: "add_labels",
    description: "Add labels to the issue of this thread.",
    inputSchema: input,
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
