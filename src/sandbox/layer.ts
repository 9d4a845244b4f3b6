import { Volume } from "memfs";
import type { FileMode } from "#domain/preview.ts";
import type { Entry } from "#domain/workspace.ts";
import { asBuffer } from "./diff-file.ts";
import { type Base, type BaseEntry, readEntry } from "./git/base.ts";
import { hashObject } from "./git/git-objects.ts";
import { foldersAbove, foldPath } from "./paths.ts";

/** The entry of a layer at a path: the bytes of a file, the target of a link, or the commit of a submodule. */
export interface Content {
  content: Buffer;
  mode: FileMode;
}

/** Returns what a base has at an entry. */
export function originalOf(base: Base, entry: BaseEntry): Content {
  return { content: readEntry(base, entry) ?? Buffer.from(entry.oid), mode: modeOfEntry(entry) };
}

/** Returns the mode of an entry as git stores it in a tree. */
export function modeOfEntry({ type, executable }: Pick<BaseEntry, "type" | "executable">): FileMode {
  if (type === "file") return executable ? "100755" : "100644";
  return type === "symlink" ? "120000" : "160000";
}

/** A file, folder, link or submodule of the tree. */
export type TreeNode = Omit<Entry, "path">;

/** The state of a path in a layer: `base` shows the base's entry, `gone` hides it. */
export type LayerState = { kind: "base" } | { kind: "gone" } | ({ kind: "written" } & Content);

interface Written {
  size: number;
  modified: Date;
  mode: FileMode;
  /** The content of a large file, which memfs would copy on each read, or of a file of the base that was moved. */
  content?: Buffer;
}

interface WriteOptions {
  /** Default: that of the existing file. */
  mode?: FileMode | undefined;
  /** True for bytes of the base, which nobody modifies, so that they need not be copied. */
  isShared?: boolean;
}

const maxVolumeFileBytes = 256 * 1024;

/** The size that a file is shown with. A submodule has none. */
function sizeOf({ content, mode }: { content: Uint8Array; mode: FileMode }): number {
  return mode === "160000" ? 0 : content.length;
}

function copyOf(content: Uint8Array): Buffer {
  const copy = Buffer.allocUnsafeSlow(content.length);
  copy.set(content);
  return copy;
}

/**
 * Files written over a base, or over an empty tree. Applies no policy and trusts its paths. The cost of an operation
 * depends on its result or on the number of changes, not on the size of the tree.
 */
export class Layer {
  readonly #base: Base | undefined;
  readonly #written = new Map<string, Written>();
  readonly #deleted = new Set<string>();
  /** The number of entries below each folder, relative to the base. */
  readonly #countDeltas = new Map<string, number>();
  readonly #writtenByFoldedPath = new Map<string, Set<string>>();
  /** Created on demand: a volume takes 20 KB, and most layers stay empty. */
  #createdVolume: Volume | undefined;
  #bytes = 0;

  constructor(base: Base | undefined) {
    this.#base = base;
  }

