import { execFile } from "node:child_process";
import { type BigIntStats, closeSync, constants, lstatSync, openSync, readlinkSync, realpathSync } from "node:fs";
import { chmod, lstat, mkdir, open, readdir, rm } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { pathProblem } from "#executors/path-problem.ts";
import type { TreeDelta } from "#executors/tree-mirror.ts";
import type { ProposedChange } from "#executors/validate-changes.ts";
import type { SandboxUser } from "./sandbox-user.ts";

/**
 * A run's copy of the tree on disk. It is only touched while no process of the guest lives, and even then nothing in it
 * is trusted: a folder may have become a link to somewhere else.
 */
export interface GuestFolder {
  bring(delta: TreeDelta): Promise<void>;
  /**
   * What differs from what was brought; names of ignored folders are not looked into. Undefined when there is too much
   * to look at: then nobody knows what is in it, and all of it has to go.
   */
  collect(options: { isKeptAside(path: string): boolean; known: ReadonlySet<string> }): Promise<Collected>;
  /** There is an empty folder in its place. */
  forget(): void;
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
const parallel = 16;
/** A tree may have 200,000 files of its own. */
const walkLimits: WalkLimits = { entries: 400_000, folders: 50_000, changes: 10_000 };
/** Entries that are looked at before others get their turn. */
const slice = 250;

export function guestFolder(folder: string, user: SandboxUser, limits: WalkLimits = walkLimits): GuestFolder {
  const root = realpathSync(folder);
  /** Device, inode, size, mode and change time of what was brought: the last cannot be set back from user space. */
  const brought = new Map<string, string>();

  async function writeFile(path: string, content: Uint8Array, executable: boolean): Promise<void> {
    const absolute = `${root}/${path}`;
    const file = await openNew(absolute, executable ? 0o755 : 0o644);
    try {
      await file.writeFile(content);
      if (user) await file.chown(user.uid, user.gid);
      brought.set(path, signature(await file.stat({ bigint: true })));
    } finally {
      await file.close();
    }
  }

  /** Makes real folders of everything above a path; what stood there instead goes. */
  async function makeParents(path: string, made: Set<string>): Promise<void> {
    const names = path.split("/").slice(0, -1);
    for (let length = 1; length <= names.length; length += 1) {
      const folder = names.slice(0, length).join("/");
      if (made.has(folder)) continue;
      const absolute = `${root}/${folder}`;
      const found = await lstat(absolute).catch(() => undefined);
      if (found && !found.isDirectory()) await rm(absolute, { force: true });
      if (!found?.isDirectory()) {
        await mkdir(absolute, { mode: 0o755 });
        if (user) await chownFolder(absolute, user);
      } else if ((found.mode & 0o700) !== 0o700) {
        await chmod(absolute, 0o755);
      }
      made.add(folder);
    }
  }

  async function removeFile(path: string): Promise<void> {
    brought.delete(path);
    // A parent that became a link must not lead the removal out of the tree.
    if (await hasRealParents(root, path)) await removeTree(`${root}/${path}`);
  }

  return {
    async bring({ write, remove }) {
      for (const path of remove) await removeFile(path);
      const made = new Set<string>();
      for (const { path } of write) await makeParents(path, made);
      await inParallel(write, ({ path, content, executable }) => writeFile(path, content, executable));
    },

    async collect({ isKeptAside, known }) {
      const proposed: ProposedChange[] = [];
      const seen = new Set<string>();
      const knownFolders = new Set([...known].flatMap(parentsOf));
      const folders = [""];
      const count = { entries: 0, folders: 0, changes: 0 };
      const isTooMuch = () =>
        count.entries > limits.entries || count.folders > limits.folders || count.changes > limits.changes;

      async function lookInto(folder: string, open: number): Promise<void> {
        for (const name of await readdir(throughDescriptor(open)).catch(() => [])) {
          count.entries += 1;
          if (isTooMuch()) return;
          const path = folder === "" ? name : `${folder}/${name}`;
          if (count.entries % slice === 0) await nextTurn();
          const found = look(`${throughDescriptor(open)}/${name}`);
          if (found?.isDirectory() && !pathProblem(path)) {
            if (knownFolders.has(path) || !isKeptAside(`${path}/`)) folders.push(path);
            continue;
          }
          seen.add(path);
          if (found && brought.get(path) === signature(found)) continue;
          if (known.has(path) || !isKeptAside(path)) count.changes += 1;
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
      for (const path of brought.keys()) if (!seen.has(path)) proposed.push({ kind: "gone", path });
      return proposed;
    },

    forget: () => brought.clear(),
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

/** At once, since a promise for each of thousands of files takes ten times as long as the looks themselves. */
function look(path: string): BigIntStats | undefined {
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
async function openNew(path: string, mode: number) {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    return await open(path, flags, mode);
  } catch {
    await removeTree(path);
    return await open(path, flags, mode);
  }
}

async function chownFolder(path: string, { uid, gid }: { uid: number; gid: number }): Promise<void> {
  const folder = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY);
  try {
    await folder.chown(uid, gid);
  } finally {
    await folder.close();
  }
}

async function hasRealParents(root: string, path: string): Promise<boolean> {
  for (const parent of parentsOf(path).reverse()) {
    const found = await lstat(`${root}/${parent}`).catch(() => undefined);
    if (!found?.isDirectory()) return false;
  }
  return true;
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

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  async function worker(): Promise<void> {
    while (next < items.length) {
      const item = items[next] as T;
      next += 1;
      await work(item);
    }
  }
  await Promise.all(Array.from({ length: parallel }, worker));
}
