import type { Change, ContentChunk, Entry, Workspace } from "#domain/workspace.ts";
import { type Base, readEntry } from "./base.ts";
import { move, remove, write } from "./change-files.ts";
import type { Overlay } from "./overlay.ts";
import {
  describe,
  displayPath,
  entriesBelow,
  entriesIn,
  followLinksIn,
  nodeAt,
  requireNode,
  resolveParentLinks,
  resolvePath,
  toolError,
  type View,
} from "./worker-view.ts";
import type { Zones } from "./zones.ts";

/** Creates the workspace of one worker: the overlay of its run, limited by the worker's zones. */
export function createWorkspaceView(
  base: Base,
  overlay: Overlay,
  { zones, loadContents = async () => {} }: { zones: Zones; loadContents?: () => Promise<void> },
): Workspace {
  const view: View = { base, overlay, zones };
  /** Runs an operation when the base's contents are loaded. Everything that reads a file, its size or a link needs them. */
  async function loaded<Result>(operation: () => Result): Promise<Result> {
    if (!base.contents.isLoaded) await loadContents();
    return operation();
  }
  return {
    resolve: (path) => resolvePath(view, path),
    exists: (path) => loaded(() => nodeAt(view, resolveParentLinks(view, path)) !== undefined),
    stat: (path) =>
      loaded(() => {
        const found = resolveParentLinks(view, path);
        return describe(resolvePath(view, path), requireNode(view, found));
      }),
    read: (path) => loaded(() => new TextDecoder().decode(read(view, path))),
    readBytes: (path) => loaded(() => read(view, path)),
    write: (path, content, options) => loaded(() => write(view, resolvePath(view, path), content, options?.executable)),
    remove: (path, options) => loaded(() => remove(view, resolvePath(view, path), options?.recursive ?? false)),
    move: (from, to, options) =>
      loaded(() => move(view, resolvePath(view, from), resolvePath(view, to), options?.overwrite ?? false)),
    list: (path, options) => loaded(() => list(view, path, options?.recursive ?? false)),
    paths: async () => filePaths(view),
    contents: async function* (paths) {
      await loaded(() => {});
      yield* contentsOf(view, paths);
    },
    changes: async () => changes(view),
    readBase: (path) => loaded(() => readBase(view, resolvePath(view, path))),
    ruleFor: (path) => zones.ruleFor(resolvePath(view, path)),
  };
}

/** Groups the files by the memory that holds them. */
function* contentsOf({ overlay, zones, base }: View, paths: readonly string[]): Iterable<ContentChunk> {
  const bySegment = new Map<Buffer, { path: string; start: number; end: number }[]>();
  for (const path of paths) {
    const layer = overlay.layers[zones.spaceOf(path)];
    const entry = layer === overlay.layers.repository && layer.state(path).kind === "base" && base.entries.get(path);
    const range = zones.canSee(path) && entry && entry.type === "file" ? base.store.locate(entry.oid) : undefined;
    if (range) {
      const files = bySegment.get(range.segment) ?? [];
      files.push({ path, start: range.start, end: range.end });
      bySegment.set(range.segment, files);
      continue;
    }
    const bytes = zones.canSee(path) && layer.node(path)?.type === "file" ? layer.read(path) : undefined;
    if (bytes) yield { bytes, files: [{ path, start: 0, end: bytes.length }] };
  }
  for (const [bytes, files] of bySegment) yield { bytes, files: files.sort((a, b) => a.start - b.start) };
}

function read(view: View, path: string): Uint8Array {
  const found = followLinksIn(view, resolvePath(view, path), true);
  const { type } = requireNode(view, found);
  if (type === "directory")
    throw toolError("NOT_A_FILE", `${displayPath(path)} is a folder.`, "List it, or read one of its files.");
  if (type === "submodule") {
    throw toolError("NOT_A_FILE", `${path} is a submodule (a separate repository), so its files are not available.`);
  }
  return copyOf(view.overlay.layers[view.zones.spaceOf(found)].read(found)) ?? new Uint8Array();
}

function list(view: View, path: string, recursive: boolean): Entry[] {
  const found = followLinksIn(view, resolvePath(view, path), true);
  const node = requireNode(view, found);
  if (node.type !== "directory") throw toolError("NOT_A_DIRECTORY", `${path} is not a folder.`, "Read it instead.");

  const entries = recursive ? entriesBelow(view, found) : entriesIn(view, found);
  return entries.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function filePaths({ overlay, zones }: View): string[] {
  const runFolders = zones.runFolders();
  const repository = overlay.layers.repository
    .files()
    .filter((path) => zones.canSee(path) && (runFolders.length === 0 || zones.spaceOf(path) === "repository"));
  const run = overlay.layers.run.files().filter((path) => zones.spaceOf(path) === "run" && zones.canSee(path));
  return run.length > 0 ? [...repository, ...run].sort() : repository;
}

function changes({ base, overlay, zones }: View): Change[] {
  const layer = overlay.layers.repository;
  return layer
    .changed()
    .filter((path) => zones.canSee(path) && zones.spaceOf(path) === "repository")
    .map((path) => {
      if (!layer.node(path) || layer.node(path)?.type === "directory") return { path, status: "deleted" };
      return { path, status: base.entries.has(path) ? "modified" : "added" };
    });
}

function readBase({ base, zones }: View, path: string): Uint8Array | undefined {
  const entry = zones.spaceOf(path) === "repository" && zones.canSee(path) ? base.entries.get(path) : undefined;
  return entry && copyOf(readEntry(base, entry));
}

/** Copies bytes of the base, which is shared and must not be modified. */
function copyOf(content: Buffer | undefined): Buffer | undefined {
  return content && Buffer.from(content);
}
