import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine } from "#text/truncate.ts";
import { filterPaths, globFilter, listPathsBelow, readContents } from "./glob.ts";
import { RegexError } from "./regex/parse-regex.ts";
import {
  type FileMatches,
  type LineQuery,
  LineSearch,
  type LineSearchOptions,
  SearchTimeoutError,
} from "./search-lines.ts";

const contextLines = z.number().int().min(0).max(20).optional();
const input = z.object({
  pattern: z.string().min(1).max(2_000).describe("In ripgrep's syntax, matched line by line"),
  path: z.string().optional().describe("Default: the whole repository"),
  glob: z.string().optional().describe("Only files that match, such as *.ts or src/**; a leading ! excludes them"),
  case_insensitive: z.boolean().optional(),
  literal: z.boolean().optional().describe("Take the pattern as plain text"),
  output_mode: z
    .enum(["content", "files", "files_with_matches", "count"])
    .optional()
    .describe("Matching lines (default), paths only, or the number of matching lines per file"),
  context: contextLines.describe("Lines to show around each match"),
  before_context: contextLines.describe("Lines to show before each match").meta({ rare: true }),
  after_context: contextLines.describe("Lines to show after each match").meta({ rare: true }),
  limit: z.number().int().min(1).max(1_000).optional().describe("Lines or files to show; default 100"),
});
type GrepInput = z.infer<typeof input>;

const timeoutMs = 10_000;
const maxListedBinaries = 3;

