import { execFile } from "node:child_process";
import {
  type BigIntStats,
  chmodSync,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { lstat, open, rm } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import type { TreeDelta } from "#executors/tree-mirror.ts";
import type { ProposedChange } from "#executors/validate-changes.ts";
import { pathProblem } from "#executors/validate-changes.ts";
import type { SandboxUser } from "./prepared-process.ts";

type Collected = ProposedChange[] | undefined;

interface WalkLimits {
  /** Files and folders that are looked at. */
  entries: number;
  folders: number;
  /** Files that differ, ignored ones not counted. */
  changes: number;
}

interface CollectOptions {
  isIgnored(path: string): boolean;
  known: ReadonlySet<string>;
}

const execute = promisify(execFile);
/** A repository may have 200,000 files. */
const walkLimits: WalkLimits = { entries: 400_000, folders: 50_000, changes: 10_000 };
/** Synchronous calls take a tenth of the time of promises for thousands of files. Other work gets its turn this often. */
const yieldEveryMs = 8;

/**
 * A run's copy of the tree on disk. It is only touched while no process of the guest is running, and even then nothing
 * in it is trusted: a folder may have become a link to another place.
 */
export class GuestFolder {
  readonly #root: string;
  readonly #user: SandboxUser;
  readonly #limits: WalkLimits;
  /** Device, inode, size, mode and change time of what was written: the last cannot be set back from user space. */
  readonly #writtenSignatures = new Map<string, string>();
  #hasGitFolder = false;

  constructor(folder: string, user: SandboxUser, limits: Partial<WalkLimits> = {}) {
    this.#root = realpathSync(folder);
    this.#user = user;
    this.#limits = { ...walkLimits, ...limits };
  }

  async write({ write, remove }: TreeDelta): Promise<void> {
    for (const path of remove) await this.#removeFile(path);
    const made = new Set<string>();
    const pause = createYielder();
    for (const { path, content, executable } of write) {
      this.#makeParents(path, made);
      this.#writtenSignatures.set(path, await this.#writeFile(path, content, executable));
      if (pause.isDue()) await pause.take();
    }
  }

  /** Writes the `.git` of the repository. Afterwards it belongs to the guest, and `collect` leaves it out. */
  async writeGitFolder(files: readonly { path: string; content: Uint8Array }[]): Promise<void> {
    const made = new Set<string>();
    for (const { path, content } of files) {
      this.#makeParents(`.git/${path}`, made);
      await this.#writeFile(`.git/${path}`, content, false);
    }
    for (const folder of ["objects/pack", "refs"]) this.#makeParents(`.git/${folder}/file`, made);
    this.#hasGitFolder = true;
  }

  /** Makes a folder, and removes whatever the guest put in its place. */
  makeFolder(path: string): void {
    this.#makeParents(`${path}/file`, new Set());
  }

  /**
   * Returns what differs from what was written; ignored folders are left out. Returns undefined when there is too much
   * to look at. The folder's contents are unknown then, and all of it has to be removed.
   */
  async collect({ isIgnored, known }: CollectOptions): Promise<Collected> {
    const walk: Walk = {
      isIgnored,
      known,
      knownFolders: foldersOf(known),
      proposed: [],
      seen: new Set(),
      pause: createYielder(),
      folders: [""],
      count: { entries: 0, folders: 0, changes: 0 },
    };
    for (let folder = walk.folders.pop(); folder !== undefined; folder = walk.folders.pop()) {
      walk.count.folders += 1;
      const open = openFolder(folder === "" ? this.#root : `${this.#root}/${folder}`);
      if (open === undefined) continue;
      try {
        await this.#collectFolder(folder, open, walk);
      } finally {
        closeSync(open);
      }
      if (this.#isTooMuch(walk)) return undefined;
    }
    for (const path of this.#writtenSignatures.keys()) {
      if (!walk.seen.has(path)) walk.proposed.push({ kind: "gone", path });
    }
    return walk.proposed;
  }

  /** Call it after the folder was emptied. */
  reset(): void {
    this.#writtenSignatures.clear();
    this.#hasGitFolder = false;
  }

  async #collectFolder(folder: string, open: number, walk: Walk): Promise<void> {
    const { isIgnored, known, knownFolders, count, pause } = walk;
    for (const name of namesInFolder(open)) {
      count.entries += 1;
      if (this.#isTooMuch(walk)) return;
      if (this.#hasGitFolder && folder === "" && name === ".git") continue;
      const path = folder === "" ? name : `${folder}/${name}`;
      if (pause.isDue()) await pause.take();
      const found = lstatIfPresent(`${throughDescriptor(open)}/${name}`);
      if (found?.isDirectory() && !pathProblem(path)) {
        if (knownFolders.has(path) || !isIgnored(`${path}/`)) walk.folders.push(path);
        continue;
      }
      walk.seen.add(path);
      if (found && this.#writtenSignatures.get(path) === signature(found)) continue;
      if (known.has(path) || !isIgnored(path)) count.changes += 1;
      walk.proposed.push(describeEntry(this.#root, path, found));
    }
  }

  #isTooMuch({ count }: Walk): boolean {
    const { entries, folders, changes } = this.#limits;
    return count.entries > entries || count.folders > folders || count.changes > changes;
  }

  async #writeFile(path: string, content: Uint8Array, executable: boolean): Promise<string> {
    const file = await openNew(`${this.#root}/${path}`, executable ? 0o755 : 0o644);
    try {
      writeFileSync(file, content);
      if (this.#user) fchownSync(file, this.#user.uid, this.#user.gid);
      return signature(fstatSync(file, { bigint: true }));
    } finally {
      closeSync(file);
    }
  }

  /** Makes real folders of everything above a path, and removes whatever else is in their place. */
  #makeParents(path: string, made: Set<string>): void {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
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
    this.#writtenSignatures.delete(path);
    // A parent that became a link must not lead the removal out of the tree.
    if (await hasRealParents(this.#root, path)) await removeTree(`${this.#root}/${path}`);
  }
}

/** The state of one walk over the folder. */
interface Walk extends CollectOptions {
  knownFolders: ReadonlySet<string>;
  proposed: ProposedChange[];
  seen: Set<string>;
  pause: ReturnType<typeof createYielder>;
  /** Folders still to be looked into. */
  folders: string[];
  count: WalkLimits;
}

/**
 * A folder itself, held open: what is looked at through it lies in it, whatever takes its name meanwhile. Undefined for
 * one that cannot be read, and for one reached over a link.
 */
function openFolder(path: string): number | undefined {
  let folder: number | undefined;
  try {
    folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    if (isAt(folder, path)) return folder;
  } catch {
    // Nobody may read it, or it is gone.
  }
  if (folder !== undefined) closeSync(folder);
  return undefined;
}

function throughDescriptor(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

/** Whether what is open lies where its path says, and no folder above it is a link to somewhere else. */
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

function createYielder(): { isDue(): boolean; take(): Promise<void> } {
  let since = performance.now();
  return {
    isDue: () => performance.now() - since > yieldEveryMs,
    async take() {
      await nextTurn();
      since = performance.now();
    },
  };
}

function lstatIfPresent(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}

function signature({
  dev,
  ino,
  size,
  mode,
  ctimeNs,
}: {
  dev: bigint;
  ino: bigint;
  size: bigint;
  mode: bigint;
  ctimeNs: bigint;
}): string {
  return `${dev}:${ino}:${size}:${mode}:${ctimeNs}`;
}

function describeEntry(root: string, path: string, entry: BigIntStats | undefined): ProposedChange {
  if (!entry) return { kind: "special", path, what: "name this machine cannot read" };
  if (entry.isSymbolicLink()) return { kind: "special", path, what: "link" };
  if (entry.isDirectory()) return { kind: "special", path, what: "folder" };
  if (!entry.isFile()) return { kind: "special", path, what: "device, socket or pipe" };
  const mode = Number(entry.mode);
  if ((mode & 0o6000) !== 0) return { kind: "special", path, what: "program with a setuid bit" };
  if (Number(entry.nlink) > 1) return { kind: "special", path, what: "hard link" };
  if ((mode & 0o400) === 0) return { kind: "special", path, what: "file nobody may read" };
  const size = Number(entry.size);
  return {
    kind: "file",
    path,
    size,
    executable: (mode & 0o100) !== 0,
    read: () => readExactly(`${root}/${path}`, size),
  };
}

/** Reads no link, waits for no pipe, and no more bytes than the entry said it has. */
async function readExactly(path: string, size: number): Promise<Uint8Array> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await file.stat();
    if (!found.isFile() || found.nlink > 1 || !isAt(file.fd, path)) {
      throw new Error(`${path} is no longer the plain file it was`);
    }
    const content = new Uint8Array(Math.min(size, found.size));
    const { bytesRead } = await file.read(content, 0, content.length, 0);
    return content.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** A file that was not there: whatever stood in its place goes, unread and not followed. */
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
  try {
    fchownSync(folder, uid, gid);
  } finally {
    closeSync(folder);
  }
}

async function hasRealParents(root: string, path: string): Promise<boolean> {
  for (const parent of parentsOf(path).reverse()) {
    const found = await lstat(`${root}/${parent}`).catch(() => undefined);
    if (!found?.isDirectory()) return false;
  }
  return true;
}

/** Every folder that one of these paths lies in. */
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

/** The folders above a path, the nearest first. */
function parentsOf(path: string): string[] {
  const names = path.split("/").slice(0, -1);
  return names.map((_, at) => names.slice(0, names.length - at).join("/"));
}

/** Removes what a guest left, however deep its folders are and whatever rights it gave them. Follows no link. */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch {
    // These two go down folder by folder, where a path as a whole is longer than the kernel takes.
    await execute("/bin/chmod", ["-R", "u+rwx", "--", path]).catch(() => undefined);
    await execute("/bin/rm", ["-rf", "--", path]);
  }
}
