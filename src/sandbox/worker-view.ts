import { ToolError, type ToolErrorCode } from "#domain/errors.ts";
import type { Entry } from "#domain/workspace.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { Base } from "./base.ts";
import type { Overlay, TreeNode } from "./overlay.ts";
import { folderOf, foldersAbove, invalidPath, isWithin, parsePath } from "./paths.ts";
import type { Zones } from "./zones.ts";

/** One worker's view of the tree: the base, the run's changes, and the worker's zones. */
export interface View {
  base: Base;
  overlay: Overlay;
  zones: Zones;
}

/** Normalizes a path. Throws a ToolError `INVALID_PATH` when it is invalid or not visible to the worker. */
export function resolvePath(view: View, path: string): string {
  const parsed = parsePath(path);
  checkSeen(view, parsed);
  if (nodeAt(view, parsed)) return parsed;

  // The name may be stored in the other Unicode form.
  for (const form of ["NFC", "NFD"]) {
    const other = parsed.normalize(form);
    if (other !== parsed && nodeAt(view, other)) return other;
  }
  return parsed;
}

function checkSeen({ zones }: View, path: string): void {
  if (zones.canSee(path) || zones.leadsToVisible(path)) return;
  throw invalidPath(path, "it is outside the part of the tree that this worker can see");
}

/** Resolves the symbolic links in the parent folders of a path. */
export function resolveParentLinks(view: View, path: string): string {
  return followLinksIn(view, resolvePath(view, path), false);
}

/** Resolves symbolic links; in the last name only when `last` is true. Throws when a target is not visible. */
export function followLinksIn(view: View, path: string, last: boolean): string {
  return followLinks(
    path,
    { last },
    {
      targetOf: (at) => {
        const layer = view.overlay.layers.repository;
        return view.zones.spaceOf(at) === "repository" && layer.node(at)?.type === "symlink"
          ? layer.read(at)?.toString("utf8")
          : undefined;
      },
      check: (at) => checkSeen(view, at),
    },
  );
}

/** Returns the node at a path; undefined if there is none or the worker cannot see it. */
export function nodeAt({ overlay, zones, base }: View, path: string): TreeNode | undefined {
  const node = overlay.layers[zones.spaceOf(path)].node(path);
  if (node && (zones.canSee(path) || (node.type === "directory" && zones.leadsToVisible(path)))) return node;

  // A zone's folder exists even if it is empty.
  const leads = path === "" || zones.runFolders().some((folder) => isWithin(folder, path));
  return leads ? { type: "directory", size: 0, modified: base.date, executable: false } : undefined;
}

/** Like `nodeAt`, but throws a ToolError `FILE_NOT_FOUND` that suggests the nearest name. */
export function requireNode(view: View, path: string): TreeNode {
  const node = nodeAt(view, path);
  if (node) return node;

  const near = closestMatch(
    path,
    entriesIn(view, folderOf(path)).map((entry) => entry.path),
  );
  throw toolError(
    "FILE_NOT_FOUND",
    `There is no ${path}.`,
    near ? `Did you mean ${near}?` : "List the folder to see what is there.",
  );
}

export function entriesBelow(view: View, folder: string): Entry[] {
  return entriesIn(view, folder).flatMap((entry) =>
    entry.type === "directory" ? [entry, ...entriesBelow(view, entry.path)] : [entry],
  );
}

export function entriesIn(view: View, folder: string): Entry[] {
  const inside = folder === "" ? "" : `${folder}/`;
  const { repository, run } = view.overlay.layers;
  const runFolders = view.zones
    .runFolders()
    .filter((path) => path.startsWith(inside) && path !== folder)
    .map((path) => path.slice(inside.length).replace(/\/.*$/s, ""));
  const written = view.zones.spaceOf(folder) === "run" ? run.namesIn(folder) : repository.namesIn(folder);
  const names = new Set([...written, ...runFolders]);
  return [...names].flatMap((name) => {
    const path = `${inside}${name}`;
    const node = nodeAt(view, path);
    return node ? [describe(view, path, node)] : [];
  });
}

export function describe(view: View, path: string, { type, size, modified, executable }: TreeNode): Entry {
  return { path, type, size, modified, executable: type === "symlink" ? isTargetExecutable(view, path) : executable };
}

function isTargetExecutable(view: View, path: string): boolean {
  try {
    return nodeAt(view, followLinksIn(view, path, true))?.executable ?? false;
  } catch (error) {
    // It leads out of the tree, or around in a circle.
    if (error instanceof ToolError) return false;
    throw error;
  }
}

export function displayPath(path: string): string {
  return path === "" ? "The root" : path;
}

export function toolError(code: ToolErrorCode, message: string, suggestion?: string): ToolError {
  return new ToolError(message, { code, ...(suggestion ? { suggestion } : {}) });
}

const maxHops = 16;

interface Links {
  /** The target of the link at this path; undefined when it is not a link. */
  targetOf(path: string): string | undefined;
  /** Throws if the path must not be visible. */
  check(path: string): void;
}

/**
 * Resolves the symbolic links in a path; in its last name only when `last` is true. Throws a ToolError `INVALID_PATH`
 * when a link leaves the tree.
 */
function followLinks(path: string, { last }: { last: boolean }, links: Links): string {
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
