import { foldersAbove, invalidPath, parsePath } from "./paths.ts";

const maxHops = 16;

export interface Links {
  /** Where the link at this path points, or undefined when there is none. */
  targetOf(path: string): string | undefined;
  /** Throws for a path that must not be seen. */
  check(path: string): void;
}

/**
 * Follows the links within a path. Throws a ToolError `INVALID_PATH` when one leads out of the tree. The last name is
 * followed only when `last` says so.
 */
export function followLinks(path: string, { last }: { last: boolean }, links: Links): string {
  let current = path;
  for (let hops = 0; hops <= maxHops; hops++) {
    const next = followOne(current, last, links);
    if (next === undefined) return current;

    links.check(next);
    current = next;
  }
  throw invalidPath(path, "its links lead in a circle");
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
  if (target.startsWith("/") || target === "") throw invalidPath(path, "a link on it leads out of the tree");

  const resolved = [...folder];
  for (const name of target.split("/")) {
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (resolved.pop() === undefined) throw invalidPath(path, "a link on it leads out of the tree");
      continue;
    }
    resolved.push(name);
  }
  return parsePath(resolved.join("/"));
}
