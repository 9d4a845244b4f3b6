import { RE2JS } from "re2js";
import { z } from "zod";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ContentChunk, Workspace } from "#domain/workspace.ts";
import { pluralize } from "#text/pluralize.ts";

const input = z.object({
  pattern: z.string().min(1).describe("Such as src/**/*.ts, relative to path"),
  path: z.string().optional().describe("Default: the whole repository"),
  exclude: z.array(z.string()).max(20).optional().describe("Globs of files to exclude").meta({ rare: true }),
  limit: z.number().int().min(1).max(2_000).optional().describe("Paths to show; default 200"),
});
type Input = z.infer<typeof input>;

/** Finds files by name. */
export function createGlobTool(workspace: Workspace): NamedTool<Input, ToolResult> {
  return {
    name: "glob",
    description: "Find files by a name pattern such as **/*.test.ts.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ pattern, path = "", exclude = [], limit = 200 }) => {
      const matches = compileGlob(pattern);
      const excluded = exclude.map(globFilter);
      const { root, paths } = await listPathsBelow(workspace, path);
      const from = root === "" ? 0 : root.length + 1;
      const found = await filterPaths(
        paths,
        (file) => matches(file.slice(from)) && !excluded.some((excludes) => excludes(file.slice(from))),
      );

      const shown = found.slice(0, limit);
      const summary = `${pluralize(found.length, "file matches", "files match")} ${pattern}`;
      const more = found.length > limit ? [`… and ${found.length - limit} more; narrow the pattern.`] : [];
      const hint = found.length === 0 && !pattern.includes("/") ? [`Use **/${pattern} to search all folders.`] : [];
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

/** A filter like ripgrep's `--glob`: a pattern without a slash matches names at any depth, and `!` excludes. */
export function globFilter(pattern: string): (path: string) => boolean {
  const not = pattern.startsWith("!");
  const glob = not ? pattern.slice(1) : pattern;
  const matches = compileGlob(glob.includes("/") ? glob : `**/${glob}`);
  return (path) => matches(path) !== not;
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

/**
 * Compiles a glob to a test for paths. `*` and `?` match within one name, `**` across folders; `[a-z]`, `[!a]` and
 * `{a,b}` are supported, a backslash escapes, and names with a leading dot are matched like any other. Uses RE2 rather
 * than RegExp so that every pattern takes linear time. Throws a ToolError for a pattern that is too long.
 */
export function compileGlob(pattern: string): (path: string) => boolean {
  if (pattern.length > maxPatternLength) {
    throw new ToolError(`The glob is longer than ${maxPatternLength} characters.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: "Use several shorter patterns.",
    });
  }
  const rooted = pattern.replace(/^(\.?\/)+/, "");
  const compiled = RE2JS.compile(`^(?:${translate(rooted)})$`, RE2JS.DOTALL);
  return (path) => compiled.test(path);
}

function translate(pattern: string): string {
  let source = "";
  let at = 0;
  const depths = braceDepths(pattern);
  while (at < pattern.length) {
    const rest = pattern.slice(at);
    const token = tokens.map((known) => ({ known, match: known.pattern.exec(rest) })).find(({ match }) => match);
    const inBraces = (depths[at] ?? 0) > 0;
    if (token?.match) {
      // `**` crosses folders only as a whole path segment.
      const end = at + token.match[0].length;
      const startsName = at === 0 || "/{,".includes(pattern.charAt(at - 1));
      const endsName = end === pattern.length || "},".includes(pattern.charAt(end)) || pattern.charAt(end - 1) === "/";
      source += token.known.source(token.match, startsName && endsName);
      at = end;
      continue;
    }
    source += choice(pattern.charAt(at), inBraces) ?? RE2JS.quote(pattern.charAt(at));
    at++;
  }
  return source;
}

interface Token {
  pattern: RegExp;
  source(match: RegExpExecArray, isName: boolean): string;
}

const tokens: Token[] = [
  { pattern: /^\\([\s\S])/, source: ([, literal = ""]) => RE2JS.quote(literal) },
  { pattern: /^\*\*\//, source: (_, isName) => (isName ? "(?:[^/]+/)*" : "[^/]*/") },
  { pattern: /^\*\*+/, source: (_, isName) => (isName ? ".*" : "[^/]*") },
  { pattern: /^\*/, source: () => "[^/]*" },
  { pattern: /^\?/, source: () => "[^/]" },
  { pattern: /^\[([!^]?)(\]?[^\]/]+)\]/, source: ([, not, members = ""]) => characterClass(not !== "", members) },
];

function characterClass(not: boolean, members: string): string {
  const escaped = members
    .replace(/[\\[\]^]/g, "\\$&")
    .replace(/(.)-(.)/g, (range, from, to) => (from > to ? "-" : range));
  return `[${not ? "^/" : ""}${escaped}]`;
}

function choice(character: string, inBraces: boolean): string | undefined {
  if (!inBraces) return undefined;
  if (character === "{") return "(?:";
  if (character === "}") return ")";
  return character === "," ? "|" : undefined;
}

/** Returns the brace depth of each character. The braces themselves count as inside; unclosed braces do not count. */
function braceDepths(pattern: string): number[] {
  const depths = Array<number>(pattern.length).fill(0);
  const open: number[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern.charAt(at);
    if (character === "\\") at++;
    else if (character === "{") open.push(at);
    else if (character === "}" && open.length > 0) {
      const from = open.pop() ?? 0;
      for (let inside = from; inside <= at; inside++) depths[inside] = (depths[inside] ?? 0) + 1;
    }
  }
  return depths;
}
