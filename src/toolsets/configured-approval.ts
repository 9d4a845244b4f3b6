import type { ApprovalConfig } from "#domain/approval.ts";
import { BlockedError } from "#domain/errors.ts";

/** The `needsApproval` of a tool that changes something outside, as the worker file configures it; `ask` when it does not. */
export function configuredApproval(tool: string, approval: ApprovalConfig | undefined): () => boolean {
  const decision = approval?.tools?.[tool] ?? approval?.default ?? "ask";
  return () => {
    if (decision === "blocked") throw new BlockedError(tool, "the worker's settings forbid it");
    return decision === "ask";
  };
}
