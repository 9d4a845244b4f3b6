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
    try {
      const { stands, why } = await executor.probe();
      if (!stands) return [{ name: "a command in the OS sandbox", missing: `Not measured: ${why}` }];
      return await inScratch((folder) => runs(folder, () => executor.open()));
    } finally {
      await executor.close();
    }
  },
};

async function runs(folder: string, open: () => Promise<ExecSession>): Promise<(Figure | Missing)[]> {
  const files = generateFiles(2_000);
  const { workspace, tree } = generatedTree(files);
  const sandboxed = (session: ExecSession) =>
    timed(async () => {
      const command = ["bash", "-c", script];
      const { exitCode, changes } = await session.exec(tree, { command, timeoutMs: 30_000, outputBytes: 10_000 });
      if (exitCode !== 0 || changes.written.length !== 1) throw new Error("The command did not do what it should");
    });
  const plain = (cwd: string) => runProgram("bash", ["-c", script], { cwd });

  const first = await interleaved(7, {
    ours: async () => {
      const session = await open();
      const took = await sandboxed(session);
      await session.close();
      return took;
    },
    plain: (round) => {
      const copy = join(folder, String(round));
      return timed(async () => {
        await writeTree(copy, files);
        await plain(copy);
      });
    },
  });

  const session = await open();
  await sandboxed(session);
  const copy = join(folder, "0");
  const later = await interleaved(20, {
    ours: async (round) => {
      await workspace.write("src/changed.ts", `export const round = ${round};\n`);
      return sandboxed(session);
    },
    plain: (round) =>
      timed(async () => {
        await writeTree(copy, { "src/changed.ts": `export const round = ${round};\n` });
        await plain(copy);
      }),
  });
  await session.close();

  const side = (what: string, values: number[]) => ({ what, median: median(values), p99: percentile(values, 0.99) });
  return [
    {
      name: "first command over 2,000 files",
      unit: "ms",
      ours: side("OS sandbox", first.ours),
      peers: [side("files written out, then bash -c", first.plain)],
      rounds: first.ours.length,
      note: "Ours also walks the tree afterwards and validates what changed; the plain one trusts the command with this machine.",
    },
    {
      name: "later command, one file changed",
      unit: "ms",
      ours: side("OS sandbox", later.ours),
      peers: [side("one file written, then bash -c", later.plain)],
      rounds: later.ours.length,
    },
  ];
}
