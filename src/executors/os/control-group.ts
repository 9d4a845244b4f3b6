import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import type { GuestLimits } from "./bubblewrap.ts";

/** The kernel's hard limits on the memory and the number of processes of a process tree. */
export interface ControlGroup {
  /** Asynchronous, since the kernel takes 10 ms or more when no process was added recently. */
  add(pid: number): Promise<void>;
  /** True if the kernel killed a process in the group because of its memory limit. */
  ranOutOfMemory(): boolean;
  /** Kills the remaining processes and removes the group. */
  remove(): void;
}

const mounted = "/sys/fs/cgroup";
const family = "golem-forge";

/** Returns the folders that contain the groups of all instances of this program on this machine. */
export function groupFamilies(): string[] {
  if (existsSync(`${mounted}/cgroup.controllers`)) return [`${mounted}/${family}`];
  return ["memory", "pids"].map((controller) => `${mounted}/${controller}/${family}`);
}

/** Creates a group. Returns undefined if this process has no permission: then only the watchdog limits memory. */
export function controlGroup(id: string, limits: GuestLimits): ControlGroup | undefined {
  // The process id in the name shows a later process that the group is abandoned.
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
      // Its processes are still exiting. An empty group costs nothing, and the next start of this program removes it.
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already exited.
  }
}

/** Removes the empty control groups that killed instances left behind. */
export function removeAbandonedGroups(): void {
  for (const family of groupFamilies()) {
    for (const name of namesIn(family)) {
      const pid = /^(\d+)-/.exec(name)?.[1];
      if (!pid || existsSync(`/proc/${pid}`)) continue;
      try {
        rmdirSync(`${family}/${name}`);
      } catch {
        // It still has processes, or belongs to another user.
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
