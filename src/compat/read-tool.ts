import { ToolError } from "#domain/errors.ts";
import type { ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { decodeText, numberLines, splitLines } from "#toolsets/filesystem/text-file.ts";
import { WorkspaceTool } from "./base-tool.ts";
import type { ToolResponse } from "./tool-response.ts";

const maxTokens = 25_000;

const parameters = {
  type: "object" as const,
  properties: {
    file_paths: {
      type: "array" as const,
      items: { type: "string" as const },
      description: "The paths of the files to read",
    },
    limit: { type: "integer" as const, description: "The most lines per file; 0 for all" },
    offset: { type: "integer" as const, description: "The first line, from 1" },
  },
  required: ["file_paths"],
};

/** Reads one or more text files with line numbers. */
export class ReadTool extends WorkspaceTool {
  readonly name = "read";
  readonly description = "Read one or more files with line numbers";
  protected readonly parameters = parameters;

  protected async executeImpl(
    args: { file_paths?: string[]; limit?: number; offset?: number },
    context?: ToolContext,
  ): Promise<ToolResponse> {
    this.captureParams(args);
    const { file_paths: paths = [], limit = 0, offset = 1 } = args;
    if (paths.length === 0) {
      return this.formatErrorResponse(
        "file_paths is required",
        "validation_error",
        'Example: read(file_paths=["src/main.ts"])',
      );
    }

    const workspace = this.workspaceOf(context);
    const files: string[] = [];
    const problems: string[] = [];
    for (const path of paths) {
      try {
        files.push(`=== ${path} ===\n${await readLines(workspace, path, { limit, offset })}`);
      } catch (error) {
        if (!(error instanceof ToolError)) throw error;
        problems.push(error.message);
      }
    }
    if (files.length === 0) return this.formatErrorResponse(problems.join(" "), "user_error", "Check the file paths");
    const content = [...files, ...problems].join("\n\n");
    const tokens = estimateTokens(content);
    if (tokens > maxTokens) {
      const message = `The files have about ${tokens} tokens, and the limit is ${maxTokens}`;
      return this.formatErrorResponse(message, "user_error", "Use limit and offset to read a part");
    }
    return this.formatSuccessResponse({ content, files_read: files.length });
  }
}

async function readLines(
  workspace: Workspace,
  path: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<string> {
  const text = decodeText(await workspace.readBytes(path))?.text;
  if (text === undefined) throw new ToolError(`${path} is a binary file.`, { code: "BINARY_FILE" });
  const start = Math.max(1, offset);
  const lines = splitLines(text).slice(start - 1, limit > 0 ? start - 1 + limit : undefined);
  return numberLines(lines, start);
}
