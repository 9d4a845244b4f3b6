import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Sandbox } from "#sandbox/sandbox.ts";
import type { FinishedCall, Toolset } from "#toolsets/toolset.ts";
import { createApplyPatchTool } from "./apply-patch.ts";
import { createEditFileTool } from "./edit-file.ts";
import type { ZoneApprovalConfig } from "./file-changes.ts";
import { createFileExistsTool, createFileInfoTool, createListFilesTool } from "./file-info.ts";
import { createDeleteFileTool, createMoveFileTool, deleteNeedsApproval } from "./move-and-delete.ts";
import { createReadFileTool } from "./read-file.ts";
import { createUndoTool } from "./undo.ts";
import { createWriteFileTool, overwriteNeedsApproval } from "./write-file.ts";

/** The share of the context that one read may use, so that several fit alongside the conversation. */
const readShareOfContext = 0.2;
/** The toolbox shortens longer results. */
const maxReadTokens = 25_000;

export interface FilesystemToolsOptions {
  sandbox: Workspace;
  /** Approval by zone. If the sandbox's own zones are stricter, they apply. */
  zoneApprovalConfig?: ZoneApprovalConfig;
  /** The run's finished calls. If given, lines must have been read before they are edited. */
  history?: () => readonly FinishedCall[];
  /** The sandbox's stored steps. With these and the history, the `undo` tool is available. */
  steps?: Pick<Sandbox, "history">;
  /** The maximum size of one read's result, in estimated tokens. */
  maxReadTokens?: number;
}

/** Creates the file tools for a workspace. */
export function createFilesystemTools({
  sandbox,
  zoneApprovalConfig,
  history,
  steps,
  maxReadTokens,
}: FilesystemToolsOptions): NamedTool[] {
  const options = { zoneApprovalConfig, history };
  return [
    createReadFileTool(sandbox, { ...options, maxTokens: maxReadTokens }),
    createWriteFileTool(sandbox, { ...options, needsApproval: overwriteNeedsApproval(sandbox, options) }),
    createEditFileTool(sandbox, options),
    createApplyPatchTool(sandbox, options),
    createListFilesTool(sandbox, options),
    createDeleteFileTool(sandbox, { ...options, needsApproval: deleteNeedsApproval(sandbox, options) }),
    createMoveFileTool(sandbox, options),
    createFileExistsTool(sandbox, options),
    createFileInfoTool(sandbox, options),
    ...(history && steps ? [createUndoTool({ sandbox: steps, workspace: sandbox }, { ...options, history })] : []),
  ];
}

const zoneApproval = z.strictObject({
  write: ApprovalDecisionType.optional(),
  delete: ApprovalDecisionType.optional(),
});

const config = z.strictObject({
  /** Approval by zone, as `{ output: { write: ask, delete: blocked } }`. */
  zoneApprovalConfig: z.record(z.string(), zoneApproval).optional(),
});

/** Reads and changes the files of the repository. */
export const filesystemToolset: Toolset<z.infer<typeof config>> = {
  name: "filesystem",
  config,
  create: ({ zoneApprovalConfig }, { workspace, sandbox, history, spec }) =>
    createFilesystemTools({
      sandbox: workspace,
      zoneApprovalConfig,
      history,
      steps: sandbox,
      maxReadTokens: Math.min(maxReadTokens, Math.floor(spec.worker.max_context_tokens * readShareOfContext)),
    }),
};
