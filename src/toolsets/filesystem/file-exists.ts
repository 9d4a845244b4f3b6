import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FileToolOptions } from "./file-approval.ts";

const input = z.object({ path: z.string().min(1).describe("The file or directory to look for") });
type Input = z.infer<typeof input>;

/** Checks whether a file or directory exists. */
export function createFileExistsTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  return {
    name: "file_exists",
    description: "Check whether a file or directory exists.",
    inputSchema: input,
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
