import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { needsFileApproval, refuseBlocked } from "./file-approval.ts";
import { diffResult } from "./file-diff.ts";
import type { FileToolOptions } from "./file-tool-options.ts";
import { previewChanges, previewWrite } from "./preview-changes.ts";
import { decode, isBinaryContent, refuseLfsPointer } from "./text-file.ts";

const input = z.object({
  path: z.string().min(1).describe("The file to write, relative to the root of the repository"),
  content: z.string().describe("The whole new content"),
  encoding: z.enum(["utf-8", "base64"]).optional().describe("How content is given; default utf-8"),
  createDirs: z.boolean().optional().describe("Create missing parent directories; default true"),
});
type Input = z.infer<typeof input>;

const tool = "write_file";

/**
 * Creates or overwrites a file. On its own every call asks; `needsApproval: overwriteNeedsApproval(…)` frees new files.
 */
export function createWriteFileTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  return {
    name: tool,
    description: "Create a file, or overwrite one as a whole. To change a part of a file use edit_file.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? true,
    approvalReason: ({ path }) => `The worker wants to write ${path}.`,
    preview: async (args) => {
      const { path, content } = await prepare(workspace, args);
      return previewChanges([await previewWrite(workspace, path, content)]);
    },
    execute: async (args) => {
      const { path, before, content } = await prepare(workspace, args);
      refuseBlocked({ tool, workspace, operation: "write", path, zones: options.zoneApprovalConfig });
      await workspace.write(path, content);

      const after = textOf(content);
      const old = before && textOf(before);
      const done = `${before ? "Overwrote" : "Created"} ${path} (${content.length} bytes)`;
      if (after === undefined || (before && old === undefined)) {
        return { llmContent: `${done}.`, value: { kind: "text", content: done, summary: done } };
      }
      return { llmContent: `${done}.`, value: { ...diffResult({ path, before: old, after }), summary: done } };
    },
  };
}

/** Asks for what overwrites, for protected files and where a zone says so; new files are free. */
export function overwriteNeedsApproval(workspace: Workspace, options: FileToolOptions<Input>) {
  return async ({ path }: Input): Promise<boolean> =>
    needsFileApproval({
      tool,
      workspace,
      operation: "write",
      path,
      otherwise: await workspace.exists(path),
      zones: options.zoneApprovalConfig,
    });
}

async function prepare(workspace: Workspace, { path: given, content, encoding, createDirs = true }: Input) {
  const path = workspace.resolve(given);
  const parent = path.split("/").slice(0, -1).join("/");
  if (!createDirs && parent !== "" && !(await workspace.exists(parent))) {
    throw new ToolError(`There is no directory ${parent}.`, {
      code: "FILE_NOT_FOUND",
      suggestion: "Set createDirs to true to create it.",
    });
  }
  const before = (await workspace.exists(path)) ? await workspace.read(path) : undefined;
  if (before) refuseLfsPointer(before, path);
  return { path, before, content: encoding === "base64" ? fromBase64(content) : Buffer.from(content) };
}

function fromBase64(text: string): Uint8Array {
  const compact = text.replace(/\s/g, "");
  if (compact.length % 4 === 1 || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(compact)) {
    throw new ToolError("The content is not base64.", {
      code: "INVALID_ARGUMENTS",
      suggestion: "Give base64, or leave encoding out for plain text.",
    });
  }
  return Buffer.from(compact, "base64");
}

function textOf(content: Uint8Array): string | undefined {
  return isBinaryContent(content) ? undefined : decode(content);
}
