import type { Workspace } from "#domain/workspace.ts";
import { compileGlob } from "./compile-glob.ts";

/** Lists the files at or below a path, sorted. Throws a ToolError when the path does not exist. */
export async function listPathsBelow(workspace: Workspace, path: string): Promise<{ root: string; paths: string[] }> {
  const root = workspace.resolve(path);
  const paths = await workspace.paths();
  if (root === "") return { root, paths };

  const below = paths.filter((file) => file === root || file.startsWith(`${root}/`));
  // Throws the right error when the path does not exist.
  if (below.length === 0) await workspace.stat(root);
  return { root, paths: below };
}

/** A filter like ripgrep's `--glob`: a pattern without a slash matches names at any depth, and `!` excludes. */
export function globFilter(pattern: string): (path: string) => boolean {
  const not = pattern.startsWith("!");
  const glob = not ? pattern.slice(1) : pattern;
  const matches = compileGlob(glob.includes("/") ? glob : `**/${glob}`);
  return (path) => matches(path) !== not;
}
