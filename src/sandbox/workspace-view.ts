import { EventLoopYielder, runAtOnce, runInTurns, type Steps } from "#domain/async-work.ts";
import { ToolError, type ToolErrorCode } from "#domain/errors.ts";
import type { Change, ContentChunk, Entry, Workspace, ZoneRule } from "#domain/workspace.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type Base, MissingContentError, readEntry } from "./git/base.ts";
import { modeOfEntry, type TreeNode } from "./layer.ts";
import type { Overlay } from "./overlay.ts";
import {
  existsError,
  folderDeletionError,
  folderOf,
  foldersAbove,
  followLinks,
  invalidPath,
  isWithin,
  parsePath,
} from "./paths.ts";
import type { Zones } from "./zones.ts";

/** One worker's view of the tree: the base, the run's changes, and the worker's zones. */
interface View {
  base: Base;
  overlay: Overlay;
  zones: Zones;
}

/** Loads the contents of a base, which may arrive after its tree. */
export interface ContentLoader {
  /** Resolves when all contents are there. */
  loadContents: () => Promise<void>;
  /** Resolves when one content is there. */
  loadContent: (oid: string) => Promise<void>;
}

const nothingToLoad: ContentLoader = { loadContents: async () => {}, loadContent: async () => {} };

/** Creates the workspace of one worker: the overlay of its run, limited by the worker's zones. */
export function createWorkspaceView(
  base: Base,
  overlay: Overlay,
  { zones, loader: { loadContents, loadContent } = nothingToLoad }: { zones: Zones; loader?: ContentLoader },
): Workspace {
  const view: View = { base, overlay, zones };
  /** Runs an operation when the base's contents are loaded. Everything that reads many files or a size needs them. */
  async function loaded<Result>(operation: () => Result): Promise<Result> {
    if (!base.contents.isLoaded) await loadContents();
    return operation();
  }
  /** Runs an operation that writes to new paths. */
  async function writable<Result>(operation: () => Result): Promise<Result> {
    await base.foldPaths();
    return loaded(operation);
  }
  /** Runs an operation that reads a file or a few links, and again with each content that it needed. */
  async function reading<Result>(operation: () => Result): Promise<Result> {
    for (;;) {
      try {
        return operation();
      } catch (error) {
        if (!(error instanceof MissingContentError) || base.contents.isLoaded) throw error;
        await loadContent(error.oid);
      }
    }
  }
  return {
    resolve: (path) => resolvePath(view, path),
    exists: (path) => reading(() => nodeAt(view, resolveParentLinks(view, path)) !== undefined),
    stat: async (path) => {
      const entry = base.entries.get(resolvePath(view, path));
      const hasSize = entry?.type === "file" && base.store.has(entry.oid);
      const stat = () => {
        const found = resolveParentLinks(view, path);
        return toEntry(view, resolvePath(view, path), requireNode(view, found));
      };
      return hasSize ? stat() : loaded(stat);
    },
    read: (path) => reading(() => new TextDecoder().decode(read(view, path))),
    readBytes: (path) => reading(() => read(view, path)),
    write: (path, content, options) =>
      writable(() => write(view, resolvePath(view, path), content, options?.executable)),
    remove: (path, options) => loaded(() => remove(view, resolvePath(view, path), options?.recursive ?? false)),
    move: (from, to, options) =>
      writable(() => move(view, resolvePath(view, from), resolvePath(view, to), options?.overwrite ?? false)),
    checkWrite: (path, size) => writable(() => assertWritable(view, resolvePath(view, path), size)),
    checkMove: (from, to, options) =>
      writable(() => {
        planMove(view, resolvePath(view, from), resolvePath(view, to), options?.overwrite ?? false);
      }),
    list: async (path, options) => runInTurns(await loaded(() => list(view, path, options?.recursive ?? false))),
    paths: async () => filePaths(view),
    contents: async function* (paths) {
      await loaded(() => {});
      yield* contentsOf(view, paths);
    },
    changes: async () => changes(view),
    readBase: (path) => reading(() => readBase(view, resolvePath(view, path))),
    ruleFor: (path) => zones.ruleFor(resolvePath(view, path)),
  };
}

