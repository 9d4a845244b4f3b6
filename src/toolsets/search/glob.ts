import { z } from "zod";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ContentChunk, Workspace } from "#domain/workspace.ts";
import { compileFileGlob, compileGlob } from "#text/path-pattern.ts";
import { pluralize } from "#text/pluralize.ts";

const input = z.object({
  pattern: z.string().min(1).describe("Such as src/**/*.ts, relative to path"),
  path: z.string().optional().describe("Default: the whole repository"),
  exclude: z.array(z.string()).max(20).optional().describe("Globs of files to exclude").meta({ rare: true }),
  limit: z.number().int().min(1).max(2_000).optional().describe("Paths to show; default 200"),
});
type Input = z.infer<typeof input>;

export function createGlobTool(workspace: Workspace): NamedTool<Input, ToolResult> {
  return {
    name: "glob",
    description: "Find files by a name pattern such as **/*.test.ts.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ pattern, path = "", exclude = [], limit = 200 }) => {
      checkLength(pattern);
      const matches = compileGlob(pattern);
      const excluded = exclude.map(globFilter);
      const { root, paths } = await listPathsBelow(workspace, path);
      const from = root === "" ? 0 : root.length + 1;
      const found = await filterPaths(
        paths,
        // A name may contain characters that mean something in a glob, such as [slug].
        (file) =>
          (file.slice(from) === pattern || matches(file.slice(from))) &&
          !excluded.some((excludes) => excludes(file.slice(from))),
      );

      const shown = found.slice(0, limit);
      const summary = `${pluralize(found.length, "file matches", "files match")} ${pattern}`;
      const more = found.length > limit ? [`… and ${found.length - limit} more; narrow the pattern.`] : [];
      const isFolder = paths.some((file) => file.slice(from).startsWith(`${pattern}/`));
      const wider = isFolder ? `Use ${pattern}/** to list this folder.` : `Use **/${pattern} to search all folders.`;
      const hint = found.length === 0 && (isFolder || !pattern.includes("/")) ? [wider] : [];
      return {
        llmContent: [`${summary}${shown.length > 0 ? ":" : "."}`, ...shown, ...more, ...hint].join("\n"),
        value: { kind: "file_list", path: root === "" ? "/" : root, files: shown, count: found.length, summary },
      };
    },
  };
}

/** Lists the files at or below a path, sorted. Throws a ToolError when the path does not exist. */
export async function listPathsBelow(workspace: Workspace, path: string): Promise<{ root: string; paths: string[] }> {
  const root = workspace.resolve(path);
  const paths = await workspace.paths();
  if (root === "") return { root, paths };

  const below = paths.filter((file) => file === root || file.startsWith(`${root}/`));
  // Throws the appropriate error if the path does not exist.
  if (below.length === 0) await workspace.stat(root);
  return { root, paths: below };
}

/** Filters paths, yielding to the event loop: a glob takes some microseconds for each of 100,000 paths. */
export async function filterPaths(paths: readonly string[], keep: (path: string) => boolean): Promise<string[]> {
  const yielder = new EventLoopYielder();
  const kept: string[] = [];
  for (const path of paths) {
    if (yielder.isDue) await yielder.turn();
    if (keep(path)) kept.push(path);
  }
  return kept;
}

/** Reads files in large chunks if the workspace supports it, and otherwise one by one. */
export async function* readContents(workspace: Workspace, paths: readonly string[]): AsyncIterable<ContentChunk> {
  if (workspace.contents) {
    yield* workspace.contents(paths);
    return;
  }
  for (const path of paths) {
    const bytes = await readIfFile(workspace, path);
    if (bytes) yield { bytes, files: [{ path, start: 0, end: bytes.length }] };
  }
}

/** Returns undefined for paths without content: submodules, and links that are broken or leave the repository. */
async function readIfFile(workspace: Workspace, path: string): Promise<Uint8Array | undefined> {
  try {
    return await workspace.readBytes(path);
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}

const maxPatternLength = 500;

/** A filter like ripgrep's `--glob`, in which `!` excludes. Throws a ToolError for a pattern that is too long. */
export function globFilter(pattern: string): (path: string) => boolean {
  checkLength(pattern);
  const isExcluding = pattern.startsWith("!");
  const matches = compileFileGlob(isExcluding ? pattern.slice(1) : pattern);
  return (path) => matches(path) !== isExcluding;
}

function checkLength(pattern: string): void {
  if (pattern.length <= maxPatternLength) return;
  throw new ToolError(`The glob is longer than ${maxPatternLength} characters.`, {
    code: "INVALID_ARGUMENTS",
    suggestion: "Use several shorter patterns.",
  });
}
