import { execFile } from "node:child_process";
import {
  chmodSync,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  type Stats,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { lstat, open, rm } from "node:fs/promises";
import { promisify } from "node:util";
import { deferred, EventLoopYielder } from "#domain/async-work.ts";
import type { TreeDelta } from "#executors/tree-mirror.ts";
import type { ProposedChange } from "#executors/validate-changes.ts";
import { pathProblem } from "#executors/validate-changes.ts";
import type { SandboxUser } from "./launch.ts";

type Collected = ProposedChange[] | undefined;

interface WalkLimits {
  /** The maximum number of files and folders to examine. */
  entries: number;
  folders: number;
  /** The maximum number of changed files, not counting ignored ones. */
  changes: number;
}

interface CollectOptions {
  isIgnored(path: string): boolean;
  known: ReadonlySet<string>;
}

const execute = promisify(execFile);
/** A repository may have 200,000 files. */
const walkLimits: WalkLimits = { entries: 400_000, folders: 50_000, changes: 10_000 };
/** Synchronous calls take a tenth of the time of promises for thousands of files. They yield to other work at this interval. */
const yieldEveryMs = 8;

/**
 * A run's copy of the tree on disk. It is accessed only while no process of the sandbox is running, and even then its
 * contents are not trusted: a folder may have been replaced by a link to another place.
 */
export class GuestFolder {
  readonly #root: string;
  readonly #user: SandboxUser;
  readonly #limits: WalkLimits;
  readonly #written = new Map<string, WrittenFile>();
  readonly #visited = new Map<string, VisitedFolder>();
  #walks = 0;
  #hasGitFolder = false;

  constructor(folder: string, user: SandboxUser, limits: Partial<WalkLimits> = {}) {
    this.#root = realpathSync(folder);
    this.#user = user;
    this.#limits = { ...walkLimits, ...limits };
  }

  async write({ write, remove }: Pick<TreeDelta, "write" | "remove">): Promise<void> {
    for (const path of remove) await this.#removeFile(path);
    const made = new Set<string>();
    const yielder = new EventLoopYielder({ everyMs: yieldEveryMs });
    for (const { path, content, executable, isLink } of write) {
      this.#makeParents(path, made);
      const written = isLink ? this.#writeLink(path, content) : this.#writeFile(path, content, executable);
      this.#written.set(path, await written);
      this.#visited.delete(parentOf(path));
      if (yielder.isDue) await yielder.turn();
    }
  }

  /** Writes the `.git` folder. From then on it belongs to the sandbox, and `collect` ignores it. */
  async writeGitFolder(files: readonly { path: string; content: Uint8Array }[]): Promise<void> {
    const made = new Set<string>();
    for (const { path, content } of files) {
      this.#makeParents(`.git/${path}`, made);
      await this.#writeFile(`.git/${path}`, content, false);
    }
    for (const folder of ["objects/pack", "refs"]) this.#makeParents(`.git/${folder}/file`, made);
    this.#hasGitFolder = true;
  }

  /** Creates a folder, and removes anything else in its place. */
  makeFolder(path: string): void {
    this.#makeParents(`${path}/file`, new Set());
  }

  /**
   * Returns the differences from the files that were written, without ignored folders. Returns undefined if there are
   * too many files to examine; the contents of the folder are then unknown, and all of it has to be removed.
   */
  async collect({ isIgnored, known }: CollectOptions): Promise<Collected> {
    this.#walks += 1;
    const walk: Walk = {
      isIgnored,
      known,
      knownFolders: foldersOf(known),
      proposed: [],
      yielder: new EventLoopYielder({ everyMs: yieldEveryMs }),
      folders: [""],
      count: { entries: 0, folders: 0, changes: 0 },
    };
    for (let folder = walk.folders.pop(); folder !== undefined; folder = walk.folders.pop()) {
      walk.count.folders += 1;
      if (await this.#isUnchanged(folder, walk)) continue;
      const open = openFolder(folder === "" ? this.#root : `${this.#root}/${folder}`);
      if (open === undefined) continue;
      try {
        await this.#collectFolder(folder, open, walk);
      } finally {
        closeSync(open);
      }
      if (this.#isTooMuch(walk)) return undefined;
    }
    for (const [path, { seenInWalk }] of this.#written) {
      if (seenInWalk !== this.#walks) walk.proposed.push({ kind: "gone", path });
    }
    return walk.proposed;
  }

  /** Takes over the folder of another one, with its files. This folder must be empty, and the other is not used again. */
  adopt(other: GuestFolder): void {
    rmdirSync(this.#root);
    renameSync(other.#root, this.#root);
    this.#walks = other.#walks;
    for (const [path, written] of other.#written) this.#written.set(path, written);
    for (const [folder, visited] of other.#visited) this.#visited.set(folder, visited);
  }

  async remove(): Promise<void> {
    await removeTree(this.#root);
  }

  /** Call this after the folder was emptied. */
  reset(): void {
    this.#written.clear();
    this.#visited.clear();
    this.#hasGitFolder = false;
  }

  /** True if a folder has the entries of the last visit, and only files that we wrote. Does not list them. */
  async #isUnchanged(folder: string, walk: Walk): Promise<boolean> {
    const { count, folders, yielder } = walk;
    const visited = this.#visited.get(folder);
    if (!visited || !isSameEntry(visited, lstatIfPresent(`${this.#root}/${folder}`))) return false;
    for (const [path, written] of visited.files) {
      if (yielder.isDue) await yielder.turn();
      if (!isSameFile(written, lstatIfPresent(`${this.#root}/${path}`))) return false;
      written.seenInWalk = this.#walks;
    }
    count.entries += visited.files.length + visited.folders.length;
    folders.push(...visited.folders.filter((path) => isEntered(path, walk)));
    return true;
  }

  async #collectFolder(folder: string, open: number, walk: Walk): Promise<void> {
    const { isIgnored, known, count, yielder } = walk;
    const { dev, ino, ctimeMs } = fstatSync(open);
    const visited: VisitedFolder = { dev, ino, ctimeMs, files: [], folders: [] };
    const names = namesInFolder(open);
    for (const name of names) {
      count.entries += 1;
      if (this.#isTooMuch(walk)) return;
      if (this.#hasGitFolder && folder === "" && name === ".git") continue;
      const path = folder === "" ? name : `${folder}/${name}`;
      if (yielder.isDue) await yielder.turn();
      const written = this.#written.get(path);
      // A path is found in two thirds of the time that a descriptor takes. Whatever it leads to, a file with this inode
      // and change time is the one that was written.
      if (written && isSameFile(written, lstatIfPresent(`${this.#root}/${path}`))) {
        written.seenInWalk = this.#walks;
        visited.files.push([path, written]);
        continue;
      }
      const found = lstatIfPresent(`${throughDescriptor(open)}/${name}`);
      if (found?.isDirectory() && !pathProblem(path)) {
        visited.folders.push(path);
        if (isEntered(path, walk)) walk.folders.push(path);
        continue;
      }
      if (written) written.seenInWalk = this.#walks;
      if (known.has(path) || !isIgnored(path)) count.changes += 1;
      walk.proposed.push(describeEntry(this.#root, path, found));
    }
    const isOld = Date.now() - ctimeMs > minAgeMs;
    if (isOld && names.length === visited.files.length + visited.folders.length) this.#visited.set(folder, visited);
    else this.#visited.delete(folder);
  }

  #isTooMuch({ count }: Walk): boolean {
    const { entries, folders, changes } = this.#limits;
    return count.entries > entries || count.folders > folders || count.changes > changes;
  }

  async #writeFile(path: string, content: Uint8Array, executable: boolean): Promise<WrittenFile> {
    const file = await openNew(`${this.#root}/${path}`, executable ? 0o755 : 0o644);
    using _ = deferred(() => closeSync(file));
    writeFileSync(file, content);
    if (this.#user) fchownSync(file, this.#user.uid, this.#user.gid);
    return asWritten(fstatSync(file));
  }

  /** Creates a link. It is never followed outside of the sandbox. */
  async #writeLink(path: string, target: Uint8Array): Promise<WrittenFile> {
    const absolute = `${this.#root}/${path}`;
    await removeTree(absolute);
    symlinkSync(Buffer.from(target), absolute);
    if (this.#user) lchownSync(absolute, this.#user.uid, this.#user.gid);
    return asWritten(lstatSync(absolute));
  }

  /** Makes sure that every parent of a path is a real folder, and removes anything else in its place. */
  #makeParents(path: string, made: Set<string>): void {
    const folder = parentOf(path);
    if (folder === "" || made.has(folder)) return;
    this.#makeParents(folder, made);
    const absolute = `${this.#root}/${folder}`;
    const found = lstatSync(absolute, { throwIfNoEntry: false });
    if (found && !found.isDirectory()) rmSync(absolute, { force: true });
    if (!found?.isDirectory()) {
      mkdirSync(absolute, { mode: 0o755 });
      if (this.#user) chownFolder(absolute, this.#user);
    } else if ((found.mode & 0o700) !== 0o700) {
      chmodSync(absolute, 0o755);
    }
    made.add(folder);
  }

  async #removeFile(path: string): Promise<void> {
    this.#written.delete(path);
    this.#visited.delete(parentOf(path));
    // If a parent has become a link, the removal must not follow it out of the tree.
    if (await hasRealParents(this.#root, path)) await removeTree(`${this.#root}/${path}`);
  }
}

/** A file as it was written. Its change time, which numbers hold to a quarter of a microsecond, cannot be set by programs. */
interface WrittenFile extends Pick<Stats, "dev" | "ino" | "size" | "mode" | "ctimeMs"> {
  /** The number of the last walk that found it. */
  seenInWalk: number;
}

/** A folder that contained nothing but other folders and files as they were written. */
interface VisitedFolder extends Pick<Stats, "dev" | "ino" | "ctimeMs"> {
  files: [path: string, written: WrittenFile][];
  folders: string[];
}

/** The change time of a younger folder could also be that of a later change, since the kernel's clock has ticks of 4 to 10 ms. */
const minAgeMs = 100;

function asWritten({ dev, ino, size, mode, ctimeMs }: Stats): WrittenFile {
  return { dev, ino, size, mode, ctimeMs, seenInWalk: 0 };
}

/** The state of a walk over the folder. */
interface Walk extends CollectOptions {
  knownFolders: ReadonlySet<string>;
  proposed: ProposedChange[];
  yielder: EventLoopYielder;
  /** The folders that have not been visited. */
  folders: string[];
  count: WalkLimits;
}

function isEntered(folder: string, { isIgnored, knownFolders }: Walk): boolean {
  return knownFolders.has(folder) || !isIgnored(`${folder}/`);
}

/** Opens a folder so that reads stay in it if its path is replaced. Undefined for links and unreadable folders. */
function openFolder(path: string): number | undefined {
  let folder: number | undefined;
  try {
    folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    if (isAt(folder, path)) return folder;
  } catch {
    // It is not readable, or no longer exists.
  }
  if (folder !== undefined) closeSync(folder);
  return undefined;
}

function throughDescriptor(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

/** True if the open file is at this path, with no link in any parent folder. */
function isAt(descriptor: number, path: string): boolean {
  return readlinkSync(throughDescriptor(descriptor)) === path;
}

function namesInFolder(folder: number): string[] {
  try {
    return readdirSync(throughDescriptor(folder));
  } catch {
    return [];
  }
}

function lstatIfPresent(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

function isSameEntry(seen: Pick<Stats, "dev" | "ino" | "ctimeMs">, found: Stats | undefined): found is Stats {
  return found !== undefined && found.ctimeMs === seen.ctimeMs && found.ino === seen.ino && found.dev === seen.dev;
}

function isSameFile(written: WrittenFile, found: Stats | undefined): boolean {
  return isSameEntry(written, found) && found.size === written.size && found.mode === written.mode;
}

function describeEntry(root: string, path: string, entry: Stats | undefined): ProposedChange {
  if (!entry) return { kind: "special", path, what: "file with a name that this machine cannot read" };
  if (entry.isSymbolicLink()) return { kind: "special", path, what: "link" };
  if (entry.isDirectory()) return { kind: "special", path, what: "folder" };
  if (!entry.isFile()) return { kind: "special", path, what: "device, socket or pipe" };
  const { mode, size } = entry;
  if ((mode & 0o6000) !== 0) return { kind: "special", path, what: "program with a setuid bit" };
  if (entry.nlink > 1) return { kind: "special", path, what: "hard link" };
  if ((mode & 0o400) === 0) return { kind: "special", path, what: "file without read permission" };
  return {
    kind: "file",
    path,
    size,
    executable: (mode & 0o100) !== 0,
    read: () => readExactly(`${root}/${path}`, size),
  };
}

/** Reads a file without following links or blocking on a pipe, and at most as many bytes as its entry reported. */
async function readExactly(path: string, size: number): Promise<Uint8Array> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const found = await file.stat();
  if (!found.isFile() || found.nlink > 1 || !isAt(file.fd, path)) {
    throw new Error(`${path} is no longer the plain file it was`);
  }
  const content = new Uint8Array(Math.min(size, found.size));
  const { bytesRead } = await file.read(content, 0, content.length, 0);
  return content.subarray(0, bytesRead);
}

/** Creates a file. Removes anything else at its path, without reading or following it. */
async function openNew(path: string, mode: number): Promise<number> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    return openSync(path, flags, mode);
  } catch {
    await removeTree(path);
    return openSync(path, flags, mode);
  }
}

function chownFolder(path: string, { uid, gid }: { uid: number; gid: number }): void {
  const folder = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY);
  using _ = deferred(() => closeSync(folder));
  fchownSync(folder, uid, gid);
}

async function hasRealParents(root: string, path: string): Promise<boolean> {
  for (const parent of parentsOf(path).reverse()) {
    const found = await lstat(`${root}/${parent}`).catch(() => undefined);
    if (!found?.isDirectory()) return false;
  }
  return true;
}

/** Returns every folder that contains one of these paths. */
export function foldersOf(paths: ReadonlySet<string>): Set<string> {
  const folders = new Set<string>();
  for (const path of paths) {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const folder = path.slice(0, end);
      if (folders.has(folder)) break;
      folders.add(folder);
    }
  }
  return folders;
}

/** True for a folder, and false for a link to one. */
export function isRealFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** Returns the parent folders of a path, nearest first. */
function parentsOf(path: string): string[] {
  const names = path.split("/").slice(0, -1);
  return names.map((_, at) => names.slice(0, names.length - at).join("/"));
}

/** Removes a sandbox's files at any depth and with any permissions. Does not follow links. */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch {
    // Both programs descend folder by folder, so they can handle paths that are longer than the kernel accepts.
    await execute("/bin/chmod", ["-R", "u+rwx", "--", path]).catch(() => undefined);
    await execute("/bin/rm", ["-rf", "--", path]);
  }
}
