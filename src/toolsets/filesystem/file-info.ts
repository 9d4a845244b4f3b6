import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Entry, Workspace } from "#domain/workspace.ts";
import { pluralize } from "#text/pluralize.ts";
import { type FileToolOptions, isProtectedPath } from "./file-changes.ts";
import { decodeText, lfsPointerSize, splitLines } from "./text-file.ts";

const input = z.object({ path: z.string().min(1).describe("The file or directory to describe") });
type Input = z.infer<typeof input>;

/** Describes a file: type, size in bytes, modification time and, for text, the number of lines. */
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
      const content = type === "file" ? describeContent(await workspace.readBytes(path)) : {};
      const isDirectory = type === "directory";
      const data = { path, type, size, isDirectory, modified: modified.toISOString(), executable, ...content };
      const known = Object.entries({ ...data, protected: isProtectedPath(path) || undefined });
      const llmContent = known
        .flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`]))
        .join("\n");
      return { llmContent, value: { kind: "json", data, summary: `${path}: ${type}, ${pluralize(size, "byte")}` } };
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
      const summary = exists ? `${path} exists` : `${path} does not exist`;
      return { llmContent: `${summary}.`, value: { kind: "json", data: { path, exists }, summary } };
    },
  };
}

const listInput = z.object({
  path: z.string().default("").describe("The directory to list; default the root of the repository"),
  recursive: z.boolean().optional().describe("Include everything below it"),
  includeHidden: z.boolean().optional().describe("Include names that start with a dot"),
});
type ListInput = z.infer<typeof listInput>;

/** More entries would fill the context; glob is better suited to find them. */
const maxShownEntries = 1_000;

/** Lists a directory with types, sizes and times. */
export function createListFilesTool(
  workspace: Workspace,
  options: FileToolOptions<ListInput> = {},
): NamedTool<ListInput, ToolResult> {
  return {
    name: "list_files",
    aliases: ["list_directory"],
    description: "List the files and directories of a directory, with sizes in bytes.",
    inputSchema: listInput,
    readOnly: true,
    needsApproval: options.needsApproval ?? false,
    execute: async ({ path = "", recursive = false, includeHidden = false }) => {
      const root = workspace.resolve(path);
      const entries = await workspace.list(root, { recursive });
      const visible = includeHidden ? entries : entries.filter((entry) => !isHidden(entry.path, root));
      const files = visible.slice(0, maxShownEntries).map((entry) => toListedFile(entry, root));
      const directory = root === "" ? "/" : root;
      const summary = `${pluralize(visible.length, "entry", "entries")} in ${directory}`;
      const more = visible.length - files.length;
      const hidden = entries.length - visible.length;
      const notes = [
        ...(more > 0 ? [`… and ${more} more; list a directory below, or use glob.`] : []),
        ...(hidden > 0 ? [`(${hidden} hidden; includeHidden shows them)`] : []),
      ];
      return {
        llmContent: [`${summary}:`, ...files.map(line), ...notes].join("\n"),
        value: { kind: "file_list", path: directory, files, count: visible.length, summary },
      };
    },
  };
}

function isHidden(path: string, root: string): boolean {
  return path.includes("/.", root.length) || (root === "" && path.startsWith("."));
}

function toListedFile({ path, type, size, modified }: Entry, root: string) {
  const name = root === "" ? path : path.slice(root.length + 1);
  return { name, path, type, size, modified: modified.toISOString() };
}

function line({ name, type, size }: ReturnType<typeof toListedFile>): string {
  if (type === "directory") return `${name}/`;
  return type === "file" ? `${name}  ${size}` : `${name}  (${type})`;
}
