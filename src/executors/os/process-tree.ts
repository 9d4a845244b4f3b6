import { readdirSync, readFileSync } from "node:fs";

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
export function treeMemoryMb(root: number): number {
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
