import type { Workspace } from "#domain/workspace.ts";
import { compileGlob } from "./compile-glob.ts";

/** The files at or below a path, in order. Throws a ToolError where the path is not there. */
export async function listPathsBelow(workspace: Workspace, path: string): Promise<{ root: string; paths: string[] }> {
  const root = workspace.resolve(path);
  const paths = await workspace.paths();
  if (root === "") return { root, paths };

  const below = paths.filter((file) => file === root || file.startsWith(`${root}/`));
  // Asked only to fail with the right error.
  if (below.length === 0) await workspace.stat(root);
  return { root, paths: below };
}

/** A filter such as ripgrep's `-g`: a pattern without a slash matches the name at any depth, `!` turns it around. */
export function globFilter(pattern: string): (path: string) => boolean {
  const not = pattern.startsWith("!");
  const glob = not ? pattern.slice(1) : pattern;
  const matches = compileGlob(glob.includes("/") ? glob : `**/${glob}`);
  return (path) => matches(path) !== not;
}
