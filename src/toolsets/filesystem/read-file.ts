import { z } from "zod";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { pluralize } from "#text/pluralize.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import type { FileToolOptions } from "./file-changes.ts";
import { decodeText, isCallOf, knownLines, lfsPointerSize, numberLines, splitLines } from "./text-file.ts";

const input = z.object({
  path: z.string().optional().describe("Relative to the root of the repository"),
  file_paths: z.array(z.string()).min(1).max(50).optional().describe("Several files to read in one call"),
  paths: z.array(z.string()).min(1).max(50).optional().describe("The same as file_paths").meta({ rare: true }),
  offset: z.number().int().optional().describe("First line to show, from 1; negative counts from the end"),
  limit: z.number().int().min(0).optional().describe("How many lines to show; 0 means all"),
  column: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("First character of each line to show, for very long lines")
    .meta({ rare: true }),
  encoding: z
    .enum(["utf-8", "base64"])
    .optional()
    .describe("base64 for files that are not text; default utf-8")
    .meta({ rare: true }),
});
type Input = z.infer<typeof input>;

export interface ReadFileOptions extends FileToolOptions<Input> {
  /** The maximum size of the result, in estimated tokens. */
  maxTokens?: number;
}

interface ReadResult {
  path: string;
  /** The text for the model. */
  shown: string;
  content: string;
  size: number;
  modified?: string;
  /** The reason why there is no content. */
  problem?: ToolError;
}

const defaultMaxTokens = 25_000;

/** Reads one or more files, with line numbers. Refuses files that do not fit into the context. */
export function createReadFileTool(workspace: Workspace, options: ReadFileOptions = {}): NamedTool<Input, ToolResult> {
  return {
    name: "read_file",
    aliases: ["read"],
    description:
      "Read a text file with line numbers, or several at once with file_paths. Long files are outlined: read parts with offset and limit.",
    inputSchema: input,
    readOnly: true,
    needsApproval: options.needsApproval ?? false,
    execute: (args, context) => readFiles(args, { workspace, options, context }),
  };
}

interface Reader {
  workspace: Workspace;
  options: ReadFileOptions;
  context: ToolContext | undefined;
}

async function readFiles(args: Input, reader: Reader): Promise<ToolResult> {
  const paths = [...(args.path === undefined ? [] : [args.path]), ...(args.file_paths ?? []), ...(args.paths ?? [])];
  if (paths.length === 0) {
    throw new ToolError("read_file needs a path.", {
      code: "INVALID_ARGUMENTS",
      suggestion: 'Example: read_file(path="README.md")',
    });
  }

  const files = await Array.fromAsync(new Set(paths), (path) => readOne(path, args, reader));
  const [only] = files;
  const problem = files.find((file) => file.problem)?.problem;
  if (problem && files.every((file) => file.problem)) throw problem;

  const shown = files.map((file) => file.shown).join("\n\n");
  refuseTooLarge(shown, paths, reader.options.maxTokens ?? defaultMaxTokens);
  if (files.length === 1 && only) return resultOfOne(only, alreadyShown(only, args, reader));

  const size = files.reduce((sum, file) => sum + file.size, 0);
  return {
    llmContent: shown,
    value: {
      kind: "filesystem.files",
      data: files.map(({ path, content, size, problem }) => ({ path, content, size, problem: problem?.message })),
      summary: `Read ${pluralize(files.length, "file")} (${pluralize(size, "byte")})`,
      display: { preferredView: "code", collapsed: true },
    },
  };
}

function resultOfOne({ path, shown, content, size, modified }: ReadResult, isRepeated: boolean): ToolResult {
  const llmContent = isRepeated
    ? `${path} is unchanged since you read it: the content above is still current. Call read_file again if you cannot see it.`
    : shown;
  const summary = isRepeated ? `${path} is unchanged` : `Read ${path} (${pluralize(size, "byte")})`;
  return { llmContent, value: { kind: "file_content", path, content, size, ...(modified && { modified }), summary } };
}

async function readOne(given: string, args: Input, { workspace, options }: Reader): Promise<ReadResult> {
  let path = given;
  try {
    path = workspace.resolve(given);
    const bytes = await workspace.readBytes(path);
    const { modified } = await workspace.stat(path);
    const loop = new EventLoopYielder();
    const content = contentOf(bytes, path, args.encoding ?? "utf-8");
    const shown =
      args.encoding === "base64"
        ? `=== ${path} ===\n${content}`
        : await showLines(path, content, args, { maxTokens: options.maxTokens ?? defaultMaxTokens, loop });
    return { path, shown, content, size: bytes.length, modified: modified.toISOString() };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    const suggestion = error.suggestion ? ` ${error.suggestion}` : "";
    return { path, shown: `=== ${path} ===\n${error.message}${suggestion}`, content: "", size: 0, problem: error };
  }
}

