import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { quoted } from "#text/visible-text.ts";
import {
  type FileToolOptions,
  filesAt,
  needsFileApproval,
  previewChanges,
  previewWrite,
  refuseBlocked,
} from "./file-changes.ts";

const input = z.object({
  path: z.string().min(1).describe("The file or directory to delete"),
  recursive: z.boolean().optional().describe("Required to delete a directory with its contents"),
});
type Input = z.infer<typeof input>;

const tool = "delete_file";

/** Deletes a file or directory. Every call needs approval by default; with `deleteNeedsApproval(…)` the zones decide. */
export function createDeleteFileTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  const zones = options.zoneApprovalConfig;
  return {
    name: tool,
    description: "Delete a file, or with recursive a directory and everything in it.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? true,
    approvalReason: ({ path }) => `The worker wants to delete ${quoted(path)}.`,
    preview: async ({ path }) => {
      const files = (await filesAt(workspace, path)).map((file) => previewWrite(workspace, file, undefined));
      return previewChanges((await Promise.all(files)).filter(({ before }) => before));
    },
    execute: async ({ path, recursive = false }) => {
      const resolved = workspace.resolve(path);
      for (const file of await filesAt(workspace, resolved)) {
        refuseBlocked({ tool, workspace, operation: "delete", path: file, zones });
      }
      const deleted = await workspace.remove(resolved, { recursive });
      const summary = `Deleted ${deleted.length === 1 ? deleted[0] : `${deleted.length} files in ${resolved}`}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { deleted }, summary } };
    },
  };
}

/** Requires approval unless every affected file is in a zone that pre-approves deletions. */
export function deleteNeedsApproval(workspace: Workspace, options: FileToolOptions<Input>) {
  return async ({ path }: Input): Promise<boolean> => {
    const files = await filesAt(workspace, path);
    const answers = files.map((file) =>
      needsFileApproval({
        tool,
        workspace,
        operation: "delete",
        path: file,
        otherwise: true,
        zones: options.zoneApprovalConfig,
      }),
    );
    return answers.includes(true);
  };
}
