import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { contentResult, countResult, fileResult, type GrepResult } from "./grep-results.ts";
import { readContents } from "./read-contents.ts";
import { RegexError } from "./regex/parse-regex.ts";
import { type LineQuery, LineSearch, type LineSearchOptions, SearchTimeout } from "./search-lines.ts";
import { globFilter, listPathsBelow } from "./select-paths.ts";

const contextLines = z.number().int().min(0).max(20).optional();
const input = z.object({
  pattern: z.string().min(1).max(2_000).describe("A regular expression in ripgrep's syntax, matched line by line"),
  path: z.string().optional().describe("The file or folder to search; default: the whole repository"),
  glob: z.string().optional().describe("Only files that match, such as *.ts or src/**; a leading ! excludes them"),
  case_insensitive: z.boolean().optional(),
  literal: z.boolean().optional().describe("Take the pattern as plain text"),
  output_mode: z
    .enum(["content", "files", "files_with_matches", "count"])
    .optional()
    .describe("Matching lines (default), paths only, or the number of matching lines per file"),
  context: contextLines.describe("Lines to show around each match"),
  before_context: contextLines.describe("Lines to show before each match"),
  after_context: contextLines.describe("Lines to show after each match"),
  limit: z
    .number()
    .int()
    .min(1)
    .max(1_000)
    .optional()
    .describe("Maximum number of lines or files to show; default 100"),
});
type GrepInput = z.infer<typeof input>;

const timeoutMs = 10_000;
const maxListedBinaries = 3;

/** Searches the text of files with the results of ripgrep. */
export function createGrepTool(workspace: Workspace): NamedTool<GrepInput, ToolResult> {
  return {
    name: "grep",
    description: "Search file contents with a regular expression. Shows path:line:text of each matching line.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async (args, context) => {
      const limit = args.limit ?? 100;
      const result = await searchFiles(args, { workspace, limit, signal: context?.abortSignal });
      switch (args.output_mode) {
        case "files":
        case "files_with_matches":
          return fileResult(result, args, limit);
        case "count":
          return countResult(result, args, limit);
        case "content":
        case undefined:
          return contentResult(result, args, limit);
      }
    },
  };
}

interface Scope {
  workspace: Workspace;
  limit: number;
  signal: ToolContext["abortSignal"] | undefined;
}

async function searchFiles(args: GrepInput, { workspace, limit, signal }: Scope): Promise<GrepResult> {
  const search = openSearch(
    { pattern: args.pattern, literal: args.literal ?? false, ignoreCase: args.case_insensitive ?? false },
    { maxLinesPerFile: limit, timeoutMs, signal },
  );
  const { root, paths } = await listPathsBelow(workspace, args.path ?? "");
  const filter = args.glob === undefined ? () => true : globFilter(args.glob);
  const notes: string[] = [];
  signal?.throwIfAborted();
  try {
    for await (const chunk of readContents(workspace, paths.filter(filter))) await search.search(chunk);
  } catch (error) {
    if (!(error instanceof SearchTimeout)) throw error;
    notes.push(
      `Stopped after ${timeoutMs / 1_000} seconds, so matches may be missing. Limit the search with path or glob.`,
    );
  }
  // In a search of everything, binary files are expected.
  if (root !== "" && search.binaryPaths.length <= maxListedBinaries) {
    notes.push(...search.binaryPaths.map((path) => `${path} is a binary file and was not searched.`));
  }
  return { files: search.matches.sort((a, b) => (a.path < b.path ? -1 : 1)), notes };
}

function openSearch(query: LineQuery, options: LineSearchOptions): LineSearch {
  try {
    return new LineSearch(query, options);
  } catch (error) {
    if (!(error instanceof RegexError)) throw error;
    throw new ToolError(
      error.unsupported
        ? `The pattern uses ${error.message}, which a linear-time search does not support.`
        : `The pattern is not a valid regular expression: ${error.message}.`,
      {
        code: "INVALID_ARGUMENTS",
        suggestion: error.unsupported
          ? "Search for a wider pattern without them and choose among the results."
          : "Escape characters such as ( [ { with a backslash, or set literal to true.",
        cause: error,
      },
    );
  }
}