  node(path: string): TreeNode | undefined {
    const own = this.#written.get(path);
    if (own) return { ...typeOf(own.mode), size: own.size, modified: own.modified };

    const entry = this.#below(path);
    const modified = entry?.modifiedMs !== undefined ? new Date(entry.modifiedMs) : (this.#base?.date ?? new Date(0));
    if (entry) return { type: entry.type, size: entry.size, modified, executable: entry.executable };
    if (path === "" || this.#countBelow(path) > 0) return { type: "directory", size: 0, modified, executable: false };
    return undefined;
  }

  /** Returns the bytes of a file or the target of a link, which must not be modified; undefined for anything else. */
  read(path: string): Buffer | undefined {
    const own = this.#written.get(path);
    if (own) return own.mode === "160000" ? undefined : this.#content(path);
    const entry = this.#below(path);
    return this.#base && entry && readEntry(this.#base, entry);
  }

  /** Returns the mode and the object id at a path as git stores them in a tree; undefined for a folder. */
  treeEntry(path: string): { mode: FileMode; oid: string } | undefined {
    const own = this.#written.get(path);
    if (own) {
      const data = this.#content(path);
      return { mode: own.mode, oid: own.mode === "160000" ? data.toString() : hashObject({ type: "blob", data }) };
    }
    const entry = this.#below(path);
    return entry && { mode: modeOfEntry(entry), oid: entry.oid };
  }

  /** Returns what the base has at a path, unless it was deleted. */
  original(path: string): Content | undefined {
    const entry = this.#below(path);
    return this.#base && entry && originalOf(this.#base, entry);
  }

  /** Returns the content and mode of a file or link to move; undefined if there is none. */
  fileAt(path: string): (Content & { isShared: boolean }) | undefined {
    const content = this.read(path);
    const entry = this.#below(path);
    const mode = this.#written.get(path)?.mode ?? (entry && modeOfEntry(entry));
    return content && mode && { content, mode, isShared: this.isFromBase(path) };
  }

  /** True for a path that was neither written nor deleted. */
  isFromBase(path: string): boolean {
    return !this.#written.has(path) && !this.#deleted.has(path);
  }

  /** The names of a folder's direct entries. */
  namesIn(folder: string): string[] {
    const inside = folder === "" ? "" : `${folder}/`;
    const names = (this.#base?.folders.get(folder) ?? []).filter((name) => this.node(`${inside}${name}`));
    const added = [...this.#written.keys()]
      .filter((path) => path.startsWith(inside))
      .map((path) => path.slice(inside.length).replace(/\/.*$/s, ""));
    return [...new Set([...names, ...added])];
  }

  /** The paths of the files, sorted. */
  files(): string[] {
    const all = this.#base?.files ?? [];
    const kept = this.#deleted.size > 0 ? all.filter((path) => !this.#deleted.has(path)) : all;
    if (this.#written.size === 0) return [...kept];
    const written = [...this.#written].filter(([, { mode }]) => mode.startsWith("100"));
    return [...kept, ...written.map(([path]) => path)].sort();
  }

  state(path: string): LayerState {
    const own = this.#written.get(path);
    if (own) return { kind: "written", content: this.#content(path), mode: own.mode };
    return { kind: this.#deleted.has(path) ? "gone" : "base" };
  }

  /** True if `state` would return an equal one. Reads a content only if both are written. */
  hasState(path: string, state: LayerState): boolean {
    const own = this.#written.get(path);
    if (!own || state.kind !== "written") return (own ? "written" : this.state(path).kind) === state.kind;
    return own.mode === state.mode && own.size === sizeOf(state) && this.#content(path).equals(state.content);
  }

  setState(path: string, state: LayerState): void {
    switch (state.kind) {
      case "written":
        this.#change(path, () => this.#put(path, state.content, state));
        break;
      case "gone":
        this.remove(path);
        break;
      case "base":
        this.#change(path, () => this.#clear(path));
        break;
      default:
        state satisfies never;
    }
  }

  /** Keeps the executable bit of an existing file unless a mode is given. */
  write(path: string, content: Uint8Array, { mode: given, isShared = false }: WriteOptions = {}): void {
    const mode = given ?? (this.node(path)?.executable ? "100755" : "100644");
    const entry = this.#base?.entries.get(path);
    // The size of a base file is 0 before its content is loaded.
    const mayBeSame = entry && (entry.size === 0 || entry.size === content.length);
    const oid =
      mode === "160000" ? Buffer.from(content).toString() : mayBeSame && hashObject({ type: "blob", data: content });
    // Writing a link's own bytes restores the link: changes stored by older releases have no other way to express it.
    const restores = entry && entry.oid === oid && (entry.type === "symlink" || modeOfEntry(entry) === mode);
    this.#change(path, () => (restores ? this.#clear(path) : this.#put(path, content, { mode, isShared })));
  }

  remove(path: string): void {
    this.#change(path, () => {
      this.#clear(path);
      if (this.#base?.entries.has(path)) this.#deleted.add(path);
    });
  }

  /** The paths that differ from the base, sorted. */
  changed(): string[] {
    return [...new Set([...this.#written.keys(), ...this.#deleted])].sort();
  }

  /** Returns an existing path that some file systems treat as the same name, such as one in another case. */
  findCollision(path: string): string | undefined {
    for (const level of levelsOf(path)) {
      if (this.node(level)) continue;

      const key = foldPath(level);
      const candidates = [...(this.#writtenByFoldedPath.get(key) ?? []), this.#base?.pathsByFoldedPath().get(key)];
      const existing = candidates.find(
        (candidate) => candidate !== undefined && candidate !== level && this.node(candidate) !== undefined,
      );
      if (existing !== undefined) return existing + path.slice(level.length);
    }
    return undefined;
  }

  /** The total size of the files written. */
  bytes(): number {
    return this.#bytes;
  }

  get #volume(): Volume {
    this.#createdVolume ??= new Volume();
    return this.#createdVolume;
  }

  #content(path: string): Buffer {
    return this.#written.get(path)?.content ?? (this.#volume.readFileSync(fileFor(path)) as Buffer);
  }

  #below(path: string): BaseEntry | undefined {
    return this.#deleted.has(path) ? undefined : this.#base?.entries.get(path);
  }

  #countBelow(folder: string): number {
    return (this.#base?.counts.get(folder) ?? 0) + (this.#countDeltas.get(folder) ?? 0);
  }

  #exists(path: string): boolean {
    return this.#written.has(path) || this.#below(path) !== undefined;
  }

  /** Changes one path and updates the entry counts of its parent folders. */
  #change(path: string, alter: () => void): void {
    const before = this.#exists(path);
    alter();
    const difference = Number(this.#exists(path)) - Number(before);
    if (difference === 0) return;
    for (const folder of ["", ...foldersAbove(path)]) {
      const next = (this.#countDeltas.get(folder) ?? 0) + difference;
      if (next === 0) this.#countDeltas.delete(folder);
      else this.#countDeltas.set(folder, next);
    }
  }

  #put(path: string, content: Uint8Array, { mode, isShared = false }: WriteOptions & { mode: FileMode }): void {
    this.#clear(path);
    if (this.#base?.entries.has(path)) this.#deleted.add(path);
    const own = { size: sizeOf({ content, mode }), modified: new Date(), mode };
    if (isShared || content.length > maxVolumeFileBytes) {
      this.#written.set(path, { ...own, content: isShared ? asBuffer(content) : copyOf(content) });
    } else {
      // memfs keeps the buffer it is given, and a Buffer from the pool would keep its whole slab in memory.
      this.#volume.writeFileSync(fileFor(path), copyOf(content));
      this.#written.set(path, own);
    }
    this.#bytes += own.size;
    for (const level of levelsOf(path)) {
      const key = foldPath(level);
      const spellings = this.#writtenByFoldedPath.get(key);
      if (spellings) spellings.add(level);
      else this.#writtenByFoldedPath.set(key, new Set([level]));
    }
  }

  #clear(path: string): void {
    this.#deleted.delete(path);
    const own = this.#written.get(path);
    if (!own) return;

    this.#written.delete(path);
    this.#bytes -= own.size;
    if (!own.content) this.#volume.unlinkSync(fileFor(path));
    for (const level of levelsOf(path)) {
      if (level === path || this.#countBelow(level) <= 1) this.#forgetFolded(level);
    }
  }

  #forgetFolded(path: string): void {
    const key = foldPath(path);
    const spellings = this.#writtenByFoldedPath.get(key);
    spellings?.delete(path);
    if (spellings?.size === 0) this.#writtenByFoldedPath.delete(key);
  }
}

/** The volume has one folder: creating and removing others takes longer than writing a file. No path has a backslash. */
function fileFor(path: string): string {
  return `/${path.replaceAll("/", "\\")}`;
}

function typeOf(mode: FileMode): Pick<TreeNode, "type" | "executable"> {
  const type = mode === "120000" ? "symlink" : mode === "160000" ? "submodule" : "file";
  return { type, executable: mode === "100755" };
}

/** Returns a path and the folders above it, outermost first. */
function levelsOf(path: string): string[] {
  return [...foldersAbove(path), path];
}
