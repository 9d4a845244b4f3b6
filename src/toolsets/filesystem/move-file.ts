import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import { quoted } from "#text/visible-text.ts";
import { type FileToolOptions, filesAt, needsFileApproval, previewChanges, versionOf } from "./file-changes.ts";

const input = z.object({
  from: z.string().min(1).describe("The file or directory to move"),
  to: z.string().min(1).describe("Its new path, name included"),
  overwrite: z.boolean().optional().describe("Replace an existing file; default false"),
});
type Input = z.infer<typeof input>;

const tool = "move_file";

/** Moves or renames a file or directory. Needs approval to overwrite, for protected files and if a zone requires it. */
export function createMoveFileTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  return {
    name: tool,
    description: "Move or rename a file or directory.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? ((args) => moveNeedsApproval(args, workspace, options)),
    approvalReason: ({ from, to }) => `The worker wants to move ${quoted(from)} to ${quoted(to)}.`,
    preview: async (args) => {
      const [from, to] = [workspace.resolve(args.from), workspace.resolve(args.to)];
      const files = (await filesAt(workspace, from)).map(async (path): Promise<FileVersions[]> => {
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
      if (from === to || to.startsWith(`${from}/`)) {
        throw new ToolError(`${from} cannot be moved into itself.`, {
          code: "INVALID_ARGUMENTS",
          suggestion: "Choose a path outside of it.",
        });
      }
      await workspace.move(from, to, { overwrite: args.overwrite ?? false });
      const summary = `Moved ${from} to ${to}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { from, to }, summary } };
    },
  };
}

async function moveNeedsApproval({ from, to }: Input, workspace: Workspace, options: FileToolOptions<Input>) {
  const [source, target] = [workspace.resolve(from), workspace.resolve(to)];
  const overwrites = await workspace.exists(target);
  const zones = options.zoneApprovalConfig;
  // Every file is checked, since any of them may be blocked.
  const answers = (await filesAt(workspace, source)).flatMap((file) => [
    needsFileApproval({ tool, workspace, operation: "delete", path: file, otherwise: false, zones }),
    needsFileApproval({
      tool,
      workspace,
      operation: "write",
      path: `${target}${file.slice(source.length)}`,
      otherwise: overwrites,
      zones,
    }),
  ]);
  return answers.includes(true);
}
