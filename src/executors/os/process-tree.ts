import { lstatSync, readdirSync, readFileSync, statfsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { GuestLimits } from "./bubblewrap.ts";
import type { ControlGroup } from "./control-group.ts";

/** Returns the process ids of a process and all its descendants. */
export function processTree(root: number): number[] {
  const found = [root];
  for (let at = 0; at < found.length && found.length < 10_000; at += 1) {
    found.push(...childrenOf(found[at] ?? 0));
  }
  return found;
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
      const children = readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8");
      return children.split(" ").filter(Boolean).map(Number);
    });
  } catch {
    // It ended during the scan.
    return [];
  }
}

/** Returns the megabytes of private memory of a process tree, without programs and libraries mapped from disk. */
function treeMemoryMb(root: number): number {
  const kilobytes = processTree(root).map((pid) => {
    try {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      return field(status, "RssAnon") + field(status, "RssShmem");
    } catch {
      return 0;
    }
  });
  return kilobytes.reduce((sum, value) => sum + value, 0) / 1_024;
}

function field(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
}

/** Returns the start time of a process in kernel ticks; undefined if it has ended or is a zombie. */
export function startedAt(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" || state === "X" ? undefined : rest[18];
  } catch {
    return undefined;
  }
}

const intervalMs = 100;
/**
 * The smallest decrease of free space that triggers a count of the folders. Other programs use the disk, too. While a
 * limit is far away, half of what is left until it triggers one, or an installation would be counted dozens of times.
 */
const minDecrease: FolderUse = { bytes: 64_000_000, files: 10_000 };

interface Watched {
  pid: number;
  folders: readonly string[];
  limits: GuestLimits;
  group: ControlGroup | undefined;
}

/** Watches the limits that the kernel does not enforce, and calls `onExcess` with a sentence when one is exceeded. */
export function startWatchdog(
  { pid, folders, limits, group }: Watched,
  onExcess: (why: string) => void,
): { stop(): void } {
  const limit = { bytes: limits.diskMb * 1_048_576, files: limits.diskFiles };
  let before = freeSpace(folders[0] ?? "/");
  let decrease = minDecrease;
  let counting = false;

  async function count(): Promise<void> {
    counting = true;
    const use = await folderUse(folders, limit);
    counting = false;
    decrease = {
      bytes: Math.max(minDecrease.bytes, (limit.bytes - use.bytes) / 2),
      files: Math.max(minDecrease.files, (limit.files - use.files) / 2),
    };
    if (use.bytes > limit.bytes)
      onExcess(`It wrote more than ${limits.diskMb} MB (GOLEM_FORGE_SANDBOX_DISK_MB) and was stopped.`);
    else if (use.files > limit.files) onExcess(`It made more than ${limits.diskFiles} files and was stopped.`);
  }

  const timer = setInterval(() => {
    if (treeMemoryMb(pid) > limits.memoryMb || group?.ranOutOfMemory())
      onExcess(`It used more than ${limits.memoryMb} MB of memory (GOLEM_FORGE_SANDBOX_MEMORY_MB) and was stopped.`);
    const now = freeSpace(folders[0] ?? "/");
    const isDue = before.bytes - now.bytes > decrease.bytes || before.files - now.files > decrease.files;
    // What other programs free must not hide what this one writes.
    before = { bytes: Math.max(before.bytes, now.bytes), files: Math.max(before.files, now.files) };
    if (!isDue || counting) return;
    before = now;
    void count();
  }, intervalMs);
  return { stop: () => clearInterval(timer) };
}

function freeSpace(folder: string): FolderUse {
  const { bavail, bsize, ffree } = statfsSync(folder);
  return { bytes: bavail * bsize, files: ffree };
}

interface FolderUse {
  bytes: number;
  files: number;
}

const maxTurnMs = 8;

/**
 * Returns the disk usage of folders, and stops counting when a limit is exceeded. Does not follow links. Synchronous
 * calls take a quarter of the time of promises.
 */
async function folderUse(folders: readonly string[], limit: FolderUse): Promise<FolderUse> {
  const use: FolderUse = { bytes: 0, files: 0 };
  const open = [...folders];
  const yielder = new EventLoopYielder({ everyMs: maxTurnMs });
  while (open.length > 0 && use.bytes * 512 <= limit.bytes && use.files <= limit.files) {
    const folder = open.pop() ?? "";
    const names = await readdir(folder, { withFileTypes: true }).catch(() => []);
    use.files += names.length;
    for (const entry of names) {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) open.push(path);
      else if (entry.isFile()) use.bytes += blocksOf(path);
      if (yielder.isDue) await yielder.turn();
    }
  }
  // The kernel counts in blocks of 512 bytes on every file system.
  return { bytes: use.bytes * 512, files: use.files };
}

function blocksOf(path: string): number {
  try {
    return lstatSync(path).blocks;
  } catch {
    return 0;
  }
}
