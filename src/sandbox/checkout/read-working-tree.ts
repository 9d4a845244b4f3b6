import { type BigIntStats, lstatSync } from "node:fs";
import { join } from "node:path";
import { ToolError, UserError } from "#domain/errors.ts";
import { assembleBase } from "#sandbox/assemble-base.ts";
import type { Base, BaseEntry } from "#sandbox/base.ts";
import { createObjectStore } from "#sandbox/object-store.ts";
import { folderOf, foldersAbove, isGitName } from "#sandbox/paths.ts";
import { readDiskEntry } from "./read-disk-entry.ts";
import { runGit } from "./run-git.ts";

export interface WorkingTree {
  base: Base;
  /** The branch that is checked out; the short commit where none is. */
  branch: string;
  /** The commit it stands on; undefined before the first one. */
  head: string | undefined;
  /** True for a file that was written on disk since it was listed, and before anybody looked into it. */
  isStale(path: string): boolean;
}

const noCommit = "0".repeat(40);
const maxEntries = 500_000;
const maxFileBytes = 100 * 1024 ** 2;
const maxTreeBytes = 1024 ** 3;

/**
 * The files of a checkout as they are on disk, ignored ones and `.git` left out. Only their names are read now; each
 * file is as it was when somebody first looked into it. Links are not followed.
 */
export async function readWorkingTree(root: string): Promise<WorkingTree> {
  const [head, branch, listed] = await Promise.all([
    readHead(root),
    readBranch(root),
    runGit(["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root }),
  ]);
  const store = createObjectStore();
  const entries = new Map<string, BaseEntry>();
  const listedAs = new Map<string, BigIntStats>();
  const looked = new Set<string>();
  const isFolder = plainFolders(root);

  for (const path of namesIn(listed)) {
    if (!foldersAbove(path).every(isFolder)) continue;
    const stat = lstatSync(join(root, path), { bigint: true, throwIfNoEntry: false });
    const entry = stat && createEntry(stat, () => look(path));
    if (!entry) continue;
    if (entries.size >= maxEntries) {
      throw new UserError(`The checkout has too many files to work on: more than ${maxEntries}.`);
    }
    entries.set(path, entry);
    listedAs.set(path, stat);
  }

  function look(path: string): string {
    const place = readDiskEntry(root, path, { largest: maxFileBytes });
    if (place.kind !== "file" && place.kind !== "link") {
      const why = place.kind === "refused" ? place.reason : "is no file any more";
      throw new ToolError(`${path} ${why}: it was changed on disk since the worker began.`, {
        code: "FILE_NOT_FOUND",
        suggestion: "Leave it as it is, and say so in your answer.",
      });
    }
    if (store.bytes() + place.content.length > maxTreeBytes) {
      throw new ToolError("More was read of this checkout than fits into memory.", { code: "TOO_LARGE" });
    }
    looked.add(path);
    return store.add({ type: "blob", data: place.content });
  }

  const commit = head?.commit ?? noCommit;
  const folders = listFolders(entries.keys());
  const base = assembleBase({
    commit,
    tree: head?.tree ?? noCommit,
    date: head?.date ?? new Date(0),
    store,
    entries,
    folders,
  });
  return {
    base,
    branch: branch ?? commit.slice(0, 7),
    head: head?.commit,
    isStale: (path) => !looked.has(path) && !isSame(listedAs.get(path), statOf(root, path)),
  };
}

/** The content is looked up by its hash, and the hash is of what is read the first time it is asked for. */
function createEntry(stat: BigIntStats, look: () => string): BaseEntry | undefined {
  // A folder where git lists a file is another repository.
  if (stat.isDirectory()) return { type: "submodule", oid: noCommit, executable: false, size: 0 };
  const type = stat.isFile() ? "file" : stat.isSymbolicLink() ? "symlink" : undefined;
  if (!type) return undefined;

  let oid: string | undefined;
  return {
    type,
    executable: type === "file" && (stat.mode & 0o100n) !== 0n,
    size: Number(stat.size),
    get oid() {
      oid ??= look();
      return oid;
    },
  };
}

/** What git listed, without what nobody can name here, and without the repositories inside this one. */
function* namesIn(listed: Buffer): Iterable<string> {
  const seen = new Set<string>();
  for (const path of listed.toString("utf8").split("\0")) {
    const isNamed = path !== "" && !path.endsWith("/") && !path.includes("\ufffd");
    if (!isNamed || seen.has(path) || path.split("/").some(isGitName)) continue;
    seen.add(path);
    yield path;
  }
}

/** Git still lists what lay in a folder that is a link now. */
function plainFolders(root: string): (folder: string) => boolean {
  const known = new Map<string, boolean>();
  return (folder) => {
    let isPlain = known.get(folder);
    if (isPlain === undefined) {
      isPlain = lstatSync(join(root, folder), { throwIfNoEntry: false })?.isDirectory() ?? false;
      known.set(folder, isPlain);
    }
    return isPlain;
  };
}

function listFolders(paths: Iterable<string>): Map<string, string[]> {
  const folders = new Map<string, string[]>([["", []]]);
  for (const path of paths) {
    let name = path;
    // Upwards until a folder that is known already.
    for (;;) {
      const folder = folderOf(name);
      const names = folders.get(folder);
      if (names) {
        names.push(name.slice(folder === "" ? 0 : folder.length + 1));
        break;
      }
      folders.set(folder, [name.slice(folder.length + 1)]);
      name = folder;
    }
  }
  return folders;
}

function isSame(a: BigIntStats | undefined, b: BigIntStats | undefined): boolean {
  return a?.size === b?.size && a?.mtimeNs === b?.mtimeNs && a?.ino === b?.ino && a?.mode === b?.mode;
}

function statOf(root: string, path: string): BigIntStats | undefined {
  try {
    return lstatSync(join(root, path), { bigint: true, throwIfNoEntry: false });
  } catch {
    // A file stands where a folder was.
    return undefined;
  }
}

async function readHead(root: string): Promise<{ commit: string; tree: string; date: Date } | undefined> {
  const said = await runGit(["log", "-1", "--no-show-signature", "--format=%H %T %ct", "HEAD"], { cwd: root }).catch(
    () => undefined,
  );
  const [commit, tree, seconds] = said?.toString("utf8").trim().split(" ") ?? [];
  return commit && tree ? { commit, tree, date: new Date(Number(seconds) * 1_000) } : undefined;
}

async function readBranch(root: string): Promise<string | undefined> {
  const said = await runGit(["symbolic-ref", "-q", "--short", "HEAD"], { cwd: root }).catch(() => undefined);
  return said?.toString("utf8").trim() || undefined;
}
