import { readFileSync } from "node:fs";

/** Megabytes of a process, what it shares with others divided among them; NaN where the kernel does not say. */
export function processMemoryMb(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? Number.NaN) / 1_024;
  } catch {
    return Number.NaN;
  }
}
