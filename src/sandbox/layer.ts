import { Volume } from "memfs";
import { type Base, type BaseEntry, readEntry } from "./base.ts";
import { hashObject } from "./git-objects.ts";
import { folderOf, foldersAbove, foldPath } from "./paths.ts";

/** A file, folder, link or submodule of the tree. */
export interface TreeNode {
  type: "file" | "directory" | "symlink" | "submodule";
  /** Bytes; 0 for directories. */
  size: number;
  modified: Date;
  executable: boolean;
}

/** The state of a path in a layer: `base` shows the base, `gone` hides it. */
export type LayerState = { kind: "base" } | { kind: "gone" } | { kind: "file"; content: Buffer; executable: boolean };

/**
 * Files written over a base, or over an empty tree. Applies no policy and trusts its paths. The cost of an operation
 * depends on its result or on the number of changes, not on the size of the tree.
 */
export interface Layer {
  node(path: string): TreeNode | undefined;
  /** The bytes of a file or the target of a link; undefined for anything else. */
  read(path: string): Buffer | undefined;
  /** The names of a folder's direct entries. */
  namesIn(folder: string): string[];
  /** The paths of the files, sorted. */
  files(): string[];
  state(path: string): LayerState;
  setState(path: string, state: LayerState): void;
  /** Keeps the executable bit of an existing file unless `executable` is given. */
  write(path: string, content: Uint8Array, executable?: boolean): void;
  remove(path: string): void;
  /** The paths that differ from the base, sorted. */
  changed(): string[];
  /** An existing path that some file systems treat as the same name, such as one in another case. */
  findCollision(path: string): string | undefined;
  /** The total size of the files written. */
  bytes(): number;
}

interface Written {
  size: number;
  modified: Date;
  executable: boolean;
}

export function createLayer(base: Base | undefined): Layer {
  // A volume takes 20 KB, and most layers stay empty.
  let created: Volume | undefined;
  const volume = () => {
    created ??= new Volume();
    return created;
  };
  const written = new Map<string, Written>();
  const deleted = new Set<string>();
  /** The number of entries below each folder, minus their number in the base. */
  const countDeltas = new Map<string, number>();
  const writtenByFoldedPath = new Map<string, Set<string>>();
  let heldBytes = 0;

  const below = (path: string): BaseEntry | undefined => (deleted.has(path) ? undefined : base?.entries.get(path));
  const countBelow = (folder: string) => (base?.counts.get(folder) ?? 0) + (countDeltas.get(folder) ?? 0);
  const content = (path: string) => volume().readFileSync(`/${path}`) as Buffer;
  const exists = (path: string) => written.has(path) || below(path) !== undefined;

  function updateCounts(path: string, change: number): void {
    if (change === 0) return;
    for (const folder of ["", ...foldersAbove(path)]) {
      const next = (countDeltas.get(folder) ?? 0) + change;
      if (next === 0) countDeltas.delete(folder);
      else countDeltas.set(folder, next);
    }
  }

  /** Changes one path and updates the entry counts of its parent folders. */
  function change(path: string, alter: () => void): void {
    const before = exists(path);
    alter();
    updateCounts(path, Number(exists(path)) - Number(before));
  }

  function clear(path: string): void {
    deleted.delete(path);
    const had = written.get(path);
    if (!had) return;

    written.delete(path);
    heldBytes -= had.size;
    volume().unlinkSync(`/${path}`);
    for (let folder = folderOf(path); folder !== ""; folder = folderOf(folder)) {
      if ((volume().readdirSync(`/${folder}`) as string[]).length > 0) break;
      volume().rmdirSync(`/${folder}`);
    }
    forEachLevel(path, (level) => {
      if (level === path || countBelow(level) <= 1) forgetFolded(level);
    });
  }

  function write(path: string, bytes: Uint8Array, executable: boolean): void {
    clear(path);
    if (base?.entries.has(path)) deleted.add(path);
    volume().mkdirSync(`/${folderOf(path)}`, { recursive: true });
    volume().writeFileSync(`/${path}`, Buffer.from(bytes));
    written.set(path, { size: bytes.length, modified: new Date(), executable });
    heldBytes += bytes.length;
    forEachLevel(path, (level) => {
      const key = foldPath(level);
      writtenByFoldedPath.set(key, (writtenByFoldedPath.get(key) ?? new Set()).add(level));
    });
  }

  function forgetFolded(path: string): void {
    const key = foldPath(path);
    const spellings = writtenByFoldedPath.get(key);
    spellings?.delete(path);
    if (spellings?.size === 0) writtenByFoldedPath.delete(key);
  }

  function node(path: string): TreeNode | undefined {
    const own = written.get(path);
    if (own) return { type: "file", ...own };

    const modified = base?.date ?? new Date(0);
    const entry = below(path);
    if (entry) return { type: entry.type, size: entry.size, modified, executable: entry.executable };
    if (path === "" || countBelow(path) > 0) return { type: "directory", size: 0, modified, executable: false };
    return undefined;
  }

  function writeFile(path: string, bytes: Uint8Array, executable?: boolean): void {
    const was = node(path);
    const mode = executable ?? was?.executable ?? false;
    const entry = base?.entries.get(path);
    const same = entry && entry.oid === hashObject({ type: "blob", data: Buffer.from(bytes) });
    // Writing a link's own bytes restores the link: stored changes have no other way to express it.
    const back = same && (entry.type === "symlink" || entry.executable === mode);
    change(path, () => (back ? clear(path) : write(path, bytes, mode)));
  }

  function remove(path: string): void {
    change(path, () => {
      clear(path);
      if (base?.entries.has(path)) deleted.add(path);
    });
  }

  return {
    node,
    read: (path) => {
      if (written.has(path)) return content(path);
      const entry = below(path);
      return base && entry && readEntry(base, entry);
    },
    namesIn: (folder) => {
      const inside = folder === "" ? "" : `${folder}/`;
      const names = (base?.folders.get(folder) ?? []).filter((name) => node(`${inside}${name}`));
      const added = [...written.keys()]
        .filter((path) => path.startsWith(inside))
        .map((path) => path.slice(inside.length).replace(/\/.*$/s, ""));
      return [...new Set([...names, ...added])];
    },
    files: () => {
      const kept = deleted.size > 0 ? (base?.files ?? []).filter((path) => !deleted.has(path)) : (base?.files ?? []);
      return written.size > 0 ? [...kept, ...written.keys()].sort() : [...kept];
    },
    state: (path) => {
      const own = written.get(path);
      if (own) return { kind: "file", content: content(path), executable: own.executable };
      return { kind: deleted.has(path) ? "gone" : "base" };
    },
    setState: (path, state) => {
      if (state.kind === "file") return change(path, () => write(path, state.content, state.executable));
      if (state.kind === "gone") return remove(path);
      change(path, () => clear(path));
    },
    write: writeFile,
    remove,
    changed: () => [...new Set([...written.keys(), ...deleted])].sort(),
    findCollision: (path) => {
      for (const level of [...foldersAbove(path), path]) {
        if (node(level)) continue;

        const key = foldPath(level);
        const candidates = [...(writtenByFoldedPath.get(key) ?? []), base?.pathsByFoldedPath().get(key)];
        const twin = candidates.find((candidate) => candidate !== undefined && candidate !== level && node(candidate));
        if (twin !== undefined) return twin + path.slice(level.length);
      }
      return undefined;
    },
    bytes: () => heldBytes,
  };
}

function forEachLevel(path: string, visit: (level: string) => void): void {
  for (const level of [...foldersAbove(path), path]) visit(level);
}
