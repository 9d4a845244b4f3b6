import { ToolError, type ToolErrorCode } from "#errors.ts";
import { nearest } from "#nearest.ts";
import type { Change, Entry, Workspace, ZoneRule } from "#workspace.ts";
import type { Base } from "./base.ts";
import { isLfsPointer } from "./is-lfs-pointer.ts";
import type { Node } from "./layer.ts";
import { followLinks } from "./links.ts";
import type { Overlay } from "./overlay.ts";
import { folderOf, foldersAbove, invalidPath, isWithin, parsePath } from "./paths.ts";
import type { Zones } from "./zones.ts";

/** The most one file may have, and all a run has written together, in bytes. */
const maxFileBytes = 50 * 1024 ** 2;
const maxRunBytes = 256 * 1024 ** 2;

interface View {
  base: Base;
  overlay: Overlay;
  zones: Zones;
}

/** The workspace of one worker: the overlay of its run, as far as its zones let it. */
export function createWorkspaceView(base: Base, overlay: Overlay, zones: Zones): Workspace {
  const view: View = { base, overlay, zones };
  return {
    resolve: (path) => resolve(view, path),
    exists: async (path) => nodeAt(view, locate(view, path)) !== undefined,
    stat: async (path) => {
      const found = locate(view, path);
      return describe(resolve(view, path), need(view, found));
    },
    read: async (path) => read(view, path),
    write: async (path, content, options) => write(view, resolve(view, path), content, options?.executable),
    remove: async (path, options) => remove(view, resolve(view, path), options?.recursive ?? false),
    move: async (from, to, options) => move(view, resolve(view, from), resolve(view, to), options?.overwrite ?? false),
    list: async (path, options) => list(view, path, options?.recursive ?? false),
    paths: async () => filePaths(view),
    changes: async () => changes(view),
    readBase: async (path) => readBase(view, resolve(view, path)),
    ruleFor: (path) => zones.ruleFor(resolve(view, path)),
  };
}

function resolve(view: View, path: string): string {
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
  if (zones.sees(path) || zones.leadsToSeen(path)) return;
  throw invalidPath(path, "it lies outside the part of the tree this worker may see");
}

/** The path with the links above its last name followed. */
function locate(view: View, path: string): string {
  return follow(view, resolve(view, path), false);
}

