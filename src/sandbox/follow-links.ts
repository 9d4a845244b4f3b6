import { foldersAbove, invalidPath, parsePath } from "./paths.ts";

const maxHops = 16;

export interface Links {
  /** The target of the link at this path; undefined when it is not a link. */
  targetOf(path: string): string | undefined;
  /** Throws when the path must not be visible. */
  check(path: string): void;
}

/**
 * Resolves the symbolic links in a path; in its last name only when `last` is true. Throws a ToolError `INVALID_PATH`
 * when a link leaves the tree.
 */
export function followLinks(path: string, { last }: { last: boolean }, links: Links): string {
  let current = path;
  for (let hops = 0; hops <= maxHops; hops++) {
    const next = followOne(current, last, links);
    if (next === undefined) return current;

    links.check(next);
    current = next;
  }
  throw invalidPath(path, "its symbolic links form a loop");
}

function followOne(path: string, last: boolean, links: Links): string | undefined {
  for (const link of last ? [...foldersAbove(path), path] : foldersAbove(path)) {
    const target = links.targetOf(link);
    if (target === undefined) continue;

    const resolved = resolveTarget(path, link.split("/").slice(0, -1), target);
    return [resolved, ...path.split("/").slice(link.split("/").length)].join("/");
  }
  return undefined;
}

function resolveTarget(path: string, folder: readonly string[], target: string): string {
  if (target.startsWith("/") || target === "")
    throw invalidPath(path, "it contains a symbolic link that leaves the repository");

  const resolved = [...folder];
  for (const name of target.split("/")) {
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (resolved.pop() === undefined)
        throw invalidPath(path, "it contains a symbolic link that leaves the repository");
      continue;
    }
    resolved.push(name);
  }
  return parsePath(resolved.join("/"));
}
