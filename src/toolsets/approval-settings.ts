import type { ApprovalConfig, ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError, UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { didYouMean } from "#text/closest-match.ts";
import { toPreview } from "#ui/request-blocks.ts";

/** The `needsApproval` of a built-in tool that changes something outside the sandbox, as the worker file configures it. */
export function configuredApproval(tool: string, settings: ApprovalConfig | undefined): () => boolean {
  const decision = decide(tool, settings);
  return () => {
    if (decision === "blocked") throw new BlockedError(tool, "the worker's settings forbid it");
    return decision === "ask";
  };
}

/** Applies the worker's settings to a tool that is not built in. Its own `needsApproval` cannot unblock it. */
export function applyApprovalSettings<T extends NamedTool>(tool: T, settings: ApprovalConfig | undefined): T {
  if (tool.needsApproval !== undefined && ownEntry(tool.name, settings) !== "blocked") return tool;

  const decision = decide(tool.name, settings);
  if (decision !== "blocked") return { ...tool, needsApproval: decision === "ask" };

  const refuse = () => {
    throw new BlockedError(tool.name, "Blocked by policy");
  };
  return { ...tool, needsApproval: refuse, execute: refuse };
}

/** Binds approvals of a tool to what may change before an approved call runs, besides what its preview shows. */
export function bindApproval(tool: NamedTool, read: () => Promise<Record<string, string>>): NamedTool {
  return {
    ...tool,
    preview: async (args, context) => {
      const { sections = [], bindings, ...own } = toPreview(await tool.preview?.(args, context)) ?? {};
      return { ...own, sections, bindings: { ...bindings, ...(await read()) } };
    },
  };
}

/** Throws a UserError if the settings name a tool that does not exist: a typo must not leave a tool unblocked. */
export function checkApprovalNames(
  settings: ApprovalConfig | undefined,
  names: readonly string[],
  source: string,
): void {
  for (const name of Object.keys(settings?.tools ?? {})) {
    if (names.includes(name)) continue;
    const list = [...new Set(names)].join(", ") || "none";
    const hint = didYouMean(name, names);
    throw new UserError(
      `approval.tools names ${name}, which is not among the tools of ${source}.${hint} Available tools: ${list}.`,
    );
  }
}

function decide(name: string, settings: ApprovalConfig | undefined): ApprovalDecisionType {
  return ownEntry(name, settings) ?? settings?.default ?? "ask";
}

function ownEntry(name: string, settings: ApprovalConfig | undefined): ApprovalDecisionType | undefined {
  const tools = settings?.tools ?? {};
  return Object.hasOwn(tools, name) ? tools[name] : undefined;
}