function follow(view: View, path: string, last: boolean): string {
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

function nodeAt({ overlay, zones, base }: View, path: string): Node | undefined {
  const node = overlay.layers[zones.spaceOf(path)].node(path);
  if (node && (zones.sees(path) || (node.type === "directory" && zones.leadsToSeen(path)))) return node;

  // The folder of a zone is there before anything is in it.
  const leads = path === "" || zones.runFolders().some((folder) => isWithin(folder, path));
  return leads ? { type: "directory", size: 0, modified: base.date, executable: false } : undefined;
}

function need(view: View, path: string): Node {
  const node = nodeAt(view, path);
  if (node) return node;

  const near = nearest(path, siblingsOf(view, path));
  throw fail(
    "FILE_NOT_FOUND",
    `There is no ${path}.`,
    near ? `Did you mean ${near}?` : "List the folder to see what is there.",
  );
}

function siblingsOf(view: View, path: string): string[] {
  const folder = folderOf(path);
  return entriesIn(view, folder).map((entry) => entry.path);
}

function read(view: View, path: string): Uint8Array {
  const found = follow(view, resolve(view, path), true);
  const { type } = need(view, found);
  if (type === "directory") throw fail("NOT_A_FILE", `${shown(path)} is a folder.`, "List it, or read a file in it.");
  if (type === "submodule") {
    throw fail("NOT_A_FILE", `${path} is a submodule: another repository, whose files are not here.`);
  }
  return view.overlay.layers[view.zones.spaceOf(found)].read(found) ?? new Uint8Array();
}

function write(view: View, path: string, content: Uint8Array | string, executable: boolean | undefined): void {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  checkPlace(view, path);
  checkRule(view.zones.ruleFor(path), path, "write");
  checkTwin(view, path);
  checkPointer(view, path);
  checkSize(view, path, bytes.length);
  view.overlay.put(view.zones.spaceOf(path), path, bytes, executable);
}

/** Refuses to put a file where something else stands, or below something that is no folder. */
function checkPlace(view: View, path: string): void {
  for (const folder of foldersAbove(path)) {
    const above = nodeAt(view, folder);
    if (above?.type === "submodule")
      throw fail("READ_ONLY", `${folder} is a submodule: another repository, which cannot be changed here.`);
    if (above?.type === "symlink") throw throughLink(view, folder);
    if (above && above.type !== "directory")
      throw fail("NOT_A_DIRECTORY", `${folder} is a file, so nothing can be below it.`);
  }
  if (!view.zones.sees(path)) throw invalidPath(path, "it lies outside the part of the tree this worker may see");

  const node = nodeAt(view, path);
  if (node?.type === "directory")
    throw fail("NOT_A_FILE", `${shown(path)} is a folder, so it cannot be written as a file.`);
  if (node?.type === "submodule")
    throw fail("READ_ONLY", `${path} is a submodule: another repository, which cannot be changed here.`);
  if (node?.type === "symlink") throw throughLink(view, path);
}

function throughLink(view: View, path: string): ToolError {
  const target = view.overlay.layers.repository.read(path)?.toString("utf8") ?? "";
  return fail(
    "NOT_A_FILE",
    `${path} is a link to ${JSON.stringify(target)}, and links are not written through.`,
    "Write to what it points at by its own path.",
  );
}

function checkRule(rule: ZoneRule, path: string, what: "write" | "delete"): void {
  const where = rule.zone ? ` in the zone ${rule.zone}` : "";
  if (rule.mode === "ro")
    throw fail("READ_ONLY", `${path} cannot be changed: it is read-only${where} for this worker.`);
  if (rule[what] === "blocked") {
    throw fail(
      "BLOCKED",
      `The policy of this worker forbids to ${what} ${path}${where}.`,
      "Work without it, and say so in your answer.",
    );
  }
}

function checkTwin(view: View, path: string, leaving?: string): void {
  const twin = view.overlay.layers[view.zones.spaceOf(path)].twin(path);
  if (twin === undefined || (leaving !== undefined && isWithin(twin, leaving))) return;
  // What this worker may not see is not named to it.
  const name = view.zones.sees(twin) ? twin : "a file it may not see";
  throw fail(
    "FILE_EXISTS",
    `${path} and ${name} would be the same file on some machines.`,
    view.zones.sees(twin) ? `Use ${twin}.` : undefined,
  );
}

function checkPointer(view: View, path: string): void {
  const layer = view.overlay.layers[view.zones.spaceOf(path)];
  const node = layer.node(path);
  if (node?.type !== "file" || node.size > 1_024) return;

  const content = layer.read(path);
  if (content && isLfsPointer(content)) {
    throw fail("READ_ONLY", `${path} is kept in Git LFS: only a pointer to it is here, so it cannot be changed.`);
  }
}

function checkSize(view: View, path: string, size: number): void {
  const limit = (bytes: number) => `${Math.round(bytes / 1024 ** 2)} MB`;
  if (size > maxFileBytes) throw fail("TOO_LARGE", `${path} would be larger than ${limit(maxFileBytes)}.`);

  const { repository, run } = view.overlay.layers;
  if (repository.bytes() + run.bytes() + size > maxRunBytes) {
    throw fail(
      "TOO_LARGE",
      `This run has written ${limit(maxRunBytes)} already, which is all it may.`,
      "Delete what is not needed.",
    );
  }
}

function remove(view: View, path: string, recursive: boolean): string[] {
  const node = need(view, path);
  if (node.type === "submodule")
    throw fail("READ_ONLY", `${path} is a submodule: another repository, which cannot be changed here.`);
  for (const folder of foldersAbove(path))
    if (nodeAt(view, folder)?.type === "symlink") throw throughLink(view, folder);

  if (node.type !== "directory") {
    checkRule(view.zones.ruleFor(path), path, "delete");
    view.overlay.remove(view.zones.spaceOf(path), path);
    return [path];
  }
  if (!recursive)
    throw fail("NOT_A_FILE", `${shown(path)} is a folder.`, "Pass recursive to delete it with all it holds.");

  const inside = removable(view, path);
  for (const file of inside) checkRule(view.zones.ruleFor(file), file, "delete");
  for (const file of inside) view.overlay.remove(view.zones.spaceOf(file), file);
  return inside;
}

/** Everything a folder holds but folders. Refuses what cannot go. */
function removable(view: View, folder: string): string[] {
  const entries = entriesBelow(view, folder).filter((entry) => entry.type !== "directory");
  const submodule = entries.find((entry) => entry.type === "submodule");
  if (submodule)
    throw fail("READ_ONLY", `${submodule.path} is a submodule: another repository, which cannot be changed here.`);
  return entries.map((entry) => entry.path);
}

function move(view: View, from: string, to: string, overwrite: boolean): void {
  const node = need(view, from);
  if (from === to) return;
  if (isWithin(to, from) && node.type === "directory")
    throw fail("INVALID_PATH", `${shown(from)} cannot be moved into itself.`);

  const files = node.type === "directory" ? removable(view, from) : [from];
  const moves = files.map((file) => ({ file, target: to + file.slice(from.length) }));
  if (nodeAt(view, to) && (node.type === "directory" || !overwrite)) {
    throw fail(
      "FILE_EXISTS",
      `${shown(to)} is there already.`,
      "Pass overwrite to replace a file, or choose another name.",
    );
  }
  for (const { file, target } of moves) checkMove(view, file, target, from);

  const kept = moves.map(({ file, target }) => {
    const layer = view.overlay.layers[view.zones.spaceOf(file)];
    return { file, target, content: layer.read(file) ?? new Uint8Array(), executable: layer.node(file)?.executable };
  });
  // The old names go first, so that a name may change in its case alone, or become the folder of another.
  for (const { file } of kept) view.overlay.remove(view.zones.spaceOf(file), file);
  for (const { target, content, executable } of kept) {
    view.overlay.put(view.zones.spaceOf(target), target, content, executable);
  }
}

function checkMove(view: View, file: string, target: string, from: string): void {
  if (nodeAt(view, file)?.type === "symlink") throw fail("NOT_A_FILE", `${file} is a link, and links are not moved.`);
  if (nodeAt(view, file)?.type === "submodule")
    throw fail("READ_ONLY", `${file} is a submodule: another repository, which cannot be changed here.`);
  for (const folder of foldersAbove(file))
    if (nodeAt(view, folder)?.type === "symlink") throw throughLink(view, folder);

  checkRule(view.zones.ruleFor(file), file, "delete");
  checkPlace(view, target);
  checkRule(view.zones.ruleFor(target), target, "write");
  checkTwin(view, target, from);
  checkPointer(view, target);
  checkSize(view, target, nodeAt(view, file)?.size ?? 0);
}

function list(view: View, path: string, recursive: boolean): Entry[] {
  const found = follow(view, resolve(view, path), true);
  const node = need(view, found);
  if (node.type !== "directory") throw fail("NOT_A_DIRECTORY", `${path} is not a folder.`, "Read it instead.");

  const entries = recursive ? entriesBelow(view, found) : entriesIn(view, found);
  return entries.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function entriesBelow(view: View, folder: string): Entry[] {
  return entriesIn(view, folder).flatMap((entry) =>
    entry.type === "directory" ? [entry, ...entriesBelow(view, entry.path)] : [entry],
  );
}

function entriesIn(view: View, folder: string): Entry[] {
  const inside = folder === "" ? "" : `${folder}/`;
  const { repository, run } = view.overlay.layers;
  const runFolders = view.zones
    .runFolders()
    .filter((path) => path.startsWith(inside) && path !== folder)
    .map((path) => path.slice(inside.length).replace(/\/.*$/s, ""));
  const written = view.zones.spaceOf(folder) === "run" ? run.names(folder) : repository.names(folder);
  const names = new Set([...written, ...runFolders]);
  return [...names].flatMap((name) => {
    const path = `${inside}${name}`;
    const node = nodeAt(view, path);
    return node ? [describe(path, node)] : [];
  });
}

function filePaths({ overlay, zones }: View): string[] {
  const runFolders = zones.runFolders();
  const repository = overlay.layers.repository
    .files()
    .filter((path) => zones.sees(path) && (runFolders.length === 0 || zones.spaceOf(path) === "repository"));
  const run = overlay.layers.run.files().filter((path) => zones.spaceOf(path) === "run" && zones.sees(path));
  return run.length > 0 ? [...repository, ...run].sort() : repository;
}

function changes({ base, overlay, zones }: View): Change[] {
  const layer = overlay.layers.repository;
  return layer
    .changed()
    .filter((path) => zones.sees(path) && zones.spaceOf(path) === "repository")
    .map((path) => {
      if (!layer.node(path) || layer.node(path)?.type === "directory") return { path, status: "deleted" };
      return { path, status: base.entries.has(path) ? "modified" : "added" };
    });
}

function readBase({ base, zones }: View, path: string): Uint8Array | undefined {
  const entry = zones.spaceOf(path) === "repository" && zones.sees(path) ? base.entries.get(path) : undefined;
  return entry && entry.type !== "submodule" ? base.store.read(entry.oid)?.data : undefined;
}

function describe(path: string, { type, size, modified, executable }: Node): Entry {
  return { path, type, size, modified, executable };
}

function shown(path: string): string {
  return path === "" ? "The root" : path;
}

function fail(code: ToolErrorCode, message: string, suggestion?: string): ToolError {
  return new ToolError(message, { code, ...(suggestion ? { suggestion } : {}) });
}
