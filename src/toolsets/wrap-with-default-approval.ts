import type { ApprovalConfig, ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";

/**
 * A tool with an answer to "must a person agree": its own wins, otherwise the configuration for its name, otherwise
 * the configuration's default, otherwise `ask`. What is blocked throws a BlockedError, asked or executed.
 */
export function wrapWithDefaultApproval<T extends NamedTool>(tool: T, approvalConfig?: ApprovalConfig): T {
  if (tool.needsApproval !== undefined) return tool;

  const decision = decide(tool.name, approvalConfig);
  if (decision !== "blocked") return { ...tool, needsApproval: decision !== "preApproved" };

  const block = () => {
    throw new BlockedError(tool.name, "Blocked by policy");
  };
  return { ...tool, needsApproval: block, execute: block };
}

function decide(name: string, config: ApprovalConfig = {}): ApprovalDecisionType {
  const { tools = {} } = config;
  const own = Object.hasOwn(tools, name) ? tools[name] : undefined;
  return own ?? config.default ?? "ask";
}
