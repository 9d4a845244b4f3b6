import { runAtOnce, runInTurns, type Steps } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import { folderOf, foldersAbove, foldPath } from "#sandbox/paths.ts";
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

/** How the entries of a base differ from those of another one. */
export interface BaseChanges {
  from: Base;
  /** The paths of new entries, and of entries with another type. */
  added: string[];
  /** The paths of removed entries, and of entries with another type. */
  removed: Set<string>;
  /** Added entries, and entries with another mode or content. */
  written: BaseEntry[];
}

export type BaseParts = Pick<Base, "commit" | "tree" | "date" | "store" | "folders"> & {
  entries: ReadonlyMap<string, BaseEntry>;
  /** Undefined if everything is new. */
  changes?: BaseChanges | undefined;
  isLoaded?: boolean;
  previous?: string | undefined;
};

/** Assembles a base from its entries. Without `isLoaded`, checks if the store has all contents. */
export function assembleBase(parts: BaseParts): Base {
  return runAtOnce(assembleSteps(parts));
}

/** Like `assembleBase`, in steps. */
export function* assembleSteps({ isLoaded, previous, changes, ...parts }: BaseParts): Steps<Base> {
  const { store, entries, folders } = parts;
  const files = yield* listFiles(entries, changes);
  const counts = new Map(changes?.from.counts);
  yield* countBelow(changes?.added ?? entries.keys(), counts, 1);
  yield* countBelow(changes?.removed ?? [], counts, -1);
  const unchecked = changes?.from.contents.isLoaded ? changes.written : entries.values();
  const contents = new BaseContents({ isLoaded: isLoaded ?? (yield* findContents(store, unchecked)), previous });
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

function* listFiles(
  entries: ReadonlyMap<string, BaseEntry>,
  changes: BaseChanges | undefined,
): Steps<readonly string[]> {
  const files: string[] = [];
  if (changes) {
    const { from, added, removed } = changes;
    if (added.length === 0 && removed.size === 0) return from.files;
    for (const path of from.files) {
      if (!removed.has(path) && files.push(path) % pathsPerStep === 0) yield;
    }
  }
  for (const path of changes?.added ?? entries.keys()) {
    if (entries.get(path)?.type === "file" && files.push(path) % pathsPerStep === 0) yield;
  }
  files.sort();
  yield;
  return files;
}

/** Resolves to true if the store of a base has the contents of all entries. Yields to the event loop. */
export function hasContents({ store, entries }: Pick<Base, "store" | "entries">): Promise<boolean> {
  return runInTurns(findContents(store, entries.values()));
}

function* findContents(store: ObjectStore, entries: Iterable<BaseEntry>): Steps<boolean> {
  let checked = 0;
  for (const { type, oid } of entries) {
    if (type !== "submodule" && !store.has(oid)) return false;
    if (++checked % pathsPerStep === 0) yield;
  }
  return true;
}

/** A content was read that is not loaded yet. */
export class MissingContentError extends Error {
  readonly oid: string;

  constructor(oid: string) {
    super(`The content ${oid} of the base was read before it was loaded.`);
    this.oid = oid;
  }
}

/** Returns the content of an entry; undefined for a submodule. Throws a MissingContentError when it is not loaded. */
export function readEntry({ store }: Pick<Base, "store">, { type, oid }: BaseEntry): Buffer | undefined {
  if (type === "submodule") return undefined;
  const object = store.read(oid);
  if (!object) throw new MissingContentError(oid);
  return object.data;
}

/** Adds `each` to the counts of the folders above each path. */
function* countBelow(paths: Iterable<string>, counts: Map<string, number>, each: 1 | -1): Steps<void> {
  const direct = new Map<string, number>();
  let counted = 0;
  for (const path of paths) {
    const folder = folderOf(path);
    direct.set(folder, (direct.get(folder) ?? 0) + each);
    if (++counted % pathsPerStep === 0) yield;
  }
  for (const [folder, count] of direct) {
    const levels = folder === "" ? [""] : ["", ...foldersAbove(folder), folder];
    for (const level of levels) {
      const sum = (counts.get(level) ?? 0) + count;
      if (sum === 0) counts.delete(level);
      else counts.set(level, sum);
    }
  }
}

function* foldAll(paths: readonly string[]): Steps<Map<string, string>> {
  const folded = new Map<string, string>();
  for (const path of paths) {
    folded.set(foldPath(path), path);
    if (folded.size % pathsPerStep === 0) yield;
  }
  return folded;
}

export const pathsPerStep = 1_000;

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