/** Searches the text of files with the same results as ripgrep. */
export function createGrepTool(workspace: Workspace): NamedTool<GrepInput, ToolResult> {
  return {
    name: "grep",
    description: "Search file contents with a regular expression. Shows matching lines below the path of their file.",
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

async function searchFiles(
  args: GrepInput,
  { workspace, limit, signal }: { workspace: Workspace; limit: number; signal: ToolContext["abortSignal"] | undefined },
): Promise<GrepResult> {
  const search = openSearch(
    { pattern: args.pattern, literal: args.literal ?? false, ignoreCase: args.case_insensitive ?? false },
    { ...linesNeeded(args, limit), timeoutMs, signal },
  );
  const { root, paths: all } = await listPathsBelow(workspace, args.path ?? "");
  const notes: string[] = [];
  signal?.throwIfAborted();
  const searched = args.glob === undefined ? all : await filterPaths(all, globFilter(args.glob));
  try {
    for await (const chunk of readContents(workspace, searched)) await search.search(chunk);
  } catch (error) {
    if (!(error instanceof SearchTimeoutError)) throw error;
    notes.push(
      `Stopped after ${timeoutMs / 1_000} seconds, so matches may be missing. Limit the search with path or glob.`,
    );
  }
  // A search of the whole repository is expected to skip binary files.
  if (root !== "" && search.binaryPaths.length <= maxListedBinaries) {
    notes.push(...search.binaryPaths.map((path) => `${path} is a binary file and was not searched.`));
  }
  return { files: [...(await search.matchesByPath(searched)).values()], notes };
}

/** Counting and listing files takes half the time of finding where lines start. */
function linesNeeded({ output_mode }: GrepInput, limit: number) {
  if (output_mode === "count") return { maxLinesPerFile: 0 };
  return output_mode === undefined || output_mode === "content"
    ? { maxLinesPerFile: limit }
    : { maxLinesPerFile: 1, stopsAtMax: true };
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

export interface GrepResult {
  /** Sorted by path. */
  files: FileMatches[];
  /** Sentences about what was not searched. */
  notes: string[];
}

/** A line: its number, from 1, and where it starts in the text. */
interface NumberedLine {
  number: number;
  start: number;
}

/** A line that matches, and a position in its match. */
interface MatchingLine extends NumberedLine {
  matchedAt: number;
}

const maxLineLength = 300;
const [newline, carriageReturn] = [0x0a, 0x0d];

/** Shows matching lines, with the requested context lines. */
function contentResult({ files, notes }: GrepResult, args: GrepInput, limit: number): ToolResult {
  const before = args.before_context ?? args.context ?? 0;
  const after = args.after_context ?? args.context ?? 0;
  const total = countOf(files);
  const shown: string[] = [];
  const matches: { path: string; line: number; text: string }[] = [];
  for (const file of files) {
    if (matches.length === limit) break;
    const lines = matchingLines(file, limit - matches.length);
    for (const { number, start, matchedAt } of lines)
      matches.push({ path: file.path, line: number, text: lineAt(file.text, start, matchedAt).shown });
    shown.push(...showLines(file, lines, { before, after }));
  }
  const summary = `${pluralize(total, "match", "matches")} in ${describeFiles(files.length)}`;
  const more = total > matches.length ? [`… and ${total - matches.length} more; narrow the pattern or the path.`] : [];
  return {
    llmContent: total === 0 ? nothing(args, notes) : [`${summary}:`, ...shown, ...more, ...notes].join("\n"),
    value: {
      kind: "search.matches",
      data: { matches, total, files: files.length },
      summary,
      preview: shown.join("\n"),
    },
  };
}

function matchingLines({ text, lineStarts, matchedAt }: FileMatches, limit: number): MatchingLine[] {
  let number = 1;
  let at = 0;
  return lineStarts.slice(0, limit).map((start, index) => {
    for (; at < start; at++) if (text[at] === newline) number++;
    return { number, start, matchedAt: matchedAt[index] ?? start };
  });
}

/** Shows a file's lines below its path, which takes half the tokens of the path on each line. */
function showLines(
  { path, text }: FileMatches,
  matching: readonly MatchingLine[],
  { before, after }: { before: number; after: number },
): string[] {
  const matches = new Map(matching.map(({ number, matchedAt }) => [number, matchedAt]));
  const shown = [path];
  let next = { number: 1, start: 0 };
  for (const match of matching) {
    const isGap = match.number - before > next.number;
    if (isGap && shown.length > 1 && before + after > 0) shown.push("--");
    let { number, start } = isGap ? lineBefore(text, match, before) : next;
    for (; number <= match.number + after && start < text.length; number++) {
      const line = lineAt(text, start, matches.get(number));
      shown.push(`${number}${matches.has(number) ? ":" : "-"}${line.shown}`);
      start = line.end + 1;
    }
    next = { number, start };
  }
  return shown;
}

/** Returns the line that is this many lines before another one. */
function lineBefore(text: Uint8Array, { number, start }: NumberedLine, lines: number): NumberedLine {
  let from = start;
  for (let line = 0; line < lines; line++) from = from < 2 ? 0 : text.lastIndexOf(newline, from - 2) + 1;
  return { number: number - lines, start: from };
}

/** Returns a line, or the part of a long one around its match. */
function lineAt(text: Uint8Array, start: number, matchedAt = start): { shown: string; end: number } {
  const found = text.indexOf(newline, start);
  const end = found === -1 ? text.length : found;
  const until = end > start && text[end - 1] === carriageReturn ? end - 1 : end;
  let from = start;
  if (until - start > maxLineLength && matchedAt - start > maxLineLength / 2) {
    from = Math.max(start, Math.min(matchedAt - maxLineLength / 2, until - maxLineLength));
    while (isInsideCharacter(text[from])) from++;
  }
  // No character of a string takes more than three bytes.
  const bytes = text.subarray(from, Math.min(until, from + 3 * (maxLineLength + 1)));
  const line = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
  return { shown: `${from > start ? "…" : ""}${truncateLine(line, maxLineLength)}`, end };
}

/** True for the second and later bytes of a character in UTF-8. */
function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

function fileResult({ files, notes }: GrepResult, args: GrepInput, limit: number): ToolResult {
  const paths = files.slice(0, limit).map(({ path }) => path);
  const more = files.length > limit ? [`… and ${files.length - limit} more.`] : [];
  const summary = `${describeFiles(files.length)} with matches`;
  return {
    llmContent: files.length === 0 ? nothing(args, notes) : [`${summary}:`, ...paths, ...more, ...notes].join("\n"),
    value: { kind: "file_list", path: args.path ?? "/", files: paths, count: files.length, summary },
  };
}

/** Shows the number of matching lines of each file. */
function countResult({ files, notes }: GrepResult, args: GrepInput, limit: number): ToolResult {
  const shown = files.slice(0, limit).map(({ path, count }) => ({ path, count }));
  const more = files.length > limit ? [`… and ${pluralize(files.length - limit, "more file")}.`] : [];
  const summary = `${pluralize(countOf(files), "match", "matches")} in ${describeFiles(files.length)}`;
  const lines = shown.map(({ path, count }) => `${path}:${count}`);
  return {
    llmContent: files.length === 0 ? nothing(args, notes) : [`${summary}:`, ...lines, ...more, ...notes].join("\n"),
    value: { kind: "search.counts", data: shown, summary, display: { preferredView: "table" } },
  };
}

function nothing({ pattern, path, glob }: GrepInput, notes: string[]): string {
  const where = [path && ` in ${path}`, glob && ` in files that match ${glob}`].filter(Boolean).join("");
  return [`Nothing matches ${pattern}${where}.`, ...notes].join("\n");
}
const countOf = (files: FileMatches[]) => files.reduce((sum, { count }) => sum + count, 0);
const describeFiles = (count: number) => pluralize(count, "file");
