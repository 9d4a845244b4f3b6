import { z } from "zod";
import { runInTurns } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { pluralize } from "#text/pluralize.ts";
import { applyHunks } from "./apply-hunks.ts";
import {
  applyFileChanges,
  compareTexts,
  diffResult,
  type FileOperation,
  FileRules,
  type FileState,
  type FileToolOptions,
  previewChanges,
  previewWrite,
  showChangedLines,
} from "./file-changes.ts";
import { type FilePatch, parsePatch } from "./parse-patch.ts";
import { encodeText, readForEdit, requireSeen, seenLines, type TextContent } from "./text-file.ts";

const input = z.object({
  patch: z.string().min(1).describe("A unified diff, or *** Begin Patch … *** End Patch; several files in one patch"),
  path: z.string().optional().describe("The file, if the patch has hunks but names no file"),
});
type Input = z.infer<typeof input>;

/** A file before and after the patch. A moved file is two of these. */
interface PatchedFile {
  path: string;
  before: string | undefined;
  after: string | undefined;
  encoding: TextContent["encoding"];
  operation: FileOperation;
  /** Undefined if the mode stays the same. */
  executable?: boolean | undefined;
  /** True if approval is needed when no zone decides. */
  asks: boolean;
}

const tool = "apply_patch";

/** Applies a patch to one or more files, atomically. Hunks are located by their lines, not by their line numbers. */
export function createApplyPatchTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  const rules = new FileRules(tool, workspace, options);
  const needsApproval = ({ path, operation, asks }: PatchedFile) => rules.needsApproval(operation, path, asks);
  return {
    name: tool,
    description:
      "Change files with a patch: a unified diff or *** Begin Patch. Read the lines first; context decides the place, not line numbers.",
    inputSchema: input,
    needsApproval:
      options.needsApproval ??
      (async (args) => (await prepare(args, workspace, options)).map(needsApproval).includes(true)),
    approvalReason: () => "The worker wants to apply a patch.",
    preview: async (args) => {
      const files = (await prepare(args, workspace, options)).map(newState);
      // A deletion may make room for another file of the patch.
      if (files.every(({ content }) => content !== undefined)) {
        for (const { path, content = "" } of files) await workspace.checkWrite?.(path, Buffer.byteLength(content));
      }
      const previews = files.map(({ path, content, executable }) =>
        previewWrite(workspace, path, content, { executable }),
      );
      return previewChanges(await Promise.all(previews));
    },
    execute: async (args) => {
      const files = await prepare(args, workspace, options);
      // The rules of a zone may have changed since the call was approved.
      for (const file of files) needsApproval(file);
      await applyFileChanges(workspace, files.map(newState));
      return resultOf(files);
    },
  };
}

function newState({ path, after, encoding, executable }: PatchedFile): FileState {
  return { path, content: after === undefined ? undefined : encodeText({ text: after, encoding }, path), executable };
}

async function resultOf(files: readonly PatchedFile[]): Promise<ToolResult> {
  const diffs = await Promise.all(files.map(compareTexts));
  const values = diffs.map(diffResult);
  const llmContent = diffs
    .map((diff, index) => {
      const summary = `${values[index]?.summary}.`;
      const isUpdate = diff.before !== undefined && diff.after !== undefined && diff.before !== diff.after;
      return isUpdate ? `${summary}\n${showChangedLines(diff)}` : summary;
    })
    .join("\n");
  const [only] = values;
  if (values.length === 1 && only) return { llmContent, value: only };

  const diff = values.map((value) => value.diff ?? "").join("");
  return {
    llmContent,
    value: {
      kind: "filesystem.patch",
      data: { files: values.map(({ path, action, stats }) => ({ path, action, stats })), diff },
      summary: `Changed ${pluralize(values.length, "file")}`,
      preview: diff,
      display: { preferredView: "code", language: "diff" },
    },
  };
}

