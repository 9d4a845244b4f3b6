import { runAtOnce, runInTurns, type Steps } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import { folderOf, isGitName } from "#sandbox/paths.ts";
import {
  assembleSteps,
  type Base,
  type BaseChanges,
  type BaseEntry,
  type BaseParts,
  pathsPerStep,
  TreeBudget,
} from "./base.ts";
import { isFolder, parseCommitLinks, parseTree, type TreeItem } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";

interface ReadOptions {
  /** A base in the same store. Only folders that differ from it are read. */
  from?: Base;
  /** A commit whose contents the store has. */
  previous?: string;
}

/**
 * Reads the tree of a commit from the store, and yields to the event loop meanwhile. Rejects with a UserError for a tree
 * that is too large or too deep.
 */
export function readBase(store: ObjectStore, commit: string, options?: ReadOptions): Promise<Base> {
  return runInTurns(readSteps(store, commit, options));
}

/** Like `readBase`, but without yielding: for the few files of a workspace without a repository. */
export function readBaseSync(store: ObjectStore, commit: string): Base {
  return runAtOnce(readSteps(store, commit));
}

function* readSteps(store: ObjectStore, commit: string, { from, previous }: ReadOptions = {}): Steps<Base> {
  const head = store.read(commit);
  if (head?.type !== "commit") throw new Error(`The commit ${commit} is not in the pack that was fetched.`);

  const { tree, committed } = parseCommitLinks(head.data);
  const derived = from && (yield* deriveTree(store, tree, from));
  const read = derived ?? (yield* new TreeReader(store).read(tree));
  return yield* assembleSteps({ ...read, commit, tree, date: committed, store, previous });
}

/** Reads the folders that differ from those of a base; undefined if the whole tree has to be read. */
function* deriveTree(store: ObjectStore, tree: string, from: Base): Steps<TreeParts | undefined> {
  const reader = new TreeReader(store);
  try {
    yield* reader.copy(from);
    return yield* reader.read(tree);
  } catch (error) {
    // Entries that were removed also count as read, so the limits may be reached too early.
    if (error instanceof DuplicateNameError || error instanceof UserError) return undefined;
    throw error;
  }
}

type TreeParts = Pick<BaseParts, "entries" | "folders" | "changes">;

/** A folder to read. Without a tree before or after the change, it is new or removed. */
interface FolderChange {
  before: string | undefined;
  after: string | undefined;
  folder: string;
  depth: number;
}

/** A damaged tree has the same name twice. */
class DuplicateNameError extends Error {}

