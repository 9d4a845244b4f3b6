import { spawnSync } from "node:child_process";
import { chmod, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ExecSession } from "../../src/executors/executor.ts";
import { createOsExecutor } from "../../src/executors/os/os-executor.ts";
import type { Bench, Figure, Missing } from "../figure.ts";
import { generateFiles } from "../generate-files.ts";
import { generatedTree } from "../generated-tree.ts";
import { interleaved, median, percentile, timed } from "../measure.ts";
import { runProgram } from "../run-program.ts";
import { inScratch, writeTree } from "../scratch.ts";

const script = "wc -l < README.md; echo 1 > made.txt";

export const osSandboxBench: Bench = {
  name: "os-sandbox",
  measure: async () => {
    const executor = createOsExecutor();
    const open = () => executor.open();
    try {
      const { available, reason } = await executor.probe();
      if (!available) return [{ name: "a command in the OS sandbox", missing: `Not measured: ${reason}` }];
      return await inScratch(async (folder) => {
        // As our own executor does: otherwise ext4 becomes slow at creating files after trees were deleted.
        spawnSync("/usr/bin/chattr", ["+T", folder], { stdio: "ignore" });
        await chmod(folder, 0o755);
        const small = { name: "2,000 files", files: generateFiles(2_000), rounds: 7, laterRounds: 30 };
        const large = {
          name: "20,000 files of 10 KB",
          files: generateFiles(20_000, { linesEach: 210 }),
          rounds: 3,
          laterRounds: 8,
        };
        return [...(await runs(folder, open, small)), ...(await runs(folder, open, large))];
      });
    } finally {
      await executor.close();
    }
  },
};

interface Size {
  name: string;
  files: Record<string, string>;
  rounds: number;
  laterRounds: number;
}

/** Runs the script in plain bubblewrap: in namespaces, with this machine's programs read-only. */
function bareBubblewrap(cwd: string): Promise<string> {
  const system = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"];
  system.push("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp");
  return runProgram("bwrap", ["--unshare-all", ...system, "--bind", cwd, "/w", "--chdir", "/w", "bash", "-c", script]);
}

async function runs(
  folder: string,
  open: () => Promise<ExecSession>,
  { name, files, rounds, laterRounds }: Size,
): Promise<(Figure | Missing)[]> {
  const { workspace, tree } = generatedTree(files);
  const sandboxed = (session: ExecSession) =>
    timed(async () => {
      const command = ["bash", "-c", script];
      const { exitCode, changes } = await session.exec(tree, { command, timeoutMs: 30_000, outputBytes: 10_000 });
      if (exitCode !== 0 || changes.written.length !== 1) throw new Error("The command had an unexpected result");
    });
  const plain = (cwd: string) => runProgram("bash", ["-c", script], { cwd });
  const writtenOut = (side: string, round: number, run: (cwd: string) => Promise<string>) => {
    const copy = join(folder, `${name} ${side} ${round}`);
    return timed(async () => {
      await mkdir(copy);
      await writeTree(copy, files);
      await run(copy);
    });
  };

  const first = await interleaved(rounds, {
    ours: async () => {
      const session = await open();
      const took = await sandboxed(session);
      await session.close();
      return took;
    },
    plain: (round) => writtenOut("plain", round, plain),
    bubblewrap: (round) => writtenOut("bubblewrap", round, bareBubblewrap),
  });

  const session = await open();
  await sandboxed(session);
  const oneWritten = (side: string, round: number, run: (cwd: string) => Promise<string>) => {
    const copy = join(folder, `${name} ${side} 0`);
    return timed(async () => {
      await writeTree(copy, { "src/changed.ts": `export const round = ${round};\n` });
      await run(copy);
    });
  };
  const later = await interleaved(laterRounds, {
    ours: async (round) => {
      await workspace.write("src/changed.ts", `export const round = ${round};\n`);
      return sandboxed(session);
    },
    plain: (round) => oneWritten("plain", round, plain),
    bubblewrap: (round) => oneWritten("bubblewrap", round, bareBubblewrap),
  });
  await session.close();
  await Promise.all(["plain", "bubblewrap"].map((side) => rm(join(folder, `${name} ${side} 0`), { recursive: true })));

  const side = (what: string, values: number[]) => ({ what, median: median(values), p99: percentile(values, 0.99) });
  return [
    {
      name: `first command over ${name}`,
      unit: "ms",
      ours: side("OS sandbox", first.ours),
      peers: [
        side("files written to disk, then bash -c", first.plain),
        side("files written to disk, then plain bubblewrap", first.bubblewrap),
      ],
      rounds: first.ours.length,
      note: "Ours also walks the tree afterwards and validates what changed; the others trust the command.",
    },
    {
      name: `later command over ${name}, one changed`,
      unit: "ms",
      ours: side("OS sandbox", later.ours),
      peers: [
        side("one file written, then bash -c", later.plain),
        side("one file written, then plain bubblewrap", later.bubblewrap),
      ],
      rounds: later.ours.length,
    },
  ];
}
