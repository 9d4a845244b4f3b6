import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import type { GuestLimits } from "./bubblewrap.ts";

/** A kernel's hard limit on memory and number of processes of a whole tree. */
export interface ControlGroup {
  /** Not at once: the kernel takes ten milliseconds and more where nobody did so lately. */
  add(pid: number): Promise<void>;
  /** True when the kernel ended something in it for want of memory. */
  ranOutOfMemory(): boolean;
  /** Kills what is left in it and removes it. */
  remove(): void;
}

const mounted = "/sys/fs/cgroup";
const family = "golem-forge";

/** The folders that hold the groups of every program of this kind on this machine. */
export function groupFamilies(): string[] {
  if (existsSync(`${mounted}/cgroup.controllers`)) return [`${mounted}/${family}`];
  return ["memory", "pids"].map((controller) => `${mounted}/${controller}/${family}`);
}

/** A new group, or undefined where this process may not make any: then the watchdog alone looks after memory. */
export function controlGroup(id: string, limits: GuestLimits): ControlGroup | undefined {
  // By the number of its process, whoever comes later knows that nobody needs it any more.
  const name = `${process.pid}-${id}`;
  try {
    return existsSync(`${mounted}/cgroup.controllers`) ? unified(name, limits) : separate(name, limits);
  } catch {
    return undefined;
  }
}

function unified(name: string, { memoryMb, processes, temporaryMb }: GuestLimits): ControlGroup {
  const parent = `${mounted}/${family}`;
  mkdirSync(parent, { recursive: true });
  writeFileSync(`${mounted}/cgroup.subtree_control`, "+memory +pids");
  writeFileSync(`${parent}/cgroup.subtree_control`, "+memory +pids");
  const folder = `${parent}/${name}`;
  mkdirSync(folder);
  writeFileSync(`${folder}/memory.max`, String((memoryMb + temporaryMb) * 1_048_576));
  writeFileSync(`${folder}/pids.max`, String(processes + 16));
  if (existsSync(`${folder}/memory.swap.max`)) writeFileSync(`${folder}/memory.swap.max`, "0");
  return {
    add: (pid) => writeFile(`${folder}/cgroup.procs`, String(pid)),
    ranOutOfMemory: () => /^oom_kill [1-9]/m.test(readFileSync(`${folder}/memory.events`, "utf8")),
    remove: () => removeFolders([folder]),
  };
}

function separate(name: string, { memoryMb, processes, temporaryMb }: GuestLimits): ControlGroup {
  const folders = groupFamilies().map((parent) => `${parent}/${name}`);
  const [memory, pids] = folders;
  for (const folder of folders) mkdirSync(folder, { recursive: true });
  writeFileSync(`${memory}/memory.limit_in_bytes`, String((memoryMb + temporaryMb) * 1_048_576));
  writeFileSync(`${pids}/pids.max`, String(processes + 16));
  return {
    add: async (pid) => {
      await Promise.all(folders.map((folder) => writeFile(`${folder}/cgroup.procs`, String(pid))));
    },
    ranOutOfMemory: () => /^oom_kill [1-9]/m.test(readFileSync(`${memory}/memory.oom_control`, "utf8")),
    remove: () => removeFolders(folders),
  };
}

function removeFolders(folders: readonly string[]): void {
  for (const folder of folders) {
    for (const pid of readFileSync(`${folder}/cgroup.procs`, "utf8").split("\n").filter(Boolean)) {
      kill(Number(pid));
    }
    try {
      rmdirSync(folder);
    } catch {
      // Still dying: an empty group costs nothing, and the next start of this program removes it.
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}

/** Removes the empty control groups of programs that were killed before they could. */
export function removeAbandonedGroups(): void {
  for (const family of groupFamilies()) {
    for (const name of namesIn(family)) {
      const pid = /^(\d+)-/.exec(name)?.[1];
      if (!pid || existsSync(`/proc/${pid}`)) continue;
      try {
        rmdirSync(`${family}/${name}`);
      } catch {
        // Something lives in it, or it is not ours to remove.
      }
    }
  }
}

function namesIn(family: string): string[] {
  try {
    return readdirSync(family);
  } catch {
    return [];
  }
}
