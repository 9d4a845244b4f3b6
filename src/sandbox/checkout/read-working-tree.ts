import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  type Stats,
} from "node:fs";
import { glob } from "node:fs/promises";
import { basename, join, relative, sep } from "node:path";
import { deferred } from "#domain/async-work.ts";
import { ToolError, UserError } from "#domain/errors.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { assembleBase, type Base, type BaseEntry } from "#sandbox/git/base.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { folderOf, foldersAbove, isGitName } from "#sandbox/paths.ts";
import type { RecordedFile } from "./base-record.ts";
import { runGit } from "./run-git.ts";

export interface WorkingTree {
  base: Base;
  /** The current branch; the abbreviated commit when HEAD is detached. */
  branch: string;
  /** The current commit; undefined before the first one. */
  head: string | undefined;
  /** True for a file that changed on disk after it was listed and before it was read. */
  isStale(path: string): boolean;
}

interface ReadWorkingTree {
  /** These replace the current files on disk. */
  recorded: ReadonlyMap<string, RecordedFile>;
  /** True for a folder without git. */
  isFolder: boolean;
  /** Undefined when HEAD is detached. */
  currentBranch: string | undefined;
}

const noCommit = "0".repeat(40);
const maxEntries = 500_000;
const maxFileBytes = 100 * 1024 ** 2;
const maxTreeBytes = 1024 ** 3;

