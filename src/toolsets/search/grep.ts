import { setImmediate } from "node:timers/promises";
import { RE2JS, RE2JSSyntaxException } from "re2js";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { requiredLiteral } from "#text/required-literal.ts";
import { globFilter, listPathsBelow } from "./select-paths.ts";

const contextLines = z.number().int().min(0).max(20).optional();
const input = z.object({
  pattern: z.string().min(1).max(2_000).describe("A regular expression in RE2 syntax, as ripgrep takes it"),
  path: z.string().optional().describe("The file or folder to search; default the whole repository"),
  glob: z.string().optional().describe("Only files that match, such as *.ts or src/**; ! in front leaves them out"),
  case_insensitive: z.boolean().optional(),
  literal: z.boolean().optional().describe("Take the pattern as plain text"),
  output_mode: z
    .enum(["content", "files", "files_with_matches", "count"])
    .optional()
    .describe("Matching lines (default), paths only, or the number of matching lines per file"),
  context: contextLines.describe("Lines to show around each match"),
  before_context: contextLines.describe("Lines to show before each match"),
  after_context: contextLines.describe("Lines to show after each match"),
  limit: z.number().int().min(1).max(1_000).optional().describe("How many lines or files to show; default 100"),
});
type Input = z.infer<typeof input>;

interface FileMatches {
  path: string;
  lines: string[];
  /** Indexes of the lines that match, in order. */
  matching: number[];
}

interface Search {
  found: FileMatches[];
  /** Why the result may miss something, as sentences. */
  notes: string[];
}

const maxFileBytes = 5_000_000;
const timeoutMs = 10_000;
const yieldEveryMs = 25;
const maxLineLength = 300;

/** Searches the text of files, in time linear in their size whatever the pattern. */
export function createGrepTool(workspace: Workspace): NamedTool<Input, ToolResult> {
  return {
    name: "grep",
    description: "Search file contents with a regular expression. Shows path:line:text of each matching line.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async (args, context) => {
      const search = await searchFiles(args, workspace, context);
      const limit = args.limit ?? 100;
      switch (args.output_mode) {
        case "files":
        case "files_with_matches":
          return fileResult(search, args, limit);
        case "count":
          return countResult(search, args, limit);
        default:
          return contentResult(search, args, limit);
      }
    },
  };
}

async function searchFiles(args: Input, workspace: Workspace, context: ToolContext | undefined): Promise<Search> {
  const pattern = args.literal ? RE2JS.quote(args.pattern) : args.pattern;
  const expression = compile(pattern, args.case_insensitive ?? false);
  const required = args.case_insensitive ? "" : args.literal ? args.pattern : requiredLiteral(args.pattern);
  const { paths } = await listPathsBelow(workspace, args.path ?? "");
  const filter = args.glob === undefined ? () => true : globFilter(args.glob);
  const search: Search = { found: [], notes: [] };
  const begun = performance.now();
  let yielded = begun;
  for (const path of paths.filter(filter)) {
    context?.abortSignal.throwIfAborted();
    const now = performance.now();
    if (now - begun > timeoutMs) {
      search.notes.push(
        `Stopped after ${timeoutMs / 1_000} seconds at ${path}; search a smaller part with path or glob.`,
      );
      break;
    }
    // Other runs share this thread.
    if (now - yielded > yieldEveryMs) {
      await setImmediate();
      yielded = performance.now();
    }
    const content = await readIfFile(workspace, path);
    if (!content) continue;
    if (content.length > maxFileBytes) search.notes.push(`${path} is too large to search.`);
    else if (content.includes(required) && !content.subarray(0, 8_000).includes(0)) {
      const matches = matchLines(path, content.toString("utf8"), expression);
      if (matches) search.found.push(matches);
    }
  }
  return search;
}