class TreeReader {
  readonly #store: ObjectStore;
  readonly #budget = new TreeBudget("The repository");
  readonly #entries = new Map<string, BaseEntry>();
  readonly #folders = new Map<string, readonly string[]>();
  /** The names in each folder that was read. Parents come before their children. */
  readonly #read = new Map<string, string[]>();
  readonly #stack: FolderChange[] = [];
  #changes: BaseChanges | undefined;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  /** Starts with the entries of a base. */
  *copy(from: Base): Steps<void> {
    this.#changes = { from, added: [], removed: new Set(), written: [] };
    for (const [path, entry] of from.entries) {
      this.#budget.spend(path, 0);
      this.#entries.set(path, entry);
      if (this.#entries.size % pathsPerStep === 0) yield;
    }
    for (const [path, names] of from.folders) {
      this.#budget.spend(path, 0);
      this.#folders.set(path, names);
      if (this.#folders.size % pathsPerStep === 0) yield;
    }
  }

  /** Reads one folder in each step. */
  *read(tree: string): Steps<TreeParts> {
    this.#stack.push({ before: this.#changes?.from.tree, after: tree, folder: "", depth: 0 });
    for (let next = this.#stack.pop(); next; next = this.#stack.pop()) {
      if (next.before === next.after) continue;
      this.#readFolder(next);
      yield;
    }
    this.#removeEmptyFolders();
    return { entries: this.#entries, folders: this.#folders, changes: this.#changes };
  }

  #readFolder({ before, after, folder, depth }: FolderChange): void {
    const old = new Map<string | undefined, NamedItem>();
    for (const item of this.#itemsOf(before)) old.set(item.name, item);
    const names: string[] = [];
    for (const item of this.#itemsOf(after)) {
      const { name } = item;
      const path = pathOf(folder, name);
      const was = name === undefined ? undefined : old.get(name);
      if (!was) this.#budget.spend(path, depth);
      // An entry with an invalid name cannot be accessed, and stays in the tree unchanged.
      if (name === undefined) continue;

      old.delete(name);
      const areFolders = was !== undefined && isFolder(was) && isFolder(item);
      if (was?.oid === item.oid && (areFolders || was.mode === item.mode)) {
        // A folder without valid names is left out.
        if (!areFolders || this.#folders.has(path)) names.push(name);
        continue;
      }
      names.push(name);
      if (was && isFolder(was) !== isFolder(item)) this.#remove(was, path, depth);
      if (isFolder(item)) {
        const oldFolder = areFolders ? was.oid : undefined;
        this.#stack.push({ before: oldFolder, after: item.oid, folder: path, depth: depth + 1 });
      } else this.#write(path, new StoredEntry(this.#store, item.mode, item.oid));
    }
    for (const [name, item] of old) if (name !== undefined) this.#remove(item, pathOf(folder, name), depth);
    if (after === undefined) this.#folders.delete(folder);
    else {
      this.#folders.set(folder, names);
      this.#read.set(folder, names);
    }
  }

  #itemsOf(tree: string | undefined): NamedItem[] {
    if (tree === undefined) return [];
    const object = this.#store.read(tree);
    if (object?.type !== "tree") throw new Error("A folder of the repository is missing in the pack that was fetched.");

    const items = parseTree(object.data).map(({ mode, oid, name }) => ({ mode, oid, name: toValidName(name) }));
    if (this.#changes) {
      const names = items.map(({ name }) => name).filter((name) => name !== undefined);
      if (new Set(names).size < names.length) throw new DuplicateNameError(`The tree ${tree} has a name twice.`);
    }
    return items;
  }

  #write(path: string, entry: BaseEntry): void {
    if (this.#changes) {
      const known = this.#entries.get(path);
      if (known?.type !== entry.type) this.#changes.added.push(path);
      if (known && known.type !== entry.type) this.#changes.removed.add(path);
      this.#changes.written.push(entry);
    }
    this.#entries.set(path, entry);
  }

  #remove(item: NamedItem, path: string, depth: number): void {
    if (isFolder(item)) this.#stack.push({ before: item.oid, after: undefined, folder: path, depth: depth + 1 });
    else {
      this.#entries.delete(path);
      this.#changes?.removed.add(path);
    }
  }

  /** Removes folders that only have entries with invalid names. */
  #removeEmptyFolders(): void {
    for (const [path, names] of [...this.#read].reverse()) {
      if (names.length > 0 || path === "") continue;
      this.#folders.delete(path);
      const parent = this.#read.get(folderOf(path));
      parent?.splice(parent.indexOf(path.slice(path.lastIndexOf("/") + 1)), 1);
    }
  }
}

type NamedItem = Pick<TreeItem, "mode" | "oid"> & { name: string | undefined };

function pathOf(folder: string, name: string | undefined): string {
  return folder ? `${folder}/${name}` : `${name}`;
}

/** Returns the name as text; undefined if it is not a valid name here. */
function toValidName(bytes: Buffer): string | undefined {
  const name = bytes.toString("utf8");
  const isPlain = name !== "" && name !== "." && name !== ".." && !name.includes("/");
  return isPlain && !isGitName(name) && Buffer.from(name).equals(bytes) ? name : undefined;
}

class StoredEntry implements BaseEntry {
  readonly type: BaseEntry["type"];
  readonly oid: string;
  readonly executable: boolean;
  readonly #store: ObjectStore;

  constructor(store: ObjectStore, mode: string, oid: string) {
    this.type = mode.startsWith("16") ? "submodule" : mode.startsWith("12") ? "symlink" : "file";
    this.oid = oid;
    this.executable = this.type === "file" && (Number.parseInt(mode, 8) & 0o100) !== 0;
    this.#store = store;
  }

  get size(): number {
    return this.type === "submodule" ? 0 : (this.#store.sizeOf(this.oid) ?? 0);
  }
}
