import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { applyHunks } from "./apply-hunks.ts";
import { type FileOperation, needsFileApproval } from "./file-approval.ts";
import { diffResult } from "./file-diff.ts";
import type { FileToolOptions } from "./file-tool-options.ts";
import { requireSeen, seenLines } from "./known-lines.ts";
import { parsePatch } from "./parse-patch.ts";
import { type FilePatch, sideOf } from "./patch.ts";
import { previewChanges, previewWrite } from "./preview-changes.ts";
import { showChangedLines } from "./show-changed-lines.ts";
import { readForEdit } from "./text-file.ts";

const input = z.object({
  patch: z.string().min(1).describe("A unified diff, or *** Begin Patch … *** End Patch; several files in one patch"),
  path: z.string().optional().describe("The file, when the patch has hunks but names no file"),
});
type Input = z.infer<typeof input>;

/** One file before and after the patch; a file that moves is two of these. */
interface FileChange {
  path: string;
  before: string | undefined;
  after: string | undefined;
  operation: FileOperation;
  executable?: boolean;
  /** Whether a person is asked where no zone says anything. */
  asks: boolean;
}

const tool = "apply_patch";

/** Applies a patch to one or several files: all of it, where its lines really stand, or nothing. */
export function createApplyPatchTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  const asksFor = ({ path, operation, asks }: FileChange) =>
    needsFileApproval({ tool, workspace, operation, path, otherwise: asks, zones: options.zoneApprovalConfig });
  return {
    name: tool,
    description:
      "Change files with a patch: a unified diff or *** Begin Patch. Read the lines first; context decides the place, not line numbers.",
    inputSchema: input,
    needsApproval:
      options.needsApproval ?? (async (args) => (await prepare(args, workspace, options)).map(asksFor).includes(true)),
    approvalReason: () => "The worker wants to apply a patch.",
    preview: async (args) => {
      const changes = await prepare(args, workspace, options);
      const files = changes.map(({ path, after, executable }) => previewWrite(workspace, path, after, { executable }));
      return previewChanges(await Promise.all(files));
    },
    execute: async (args) => {
      const changes = await prepare(args, workspace, options);
      changes.map(asksFor);
      // What goes, goes first: a folder may come where a file was.
      for (const { path, after } of changes) if (after === undefined) await workspace.remove(path);
      for (const { path, after, executable } of changes) {
        if (after !== undefined) await workspace.write(path, after, { executable });
      }
      return resultOf(changes);
    },
  };
}

function resultOf(changes: readonly FileChange[]): ToolResult {
  const values = changes.map(diffResult);
  const llmContent = changes
    .map(({ path, before, after }, index) => {
      const summary = `${values[index]?.summary}.`;
      return before === undefined || after === undefined
        ? summary
        : `${summary}\n${showChangedLines(path, before, after)}`;
    })
    .join("\n");
  const [only] = values;
  if (values.length === 1 && only) return { llmContent, value: only };

  const diff = values.map((value) => value.diff ?? "").join("");
  const files = values.map(({ path, action, stats }) => ({ path, action, stats }));
  return {
    llmContent,
    value: {
      kind: "filesystem.patch",
      data: { files, diff },
      summary: `Changed ${values.length} files`,
      preview: diff,
      display: { preferredView: "code", language: "diff" },
    },
  };
}

async function prepare(args: Input, workspace: Workspace, options: FileToolOptions<Input>): Promise<FileChange[]> {
  const changes: FileChange[] = [];
  for (const file of parsePatch(args.patch, args.path)) {
    for (const change of await changesOf(file, workspace, options)) {
      if (changes.some(({ path }) => path === change.path)) {
        throw new ToolError(`The patch changes ${change.path} twice.`, {
          code: "CONFLICT",
          suggestion: "Put all hunks of a file under one heading.",
        });
      }
      changes.push(change);
    }
  }
  return changes;
}

async function changesOf(
  file: FilePatch,
  workspace: Workspace,
  { history }: FileToolOptions<Input>,
): Promise<FileChange[]> {
  const path = workspace.resolve(file.path);
  if (file.kind === "create") {
    await refuseExisting(workspace, path);
    const lines = file.hunks.flatMap((hunk) => sideOf(hunk, "+"));
    const ends = file.hunks.at(-1)?.endsWithoutNewline ? "" : "\n";
    const after = lines.length === 0 ? "" : lines.join("\n") + ends;
    return [{ path, before: undefined, after, operation: "write", asks: false }];
  }
  const before = await readForEdit(workspace, path);
  if (file.kind === "delete") return [{ path, before, after: undefined, operation: "delete", asks: true }];

  const { text: after, places } = applyHunks(before, file.hunks, path);
  const seen = seenLines(history?.(), path, before);
  for (const { at, count } of places) requireSeen(seen, path, { first: at + 1, last: at + count });
  if (file.moveTo === undefined) {
    if (after === before) throw new ToolError(`The patch changes nothing in ${path}.`, { code: "INVALID_ARGUMENTS" });
    return [{ path, before, after, operation: "write", asks: true }];
  }
  const target = workspace.resolve(file.moveTo);
  await refuseExisting(workspace, target);
  const { executable } = await workspace.stat(path);
  return [
    { path, before, after: undefined, operation: "delete", asks: after !== before },
    { path: target, before: undefined, after, executable, operation: "write", asks: after !== before },
  ];
}

async function refuseExisting(workspace: Workspace, path: string): Promise<void> {
  if (!(await workspace.exists(path))) return;
  throw new ToolError(`${path} is there already, and the patch creates it.`, {
    code: "FILE_EXISTS",
    suggestion: "Update the file instead, or choose another name.",
  });
}
