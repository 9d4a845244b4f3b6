import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Sandbox } from "#sandbox/sandbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { createApplyPatchTool } from "./apply-patch.ts";
import { createDeleteFileTool, deleteNeedsApproval } from "./delete-file.ts";
import { createEditFileTool } from "./edit-file.ts";
import type { ZoneApprovalConfig } from "./file-approval.ts";
import { createFileExistsTool } from "./file-exists.ts";
import { createFileInfoTool } from "./file-info.ts";
import { createListFilesTool } from "./list-files.ts";
import { createMoveFileTool } from "./move-file.ts";
import { createReadFileTool } from "./read-file.ts";
import { createUndoTool } from "./undo.ts";
import { createWriteFileTool, overwriteNeedsApproval } from "./write-file.ts";

export interface FilesystemToolsetOptions {
  sandbox: Workspace;
  /** Approval by zone; where the sandbox's own zones are stricter, they stay. */
  zoneApprovalConfig?: ZoneApprovalConfig;
  /** The run's finished calls; with them, lines must be read before they are edited. */
  history?: () => readonly FinishedCall[];
  /** The sandbox's settled steps; with them and the history the tool `undo` is there. */
  steps?: Pick<Sandbox, "history">;
  /** The largest result of one read, in estimated tokens. */
  maxReadTokens?: number;
}

/** The file tools over one workspace, with approval by zone. */
export class FilesystemToolset {
  readonly #tools: NamedTool[];

  constructor({ sandbox, zoneApprovalConfig, history, steps, maxReadTokens }: FilesystemToolsetOptions) {
    const options = { zoneApprovalConfig, history };
    this.#tools = [
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

  getTools(): NamedTool[] {
    return this.#tools;
  }
}
