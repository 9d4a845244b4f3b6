import type { Base, BaseEntry } from "./base.ts";
import { foldersAbove, foldPath } from "./paths.ts";

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
