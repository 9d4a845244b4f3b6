import { Volume } from "memfs";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { FileMode } from "#domain/preview.ts";
import { type Base, type BaseEntry, readEntry } from "./git/base.ts";
import { hashObject } from "./git/git-objects.ts";
import { folderOf, foldersAbove, foldPath } from "./paths.ts";
import type { Sandbox, StepChanges, StoredChange, StoredStep } from "./sandbox.ts";
import type { Space } from "./zones.ts";

/** Everything a run has written to the repository and to its zones, with the state before each step. */
export interface Overlay extends Pick<Sandbox, "pendingChanges" | "markStored" | "rollback"> {
  layers: Readonly<Record<Space, Layer>>;
  /** Keeps the executable bit of an existing file if the mode is undefined. */
  write(space: Space, path: string, content: Uint8Array, mode?: FileMode): void;
  remove(space: Space, path: string): void;
  /** Applies stored changes to a new overlay, yielding to the event loop. */
  restore(stored: readonly StepChanges[]): Promise<void>;
  /** Returns all stored steps, oldest first. The contents of the base must be loaded. */
  history(): StoredStep[];
  /** Reverts a path to the base. */
  reset(path: string): void;
}

interface Touched {
  space: Space;
  path: string;
  before: LayerState;
}

/** Creates an overlay without changes. */
export function createOverlay(base: Base, isHidden: (path: string) => boolean): Overlay {
  const layers = { repository: new Layer(base), run: new Layer(undefined) };
  const steps: { step: string; touched: Touched[]; after: StoredChange[] }[] = [];
  let open = new Map<string, Touched>();
  let openStep = "";

  function touch(space: Space, path: string): void {
    const key = `${space}:${path}`;
    if (!open.has(key)) open.set(key, { space, path, before: layers[space].state(path) });
  }

  function write(space: Space, path: string, content: Uint8Array, mode?: FileMode): void {
    touch(space, path);
    layers[space].write(path, content, space === "run" ? "100644" : mode);
  }

  function remove(space: Space, path: string): void {
    touch(space, path);
    layers[space].remove(path);
  }

  const changedNow = () =>
    [...open.values()]
      .filter(({ space, path, before }) => !isSame(layers[space].state(path), before))
      .sort((a, b) => (a.path < b.path ? -1 : 1));

  function markStored(): void {
    const touched = changedNow();
    const after = touched.map((change) => nowAt(layers, change));
    if (touched.length > 0) steps.push({ step: openStep, touched, after });
    open = new Map();
    openStep = "";
  }

  async function restore(stored: readonly StepChanges[]): Promise<void> {
    const loop = new EventLoopYielder();
    for (const { step, changes } of stored) {
      // Deletions first, so that a folder can replace a file.
      const gone = changes.filter(({ content }) => content === undefined);
      for (const { path, mode } of gone) remove(spaceOf(mode), path);
      for (const { path, content, mode } of changes) {
        if (content) write(spaceOf(mode), path, content, mode === "scratch" ? undefined : mode);
        if (loop.isDue) await loop.turn();
      }
      openStep = step;
      markStored();
    }
  }

  return {
    layers,
    write,
    remove,
    restore,
    reset: (path) => {
      touch("repository", path);
      layers.repository.setState(path, { kind: "base" });
    },
    pendingChanges: (step) => {
      openStep = step;
      const changes = changedNow().map((change) => nowAt(layers, change));
      return changes.length > 0 ? { step, changes } : undefined;
    },
    markStored,
    rollback: () => {
      const touched = [...open.values()];
      for (const { space, path } of touched) layers[space].remove(path);
      for (const { space, path, before } of touched) layers[space].setState(path, before);
      open = new Map();
      openStep = "";
    },
    history: () =>
      steps
        .map(({ step, touched, after }) => ({
          step,
          before: touched.filter(({ path }) => !isHidden(path)).map((change) => storedAt(base, change)),
          after: after.filter(({ path }) => !isHidden(path)),
        }))
        .filter(({ after }) => after.length > 0),
  };
}

function spaceOf(mode: StoredChange["mode"]): Space {
  return mode === "scratch" ? "run" : "repository";
}

function nowAt(layers: Overlay["layers"], { space, path }: Touched): StoredChange {
  const state = layers[space].state(path);
  return state.kind === "written" ? stored(space, path, state) : stored(space, path, layers[space].original(path));
}

/** Returns the content before a step. Computed on demand, since the base already contains most of it. */
function storedAt(base: Base, { space, path, before }: Touched): StoredChange {
  if (before.kind === "written") return stored(space, path, before);

  const entry = before.kind === "base" && space === "repository" ? base.entries.get(path) : undefined;
  return stored(space, path, entry && originalOf(base, entry));
}

