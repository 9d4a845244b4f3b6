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
import type { FileVersion } from "#sandbox/diff-file.ts";
import { mergeFile } from "#sandbox/merge-file.ts";
import { folderOf, foldersAbove, parsePath } from "#sandbox/paths.ts";
import type { CheckoutChange } from "./open-checkout.ts";
import { type DiskEntry, readDiskEntry } from "./read-disk-entry.ts";

/** What became of one path on disk. */
export interface AppliedFile {
  path: string;
  outcome: "written" | "deleted" | "merged" | "there already";
}

/** A path that was left alone, with a reason that completes "a.txt …". */
export interface FailedFile {
  path: string;
  reason: string;
}

/** `refused`: nothing was written at all. `failed`: the disk would not take these, after the others were written. */
export interface AppliedChanges {
  applied: AppliedFile[];
  refused: FailedFile[];
  failed: FailedFile[];
}

interface ApplyStep {
  path: string;
  outcome: AppliedFile["outcome"];
  /** Undefined: the path goes. */
  content: Uint8Array | undefined;
  /** Permission bits; undefined for those of a new file. */
  mode: number | undefined;
  executable: boolean;
}

/**
 * Writes changes to the working tree, each file in one piece. What was changed on disk meanwhile is merged; where that
 * cannot be done, nothing at all is written. No link is followed, and git's own data is never touched.
 */
export function applyChanges(root: string, changes: readonly CheckoutChange[]): AppliedChanges {
  const going = new Set(changes.filter(({ after }) => !after).map(({ path }) => path));
  const planned = changes.map((change) => {
    try {
      return planChange(root, change, going);
    } catch (error) {
      return { path: change.path, reason: `cannot be looked at: ${reasonOf(error)}` };
    }
  });
  const refused = planned.filter((plan) => "reason" in plan);
  if (refused.length > 0) return { applied: [], refused, failed: [] };

  const steps = planned.filter((plan) => "outcome" in plan);
  // What goes makes room: a folder may come where a file was.
  const ordered = [...steps.filter(({ content }) => !content).reverse(), ...steps.filter(({ content }) => content)];
  const applied: AppliedFile[] = [];
  const failed: FailedFile[] = [];
  for (const step of ordered) {
    try {
      applyStep(root, step);
      applied.push({ path: step.path, outcome: step.outcome });
    } catch (error) {
      failed.push({ path: step.path, reason: `could not be written: ${reasonOf(error)}` });
    }
  }
  return { applied: applied.sort((a, b) => (a.path < b.path ? -1 : 1)), refused: [], failed };
}

function planChange(root: string, change: CheckoutChange, going: ReadonlySet<string>): ApplyStep | FailedFile {
  const { path, before, after, isStale } = change;
  if (!isNameable(path)) return { path, reason: "is no path of a working tree" };
  if (isStale) return { path, reason: "was changed on disk before the worker looked into it" };

  const blocking = after && foldersAbove(path).find((folder) => isFile(root, folder) && !going.has(folder));
  if (blocking) return { path, reason: `has no folder: ${blocking} is a file on disk` };

  const now = readTarget(root, path, before, going);
  if (now.kind === "refused") return { path, reason: `${now.reason} on disk` };
  if (isVersion(now, after)) return step(path, "there already", after, now);
  if (isVersion(now, before)) return step(path, after ? "written" : "deleted", after, now);
  return merge(path, { before, after, now });
}

/** A folder whose files all go may be in the way of a file that comes. */
function readTarget(
  root: string,
  path: string,
  before: FileVersion | undefined,
  going: ReadonlySet<string>,
): DiskEntry {
  const place = readDiskEntry(root, path);
  const isEmptied = place.kind === "refused" && !before && [...going].some((gone) => gone.startsWith(`${path}/`));
  return isEmptied && isDirectory(root, path) ? { kind: "nothing" } : place;
}

function merge(
  path: string,
  { before, after, now }: { before: FileVersion | undefined; after: FileVersion | undefined; now: DiskEntry },
): ApplyStep | FailedFile {
  const isThere = now.kind !== "nothing";
  if (!before)
    return { path, reason: isThere ? "is there on disk, and the worker did not see it" : "is gone from disk" };
  if (!isThere) return { path, reason: "was deleted on disk meanwhile" };
  if (!after || now.kind !== "file" || before.isLink) return { path, reason: "was changed on disk meanwhile" };

  const sides = { ours: now.content, base: before.content, theirs: after.content };
  const merged = mergeFile(sides, { ours: "on disk", theirs: "the worker" });
  if (!merged?.clean) return { path, reason: "was changed on disk meanwhile, in the same lines" };
  return step(path, "merged", { ...after, content: Buffer.from(merged.content) }, now);
}

function step(path: string, done: AppliedFile["outcome"], after: FileVersion | undefined, now: DiskEntry): ApplyStep {
  const mode = now.kind === "file" ? now.mode : undefined;
  return { path, outcome: done, content: after?.content, mode, executable: after?.executable ?? false };
}

function isVersion(place: DiskEntry, version: FileVersion | undefined): boolean {
  if (place.kind === "nothing" || !version) return place.kind === "nothing" && !version;
  if (place.kind === "refused" || (place.kind === "link") !== (version.isLink ?? false)) return false;
  const isSameMode = place.kind === "link" || ((place.mode & 0o100) !== 0) === version.executable;
  return isSameMode && place.content.equals(version.content);
}

function applyStep(root: string, { path, outcome: done, content, mode, executable }: ApplyStep): void {
  if (done === "there already") return;
  if (content) write(root, path, content, modeFor(mode, executable));
  else remove(root, path);
}

/** The bits that were there, with those for executing as the worker left them. */
function modeFor(mode: number | undefined, executable: boolean): number {
  const usual = mode ?? 0o666 & ~process.umask();
  if (mode !== undefined && ((mode & 0o100) !== 0) === executable) return mode;
  return executable ? usual | ((usual & 0o444) >> 2) : usual & ~0o111;
}

/** Beside its place first, so that nobody ever sees half a file. */
function write(root: string, path: string, content: Uint8Array, mode: number): void {
  for (const folder of foldersAbove(path)) {
    const stat = lstatSync(join(root, folder), { throwIfNoEntry: false });
    if (!stat) mkdirSync(join(root, folder));
    // What was a folder when it was planned may be a link by now.
    else if (!stat.isDirectory()) throw Object.assign(new Error(`${folder} is no folder`), { code: "ENOTDIR" });
  }
  const place = join(root, path);
  const besides = join(root, folderOf(path), `.golem-${randomUUID().slice(0, 8)}`);
  const file = openSync(besides, "wx", 0o600);
  try {
    writeFileSync(file, content);
    fchmodSync(file, mode);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    renameSync(besides, place);
  } catch (error) {
    rmSync(besides, { force: true });
    throw error;
  }
}

/** With the folders that are empty then, as git does. */
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

/** What the disk has against it; anything else is a bug. */
function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  return message;
}

function isNameable(path: string): boolean {
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