/** Undefined for what has no content of its own here: submodules, and links that lead nowhere or out of the tree. */
async function readIfFile(workspace: Workspace, path: string): Promise<Buffer | undefined> {
  try {
    const { buffer, byteOffset, byteLength } = await workspace.read(path);
    return Buffer.from(buffer, byteOffset, byteLength);
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}

function compile(pattern: string, caseInsensitive: boolean): RE2JS {
  try {
    return RE2JS.compile(pattern, RE2JS.MULTILINE | (caseInsensitive ? RE2JS.CASE_INSENSITIVE : 0));
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) throw error;
    const unsupported = /\(\?(<?[=!]|>)|\\[1-9]/.test(pattern);
    throw new ToolError(
      unsupported
        ? "The pattern uses lookaround, atomic groups or backreferences, which a linear-time search does not have."
        : `The pattern is not a regular expression: ${error.getDescription()}.`,
      {
        code: "INVALID_ARGUMENTS",
        suggestion: unsupported
          ? "Search for a wider pattern without them and choose among the results."
          : "Escape characters such as ( [ { with a backslash, or set literal to true.",
        cause: error,
      },
    );
  }
}

function matchLines(path: string, raw: string, expression: RE2JS): FileMatches | undefined {
  // So that $ stands before the end of a Windows line too.
  const text = raw.replaceAll("\r\n", "\n");
  if (!expression.test(text)) return undefined;

  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const starts: number[] = [];
  let start = 0;
  for (const line of lines) {
    starts.push(start);
    start += line.length + 1;
  }
  const matching: number[] = [];
  const matcher = expression.matcher(text);
  let line = 0;
  while (matcher.find()) {
    const [from, to] = [matcher.start(), Math.max(matcher.start(), matcher.end() - 1)];
    while (line + 1 < starts.length && (starts[line + 1] ?? 0) <= from) line++;
    for (let at = line; at < lines.length && (starts[at] ?? 0) <= to; at++) {
      if (matching.at(-1) === undefined || (matching.at(-1) ?? 0) < at) matching.push(at);
    }
  }
  return matching.length > 0 ? { path, lines, matching } : undefined;
}

function contentResult({ found, notes }: Search, args: Input, limit: number): ToolResult {
  const before = args.before_context ?? args.context ?? 0;
  const after = args.after_context ?? args.context ?? 0;
  const total = countOf(found);
  const shown: string[] = [];
  const matches: { path: string; line: number; text: string }[] = [];
  for (const { path, lines, matching } of found) {
    const taken = matching.slice(0, limit - matches.length);
    if (taken.length === 0) break;
    matches.push(...taken.map((at) => ({ path, line: at + 1, text: cut(lines[at] ?? "") })));
    shown.push(...showLines({ path, lines, matching: taken }, before, after));
  }
  const summary = `${total} ${total === 1 ? "match" : "matches"} in ${files(found.length)}`;
  const more = total > matches.length ? [`… and ${total - matches.length} more; narrow the pattern or the path.`] : [];
  return {
    llmContent: total === 0 ? nothing(args, notes) : [`${summary}:`, ...shown, ...more, ...notes].join("\n"),
    value: {
      kind: "search.matches",
      data: { matches, total, files: found.length },
      summary,
      preview: shown.join("\n"),
    },
  };
}

function showLines({ path, lines, matching }: FileMatches, before: number, after: number): string[] {
  const matches = new Set(matching);
  const shown: string[] = [];
  let last = -1;
  for (const at of matching) {
    const from = Math.max(last + 1, at - before);
    if (last >= 0 && from > last + 1 && before + after > 0) shown.push("--");
    const to = Math.min(lines.length - 1, at + after);
    for (let index = from; index <= to; index++) {
      const mark = matches.has(index) ? ":" : "-";
      shown.push(`${path}${mark}${index + 1}${mark}${cut(lines[index] ?? "")}`);
    }
    last = Math.max(last, to);
  }
  return shown;
}

function fileResult({ found, notes }: Search, args: Input, limit: number): ToolResult {
  const paths = found.slice(0, limit).map(({ path }) => path);
  const more = found.length > limit ? [`… and ${found.length - limit} more.`] : [];
  const summary = `${files(found.length)} with matches`;
  return {
    llmContent: found.length === 0 ? nothing(args, notes) : [`${summary}:`, ...paths, ...more, ...notes].join("\n"),
    value: { kind: "file_list", path: args.path ?? "/", files: paths, count: found.length, summary },
  };
}

function countResult({ found, notes }: Search, args: Input, limit: number): ToolResult {
  const counts = found.map(({ path, matching }) => ({ path, count: matching.length }));
  const shown = counts.slice(0, limit);
  const more = counts.length > limit ? [`… and ${counts.length - limit} more files.`] : [];
  const summary = `${countOf(found)} matches in ${files(found.length)}`;
  const lines = shown.map(({ path, count }) => `${path}:${count}`);
  return {
    llmContent: found.length === 0 ? nothing(args, notes) : [`${summary}:`, ...lines, ...more, ...notes].join("\n"),
    value: { kind: "search.counts", data: counts, summary, display: { preferredView: "table" } },
  };
}

const nothing = ({ pattern }: Input, notes: string[]) => [`Nothing matches ${pattern}.`, ...notes].join("\n");
const countOf = (found: FileMatches[]) => found.reduce((sum, { matching }) => sum + matching.length, 0);
const files = (count: number) => `${count} ${count === 1 ? "file" : "files"}`;
const cut = (line: string) => (line.length > maxLineLength ? `${line.slice(0, maxLineLength)}…` : line);
