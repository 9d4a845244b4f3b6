import { isAscii } from "node:buffer";
import { z } from "zod";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { pluralize } from "#text/pluralize.ts";
import { filterPaths, globFilter, listPathsBelow, readContents } from "./glob.ts";
import {
  type CandidateFile,
  type CodeSymbol,
  codeSymbols,
  queryTerms,
  type RankedFile,
  rankFiles,
  TermCounter,
} from "./rank-files.ts";
import { type FileMatches, LineSearch } from "./search-lines.ts";

const input = z.object({
  query: z.string().min(1).max(500).describe("Names or words, such as parseCommand or where permission is checked"),
  path: z.string().optional().describe("The folder to search; default: the whole repository"),
  glob: z.string().optional().describe("Only files that match, such as *.ts"),
  limit: z.number().int().min(1).max(50).optional().describe("How many files to show; default 10"),
});
type Input = z.infer<typeof input>;

const maxFileBytes = 1_000_000;
/** The maximum number of lines counted per file. Definitions after them are not found. */
const maxCountedLines = 1_000;
const maxLinesPerFile = 3;
const maxLineLength = 200;
const timeoutMs = 10_000;
const newline = 0x0a;

/** Finds the files relevant to a query by names of symbols and files and by text. Definitions rank above uses. */
export function createSearchCodeTool(workspace: Workspace): NamedTool<Input, ToolResult> {
  return {
    name: "search_code",
    description:
      "Find where something is in the code by names or words, best file first. Use grep for an exact text or pattern.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ query, path = "", glob, limit = 10 }, { abortSignal }) => {
      const terms = queryTerms(query);
      if (terms.length === 0) {
        throw new ToolError("The query has no words.", {
          code: "INVALID_ARGUMENTS",
          suggestion: "Give names or words; use grep for punctuation.",
        });
      }
      const { paths: all } = await listPathsBelow(workspace, path);
      const paths = glob === undefined ? all : await filterPaths(all, globFilter(glob));
      const matches = await findMatches(paths, terms, { workspace, signal: abortSignal });
      const relevant = await filterPaths(paths, (path) => matches.has(path) || hasTerm(path, terms));
      const options = { total: paths.length, limit, signal: abortSignal };
      const { best, count } = await rankFiles(findCandidates(relevant, matches), terms, options);
      const results = await Array.fromAsync(best, (file) =>
        withLines(file, terms, { match: matches.get(file.path), signal: abortSignal }),
      );
      const shown = results.map(({ path, lines }) =>
        [path, ...lines.map(({ line, text }) => `  ${line}: ${text}`)].join("\n"),
      );
      const summary = `${pluralize(count, "file matches", "files match")} ${query}`;
      const more = count > limit ? [`… and ${count - limit} more that match less.`] : [];
      return {
        llmContent: count === 0 ? `Nothing matches ${query}.` : [`${summary}:`, ...shown, ...more].join("\n"),
        value: { kind: "search.code", data: { results, total: count }, summary, preview: shown.join("\n") },
      };
    },
  };
}

/** Finds the lines that contain a term. Scanning all files is faster than reading an index of them. */
async function findMatches(
  paths: readonly string[],
  terms: readonly string[],
  { workspace, signal }: { workspace: Workspace; signal: AbortSignal },
): Promise<Map<string, FileMatches>> {
  const pattern = terms.map((term) => term.replace(/[$]/g, "\\$&")).join("|");
  const search = new LineSearch(
    { pattern, literal: false, ignoreCase: true },
    { maxLinesPerFile: maxCountedLines, stopsAtMax: true, timeoutMs, signal },
  );
  for await (const chunk of readContents(workspace, paths)) await search.search(chunk);
  const matches = await search.matchesByPath(paths);
  for (const { path, text } of matches.values()) if (text.length > maxFileBytes) matches.delete(path);
  return matches;
}

function hasTerm(path: string, terms: readonly string[]): boolean {
  const lowered = path.toLowerCase();
  return terms.some((term) => lowered.includes(term));
}

function* findCandidates(
  paths: readonly string[],
  matches: ReadonlyMap<string, FileMatches>,
): Generator<CandidateFile> {
  for (const path of paths) {
    const match = matches.get(path);
    yield match ? { path, size: match.text.length, ...matchingText(match) } : { path, size: 0, text: "" };
  }
}

/** Returns the lines that contain a term. Those of an ASCII file are one string, with the lines between them. */
function matchingText({ text, lineStarts }: FileMatches): Pick<CandidateFile, "text" | "isAscii"> {
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.length);
  const endOf = (start: number) => {
    const end = bytes.indexOf(newline, start);
    return end === -1 ? bytes.length : end;
  };
  const [first = 0, last = 0] = [lineStarts[0], lineStarts.at(-1)];
  const all = bytes.subarray(first, endOf(last));
  if (isAscii(all)) return { text: all.toString("latin1"), isAscii: true };
  return { text: lineStarts.map((start) => bytes.toString("utf8", start, endOf(start))).join("\n") };
}

/** Adds the lines to show: the best definitions first, then the lines with the most terms. */
async function withLines(
  { path, score, symbols }: RankedFile,
  terms: readonly string[],
  { match, signal }: { match: FileMatches | undefined; signal: AbortSignal },
) {
  const text = Buffer.from(match?.text ?? []).toString("utf8");
  const lines = text.split("\n");
  const ranks = new Map(symbols.map(({ name }, rank) => [name, rank]));
  const counter = new TermCounter(terms);
  const yielder = new EventLoopYielder({ signal });
  const defined: CodeSymbol[] = [];
  const matching: { line: number; terms: number }[] = [];
  for (const [at, line] of lines.entries()) {
    if (yielder.isDue) await yielder.turn();
    for (const { name } of codeSymbols([line], path)) if (ranks.has(name)) defined.push({ name, line: at + 1 });
    const count = counter.count(line).filter(Boolean).length;
    if (count > 0) matching.push({ line: at + 1, terms: count });
  }
  const rankOf = ({ name }: CodeSymbol) => ranks.get(name) ?? 0;
  defined.sort((a, b) => rankOf(a) - rankOf(b) || a.line - b.line);
  matching.sort((a, b) => b.terms - a.terms || a.line - b.line);
  const chosen = [...new Set([...defined, ...matching].map(({ line }) => line))];
  return {
    path,
    score: Math.round(score * 100) / 100,
    symbols: defined.slice(0, maxLinesPerFile),
    lines: chosen
      .slice(0, maxLinesPerFile)
      .sort((a, b) => a - b)
      .map((line) => ({ line, text: (lines[line - 1] ?? "").trim().slice(0, maxLineLength) })),
  };
}