/** The entry of a layer at a path: the bytes of a file, the target of a link, or the commit of a submodule. */
interface Content {
  content: Buffer;
  mode: FileMode;
}

function stored(space: Space, path: string, now: Content | undefined): StoredChange {
  return { path, content: now?.content, mode: space === "run" ? "scratch" : (now?.mode ?? "100644") };
}

function originalOf(base: Base, entry: BaseEntry): Content {
  return { content: readEntry(base, entry) ?? Buffer.from(entry.oid), mode: modeOfEntry(entry) };
}

/** Returns the mode of an entry as git stores it in a tree. */
export function modeOfEntry({ type, executable }: Pick<BaseEntry, "type" | "executable">): FileMode {
  if (type === "file") return executable ? "100755" : "100644";
  return type === "symlink" ? "120000" : "160000";
}

function isSame(a: LayerState, b: LayerState): boolean {
  if (a.kind !== "written" || b.kind !== "written") return a.kind === b.kind;
  return a.mode === b.mode && (a.content === b.content || a.content.equals(b.content));
}

/** A file, folder, link or submodule of the tree. */
export interface TreeNode {
  type: "file" | "directory" | "symlink" | "submodule";
  /** Bytes; 0 for directories. */
  size: number;
  modified: Date;
  executable: boolean;
}

/** The state of a path in a layer: `base` shows the base's entry, `gone` hides it. */
type LayerState = { kind: "base" } | { kind: "gone" } | ({ kind: "written" } & Content);

interface Written {
  size: number;
  modified: Date;
  mode: FileMode;
  /** The content of a large file. memfs copies a file on each read, which takes 9 ms for 20 MB. */
  content?: Buffer;
}

const maxVolumeFileBytes = 256 * 1024;

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

  setState(path: string, state: LayerState): void {
    switch (state.kind) {
      case "written":
        this.#change(path, () => this.#put(path, state.content, state.mode));
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
  write(path: string, content: Uint8Array, given?: FileMode): void {
    const mode = given ?? (this.node(path)?.executable ? "100755" : "100644");
    const entry = this.#base?.entries.get(path);
    // The size of a base file is 0 before its content is loaded.
    const mayBeSame = entry && (entry.size === 0 || entry.size === content.length);
    const oid =
      mode === "160000" ? Buffer.from(content).toString() : mayBeSame && hashObject({ type: "blob", data: content });
    // Writing a link's own bytes restores the link: changes stored by older releases have no other way to express it.
    const restores = entry && entry.oid === oid && (entry.type === "symlink" || modeOfEntry(entry) === mode);
    this.#change(path, () => (restores ? this.#clear(path) : this.#put(path, content, mode)));
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
      const twin = candidates.find(
        (candidate) => candidate !== undefined && candidate !== level && this.node(candidate) !== undefined,
      );
      if (twin !== undefined) return twin + path.slice(level.length);
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
    return this.#written.get(path)?.content ?? (this.#volume.readFileSync(`/${path}`) as Buffer);
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

  #put(path: string, content: Uint8Array, mode: FileMode): void {
    this.#clear(path);
    if (this.#base?.entries.has(path)) this.#deleted.add(path);
    this.#volume.mkdirSync(`/${folderOf(path)}`, { recursive: true });
    const isLarge = content.length > maxVolumeFileBytes;
    // memfs keeps the buffer it is given, and a Buffer from the pool would keep its whole slab in memory.
    this.#volume.writeFileSync(`/${path}`, isLarge ? "" : copyOf(content));
    const own = { size: mode === "160000" ? 0 : content.length, modified: new Date(), mode };
    this.#written.set(path, isLarge ? { ...own, content: copyOf(content) } : own);
    this.#bytes += own.size;
    for (const level of levelsOf(path)) {
      const key = foldPath(level);
      this.#writtenByFoldedPath.set(key, (this.#writtenByFoldedPath.get(key) ?? new Set()).add(level));
    }
  }

  #clear(path: string): void {
    this.#deleted.delete(path);
    const own = this.#written.get(path);
    if (!own) return;

    this.#written.delete(path);
    this.#bytes -= own.size;
    this.#volume.unlinkSync(`/${path}`);
    for (let folder = folderOf(path); folder !== ""; folder = folderOf(folder)) {
      if ((this.#volume.readdirSync(`/${folder}`) as string[]).length > 0) break;
      this.#volume.rmdirSync(`/${folder}`);
    }
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

function typeOf(mode: FileMode): Pick<TreeNode, "type" | "executable"> {
  const type = mode === "120000" ? "symlink" : mode === "160000" ? "submodule" : "file";
  return { type, executable: mode === "100755" };
}

/** Returns a path and the folders above it, outermost first. */
function levelsOf(path: string): string[] {
  return [...foldersAbove(path), path];
}
