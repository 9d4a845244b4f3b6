import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { ExecSession, TreeSource } from "../../src/executors/executor.ts";
import { createMemoryExecutor } from "../../src/executors/memory/memory-executor.ts";
import { processTree } from "../../src/executors/os/process-tree.ts";
import type { Bench, Figure } from "../figure.ts";
import { generateFiles } from "../generate-files.ts";
import { generatedTree } from "../generated-tree.ts";
import { interleaved, median, percentile, timed } from "../measure.ts";
import { processMemoryMb } from "../process-memory.ts";
import { runProgram } from "../run-program.ts";
import { inScratch, writeTree } from "../scratch.ts";

const files = generateFiles(2_000);
const small = "wc -l < README.md";
/** Enough time for the spare process to start, even on a busy machine. */
const readyMs = 1_500;
const search = "grep -rl needle src | sort | head -5";

export const shellBench: Bench = {
  name: "shell",
  measure: () => inScratch(async (folder) => [...(await roundTrips(folder)), ...(await idleMemory())]),
};

async function roundTrips(folder: string): Promise<Figure[]> {
  const executor = createMemoryExecutor();
  const { tree } = generatedTree(files);
  const copy = join(folder, "copy");
  await writeTree(copy, files);
  const bash = (script: string) => timed(() => runProgram("bash", ["-c", script], { cwd: copy }));
  try {
    const warm = await executor.open();
    await execute(warm, tree, small);
    const one = await interleaved(60, { ours: () => timed(() => execute(warm, tree, small)), bash: () => bash(small) });
    const many = await interleaved(12, {
      ours: () => timed(() => execute(warm, tree, search)),
      bash: () => bash(search),
    });
    const large = generateFiles(4_000);
    const { tree: largeTree } = generatedTree(large);
    const largeCopy = join(folder, "large");
    await writeTree(largeCopy, large);
    const searching = await executor.open();
    await execute(searching, largeTree, search);
    const larger = await interleaved(20, {
      ours: () => timed(() => execute(searching, largeTree, search)),
      bash: () => timed(() => runProgram("bash", ["-c", search], { cwd: largeCopy })),
    });
    const { tree: fewTree } = generatedTree(generateFiles(20));
    const cold = await interleaved(6, {
      ours: async () => {
        await pause(readyMs);
        const session = await executor.open();
        const took = await timed(() => execute(session, fewTree, small));
        await session.close();
        return took;
      },
      bash: () => bash(small),
    });
    const first = await interleaved(5, {
      ours: async () => {
        await pause(readyMs);
        const session = await executor.open();
        const took = await timed(() => execute(session, tree, small));
        await session.close();
        return took;
      },
      bash: async (round) => {
        const fresh = join(folder, `first-${round}`);
        return timed(async () => {
          await writeTree(fresh, files);
          await runProgram("bash", ["-c", small], { cwd: fresh });
        });
      },
    });
    const side = (what: string, values: number[]) => ({ what, median: median(values), p99: percentile(values, 0.99) });
    return [
      {
        name: "one command, warm",
        unit: "ms",
        ours: side("in-memory shell", one.ours),
        peers: [side("bash -c, spawned", one.bash)],
        rounds: one.ours.length,
        note: "The spawned bash can access this machine's files, network and secrets; ours cannot.",
      },
      {
        name: "grep -r over 2,000 files, warm",
        unit: "ms",
        ours: side("in-memory shell", many.ours),
        peers: [side("bash -c, spawned", many.bash)],
        rounds: many.ours.length,
      },
      {
        name: "grep -r over 4,000 files, 10 MB, warm",
        unit: "ms",
        ours: side("in-memory shell", larger.ours),
        peers: [side("bash -c, spawned", larger.bash)],
        rounds: larger.ours.length,
      },
      {
        name: "first command of a session over 20 files",
        unit: "ms",
        ours: side("in-memory shell, process ready", cold.ours),
        peers: [side("bash -c, spawned", cold.bash)],
        rounds: cold.ours.length,
      },
      {
        name: "first command over 2,000 files",
        unit: "ms",
        ours: side("in-memory shell, process ready", first.ours),
        peers: [side("files written to disk, then bash -c", first.bash)],
        rounds: first.ours.length,
      },
    ];
  } finally {
    await executor.close();
  }
}

async function execute(session: ExecSession, tree: TreeSource, script: string): Promise<void> {
  const result = await session.exec(tree, { command: ["bash", "-c", script], timeoutMs: 30_000, outputBytes: 10_000 });
  // A shell that fails would appear to be fast.
  if (result.exitCode !== 0 || result.stdout === "") throw new Error(`The shell failed: ${JSON.stringify(result)}`);
}

async function idleMemory(): Promise<Figure[]> {
  const count = 4;
  const { tree } = generatedTree(generateFiles(20));
  const before = new Set(processTree(process.pid));
  const executor = createMemoryExecutor({ spares: 0 });
  const idle: ChildProcess[] = [];
  const bare: ChildProcess[] = [];
  try {
    for (let index = 0; index < count; index += 1) await execute(await executor.open(), tree, small);
    const shells = processTree(process.pid).filter((pid) => !before.has(pid));
    for (let index = 0; index < count; index += 1) {
      idle.push(await idleProcess("bash", ["--norc", "--noprofile"], "echo up\n"));
      bare.push(await idleProcess(process.execPath, ["-i"], "1\n"));
    }
    const pidsOf = (children: ChildProcess[]) => children.map(({ pid }) => pid ?? 0);
    const figure = (as: "Pss" | "Rss", name: string): Figure => {
      const memory = (pids: number[]) => median(pids.map((pid) => processMemoryMb(pid, as)));
      return {
        name,
        unit: "MB",
        ours: { what: "in-memory shell", median: memory(shells) },
        peers: [
          { what: "bash", median: memory(pidsOf(idle)) },
          { what: "node with nothing loaded", median: memory(pidsOf(bare)) },
        ],
        rounds: count,
        note: "Ours is a Node process, which ends when its run waits, or a minute after the last command.",
      };
    };
    return [
      figure("Pss", "memory of an idle shell, shared pages divided"),
      figure("Rss", "memory of an idle shell, shared pages in full"),
    ];
  } finally {
    for (const child of [...idle, ...bare]) child.kill("SIGKILL");
    await executor.close();
  }
}

async function idleProcess(program: string, args: string[], input: string): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "ignore"] });
  child.stdin?.write(input);
  if (child.stdout) await once(child.stdout, "data");
  return child;
}
