import { runAtOnce, runInTurns, type Steps } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import { folderOf, foldersAbove, foldPath, isGitName } from "#sandbox/paths.ts";
import { isFolder, parseCommitLinks, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";

export interface BaseEntry {
  type: "file" | "symlink" | "submodule";
  oid: string;
  executable: boolean;
  /** Bytes; 0 for a submodule, and for a file whose content has not been loaded yet. */
  size: number;
  /** The time at which the file on disk was changed, in epoch milliseconds. Undefined for the time of the commit. */
  modifiedMs?: number;
}

/** A repository at one commit. Its tree never changes, and all sandboxes with that base share it. */
export interface Base {
  commit: string;
  tree: string;
  /** The commit time. */
  date: Date;
  store: ObjectStore;
  /** Everything except folders, by path. */
  entries: ReadonlyMap<string, BaseEntry>;
  /** The paths of the files, sorted. */
  files: readonly string[];
  /** The names of each folder's direct entries; the root is `""`. */
  folders: ReadonlyMap<string, readonly string[]>;
  /** The number of entries below each folder, at any depth. */
  counts: ReadonlyMap<string, number>;
  contents: BaseContents;
  /** Files and folders by their folded path. Takes a tenth of a second for 100,000 files unless `foldPaths` was awaited. */
  pathsByFoldedPath(): ReadonlyMap<string, string>;
  /** Prepares `pathsByFoldedPath`, yielding to the event loop. */
  foldPaths(): Promise<void>;
  /** Returns the memory it uses in bytes, without the store, which bases share. */
  bytes(): number;
}

/** Loads the contents of a base's files, which may arrive after its tree. */
class BaseContents {
  /** A commit whose contents the store has, so that only the differences are fetched. */
  readonly previous: string | undefined;
  #isLoaded: boolean;
  #loading: Promise<void> | undefined;

  constructor({ isLoaded, previous }: { isLoaded: boolean; previous?: string | undefined }) {
    this.#isLoaded = isLoaded;
    this.previous = previous;
  }

  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** Loads the contents once for all callers. After a failure, the next call tries again. */
  load(fetch: () => Promise<void>): Promise<void> {
    if (this.#isLoaded) return Promise.resolve();
    this.#loading ??= fetch()
      .then(() => {
        this.#isLoaded = true;
      })
      .finally(() => {
        this.#loading = undefined;
      });
    return this.#loading;
  }
}

const entryBytes = 400;

/**
 * Reads the tree of a commit from the store, and yields to the event loop meanwhile. Rejects with a UserError for a tree
 * that is too large or too deep. `previous` is a commit whose contents the store has.
 */
export function readBase(store: ObjectStore, commit: string, previous?: string): Promise<Base> {
  return runInTurns(readSteps(store, commit, previous));
}

/** Like `readBase`, but without yielding: for the few files of a workspace without a repository. */
export function readBaseSync(store: ObjectStore, commit: string): Base {
  return runAtOnce(readSteps(store, commit));
}

/** Reads one folder in each step. */
function* readSteps(store: ObjectStore, commit: string, previous?: string): Steps<Base> {
  const head = store.read(commit);
  if (head?.type !== "commit") throw new Error(`The commit ${commit} is not in the pack that was fetched.`);

  const { tree, committed } = parseCommitLinks(head.data);
  const budget = new TreeBudget("The repository");
  const entries = new Map<string, BaseEntry>();
  const folders = new Map<string, string[]>([["", []]]);
  const stack = [{ oid: tree, folder: "", depth: 0 }];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { oid, folder, depth } = next;
    const object = store.read(oid);
    if (object?.type !== "tree") throw new Error("A folder of the repository is missing in the pack that was fetched.");

    const names = folders.get(folder) ?? [];
    for (const { mode, name: bytes, oid } of parseTree(object.data)) {
      const name = toValidName(bytes);
      const path = folder ? `${folder}/${name}` : `${name}`;
      budget.spend(path, depth);
      // An entry with an invalid name cannot be accessed, and stays in the tree unchanged.
      if (name === undefined) continue;

      names.push(name);
      if (isFolder({ mode })) {
        folders.set(path, []);
        stack.push({ oid, folder: path, depth: depth + 1 });
      } else entries.set(path, new StoredEntry(store, mode, oid));
    }
    yield;
  }
  removeEmptyFolders(folders);
  return yield* assembleSteps({ commit, tree, date: committed, store, entries, folders, previous });
}

/** Returns the name as text; undefined if it is not a valid name here. */
function toValidName(bytes: Buffer): string | undefined {
  const name = bytes.toString("utf8");
  const isPlain = name !== "" && name !== "." && name !== ".." && !name.includes("/");
  return isPlain && !isGitName(name) && Buffer.from(name).equals(bytes) ? name : undefined;
}

/** Removes folders that only have entries with invalid names. Children come after their parents in the map. */
function removeEmptyFolders(folders: Map<string, string[]>): void {
  for (const [path, names] of [...folders].reverse()) {
    if (names.length > 0 || path === "") continue;
    folders.delete(path);
    const parent = folders.get(folderOf(path));
    parent?.splice(parent.indexOf(path.slice(path.lastIndexOf("/") + 1)), 1);
  }
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

type BaseParts = Pick<Base, "commit" | "tree" | "date" | "store" | "folders"> & {
  entries: ReadonlyMap<string, BaseEntry>;
  isLoaded?: boolean;
  previous?: string | undefined;
};

/** Assembles a base from its entries. Without `isLoaded`, checks if the store has all contents. */
export function assembleBase(parts: BaseParts): Base {
  return runAtOnce(assembleSteps(parts));
}

function* assembleSteps({ isLoaded, previous, ...parts }: BaseParts): Steps<Base> {
  const { store, entries, folders } = parts;
  const files: string[] = [];
  for (const [path, { type }] of entries) {
    if (type !== "file") continue;
    if (files.push(path) % pathsPerStep === 0) yield;
  }
  files.sort();
  yield;
  const counts = yield* countBelow(entries.keys());
  const contents = new BaseContents({ isLoaded: isLoaded ?? (yield* findContents(store, entries)), previous });
  let folded: Map<string, string> | undefined;
  const foldedSteps = () => foldAll([...entries.keys(), ...folders.keys()]);
  return {
    ...parts,
    files,
    counts,
    contents,
    pathsByFoldedPath: () => {
      folded ??= runAtOnce(foldedSteps());
      return folded;
    },
    foldPaths: async () => {
      folded ??= await runInTurns(foldedSteps());
    },
    bytes: () => entries.size * entryBytes,
  };
}

/** Resolves to true if the store of a base has the contents of all entries. Yields to the event loop. */
export function hasContents({ store, entries }: Pick<Base, "store" | "entries">): Promise<boolean> {
  return runInTurns(findContents(store, entries));
}

function* findContents(store: ObjectStore, entries: ReadonlyMap<string, BaseEntry>): Steps<boolean> {
  let checked = 0;
  for (const { type, oid } of entries.values()) {
    if (type !== "submodule" && !store.has(oid)) return false;
    if (++checked % pathsPerStep === 0) yield;
  }
  return true;
}

/** Returns the content of an entry; undefined for a submodule. Throws when the contents are not loaded. */
export function readEntry({ store }: Pick<Base, "store">, { type, oid }: BaseEntry): Buffer | undefined {
  if (type === "submodule") return undefined;
  const object = store.read(oid);
  if (!object) throw new Error(`The content ${oid} of the base was read before it was loaded.`);
  return object.data;
}

function* countBelow(paths: Iterable<string>): Steps<Map<string, number>> {
  const direct = new Map<string, number>();
  let counted = 0;
  for (const path of paths) {
    const folder = folderOf(path);
    direct.set(folder, (direct.get(folder) ?? 0) + 1);
    if (++counted % pathsPerStep === 0) yield;
  }
  const counts = new Map<string, number>();
  for (const [folder, count] of direct) {
    const levels = folder === "" ? [""] : ["", ...foldersAbove(folder), folder];
    for (const level of levels) counts.set(level, (counts.get(level) ?? 0) + count);
  }
  return counts;
}

function* foldAll(paths: readonly string[]): Steps<Map<string, string>> {
  const folded = new Map<string, string>();
  for (const path of paths) {
    folded.set(foldPath(path), path);
    if (folded.size % pathsPerStep === 0) yield;
  }
  return folded;
}

const pathsPerStep = 1_000;

const maxEntries = 500_000;
const maxDepth = 200;
const maxPathBytes = 128 * 1024 ** 2;

/** Limits a walk over trees: a few small ones can refer to each other so often that it never ends. */
export class TreeBudget {
  readonly #name: string;
  #entriesLeft = maxEntries;
  #bytesLeft = maxPathBytes;

  /** `name` is the subject of the error message, such as `The repository`. */
  constructor(name: string) {
    this.#name = name;
  }

  /** Counts an entry of a tree. Throws a UserError when the walk is too large or too deep. */
  spend(path: string, depth: number): void {
    this.#entriesLeft--;
    this.#bytesLeft -= path.length;
    if (this.#entriesLeft < 0 || this.#bytesLeft < 0) {
      throw new UserError(
        `${this.#name} has too many files to work on: more than ${maxEntries.toLocaleString("en-US")}.`,
      );
    }
    if (depth > maxDepth) throw new UserError(`${this.#name} has folders nested too deeply to work on.`);
  }
}
