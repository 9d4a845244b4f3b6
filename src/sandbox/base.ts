import { UserError } from "#domain/errors.ts";
import { isFolder, parseCommit, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";
import { foldersAbove, foldPath, isGitName } from "./paths.ts";

/** One file of the base tree. */
export interface BaseEntry {
  type: "file" | "symlink" | "submodule";
  oid: string;
  executable: boolean;
  /** Bytes; 0 for a submodule. */
  size: number;
}

/** A repository at one commit. Never changes, and is shared by every sandbox that stands on it. */
export interface Base {
  commit: string;
  tree: string;
  /** When it was committed. */
  date: Date;
  store: ObjectStore;
  /** Everything but folders, by path. */
  entries: ReadonlyMap<string, BaseEntry>;
  /** The paths of the files, sorted. */
  files: readonly string[];
  /** The names directly in each folder; the root is `""`. */
  folders: ReadonlyMap<string, readonly string[]>;
  /** How many entries lie below each folder, at any depth. */
  counts: ReadonlyMap<string, number>;
  /** The path that a folded path stands for, files and folders alike. */
  pathsByFoldedPath(): ReadonlyMap<string, string>;
  bytes(): number;
}

const maxEntries = 500_000;
const maxDepth = 200;

/** Reads the tree of a commit that is in the store. Throws a UserError for a tree that nobody could check out. */
export function createBase(store: ObjectStore, commit: string): Base {
  const head = store.read(commit);
  if (head?.type !== "commit") throw new Error(`The commit ${commit} is not in the pack that was fetched.`);

  const { tree, committed } = parseCommit(head.data);
  const entries = new Map<string, BaseEntry>();
  const folders = new Map<string, string[]>([["", []]]);
  flatten(store, tree, "", { entries, folders, trees: { read: 0 }, depth: 0 });
  return assembleBase({ commit, tree, date: committed, store, entries, folders });
}

interface Flattening {
  entries: Map<string, BaseEntry>;
  folders: Map<string, string[]>;
  trees: { read: number };
  depth: number;
}

function flatten(store: ObjectStore, tree: string, folder: string, into: Flattening): void {
  const object = store.read(tree);
  if (object?.type !== "tree") throw new Error("A folder of the repository is missing in the pack that was fetched.");
  if (into.depth > maxDepth) throw new UserError("The repository has folders nested too deeply to work on.");

  // A few small trees can refer to each other so often that the whole never ends.
  into.trees.read++;
  if (into.trees.read + into.entries.size > maxEntries) {
    throw new UserError(`The repository has too many files to work on: more than ${maxEntries}.`);
  }

  for (const { mode, name: bytes, oid } of parseTree(object.data)) {
    const name = readableName(bytes);
    // Such an entry stays in the tree as it is; nobody can name it.
    if (name === undefined) continue;

    const path = folder ? `${folder}/${name}` : name;
    if (isFolder({ mode })) {
      into.folders.set(path, []);
      flatten(store, oid, path, { ...into, depth: into.depth + 1 });
      if (into.folders.get(path)?.length === 0) into.folders.delete(path);
      else into.folders.get(folder)?.push(name);
      continue;
    }
    into.folders.get(folder)?.push(name);
    into.entries.set(path, readEntry(store, mode, oid));
  }
}

/** The name as people can write it; undefined for one that nobody can name here. */
function readableName(bytes: Buffer): string | undefined {
  const name = bytes.toString("utf8");
  const isPlain = name !== "" && name !== "." && name !== ".." && !name.includes("/");
  return isPlain && !isGitName(name) && Buffer.from(name).equals(bytes) ? name : undefined;
}

function readEntry(store: ObjectStore, mode: string, oid: string): BaseEntry {
  if (mode.startsWith("16")) return { type: "submodule", oid, executable: false, size: 0 };

  const type = mode.startsWith("12") ? "symlink" : "file";
  const executable = type === "file" && (Number.parseInt(mode, 8) & 0o100) !== 0;
  return { type, oid, executable, size: store.sizeOf(oid) ?? 0 };
}

type Parts = Pick<Base, "commit" | "tree" | "date" | "store" | "folders"> & { entries: ReadonlyMap<string, BaseEntry> };

const entryBytes = 400;

/** A base of these entries, with what is asked of it often counted once. */
export function assembleBase({ commit, tree, date, store, entries, folders }: Parts): Base {
  let folded: Map<string, string> | undefined;
  return {
    commit,
    tree,
    date,
    store,
    entries,
    files: [...entries]
      .filter(([, entry]) => entry.type === "file")
      .map(([path]) => path)
      .sort(),
    folders,
    counts: countBelow(entries.keys()),
    pathsByFoldedPath: () => {
      folded ??= foldAll(entries, folders);
      return folded;
    },
    bytes: () => store.bytes() + entries.size * entryBytes,
  };
}

function countBelow(paths: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const path of paths) {
    for (const folder of ["", ...foldersAbove(path)]) counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return counts;
}

function foldAll(entries: ReadonlyMap<string, unknown>, folders: ReadonlyMap<string, unknown>): Map<string, string> {
  const folded = new Map<string, string>();
  for (const path of [...entries.keys(), ...folders.keys()]) folded.set(foldPath(path), path);
  return folded;
}
