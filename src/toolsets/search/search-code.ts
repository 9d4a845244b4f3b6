import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { decodeText, splitLines } from "#toolsets/filesystem/text-file.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { type CodeIndex, codeIndexOf, type IndexedFile } from "./code-index.ts";
import { codeTerms } from "./code-terms.ts";
import { queryTerms, type RankedFile, rankFiles } from "./rank-files.ts";
import { globFilter, listPathsBelow } from "./select-paths.ts";

const input = z.object({
  query: z.string().min(1).max(500).describe("Names or words, such as parseCommand or where permission is checked"),
  path: z.string().optional().describe("The folder to search; default the whole repository"),
  glob: z.string().optional().describe("Only files that match, such as *.ts"),
  limit: z.number().int().min(1).max(50).optional().describe("How many files to show; default 10"),
});
type Input = z.infer<typeof input>;

const maxFileBytes = 1_000_000;
const maxLinesPerFile = 3;
const maxLineLength = 200;
const yieldEveryMs = 25;

/** Finds the files a query is about, ranked: definitions above uses, by names of symbols and files and by text. */
export function createSearchCodeTool(services: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "search_code",
    description:
      "Find where something is in the code by names or words, best file first. Use grep for an exact text or pattern.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ query, path = "", glob, limit = 10 }, { abortSignal }) => {
      const { workspace } = services;
      const terms = queryTerms(query);
      if (terms.length === 0) {
        throw new ToolError("The query has no words.", {
          code: "INVALID_ARGUMENTS",
          suggestion: "Give names or words; use grep for punctuation.",
        });
      }
      const filter = glob === undefined ? () => true : globFilter(glob);
      const paths = (await listPathsBelow(workspace, path)).paths.filter(filter);
      const index = codeIndexOf(indexKey(services));
      const ranked = rankFiles(await indexFiles(paths, { services, index, abortSignal }), terms, index);
      const results = [];
      for (const file of ranked.slice(0, limit)) results.push(await withLines(file, terms, services));

      const shown = results.map(({ path, lines }) =>
        [path, ...lines.map(({ line, text }) => `  ${line}: ${text}`)].join("\n"),
      );
      const summary = `${ranked.length} ${ranked.length === 1 ? "file fits" : "files fit"} ${query}`;
      const more = ranked.length > limit ? [`… and ${ranked.length - limit} more that fit less.`] : [];
      return {
        llmContent: ranked.length === 0 ? `Nothing fits ${query}.` : [`${summary}:`, ...shown, ...more].join("\n"),
        value: { kind: "search.code", data: { results, total: ranked.length }, summary, preview: shown.join("\n") },
      };
    },
  };
}

// Tenants never share an index, even of the same commit.
function indexKey({ spec, sandbox }: ToolServices): string {
  const { installationId, repositoryId, owner, repo } = spec.origin;
  return JSON.stringify([installationId, repositoryId ?? `${owner}/${repo}`, sandbox.base.commit]);
}

interface Indexing {
  services: ToolServices;
  index: CodeIndex;
  abortSignal: AbortSignal;
}

async function indexFiles(paths: readonly string[], { services, index, abortSignal }: Indexing) {
  const changed = new Set((await services.workspace.changes()).map(({ path }) => path));
  const files = new Map<string, IndexedFile>();
  let yielded = performance.now();
  for (const path of paths) {
    abortSignal.throwIfAborted();
    // Other runs share this thread.
    if (performance.now() - yielded > yieldEveryMs) {
      await setImmediate();
      yielded = performance.now();
    }
    const kept = changed.has(path) ? undefined : index.file(path);
    const file = kept ?? index.read(path, await textOf(path, services));
    const isOfCommit = !kept && !changed.has(path) && (await services.workspace.readBase(path)) !== undefined;
    if (isOfCommit) index.keep(path, file);
    files.set(path, file);
  }
  return files;
}

/** Empty for what is no text, too large, or not there to be read. */
async function textOf(path: string, { workspace }: ToolServices): Promise<string> {
  try {
    const content = await workspace.read(path);
    return content.length > maxFileBytes ? "" : (decodeText(content)?.text ?? "");
  } catch (error) {
    if (error instanceof ToolError) return "";
    throw error;
  }
}

async function withLines({ path, score, symbols }: RankedFile, terms: readonly string[], services: ToolServices) {
  const lines = splitLines(await textOf(path, services));
  const wanted = new Set(terms);
  const fitting = lines
    .map((text, at) => ({ line: at + 1, fits: new Set(codeTerms(text).filter((term) => wanted.has(term))).size }))
    .filter(({ fits }) => fits > 0)
    .sort((a, b) => b.fits - a.fits || a.line - b.line);
  const chosen = [...new Set([...symbols.map(({ line }) => line), ...fitting.map(({ line }) => line)])];
  const shown = chosen.slice(0, maxLinesPerFile).sort((a, b) => a - b);
  return {
    path,
    score: Math.round(score * 100) / 100,
    symbols: symbols.slice(0, maxLinesPerFile),
    lines: shown.map((line) => ({ line, text: (lines[line - 1] ?? "").trim().slice(0, maxLineLength) })),
  };
}
