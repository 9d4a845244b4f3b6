import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readlinkSync, type Stats } from "node:fs";
import { join } from "node:path";
import { foldersAbove } from "#sandbox/paths.ts";

/** The content of a path in a checkout. */
export type DiskEntry =
  | { kind: "nothing" }
  | { kind: "file"; content: Buffer /** Permission bits. */; mode: number }
  /** A symbolic link, whose content is its target. */
  | { kind: "link"; content: Buffer }
  /** Anything that is not read, with a reason that completes "a.txt …". */
  | { kind: "refused"; reason: string };

/** Reads a path without following symbolic links, so that it never leaves the root. */
export function readDiskEntry(root: string, path: string, { largest = Number.POSITIVE_INFINITY } = {}): DiskEntry {
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
  return readFile(whole, largest);
}

function readFile(path: string, largest: number): DiskEntry {
  // The file may have been replaced by a link or a pipe since it was listed.
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat: Stats = fstatSync(file);
    if (!stat.isFile()) return { kind: "refused", reason: "is not a file" };
    if (stat.size > largest) return { kind: "refused", reason: `is larger than ${largest} bytes` };
    return { kind: "file", content: readFileSync(file), mode: stat.mode & 0o7777 };
  } finally {
    closeSync(file);
  }
}
