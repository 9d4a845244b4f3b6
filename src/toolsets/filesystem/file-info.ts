import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { type FileToolOptions, isProtectedPath } from "./file-changes.ts";
import { decodeText, lfsPointerSize, splitLines } from "./text-file.ts";

const input = z.object({ path: z.string().min(1).describe("The file or directory to describe") });
type Input = z.infer<typeof input>;

/** Describes a file: type, size in bytes, time of the last change and, for text, the number of lines. */
export function createFileInfoTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  return {
    name: "file_info",
    description: "Get the type, size, time and number of lines of a file, without its content.",
    inputSchema: input,
    readOnly: true,
    needsApproval: options.needsApproval ?? false,
    execute: async ({ path: given }) => {
      const { path, type, size, modified, executable } = await workspace.stat(workspace.resolve(given));
      const content = type === "file" ? describeContent(await workspace.read(path)) : {};
      const isDirectory = type === "directory";
      const data = { path, type, size, isDirectory, modified: modified.toISOString(), executable, ...content };
      const known = Object.entries({ ...data, protected: isProtectedPath(path) || undefined });
      const llmContent = known
        .flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`]))
        .join("\n");
      return { llmContent, value: { kind: "json", data, summary: `${path}: ${type}, ${size} bytes` } };
    },
  };
}

function describeContent(content: Uint8Array): { lines?: number; binary: boolean; lfsBytes?: number } {
  const lfsBytes = lfsPointerSize(content);
  const text = decodeText(content)?.text;
  if (text === undefined) return { binary: true };
  return { binary: false, lines: splitLines(text).length, ...(lfsBytes === undefined ? {} : { lfsBytes }) };
}

const existsInput = z.object({ path: z.string().min(1).describe("The file or directory to look for") });
type ExistsInput = z.infer<typeof existsInput>;

/** Checks whether a file or directory exists. */
export function createFileExistsTool(
  workspace: Workspace,
  options: FileToolOptions<ExistsInput> = {},
): NamedTool<ExistsInput, ToolResult> {
  return {
    name: "file_exists",
    description: "Check whether a file or directory exists.",
    inputSchema: existsInput,
    readOnly: true,
    needsApproval: options.needsApproval ?? false,
    execute: async ({ path: given }) => {
      const path = workspace.resolve(given);
      const exists = await workspace.exists(path);
      const summary = exists ? `${path} exists` : `There is no ${path}`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { path, exists }, summary } };
    },
  };
}