function contentOf(bytes: Uint8Array, path: string, encoding: "utf-8" | "base64"): string {
  if (encoding === "base64") return Buffer.from(bytes).toString("base64");
  const lfsBytes = lfsPointerSize(bytes);
  if (lfsBytes !== undefined) {
    throw new ToolError(`${path} is a Git LFS pointer to ${lfsBytes} bytes that are stored outside the repository.`, {
      code: "BINARY_FILE",
      suggestion: "Its content cannot be read here; leave it unchanged.",
    });
  }
  const text = decodeText(bytes)?.text;
  if (text !== undefined) return text;
  throw new ToolError(`${path} is a binary file of ${bytes.length} bytes.`, {
    code: "BINARY_FILE",
    suggestion: "Use file_info for its size, or encoding base64 for its bytes.",
  });
}

async function showLines(
  path: string,
  text: string,
  { offset = 0, limit, column }: Input,
  { maxTokens, loop }: { maxTokens: number; loop: EventLoopYielder },
): Promise<string> {
  const lines = await indexLines(text, loop);
  const { total } = lines;
  const start = offset < 0 ? Math.max(0, total + offset) : Math.max(0, offset - 1);
  if (start > 0 && start >= total) {
    throw new ToolError(`${path} has ${pluralize(total, "line")}; there is no line ${start + 1}.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: `Use an offset from 1 to ${total}, or a negative one to count from the end.`,
    });
  }
  if (offset === 0 && limit === undefined && column === undefined && isLong(text, total)) return outline(path, lines);
  const count = Math.min(limit ? limit : total, total - start);
  // Each line is at least one token.
  if (count > maxTokens) throw tooLarge({ estimate: Math.ceil(text.length / 4), lines: total, path, maxTokens });
  const chosen = linesOf(lines, start, count);
  const heading = headingOf(path, { first: start + 1, last: start + chosen.length, total });
  if (chosen.length === 0) return `${heading}\n(the file is empty)`;
  const part = column === undefined || column === 1 ? "" : ` [from character ${column} of each line]`;
  return `${heading}${part}\n${numberLines(chosen, start + 1, column)}`;
}

/** A file that takes more tokens, or has more characters, is outlined unless the call says which lines to show. */
const maxWholeTokens = 4_000;
const maxWholeLength = 60_000;
const [headLines, tailLines, maxOutlined] = [80, 20, 150];

function isLong(text: string, lines: number): boolean {
  if (lines < 2 * (headLines + tailLines)) return false;
  return text.length > maxWholeLength || estimateTokens(text) > maxWholeTokens;
}

/** Characters. Longer files are data or generated, and a megabyte takes 30 ms. */
const maxOutlinedLength = 1_000_000;

/** Shows the start and the end of a long file and, of its middle, the first lines of its blocks. */
function outline(path: string, lines: IndexedLines): string {
  const { text, total } = lines;
  const isOutlined = text.length <= maxOutlinedLength;
  const others = isOutlined ? `, the last ${tailLines}, and an outline of the others` : ` and the last ${tailLines}`;
  const range = `[${total} lines: the first ${headLines}${others}. Read the part you need with offset and limit; limit 0 shows everything.]`;
  const tail = total - tailLines;
  const shown = [
    numberLines(linesOf(lines, 0, headLines), 1),
    ...(isOutlined ? outlinedLines(path, splitLines(text), tail) : []),
    numberLines(linesOf(lines, tail, tailLines), tail + 1),
  ];
  return `=== ${path} ===\n${range}\n${shown.join("\n")}`;
}

function outlinedLines(path: string, lines: readonly string[], tail: number): string[] {
  const isMarkdown = /\.(?:md|mdx|markdown)$/i.test(path);
  const begins = lines.flatMap((line, at) => {
    const isOutlined = isMarkdown ? /^#{1,4} \S/.test(line) : beginsBlock(line, lines[at + 1] ?? "");
    return at >= headLines && at < tail && isOutlined ? [at] : [];
  });
  // If there are too many, those in a class or a function are left out.
  const outer = begins.filter((at) => !/^\s/.test(lines[at] ?? ""));
  const outlined = (begins.length > maxOutlined ? outer : begins).slice(0, maxOutlined);
  return outlined.map((at) => numberLines(lines.slice(at, at + 1), at + 1));
}

const statement = /^(?:if|else|elif|for|while|switch|case|try|catch|except|finally|with|return|do|when|end)\b/;
const modifiers = /^(?:export |public |static |async |pub )*/;
const declaration = /^(?:function|class|interface|type|enum|def|fn|func|struct|trait|impl|module)\b/;
const opensBlock = /[{(:[]\s*$|=>\s*$/;
const maxOutlinedIndent = 4;

/** True for the first line of a declaration or of another indented block, unless it is a statement or a comment. */
function beginsBlock(line: string, next: string): boolean {
  const code = line.trimStart();
  const indent = line.slice(0, line.length - code.length).replaceAll("\t", "    ").length;
  if (indent > maxOutlinedIndent || !/^[\w@"'#$[]/.test(code) || statement.test(code)) return false;
  if (declaration.test(code.replace(modifiers, ""))) return true;
  return opensBlock.test(line) && /^[\t ]/.test(next) && next.search(/\S/) > line.search(/\S/);
}

/** A text with the positions of some of its lines, so that a part can be found without reading all of it. */
interface IndexedLines {
  text: string;
  total: number;
  /** The start of every `linesPerStart`th line. */
  starts: number[];
}

const linesPerStart = 1_024;

async function indexLines(text: string, loop: EventLoopYielder): Promise<IndexedLines> {
  const starts = [0];
  let total = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
    total += 1;
    if (total % linesPerStart !== 0) continue;
    starts.push(at + 1);
    if (loop.isDue) await loop.turn();
  }
  const isLastComplete = text === "" || text === "\uFEFF" || text.endsWith("\n");
  return { text, total: total + (isLastComplete ? 0 : 1), starts };
}

/** Returns some lines of a text without splitting all of it. */
function linesOf({ text, starts }: IndexedLines, start: number, count: number): string[] {
  const positionOf = (line: number) => {
    let at = starts[Math.floor(line / linesPerStart)] ?? text.length;
    for (let left = line % linesPerStart; left > 0 && at < text.length; left -= 1)
      at = text.indexOf("\n", at) + 1 || text.length;
    return at;
  };
  return splitLines(text.slice(positionOf(start), positionOf(start + count)));
}

function headingOf(path: string, { first, last, total }: { first: number; last: number; total: number }): string {
  const range =
    first === 1 && last >= total
      ? `[${pluralize(total, "line")}]`
      : `[Showing lines ${first}-${last} of ${total} total lines]`;
  return `=== ${path} ===\n${range}`;
}

function refuseTooLarge(shown: string, paths: readonly string[], maxTokens: number): void {
  const estimate = estimateTokens(shown);
  if (estimate > maxTokens) throw tooLarge({ estimate, lines: shown.split("\n").length, path: paths[0], maxTokens });
}

interface TooLargeRead {
  /** The estimated tokens of the whole file. */
  estimate: number;
  lines: number;
  path: string | undefined;
  maxTokens: number;
}

function tooLarge({ estimate, lines, path, maxTokens }: TooLargeRead): ToolError {
  const fitting = Math.max(20, Math.floor((lines * maxTokens * 0.8) / estimate));
  return new ToolError(`Too large to read: about ${estimate} tokens, and the limit for one read is ${maxTokens}.`, {
    code: "TOO_LARGE",
    suggestion: `Find the place with grep, then read a part: ${JSON.stringify({ path, offset: 1, limit: fitting })}.`,
    details: { estimate, limit: maxTokens },
  });
}

/** True if the run knows these lines and the model can still see them. Never twice, so a repeated call shows them. */
function alreadyShown({ path, shown }: ReadResult, args: Input, { options, context }: Reader): boolean {
  const history = options.history?.() ?? [];
  const last = history.findLast((call) => {
    if (!isCallOf(call, "read_file", "read") || call.result.error || !call.result.llmContent.includes(path))
      return false;
    // The model's original arguments may be invalid.
    const given = input.safeParse(call.args);
    return given.success && readsOnly(path, given.data) && rangeOf(given.data) === rangeOf(args);
  });
  if (last?.result.llmContent !== shown || !isInContext(last, context)) return false;

  // Undoing a change restores the text, but the lines were shown differently in between.
  const known = knownLines(history, path);
  const current = knownLines([last], path);
  return [...current].every(([line, text]) => known.get(line) === text);
}

function rangeOf({ offset = 0, limit = 0, column = 1, encoding = "utf-8" }: Input): string {
  return JSON.stringify([offset, limit, column, encoding]);
}

function readsOnly(path: string, { path: one, file_paths = [], paths = [] }: Input): boolean {
  const [given = "", ...others] = [...(one === undefined ? [] : [one]), ...file_paths, ...paths];
  const parts = given.split("/").filter((part) => part !== "" && part !== ".");
  return others.length === 0 && parts.join("/") === path;
}

/** True if compaction has not removed the earlier result. Without messages, it counts as visible. */
function isInContext({ callId }: FinishedCall, context: ToolContext | undefined): boolean {
  const messages = context?.messages ?? [];
  if (messages.length === 0) return true;
  return messages.some(
    ({ role, content }) =>
      role === "tool" && content.some((part) => part.type === "tool-result" && part.toolCallId === callId),
  );
}
