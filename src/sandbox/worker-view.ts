import { ToolError, type ToolErrorCode } from "#domain/errors.ts";
import type { Entry } from "#domain/workspace.ts";
import { nearest } from "#text/nearest.ts";
import type { Base } from "./base.ts";
import { followLinks } from "./follow-links.ts";
import type { TreeNode } from "./layer.ts";
import type { Overlay } from "./overlay.ts";
import { folderOf, invalidPath, isWithin, parsePath } from "./paths.ts";
import type { Zones } from "./zones.ts";

/** What one worker looks through: the base, the run's changes over it, and its own zones. */
export interface View {
  base: Base;
  overlay: Overlay;
  zones: Zones;
}

/** The path as the tree knows it, or a ToolError `INVALID_PATH`. */
export function resolvePath(view: View, path: string): string {
  const parsed = parsePath(path);
  checkSeen(view, parsed);
  if (nodeAt(view, parsed)) return parsed;

  // The same name in another Unicode form is the same name to whoever wrote it.
  for (const form of ["NFC", "NFD"]) {
    const other = parsed.normalize(form);
    if (other !== parsed && nodeAt(view, other)) return other;
  }
  return parsed;
}

function checkSeen({ zones }: View, path: string): void {
  if (zones.canSee(path) || zones.leadsToVisible(path)) return;
  throw invalidPath(path, "it lies outside the part of the tree this worker may see");
}

/** The path with the links above its last name followed. */
export function resolveParentLinks(view: View, path: string): string {
  return followLinksIn(view, resolvePath(view, path), false);
}

/** The path with its links followed, the last name too when `last` says so. None leads out of what the worker sees. */
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

/** What stands at a path, as far as the worker sees it. */
export function nodeAt({ overlay, zones, base }: View, path: string): TreeNode | undefined {
  const node = overlay.layers[zones.spaceOf(path)].node(path);
  if (node && (zones.canSee(path) || (node.type === "directory" && zones.leadsToVisible(path)))) return node;

  // The folder of a zone is there before anything is in it.
  const leads = path === "" || zones.runFolders().some((folder) => isWithin(folder, path));
  return leads ? { type: "directory", size: 0, modified: base.date, executable: false } : undefined;
}

/** The same, or a ToolError `FILE_NOT_FOUND` with the name that was probably meant. */
export function requireNode(view: View, path: string): TreeNode {
  const node = nodeAt(view, path);
  if (node) return node;

  const near = nearest(
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
    return node ? [describe(path, node)] : [];
  });
}

export function describe(path: string, { type, size, modified, executable }: TreeNode): Entry {
  return { path, type, size, modified, executable };
}

export function displayPath(path: string): string {
  return path === "" ? "The root" : path;
}

export function toolError(code: ToolErrorCode, message: string, suggestion?: string): ToolError {
  return new ToolError(message, { code, ...(suggestion ? { suggestion } : {}) });
}