async function prepare(args: Input, workspace: Workspace, options: FileToolOptions<Input>): Promise<PatchedFile[]> {
  const files: PatchedFile[] = [];
  for (const patch of parsePatch(args.patch, args.path)) {
    for (const file of await patchFile(patch, workspace, options)) {
      if (files.some(({ path }) => path === file.path)) {
        throw new ToolError(`The patch changes ${file.path} twice.`, {
          code: "CONFLICT",
          suggestion: "Put all hunks of a file under one heading, or apply one patch at a time.",
        });
      }
      files.push(file);
    }
  }
  return files;
}

async function patchFile(
  patch: FilePatch,
  workspace: Workspace,
  options: FileToolOptions<Input>,
): Promise<PatchedFile[]> {
  const path = workspace.resolve(patch.path);
  if (patch.kind === "create") {
    await refuseExisting(workspace, path);
    const { executable } = patch;
    return [
      {
        path,
        before: undefined,
        after: newText(patch.hunks),
        encoding: "utf-8",
        operation: "write",
        executable,
        asks: false,
      },
    ];
  }

  const { text: before, encoding } = await readForEdit(workspace, path);
  const { text: after, locations } = await runInTurns(applyHunks(before, patch.hunks, path));
  const seen = seenLines(options.history?.(), path, before);
  if (patch.kind !== "delete") {
    for (const { at, count } of locations) requireSeen(seen, path, { first: at + 1, last: at + count });
  }
  const isExecutable = (await workspace.stat(path)).executable;
  const deletion: PatchedFile = { path, before, after: undefined, encoding, operation: "delete", asks: true };
  switch (patch.kind) {
    case "delete":
      if (patch.hunks.length > 0 && after !== "") throw incompleteDeletion(path);
      return [deletion];
    case "copy":
      return [
        await newFile(patch.to, workspace, {
          after,
          encoding,
          executable: patch.executable ?? isExecutable,
          asks: false,
        }),
      ];
    case "update": {
      const executable = patch.executable === isExecutable ? undefined : patch.executable;
      if (patch.moveTo === undefined) {
        if (after === before && executable === undefined) throw unchanged(path);
        return [{ path, before, after, encoding, operation: "write", executable, asks: true }];
      }
      const target = { after, encoding, executable: patch.executable ?? isExecutable, asks: after !== before };
      return [{ ...deletion, asks: false }, await newFile(patch.moveTo, workspace, target)];
    }
  }
}

async function newFile(
  given: string,
  workspace: Workspace,
  file: Pick<PatchedFile, "after" | "encoding" | "executable" | "asks">,
): Promise<PatchedFile> {
  const path = workspace.resolve(given);
  await refuseExisting(workspace, path);
  return { ...file, path, before: undefined, operation: "write" };
}

function newText(hunks: Extract<FilePatch, { kind: "create" }>["hunks"]): string {
  const lines = hunks.flatMap((hunk) => hunk.lines).filter(({ mark }) => mark === "+");
  const text = lines.map(({ text, ending = "\n" }) => text + ending).join("");
  return hunks.at(-1)?.endsWithoutNewline ? text.replace(/\r?\n$/, "") : text;
}

async function refuseExisting(workspace: Workspace, path: string): Promise<void> {
  if (!(await workspace.exists(path))) return;
  throw new ToolError(`${path} already exists, and the patch creates it.`, {
    code: "FILE_EXISTS",
    suggestion: "Update the file instead, or choose another name.",
  });
}

function incompleteDeletion(path: string): ToolError {
  return new ToolError(`The patch deletes ${path} but not all of its lines.`, {
    code: "NO_MATCH",
    suggestion: `Call read_file with ${JSON.stringify({ path })}, or delete the file with delete_file.`,
  });
}

function unchanged(path: string): ToolError {
  return new ToolError(`The patch changes nothing in ${path}.`, {
    code: "INVALID_ARGUMENTS",
    suggestion: "Mark the lines to remove with - and the lines to add with +.",
  });
}
