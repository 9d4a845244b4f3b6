import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { pluralize } from "#text/pluralize.ts";
import { quoted } from "#text/visible-text.ts";
import {
  compareTexts,
  diffResult,
  FileRules,
  type FileToolOptions,
  previewChanges,
  previewWrite,
} from "./file-changes.ts";
import { decodeText, encodeText, refuseChangedSince, refuseLfsPointer } from "./text-file.ts";

const input = z.object({
  path: z.string().min(1).describe("Relative to the root of the repository"),
  content: z.string().describe("The whole new content"),
  encoding: z
    .enum(["utf-8", "base64"])
    .optional()
    .describe("How content is encoded; default: text in the file's current encoding, utf-8 for a new file")
    .meta({ rare: true }),
  createDirs: z.boolean().optional().describe("Create missing parent directories; default true").meta({ rare: true }),
});
type Input = z.infer<typeof input>;

const tool = "write_file";

/** Creates or overwrites a file. Always asks, unless `needsApproval` is `overwriteNeedsApproval(…)`. */
export function createWriteFileTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  return {
    name: tool,
    description: "Create a file, or overwrite one as a whole. To change a part of a file use edit_file.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? true,
    approvalReason: ({ path }) => `The worker wants to write ${quoted(path)}.`,
    preview: async (args) => {
      const { path, content } = await prepare(workspace, args, options);
      await workspace.checkWrite?.(path, content.length);
      return previewChanges([await previewWrite(workspace, path, content)]);
    },
    execute: async (args) => {
      const { path, isNew, content, text } = await prepare(workspace, args, options);
      new FileRules(tool, workspace, options).check("write", path);
      await workspace.write(path, content);

      const summary = `${isNew ? "Created" : "Overwrote"} ${path} (${pluralize(content.length, "byte")})`;
      const value = text
        ? { ...diffResult(await compareTexts({ path, ...text })), bytesWritten: content.length, summary }
        : { kind: "json" as const, data: { path, size: content.length }, summary };
      return { llmContent: `${summary}.`, value };
    },
  };
}

/** Requires approval to overwrite, for protected files and if a zone requires it. New files need none. */
export function overwriteNeedsApproval(workspace: Workspace, options: FileToolOptions<Input>) {
  const rules = new FileRules(tool, workspace, options);
  return async ({ path }: Input) => rules.needsApproval("write", path, await workspace.exists(path));
}

interface PreparedWrite {
  path: string;
  isNew: boolean;
  content: Uint8Array;
  /** The text before and after; undefined if either is binary. */
  text: { before: string | undefined; after: string } | undefined;
}

async function prepare(
  workspace: Workspace,
  { path: given, content, encoding, createDirs = true }: Input,
  { history }: FileToolOptions<Input>,
): Promise<PreparedWrite> {
  const path = workspace.resolve(given);
  const parent = path.split("/").slice(0, -1).join("/");
  if (!createDirs && parent !== "" && !(await workspace.exists(parent))) {
    throw new ToolError(`The directory ${parent} does not exist.`, {
      code: "FILE_NOT_FOUND",
      suggestion: "Set createDirs to true to create it.",
    });
  }
  const before = (await workspace.exists(path)) ? await workspace.readBytes(path) : undefined;
  if (before) {
    refuseLfsPointer(before, path);
    refuseChangedSince(history?.() ?? [], path, before);
  }

  const old = before && decodeText(before);
  const bytes =
    encoding === "base64"
      ? fromBase64(content)
      : encodeText({ text: content, encoding: encoding ?? old?.encoding ?? "utf-8" }, path);
  const after = encoding === "base64" ? decodeText(bytes)?.text : content;
  const isText = after !== undefined && (!before || old !== undefined);
  return { path, isNew: !before, content: bytes, text: isText ? { before: old?.text, after } : undefined };
}

function fromBase64(text: string): Uint8Array {
  const compact = text.replace(/\s/g, "");
  if (compact.length % 4 === 1 || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(compact)) {
    throw new ToolError("The content is not valid base64.", {
      code: "INVALID_ARGUMENTS",
      suggestion: "Give base64, or leave encoding out for plain text.",
    });
  }
  return Buffer.from(compact, "base64");
}