/** Normalizes a path. Throws a ToolError `INVALID_PATH` when it is invalid or not visible to the worker. */
function resolvePath(view: View, path: string): string {
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

function resolveParentLinks(view: View, path: string): string {
  return followLinksIn(view, resolvePath(view, path), false);
}

/** Resolves symbolic links; in the last name only when `last` is true. Throws when a target is not visible. */
function followLinksIn(view: View, path: string, last: boolean): string {
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
function nodeAt({ overlay, zones, base }: View, path: string): TreeNode | undefined {
  const node = overlay.layers[zones.spaceOf(path)].node(path);
  if (node && (zones.canSee(path) || (node.type === "directory" && zones.leadsToVisible(path)))) return node;

  // A zone's folder exists even if it is empty.
  const leads = path === "" || zones.runFolders().some((folder) => isWithin(folder, path));
  return leads ? { type: "directory", size: 0, modified: base.date, executable: false } : undefined;
}

/** Like `nodeAt`, but throws a ToolError `FILE_NOT_FOUND` that suggests the nearest name, or files of this name elsewhere. */
function requireNode(view: View, path: string): TreeNode {
  const node = nodeAt(view, path);
  if (node) return node;

  const folder = folderOf(path);
  const isLarge = (view.base.folders.get(folder)?.length ?? 0) > maxComparedEntries;
  const entries = isLarge ? [] : entriesIn(view, folder);
  const near = closestMatch(
    path,
    entries.map((entry) => entry.path),
  );
  const suggested = near ? [near] : filesNamedAlike(view, path);
  throw toolError(
    "FILE_NOT_FOUND",
    `${path} does not exist.`,
    suggested.length > 0 ? `Did you mean ${suggested.join(" or ")}?` : "List the folder to see what is there.",
  );
}

/** The entries of a larger folder are not looked at for a suggestion: half a million take more than a second. */
const maxComparedEntries = 20_000;
const maxSuggestedFiles = 3;

/** Returns the files elsewhere that have the same name and as many equal folders above as possible; none if they are many. */
function filesNamedAlike(view: View, path: string): string[] {
  const wanted = path.split("/").reverse();
  const [name = ""] = wanted;
  let found: string[] = [];
  let most = 1;
  for (const other of view.base.entries.keys()) {
    if (!other.endsWith(name) || !`/${other}`.endsWith(`/${name}`)) continue;
    const names = other.split("/").reverse();
    const differing = names.findIndex((name, at) => name !== wanted[at]);
    const equal = differing === -1 ? names.length : differing;
    if (equal < most || !nodeAt(view, other)) continue;
    found = equal > most ? [other] : [...found, other].slice(0, maxSuggestedFiles + 1);
    most = equal;
  }
  return found.length > maxSuggestedFiles ? [] : found.sort();
}

/** Lists everything below a folder, sorted by path, one folder in each step. */
function* entriesBelow(view: View, folder: string, found: Entry[] = []): Steps<Entry[]> {
  // The entries of a folder have their place where its path with a slash has it.
  const parts = entriesIn(view, folder).flatMap((entry): { at: string; entry?: Entry }[] =>
    entry.type === "directory" ? [{ at: entry.path, entry }, { at: `${entry.path}/` }] : [{ at: entry.path, entry }],
  );
  yield;
  for (const { at, entry } of parts.sort((a, b) => (a.at < b.at ? -1 : 1))) {
    if (entry) found.push(entry);
    else yield* entriesBelow(view, at.slice(0, -1), found);
  }
  return found;
}

function entriesIn(view: View, folder: string): Entry[] {
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
    return node ? [toEntry(view, path, node)] : [];
  });
}

