import type { NeedsApproval } from "#domain/tool.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import type { ZoneApprovalConfig } from "./file-approval.ts";

/** What every file tool can be given. */
export interface FileToolOptions<Input> {
  /** Replaces the tool's own answer; what a zone blocks stays blocked. */
  needsApproval?: boolean | NeedsApproval<Input>;
  zoneApprovalConfig?: ZoneApprovalConfig;
  /** The run's finished calls. With them, lines must have been read before they are edited. */
  history?: () => readonly FinishedCall[];
}
