import { randomUUID } from "node:crypto";
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { runAtOnce } from "#domain/async-work.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { mergeFile } from "#sandbox/merge/merge-file.ts";
import { folderOf, foldersAbove, parsePath } from "#sandbox/paths.ts";
import type { CheckoutChange } from "./open-checkout.ts";
import { type DiskEntry, readDiskEntry } from "./read-working-tree.ts";

/** The result of applying one change to disk. */
export interface AppliedFile {
  path: string;
  outcome: "written" | "deleted" | "merged" | "unchanged";
}

/** A path that was not written, with a reason that completes "a.txt …". */
export interface FailedFile {
  path: string;
  reason: string;
}

/** If there are `refused` paths, nothing was written. `failed` paths could not be written, but the others were. */
export interface AppliedChanges {
  applied: AppliedFile[];
  refused: FailedFile[];
  failed: FailedFile[];
}

interface ApplyStep {
  path: string;
  outcome: AppliedFile["outcome"];
  /** Undefined to delete the path. */
  content: Uint8Array | undefined;
  /** Permission bits; undefined for those of a new file. */
  mode: number | undefined;
  executable: boolean;
}

/**
 * Applies changes to the working tree and replaces each file atomically. Merges files that were also changed on disk;
 * if one of them cannot be merged, writes nothing. Does not follow links and never touches git's own data.
 */
export function applyChanges(root: string, changes: readonly CheckoutChange[]): AppliedChanges {
  const deletedPaths = new Set(changes.filter(({ after }) => !after).map(({ path }) => path));
  const planned = changes.map((change) => {
    try {
      return planChange(root, change, deletedPaths);
    } catch (error) {
      return { path: change.path, reason: `cannot be read: ${describeFileError(error)}` };
    }
  });
  const refused = planned.filter((plan) => "reason" in plan);
  if (refused.length > 0) return { applied: [], refused, failed: [] };

  const steps = planned.filter((plan) => "outcome" in plan);
  // Deletions first, so that a folder can replace a file.
  const ordered = [...steps.filter(({ content }) => !content).reverse(), ...steps.filter(({ content }) => content)];
  const applied: AppliedFile[] = [];
  const failed: FailedFile[] = [];
  for (const step of ordered) {
    try {
      applyStep(root, step);
      applied.push({ path: step.path, outcome: step.outcome });
    } catch (error) {
      failed.push({ path: step.path, reason: `could not be written: ${describeFileError(error)}` });
    }
  }
  return { applied: applied.sort((a, b) => (a.path < b.path ? -1 : 1)), refused: [], failed };
}

function planChange(root: string, change: CheckoutChange, deletedPaths: ReadonlySet<string>): ApplyStep | FailedFile {
  const { path, before, after, isStale } = change;
  if (!isValidPath(path)) return { path, reason: "is not a valid path in a working tree" };
  if (isStale) return { path, reason: "was changed on disk before the worker read it" };

  const blocking = after && foldersAbove(path).find((folder) => isFile(root, folder) && !deletedPaths.has(folder));
  if (blocking) return { path, reason: `cannot be created: ${blocking} is a file on disk` };

  const now = readTarget(root, path, before, deletedPaths);
  if (now.kind === "refused") return { path, reason: `${now.reason} on disk` };
  if (isVersion(now, after)) return step(path, "unchanged", after, now);
  if (isVersion(now, before)) return step(path, after ? "written" : "deleted", after, now);
  return merge(path, { before, after, now });
}

/** Reads the current content of a path. A folder whose files will all be deleted counts as absent. */
function readTarget(
  root: string,
  path: string,
  before: FileVersion | undefined,
  deletedPaths: ReadonlySet<string>,
): DiskEntry {
  const entry = readDiskEntry(root, path);
  const isEmptied =
    entry.kind === "refused" && !before && [...deletedPaths].some((deleted) => deleted.startsWith(`${path}/`));
  return isEmptied && isDirectory(root, path) ? { kind: "nothing" } : entry;
}

