import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { folderDeletionError } from "#sandbox/paths.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import { quoted } from "#text/visible-text.ts";
import { FileRules, type FileToolOptions, filesAt, previewChanges, previewWrite, versionOf } from "./file-changes.ts";

const moveInput = z.object({
  from: z.string().min(1).describe("The file or directory to move"),
  to: z.string().min(1).describe("Its new path, name included"),
  overwrite: z.boolean().optional().describe("Replace an existing file; default false"),
});
type MoveInput = z.infer<typeof moveInput>;

const moveTool = "move_file";

/** Moves or renames a file or directory. Needs approval to overwrite, for protected files and if a zone requires it. */
export function createMoveFileTool(
  workspace: Workspace,
  options: FileToolOptions<MoveInput> = {},
): NamedTool<MoveInput, ToolResult> {
  return {
    name: moveTool,
    description: "Move or rename a file or directory.",
    inputSchema: moveInput,
    needsApproval: options.needsApproval ?? ((args) => moveNeedsApproval(args, workspace, options)),
    approvalReason: ({ from, to }) => `The worker wants to move ${quoted(from)} to ${quoted(to)}.`,
    preview: async (args) => {
      const [from, to] = [workspace.resolve(args.from), workspace.resolve(args.to)];
      const paths = await filesAt(workspace, from);
      // Nobody is asked about a call that can only fail.
      assertOutside(from, to);
      await workspace.checkMove?.(from, to, { overwrite: args.overwrite ?? false });
      const files = paths.map(async (path): Promise<FileVersions[]> => {
        const moved = await versionOf(workspace, path);
        if (!moved) return [];
        const target = `${to}${path.slice(from.length)}`;
        return [
          { path, before: moved, after: undefined },
          { path: target, before: await versionOf(workspace, target), after: moved },
        ];
      });
      return previewChanges((await Promise.all(files)).flat());
    },
    execute: async (args) => {
      await moveNeedsApproval(args, workspace, options);
      const [from, to] = [workspace.resolve(args.from), workspace.resolve(args.to)];
      assertOutside(from, to);
      await workspace.move(from, to, { overwrite: args.overwrite ?? false });
      const summary = `Moved ${from} to ${to}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { from, to }, summary } };
    },
  };
}

function assertOutside(from: string, to: string): void {
  if (from !== to && !to.startsWith(`${from}/`)) return;
  throw new ToolError(`${from} cannot be moved into itself.`, {
    code: "INVALID_ARGUMENTS",
    suggestion: "Choose a path outside of it.",
  });
}

async function moveNeedsApproval({ from, to }: MoveInput, workspace: Workspace, options: FileToolOptions<MoveInput>) {
  const [source, target] = [workspace.resolve(from), workspace.resolve(to)];
  const overwrites = await workspace.exists(target);
  const rules = new FileRules(moveTool, workspace, options);
  // Every file is checked, since any of them may be blocked.
  const answers = (await filesAt(workspace, source)).flatMap((file) => [
    rules.needsApproval("delete", file, false),
    rules.needsApproval("write", `${target}${file.slice(source.length)}`, overwrites),
  ]);
  // The overwritten file is deleted.
  return answers.includes(true) || (overwrites && rules.needsApproval("delete", target, true));
}

const deleteInput = z.object({
  path: z.string().min(1).describe("What to delete"),
  recursive: z.boolean().optional().describe("Required for a directory"),
});
type DeleteInput = z.infer<typeof deleteInput>;

const deleteTool = "delete_file";

/** Deletes a file or directory. Every call needs approval by default; with `deleteNeedsApproval(…)` the zones decide. */
export function createDeleteFileTool(
  workspace: Workspace,
  options: FileToolOptions<DeleteInput> = {},
): NamedTool<DeleteInput, ToolResult> {
  return {
    name: deleteTool,
    description: "Delete a file, or with recursive a directory and everything in it.",
    inputSchema: deleteInput,
    needsApproval: options.needsApproval ?? true,
    approvalReason: ({ path }) => `The worker wants to delete ${quoted(path)}.`,
    preview: async ({ path, recursive }) => {
      if (!recursive && (await workspace.exists(path)) && (await workspace.stat(path)).type === "directory") {
        throw folderDeletionError(workspace.resolve(path));
      }
      const files = (await filesAt(workspace, path)).map((file) => previewWrite(workspace, file, undefined));
      return previewChanges((await Promise.all(files)).filter(({ before }) => before));
    },
    execute: async ({ path, recursive = false }) => {
      const resolved = workspace.resolve(path);
      const rules = new FileRules(deleteTool, workspace, options);
      for (const file of await filesAt(workspace, resolved)) rules.check("delete", file);
      const deleted = await workspace.remove(resolved, { recursive });
      const summary = `Deleted ${deleted.length === 1 ? deleted[0] : `${deleted.length} files in ${resolved}`}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { deleted }, summary } };
    },
  };
}

/** Requires approval unless every affected file is in a zone that pre-approves deletions. */
export function deleteNeedsApproval(workspace: Workspace, options: FileToolOptions<DeleteInput>) {
  const rules = new FileRules(deleteTool, workspace, options);
  return async ({ path }: DeleteInput): Promise<boolean> => {
    const files = await filesAt(workspace, path);
    return files.map((file) => rules.needsApproval("delete", file, true)).includes(true);
  };
}
