import type { ToolResult } from "#domain/result.ts";
import type { FileMatches } from "./search-lines.ts";

export interface GrepResult {
  /** Sorted by path. */
  files: FileMatches[];
  /** Sentences about what was not searched. */
  notes: string[];
}

export interface GrepInput {
  pattern: string;
  path?: string | undefined;
  context?: number | undefined;
  before_context?: number | undefined;
  after_context?: number | undefined;
}

/** A file whose matches are shown. */
interface ShownFile {
  path: string;
  lines: string[];
  /** Indexes of the matching lines to show. */
  matching: number[];
}

const maxLineLength = 300;

/** Shows matching lines, with the lines around them that were asked for. */
export function contentResult({ files, notes }: GrepResult, args: GrepInput, limit: number): ToolResult {
  const before = args.before_context ?? args.context ?? 0;
  const after = args.after_context ?? args.context ?? 0;
  const total = countOf(files);
  const shown: string[] = [];
  const matches: { path: string; line: number; text: string }[] = [];
  for (const file of files) {
    if (matches.length === limit) break;
    const { path, lines, matching } = linesOf(file, limit - matches.length);
    matches.push(...matching.map((at) => ({ path, line: at + 1, text: cut(lines[at] ?? "") })));
    shown.push(...showLines({ path, lines, matching }, before, after));
  }
  const summary = `${total} ${total === 1 ? "match" : "matches"} in ${describeFiles(files.length)}`;
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

function linesOf({ path, text, lineStarts }: FileMatches, limit: number): ShownFile {
  const lines = Buffer.from(text.buffer, text.byteOffset, text.length).toString("utf8").split("\n");
  if (lines.at(-1) === "") lines.pop();
  const matching: number[] = [];
  let line = 0;
  let at = 0;
  for (const start of lineStarts.slice(0, limit)) {
    for (let next = text.indexOf(0x0a, at); next !== -1 && next < start; next = text.indexOf(0x0a, at)) {
      line++;
      at = next + 1;
    }
    matching.push(line);
  }
  return { path, lines: lines.map((shown) => (shown.endsWith("\r") ? shown.slice(0, -1) : shown)), matching };
}

function showLines({ path, lines, matching }: ShownFile, before: number, after: number): string[] {
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

/** Lists the files with matches. */
export function fileResult({ files, notes }: GrepResult, args: GrepInput, limit: number): ToolResult {
  const paths = files.slice(0, limit).map(({ path }) => path);
  const more = files.length > limit ? [`… and ${files.length - limit} more.`] : [];
  const summary = `${describeFiles(files.length)} with matches`;
  return {
    llmContent: files.length === 0 ? nothing(args, notes) : [`${summary}:`, ...paths, ...more, ...notes].join("\n"),
    value: { kind: "file_list", path: args.path ?? "/", files: paths, count: files.length, summary },
  };
}

/** Shows the number of matching lines of each file. */
export function countResult({ files, notes }: GrepResult, args: GrepInput, limit: number): ToolResult {
  const counts = files.map(({ path, count }) => ({ path, count }));
  const shown = counts.slice(0, limit);
  const more = counts.length > limit ? [`… and ${counts.length - limit} more files.`] : [];
  const summary = `${countOf(files)} matches in ${describeFiles(files.length)}`;
  const lines = shown.map(({ path, count }) => `${path}:${count}`);
  return {
    llmContent: files.length === 0 ? nothing(args, notes) : [`${summary}:`, ...lines, ...more, ...notes].join("\n"),
    value: { kind: "search.counts", data: counts, summary, display: { preferredView: "table" } },
  };
}

const nothing = ({ pattern }: GrepInput, notes: string[]) => [`Nothing matches ${pattern}.`, ...notes].join("\n");
const countOf = (files: FileMatches[]) => files.reduce((sum, { count }) => sum + count, 0);
const describeFiles = (count: number) => `${count} ${count === 1 ? "file" : "files"}`;
const cut = (line: string) => (line.length > maxLineLength ? `${line.slice(0, maxLineLength)}…` : line);
