import { invalidPath, parsePath } from "./paths.ts";

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
  const names = path.split("/");
  const levels = last ? names.length : names.length - 1;
  for (let level = 1; level <= levels; level++) {
    const link = names.slice(0, level).join("/");
    const target = links.targetOf(link);
    if (target !== undefined)
      return [resolveTarget(path, names.slice(0, level - 1), target), ...names.slice(level)].join("/");
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