function merge(
  path: string,
  { before, after, now }: { before: FileVersion | undefined; after: FileVersion | undefined; now: DiskEntry },
): ApplyStep | FailedFile {
  const isThere = now.kind !== "nothing";
  if (!before)
    return { path, reason: isThere ? "exists on disk, but the worker did not see it" : "was deleted from disk" };
  if (!isThere) return { path, reason: "was deleted on disk in the meantime" };
  if (!after || now.kind !== "file" || before.isLink) return { path, reason: "was changed on disk in the meantime" };

  const sides = { ours: now.content, base: before.content, theirs: after.content };
  const merged = runAtOnce(mergeFile(sides, { ours: "on disk", theirs: "the worker" }));
  if (!merged?.clean) return { path, reason: "was changed on disk in the meantime, in the same lines" };
  return step(path, "merged", { ...after, content: Buffer.from(merged.content) }, now);
}

function step(
  path: string,
  outcome: AppliedFile["outcome"],
  after: FileVersion | undefined,
  now: DiskEntry,
): ApplyStep {
  const mode = now.kind === "file" ? now.mode : undefined;
  return { path, outcome, content: after?.content, mode, executable: after?.executable ?? false };
}

function isVersion(entry: DiskEntry, version: FileVersion | undefined): boolean {
  if (entry.kind === "nothing" || !version) return entry.kind === "nothing" && !version;
  if (entry.kind === "refused" || (entry.kind === "link") !== (version.isLink ?? false)) return false;
  const isSameMode = entry.kind === "link" || ((entry.mode & 0o100) !== 0) === version.executable;
  return isSameMode && entry.content.equals(version.content);
}

function applyStep(root: string, { path, outcome, content, mode, executable }: ApplyStep): void {
  if (outcome === "unchanged") return;
  if (content) write(root, path, content, modeFor(mode, executable));
  else remove(root, path);
}

/** Returns the existing permission bits, with the executable bits that the worker set. */
function modeFor(mode: number | undefined, executable: boolean): number {
  const usual = mode ?? 0o666 & ~process.umask();
  if (mode !== undefined && ((mode & 0o100) !== 0) === executable) return mode;
  return executable ? usual | ((usual & 0o444) >> 2) : usual & ~0o111;
}

/** Writes a temporary file and renames it, so that a partly written file is never visible. */
function write(root: string, path: string, content: Uint8Array, mode: number): void {
  for (const folder of foldersAbove(path)) {
    const stat = lstatSync(join(root, folder), { throwIfNoEntry: false });
    if (!stat) mkdirSync(join(root, folder));
    // It may have been replaced by a link since the change was planned.
    else if (!stat.isDirectory()) throw Object.assign(new Error(`${folder} is not a folder`), { code: "ENOTDIR" });
  }
  const target = join(root, path);
  const temporary = join(root, folderOf(path), `.golem-${randomUUID().slice(0, 8)}`);
  const file = openSync(temporary, "wx", 0o600);
  try {
    writeFileSync(file, content);
    fchmodSync(file, mode);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Deletes a file, and the parent folders that become empty, as git does. */
function remove(root: string, path: string): void {
  unlinkSync(join(root, path));
  for (const folder of foldersAbove(path).reverse()) {
    try {
      rmdirSync(join(root, folder));
    } catch {
      return;
    }
  }
}

/** Returns the message of a file system error. Rethrows anything else, which is a bug. */
function describeFileError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  return message;
}

function isValidPath(path: string): boolean {
  try {
    return path !== "" && parsePath(path) === path;
  } catch {
    return false;
  }
}

function isFile(root: string, path: string): boolean {
  return lstatSync(join(root, path), { throwIfNoEntry: false })?.isFile() ?? false;
}

function isDirectory(root: string, path: string): boolean {
  return lstatSync(join(root, path), { throwIfNoEntry: false })?.isDirectory() ?? false;
}