/** Lists the files on disk without ignored ones and `.git`. Contents are read on first use. Follows no links. */
export async function readWorkingTree(
  root: string,
  { recorded, isFolder, currentBranch }: ReadWorkingTree,
): Promise<WorkingTree> {
  const listing = runGit(["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root });
  const [head, listed] = await (isFolder
    ? Promise.all([undefined, listing.then(nonEmpty).catch(() => walk(root))])
    : Promise.all([readHead(root), listing]));
  const store = new ObjectStore();
  const entries = new Map<string, BaseEntry>();
  const listedStats = new Map<string, BigIntStats>();
  const readPaths = new Set<string>();
  const isPlainFolder = plainFolders(root);

  for (const path of namedPaths(listed)) {
    if (!foldersAbove(path).every(isPlainFolder)) continue;
    const stat = lstatSync(join(root, path), { bigint: true, throwIfNoEntry: false });
    const entry = stat && createEntry(stat, () => readBlob(path));
    if (!entry) continue;
    if (entries.size >= maxEntries) {
      throw new UserError(`The checkout has too many files to work on: more than ${maxEntries}.`);
    }
    entries.set(path, entry);
    listedStats.set(path, stat);
  }

  function readBlob(path: string): string {
    const entry = readDiskEntry(root, path, { maxBytes: maxFileBytes });
    if (entry.kind !== "file" && entry.kind !== "link") {
      const reason = entry.kind === "refused" ? entry.reason : "is no longer a file";
      throw new ToolError(`${path} ${reason}: it was changed on disk after the worker started.`, {
        code: "FILE_NOT_FOUND",
        suggestion: "Leave it unchanged and mention it in your answer.",
      });
    }
    if (store.bytes() + entry.content.length > maxTreeBytes) {
      throw new ToolError("The files read from this checkout exceed the memory limit.", { code: "TOO_LARGE" });
    }
    readPaths.add(path);
    return store.add({ type: "blob", data: entry.content });
  }

  for (const [path, file] of recorded) {
    if (file.kind === "unknown") continue;
    readPaths.add(path);
    entries.delete(path);
    if (file.kind === "file") entries.set(path, recordedEntry(store, file.version));
  }

  const commit = head?.commit ?? noCommit;
  const folders = listFolders(entries.keys());
  const base = assembleBase({
    commit,
    tree: head?.tree ?? noCommit,
    date: head?.date ?? lstatSync(root).mtime,
    store,
    entries,
    folders,
    isLoaded: true,
  });
  return {
    base,
    branch: isFolder ? basename(root) : (currentBranch ?? commit.slice(0, 7)),
    head: head?.commit,
    isStale: (path) => !readPaths.has(path) && !isSame(listedStats.get(path), statOf(root, path)),
  };
}

/** Git lists no files in a folder that it ignores. */
function nonEmpty(listed: Buffer): Buffer {
  if (listed.length === 0) throw new Error("git lists no file.");
  return listed;
}

/** Names that are left out in a folder without git: git's data, packages, and variables with secrets. */
const leftOut = /^(\.git|node_modules|\.env(\..*)?)$/;

/** Lists the files below a folder in the format of git. */
async function walk(root: string): Promise<Buffer> {
  const entries = await glob("**", { cwd: root, withFileTypes: true, exclude: ({ name }) => leftOut.test(name) });
  const paths: string[] = [];
  for await (const entry of entries) {
    if (entry.isDirectory() || leftOut.test(entry.name)) continue;
    paths.push(relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"));
    if (paths.length > maxEntries) break;
  }
  return Buffer.from(paths.sort().join("\0"));
}

function recordedEntry(store: ObjectStore, { content, executable, isLink }: FileVersion): BaseEntry {
  const oid = store.add({ type: "blob", data: Buffer.from(content) });
  return { type: isLink ? "symlink" : "file", oid, executable, size: content.length };
}

/** Creates an entry whose object id is computed on first use, when the file is read. */
function createEntry(stat: BigIntStats, readBlob: () => string): BaseEntry | undefined {
  // A folder that git lists as a file is a nested repository.
  if (stat.isDirectory()) return { type: "submodule", oid: noCommit, executable: false, size: 0 };
  const type = stat.isFile() ? "file" : stat.isSymbolicLink() ? "symlink" : undefined;
  if (!type) return undefined;

  let oid: string | undefined;
  return {
    type,
    executable: type === "file" && (stat.mode & 0o100n) !== 0n,
    size: Number(stat.size),
    modifiedMs: Number(stat.mtimeMs),
    get oid() {
      oid ??= readBlob();
      return oid;
    },
  };
}

/** Yields the paths in git's listing, without nested repositories and names that are not valid here. */
function* namedPaths(listed: Buffer): Iterable<string> {
  const seen = new Set<string>();
  for (const path of listed.toString("utf8").split("\0")) {
    const isNamed = path !== "" && !path.endsWith("/") && !path.includes("\ufffd");
    if (!isNamed || seen.has(path) || path.split("/").some(isGitName)) continue;
    seen.add(path);
    yield path;
  }
}

/** Returns a check that a folder was not replaced by a link: git still lists its former files. */
function plainFolders(root: string): (folder: string) => boolean {
  const known = new Map<string, boolean>();
  const isPlain = (folder: string) => lstatSync(join(root, folder), { throwIfNoEntry: false })?.isDirectory() ?? false;
  return (folder) => known.getOrInsertComputed(folder, isPlain);
}

function listFolders(paths: Iterable<string>): Map<string, string[]> {
  const folders = new Map<string, string[]>([["", []]]);
  for (const path of paths) {
    let name = path;
    // Stop at the first parent folder that is already known.
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
    // A parent folder was replaced by a file.
    return undefined;
  }
}

async function readHead(root: string): Promise<{ commit: string; tree: string; date: Date } | undefined> {
  const output = await runGit(["log", "-1", "--format=%H %T %ct", "HEAD"], { cwd: root }).catch(() => undefined);
  const [commit, tree, seconds] = output?.toString("utf8").trim().split(" ") ?? [];
  return commit && tree ? { commit, tree, date: new Date(Number(seconds) * 1_000) } : undefined;
}

/** The content of a path in a checkout. */
export type DiskEntry =
  | { kind: "nothing" }
  | { kind: "file"; content: Buffer /** Permission bits. */; mode: number }
  /** A symbolic link, whose content is its target. */
  | { kind: "link"; content: Buffer }
  /** Anything that is not read, with a reason that completes "a.txt …". */
  | { kind: "refused"; reason: string };

/** Reads a path without following symbolic links, so that it never leaves the root. */
export function readDiskEntry(root: string, path: string, { maxBytes = Number.POSITIVE_INFINITY } = {}): DiskEntry {
  for (const folder of foldersAbove(path)) {
    const stat = lstatSync(join(root, folder), { throwIfNoEntry: false });
    if (!stat) return { kind: "nothing" };
    if (stat.isSymbolicLink()) return { kind: "refused", reason: `is behind the symbolic link ${folder}` };
    if (!stat.isDirectory()) return { kind: "nothing" };
  }
  const whole = join(root, path);
  const stat = lstatSync(whole, { throwIfNoEntry: false });
  if (!stat) return { kind: "nothing" };
  if (stat.isSymbolicLink()) return { kind: "link", content: readlinkSync(whole, "buffer") };
  if (stat.isDirectory()) return { kind: "refused", reason: "is a folder" };
  if (!stat.isFile()) return { kind: "refused", reason: "is neither a file nor a link" };
  return readFile(whole, maxBytes);
}

function readFile(path: string, maxBytes: number): DiskEntry {
  // The file may have been replaced by a link or a pipe since it was listed.
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  using _ = deferred(() => closeSync(file));
  const stat: Stats = fstatSync(file);
  if (!stat.isFile()) return { kind: "refused", reason: "is not a file" };
  if (stat.size > maxBytes) return { kind: "refused", reason: `is larger than ${maxBytes} bytes` };
  return { kind: "file", content: readFileSync(file), mode: stat.mode & 0o7777 };
}
