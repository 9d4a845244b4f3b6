import type { ApprovalConfig } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { closestMatch } from "#text/closest-match.ts";
import { wrapWithDefaultApproval } from "./wrap-with-default-approval.ts";

/**
 * A tool of somebody else's making with the worker's settings: its own answer about approval wins, except that what the
 * worker blocks by name is blocked whatever it says of itself.
 */
export function approveAsConfigured(tool: NamedTool, approval: ApprovalConfig | undefined): NamedTool {
  const isBlocked = Object.hasOwn(approval?.tools ?? {}, tool.name) && approval?.tools?.[tool.name] === "blocked";
  return wrapWithDefaultApproval(isBlocked ? { ...tool, needsApproval: undefined } : tool, approval);
}

/** Throws a UserError for a tool that the settings name and that is not there: a slip must not leave one unblocked. */
export function checkApprovalNames(approval: ApprovalConfig | undefined, names: readonly string[], of: string): void {
  for (const name of Object.keys(approval?.tools ?? {})) {
    if (names.includes(name)) continue;
    const near = closestMatch(name, names);
    const list = [...new Set(names)].join(", ") || "none";
    const hint = near ? ` Did you mean ${near}?` : "";
    throw new UserError(
      `approval.tools names ${name}, which is not among the tools of ${of}.${hint} There are: ${list}.`,
    );
  }
}
