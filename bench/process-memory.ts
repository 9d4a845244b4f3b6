import { readFileSync } from "node:fs";

/** Megabytes of a process; as Pss, what it shares with others is divided among them. NaN where the kernel does not say. */
export function processMemoryMb(pid: number, as: "Pss" | "Rss" = "Pss"): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    return Number(new RegExp(`^${as}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? Number.NaN) / 1_024;
  } catch {
    return Number.NaN;
  }
}
