import type { ApprovalConfig } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import { applyApprovalSettings } from "#toolsets/approval-settings.ts";
import type { RequiresApproval } from "./adapt-tool.ts";

/**
 * Gives a tool an answer to "does this need approval?": its own if it has one, otherwise the configuration for its
 * name, otherwise the configuration's default, otherwise `ask`. A blocked tool throws a BlockedError.
 */
export function wrapWithDefaultApproval<T extends NamedTool>(
  tool: T & RequiresApproval,
  approvalConfig?: ApprovalConfig,
): T {
  if (tool.needsApproval !== undefined) return tool;
  if (tool.requiresApproval !== undefined) return { ...tool, needsApproval: tool.requiresApproval };
  return applyApprovalSettings(tool, approvalConfig);
}
