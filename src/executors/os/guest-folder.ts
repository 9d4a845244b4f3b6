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

/**
 * A run's copy of the tree on disk. It is only touched while no process of the guest lives, and even then nothing in it
 * is trusted: a folder may have become a link to somewhere else.
 */
export interface GuestFolder {
  write(delta: TreeDelta): Promise<void>;
  /** Writes the `.git` of the repository. It is the guest's own afterwards, and `collect` does not look into it. */
  writeGitFolder(files: readonly { path: string; content: Uint8Array }[]): Promise<void>;
  /** Makes a folder, and removes what a guest put in its place. */
  makeFolder(path: string): void;
  /**
   * What differs from what was brought; names of ignored folders are not looked into. Undefined when there is too much
   * to look at: then nobody knows what is in it, and all of it has to go.
   */
  collect(options: { isIgnored(path: string): boolean; known: ReadonlySet<string> }): Promise<Collected>;
  /** There is an empty folder in its place. */
  reset(): void;
}

type Collected = ProposedChange[] | undefined;

interface WalkLimits {
  /** Files and folders that are looked at. */
  entries: number;
  folders: number;
  /** Files that differ, ignored ones not counted. */
  changes: number;
}

const execute = promisify(execFile);
/** A tree may have 200,000 files of its own. */
const walkLimits: WalkLimits = { entries: 400_000, folders: 50_000, changes: 10_000 };
/** How long others wait: a promise for each of thousands of files takes many times as long as what is done to them. */
const yieldEveryMs = 8;

export function guestFolder(folder: string, user: SandboxUser, given: Partial<WalkLimits> = {}): GuestFolder {
  const limits = { ...walkLimits, ...given };
  const root = realpathSync(folder);
  /** Device, inode, size, mode and change time of what was brought: the last cannot be set back from user space. */
  const writtenSignatures = new Map<string, string>();
  let hasGitFolder = false;

  async function writeFile(path: string, content: Uint8Array, executable: boolean): Promise<string> {
    const file = await openNew(`${root}/${path}`, executable ? 0o755 : 0o644);
    try {
      writeFileSync(file, content);
      if (user) fchownSync(file, user.uid, user.gid);
      return signature(fstatSync(file, { bigint: true }));
    } finally {
      closeSync(file);
    }
  }

  /** Makes real folders of everything above a path; what stood there instead goes. */
  function makeParents(path: string, made: Set<string>): void {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    if (folder === "" || made.has(folder)) return;
    makeParents(folder, made);
    const absolute = `${root}/${folder}`;
    const found = lstatSync(absolute, { throwIfNoEntry: false });
    if (found && !found.isDirectory()) rmSync(absolute, { force: true });
    if (!found?.isDirectory()) {
      mkdirSync(absolute, { mode: 0o755 });
      if (user) chownFolder(absolute, user);
    } else if ((found.mode & 0o700) !== 0o700) {
      chmodSync(absolute, 0o755);
    }
    made.add(folder);
  }

  async function removeFile(path: string): Promise<void> {
    writtenSignatures.delete(path);
    // A parent that became a link must not lead the removal out of the tree.
    if (await hasRealParents(root, path)) await removeTree(`${root}/${path}`);
  }

  return {
    async write({ write, remove }) {
      for (const path of remove) await removeFile(path);
      const made = new Set<string>();
      const pause = createYielder();
      for (const { path, content, executable } of write) {
        makeParents(path, made);
        writtenSignatures.set(path, await writeFile(path, content, executable));
        if (pause.isDue()) await pause.take();
      }
    },

    async writeGitFolder(files) {
      const made = new Set<string>();
      for (const { path, content } of files) {
        makeParents(`.git/${path}`, made);
        await writeFile(`.git/${path}`, content, false);
      }
      for (const folder of ["objects/pack", "refs"]) makeParents(`.git/${folder}/file`, made);
      hasGitFolder = true;
    },

    makeFolder: (path) => makeParents(`${path}/file`, new Set()),

    async collect({ isIgnored, known }) {
      const proposed: ProposedChange[] = [];
      const seen = new Set<string>();
      const knownFolders = foldersOf(known);
      const pause = createYielder();
      const folders = [""];
      const count = { entries: 0, folders: 0, changes: 0 };
      const isTooMuch = () =>
        count.entries > limits.entries || count.folders > limits.folders || count.changes > limits.changes;

      async function lookInto(folder: string, open: number): Promise<void> {
        for (const name of namesInFolder(open)) {
          count.entries += 1;
          if (isTooMuch()) return;
          if (hasGitFolder && folder === "" && name === ".git") continue;
          const path = folder === "" ? name : `${folder}/${name}`;
          if (pause.isDue()) await pause.take();
          const found = lstatIfPresent(`${throughDescriptor(open)}/${name}`);
          if (found?.isDirectory() && !pathProblem(path)) {
            if (knownFolders.has(path) || !isIgnored(`${path}/`)) folders.push(path);
            continue;
          }
          seen.add(path);
          if (found && writtenSignatures.get(path) === signature(found)) continue;
          if (known.has(path) || !isIgnored(path)) count.changes += 1;
          proposed.push(describeEntry(root, path, found));
        }
      }

      while (folders.length > 0 && !isTooMuch()) {
        const folder = folders.pop() ?? "";
        count.folders += 1;
        const open = openFolder(folder === "" ? root : `${root}/${folder}`);
        if (open === undefined) continue;
        try {
          await lookInto(folder, open);
        } finally {
          closeSync(open);
        }
      }
      if (isTooMuch()) return undefined;
      for (const path of writtenSignatures.keys()) if (!seen.has(path)) proposed.push({ kind: "gone", path });
      return proposed;
    },

    reset() {
      writtenSignatures.clear();
      hasGitFolder = false;
    },
  };
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
