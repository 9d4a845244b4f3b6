import { chownSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { isRealFolder, removeTree } from "./guest-folder.ts";
import type { SandboxUser } from "./launch.ts";

export interface FolderMerge {
  /** Folders on the same file system. No process of a sandbox has access to them during the move. */
  from: string;
  to: string;
  /** The folder to move, relative to both. */
  path: string;
  /** The levels below `path` at which folders are merged. A deeper entry replaces one of the same name. */
  mergeDepth: number;
}

/** Moves a folder to another sandbox's folder. Resolves to false if there is none. Follows no links. */
export async function mergeFolder({ from, to, path, mergeDepth }: FolderMerge, user: SandboxUser): Promise<boolean> {
  const names = path.split("/");
  let source = from;
  for (const name of names) {
    source = `${source}/${name}`;
    if (!isRealFolder(source)) return false;
  }
  let parent = to;
  for (const name of names.slice(0, -1)) {
    parent = `${parent}/${name}`;
    await makeFolder(parent, user);
  }
  await merge(source, `${parent}/${names.at(-1)}`, mergeDepth);
  return true;
}

async function merge(source: string, target: string, depth: number): Promise<void> {
  if (depth < 0 || !isRealFolder(source) || !isRealFolder(target)) {
    await removeTree(target);
    renameSync(source, target);
    return;
  }
  const names = readdirSync(source);
  await removeOlderVersions(target, names);
  for (const name of names) await merge(`${source}/${name}`, `${target}/${name}`, depth - 1);
}

/** Removes the metadata of Python distributions of which other versions are about to be moved here. */
async function removeOlderVersions(target: string, names: readonly string[]): Promise<void> {
  const distributionOf = (name: string) => /^(.+?)-[^-]+\.dist-info$/.exec(name)?.[1]?.toLowerCase();
  const moved = new Set(names.map(distributionOf).filter((name) => name !== undefined));
  if (moved.size === 0) return;
  for (const name of readdirSync(target)) {
    if (moved.has(distributionOf(name) ?? "") && !names.includes(name)) await removeTree(`${target}/${name}`);
  }
}

async function makeFolder(path: string, user: SandboxUser): Promise<void> {
  if (isRealFolder(path)) return;
  await removeTree(path);
  mkdirSync(path, { mode: 0o755 });
  if (user) chownSync(path, user.uid, user.gid);
}
