import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { ExecSession } from "../../src/executors/executor.ts";
import { createOsExecutor } from "../../src/executors/os/os-executor.ts";
import type { Bench, Figure, Missing } from "../figure.ts";
import { generatedTree } from "../generated-tree.ts";
import { median, percentile } from "../measure.ts";

interface Kill {
  /** Milliseconds from the deadline until all processes had ended. */
  late: number;
  survivors: number;
}

const kills = 1_000;
const peerKills = 50;
const atOnce = 6;
const deadlineMs = 150;
/** No further kill is measured after this time. */
const maxDurationMs = 70_000;

const { tree } = generatedTree({ "README.md": "# Nothing\n" });
let made = 0;

export const killBench: Bench = {
  name: "kill",
  measure: async () => {
    const executor = createOsExecutor();
    try {
      const { available, reason } = await executor.probe();
      if (!available) return [{ name: "a process tree killed at its deadline", missing: `Not measured: ${reason}` }];
      const sessions = await Promise.all(Array.from({ length: atOnce }, () => executor.open()));
      return await measure(sessions);
    } finally {
      await executor.close();
    }
  },
};

async function measure(sessions: ExecSession[]): Promise<(Figure | Missing)[]> {
  const ours: Kill[] = [];
  const peer: Kill[] = [];
  const until = performance.now() + maxDurationMs;
  while (ours.length < kills && performance.now() < until) {
    const batch = await Promise.all(sessions.map(killTheSandboxed));
    ours.push(...batch.filter((kill) => kill !== undefined));
    // Spread over the whole run, so that other load on the machine affects both sides equally.
    if (peer.length < (ours.length / kills) * peerKills) peer.push(await killTheGroup());
  }

  const late = (all: Kill[]) => all.map((kill) => kill.late);
  const left = (all: Kill[]) => all.reduce((sum, kill) => sum + kill.survivors, 0);
  return [
    {
      name: "a tree of five processes, from its deadline until all are dead",
      unit: "ms",
      ours: { what: "OS sandbox", median: median(late(ours)), p99: percentile(late(ours), 0.99) },
      peers: [{ what: "bash -c, its group killed", median: median(late(peer)), p99: percentile(late(peer), 0.99) }],
      rounds: ours.length,
      note: `Not the same work: the peer's time, over ${peer.length} kills, is that of its first process alone. ${atOnce} sandboxes at once.`,
    },
    {
      name: "processes left over after all kills",
      unit: "left",
      ours: { what: "OS sandbox", median: left(ours) },
      peers: [{ what: `bash -c, its group killed, ${peer.length} kills`, median: left(peer) }],
      rounds: ours.length,
      note: "One of the five starts a new session (setsid), so killing the process group misses it.",
    },
  ];
}

/** Returns a script that starts five processes, which can be recognized by the marker. */
function treeOf(marker: string): string {
  return `(setsid sleep ${marker} &) ; (sleep ${marker} & sleep ${marker}) & sleep ${marker} & echo up; wait`;
}

function newMarker(): string {
  made += 1;
  return `30.${process.pid}${String(made).padStart(5, "0")}`;
}

/** Resolves to undefined if the processes had not all started by the deadline. */
async function killTheSandboxed(session: ExecSession): Promise<Kill | undefined> {
  const marker = newMarker();
  const command = ["bash", "-c", treeOf(marker)];
  const result = await session.exec(tree, { command, timeoutMs: deadlineMs, outputBytes: 1_000 });
  if (!result.timedOut || !result.stdout.includes("up")) return undefined;
  return { late: result.durationMs - deadlineMs, survivors: processesOf(marker).length };
}

async function killTheGroup(): Promise<Kill> {
  const marker = newMarker();
  const child = spawn("bash", ["-c", treeOf(marker)], { detached: true, stdio: "ignore" });
  const exited = once(child, "exit");
  await pause(deadlineMs);
  const begun = performance.now();
  process.kill(-(child.pid ?? 0), "SIGKILL");
  await exited;
  const late = performance.now() - begun;
  await pause(20);
  const survivors = processesOf(marker);
  for (const pid of survivors) process.kill(pid, "SIGKILL");
  return { late, survivors: survivors.length };
}

function processesOf(marker: string): number[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(marker) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}