function toEntry(view: View, path: string, { type, size, modified, executable }: TreeNode): Entry {
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

function displayPath(path: string): string {
  return path === "" ? "The root" : path;
}

function toolError(code: ToolErrorCode, message: string, suggestion?: string): ToolError {
  return new ToolError(message, { code, ...(suggestion ? { suggestion } : {}) });
}

/** Groups the files by the memory that holds them. Yields to the event loop. */
async function* contentsOf({ overlay, zones, base }: View, paths: readonly string[]): AsyncIterable<ContentChunk> {
  const yielder = new EventLoopYielder();
  const bySegment = new Map<Buffer, { path: string; start: number; end: number }[]>();
  for (const path of paths) {
    if (yielder.isDue) await yielder.turn();
    const layer = overlay.layers[zones.spaceOf(path)];
    const entry = layer === overlay.layers.repository && layer.isFromBase(path) && base.entries.get(path);
    const range = zones.canSee(path) && entry && entry.type === "file" ? base.store.locate(entry.oid) : undefined;
    if (range) {
      bySegment.getOrInsert(range.segment, []).push({ path, start: range.start, end: range.end });
      continue;
    }
    const bytes = zones.canSee(path) && layer.node(path)?.type === "file" ? layer.read(path) : undefined;
    if (bytes) yield { bytes, files: [{ path, start: 0, end: bytes.length }] };
  }
  for (const [bytes, files] of bySegment) {
    // Sorting 100,000 files takes long enough for a turn of its own.
    await yielder.turn();
    files.sort((a, b) => a.start - b.start);
    await yielder.turn();
    yield { bytes, files };
  }
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

function* list(view: View, path: string, recursive: boolean): Steps<Entry[]> {
  const found = followLinksIn(view, resolvePath(view, path), true);
  const node = requireNode(view, found);
  if (node.type !== "directory") throw toolError("NOT_A_DIRECTORY", `${path} is not a folder.`, "Read it instead.");

  if (recursive) return yield* entriesBelow(view, found);
  return entriesIn(view, found).sort((a, b) => (a.path < b.path ? -1 : 1));
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

const maxFileBytes = 50 * 1024 ** 2;
const maxRunBytes = 256 * 1024 ** 2;

function write(view: View, path: string, content: Uint8Array | string, executable: boolean | undefined): void {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  assertWritable(view, path, bytes.length);
  const mode = executable === undefined ? undefined : modeOfEntry({ type: "file", executable });
  view.overlay.write(view.zones.spaceOf(path), path, bytes, mode);
}

function assertWritable(view: View, path: string, size: number, leaving?: string): void {
  assertWritableLocation(view, path);
  assertAllowed(view.zones.ruleFor(path), path, "write");
  assertNoCollision(view, path, leaving);
  assertNotLfsPointer(view, path);
  assertWithinLimits(view, path, size);
}

/** Throws if a file cannot be written there: over a folder, a link or a submodule, below a file, or outside the view. */
function assertWritableLocation(view: View, path: string): void {
  for (const folder of foldersAbove(path)) {
    const above = nodeAt(view, folder);
    if (above?.type === "submodule") throw submoduleError(folder);
    if (above?.type === "symlink") throw linkError(view, folder);
    if (above && above.type !== "directory")
      throw toolError("NOT_A_DIRECTORY", `${folder} is a file, so it cannot contain other files.`);
  }
  if (!view.zones.canSee(path)) throw invalidPath(path, "it is outside the part of the tree that this worker can see");

  const node = nodeAt(view, path);
  if (node?.type === "directory")
    throw toolError("NOT_A_FILE", `${displayPath(path)} is a folder and cannot be written as a file.`);
  if (node?.type === "submodule") throw submoduleError(path);
  if (node?.type === "symlink") throw linkError(view, path);
}

function linkError(view: View, path: string): ToolError {
  const target = view.overlay.layers.repository.read(path)?.toString("utf8") ?? "";
  return toolError(
    "NOT_A_FILE",
    `${path} is a symbolic link to ${JSON.stringify(target)}. Writing through links is not supported.`,
    "Use the path of the target instead.",
  );
}

function assertAllowed(rule: ZoneRule, path: string, what: "write" | "delete"): void {
  const where = rule.zone ? ` in the zone ${rule.zone}` : "";
  if (rule.mode === "ro")
    throw toolError("READ_ONLY", `${path} cannot be changed: it is read-only${where} for this worker.`);
  if (rule[what] === "blocked") {
    throw toolError(
      "BLOCKED",
      `This worker's policy does not allow it to ${what} ${path}${where}.`,
      "Continue without this change and mention it in your answer.",
    );
  }
}

function assertNoCollision(view: View, path: string, leaving?: string): void {
  const existing = view.overlay.layers[view.zones.spaceOf(path)].findCollision(path);
  if (existing === undefined || (leaving !== undefined && isWithin(existing, leaving))) return;
  // The name of a file that this worker cannot see must not be revealed.
  const name = view.zones.canSee(existing) ? existing : "a file that this worker cannot see";
  throw toolError(
    "FILE_EXISTS",
    `${path} and ${name} would be the same file on some operating systems.`,
    view.zones.canSee(existing) ? `Use ${existing}.` : undefined,
  );
}

function assertNotLfsPointer(view: View, path: string): void {
  const layer = view.overlay.layers[view.zones.spaceOf(path)];
  const node = layer.node(path);
  if (node?.type !== "file" || node.size > 1_024) return;

  const content = layer.read(path);
  if (content && isLfsPointer(content)) {
    throw toolError(
      "READ_ONLY",
      `${path} is stored in Git LFS. Only its pointer is available, so it cannot be changed.`,
    );
  }
}

function assertWithinLimits(view: View, path: string, size: number): void {
  const limit = (bytes: number) => `${Math.round(bytes / 1024 ** 2)} MB`;
  if (size > maxFileBytes) throw toolError("TOO_LARGE", `${path} would be larger than ${limit(maxFileBytes)}.`);

  const { repository, run } = view.overlay.layers;
  if (repository.bytes() + run.bytes() + size > maxRunBytes) {
    throw toolError(
      "TOO_LARGE",
      `This run cannot write more than ${limit(maxRunBytes)} in total.`,
      "Delete files that are not needed.",
    );
  }
}

function remove(view: View, path: string, recursive: boolean): string[] {
  const node = requireNode(view, path);
  if (node.type === "submodule") throw submoduleError(path);
  for (const folder of foldersAbove(path)) if (nodeAt(view, folder)?.type === "symlink") throw linkError(view, folder);

  if (node.type !== "directory") {
    assertAllowed(view.zones.ruleFor(path), path, "delete");
    view.overlay.remove(view.zones.spaceOf(path), path);
    return [path];
  }
  if (!recursive) throw folderDeletionError(displayPath(path));

  const inside = removableFiles(view, path);
  for (const file of inside) assertAllowed(view.zones.ruleFor(file), file, "delete");
  for (const file of inside) view.overlay.remove(view.zones.spaceOf(file), file);
  return inside;
}

/** Lists every file and link below a folder. Throws when it contains a submodule. */
function removableFiles(view: View, folder: string): string[] {
  const entries = runAtOnce(entriesBelow(view, folder)).filter((entry) => entry.type !== "directory");
  const submodule = entries.find((entry) => entry.type === "submodule");
  if (submodule) throw submoduleError(submodule.path);
  return entries.map((entry) => entry.path);
}

function move(view: View, from: string, to: string, overwrite: boolean): void {
  const moves = planMove(view, from, to, overwrite);
  const located = (path: string) => ({ space: view.zones.spaceOf(path), path });
  view.overlay.move(moves.map(({ file, target }) => ({ from: located(file), to: located(target) })));
}

/** Returns the files that a move affects. Throws if it is impossible. */
function planMove(view: View, from: string, to: string, overwrite: boolean): { file: string; target: string }[] {
  const node = requireNode(view, from);
  if (from === to) return [];
  if (isWithin(to, from) && node.type === "directory")
    throw toolError("INVALID_PATH", `${displayPath(from)} cannot be moved into itself.`);

  const files = node.type === "directory" ? removableFiles(view, from) : [from];
  const moves = files.map((file) => ({ file, target: to + file.slice(from.length) }));
  if (nodeAt(view, to) && (node.type === "directory" || !overwrite)) throw existsError(displayPath(to));
  for (const { file, target } of moves) assertMovable(view, file, target, from);
  return moves;
}

function assertMovable(view: View, file: string, target: string, from: string): void {
  const node = nodeAt(view, file);
  if (node?.type === "symlink")
    throw toolError("NOT_A_FILE", `${file} is a symbolic link. Moving links is not supported.`);
  if (node?.type === "submodule") throw submoduleError(file);
  for (const folder of foldersAbove(file)) if (nodeAt(view, folder)?.type === "symlink") throw linkError(view, folder);

  assertAllowed(view.zones.ruleFor(file), file, "delete");
  assertWritable(view, target, node?.size ?? 0, from);
}

function submoduleError(path: string): ToolError {
  return toolError("READ_ONLY", `${path} is a submodule (a separate repository) and cannot be changed.`);
}

const lfsPointerStart = "version https://git-lfs.github.com/spec/";
// A pointer has a few short lines. A larger file only looks like one at its start.
const maxLfsPointerBytes = 1_024;

/** True when the content is a pointer to a file in Git LFS. */
export function isLfsPointer(content: Uint8Array): boolean {
  if (content.length > maxLfsPointerBytes) return false;

  const text = Buffer.from(content).toString("utf8");
  return text.startsWith(lfsPointerStart) && /^oid sha256:[0-9a-f]{64}$/m.test(text) && /^size \d+$/m.test(text);
}
