import { readFileSync } from "node:fs";

/** Returns the memory of a process in megabytes. Pss divides shared pages among their processes. NaN if unknown. */
export function processMemoryMb(pid: number, as: "Pss" | "Rss" = "Pss"): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    return Number(new RegExp(`^${as}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? Number.NaN) / 1_024;
  } catch {
    return Number.NaN;
  }
}

/** Returns the peak of this process's resident memory in megabytes. `getrusage` would count its parent's as well. NaN if unknown. */
export function ownPeakMb(): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? Number.NaN) / 1_024;
  } catch {
    return Number.NaN;
  }
}
