import { setTimeout as pause } from "node:timers/promises";
import { openSandbox } from "../../src/sandbox/open-sandbox.ts";
import type { GitSandbox } from "../../src/sandbox/sandbox.ts";
import { collectGarbage } from "../collect-garbage.ts";

// Measures the memory of further sandboxes on one base, in a separate process without other allocations.

const [url = "", count = "1"] = process.argv.slice(2);
const source = { tenant: "bench", url, token: async () => undefined };
const open = () => openSandbox({ source, at: { branch: "main" }, changes: [] });

async function memoryKb(): Promise<number> {
  // Closed resources are released with a delay.
  for (let round = 0; round < 3; round += 1) {
    collectGarbage();
    await pause(50);
  }
  const { heapUsed, external } = process.memoryUsage();
  // `external` includes the array buffers.
  return (heapUsed + external) / 1_024;
}

const held: GitSandbox[] = [];
async function add(index: number): Promise<void> {
  const sandbox = await open();
  await sandbox.write("src/changed.ts", `export const changed = ${index};\n`);
  held.push(sandbox);
}

await add(0);
await add(1);
const before = await memoryKb();
for (let index = 0; index < Number(count); index += 1) await add(index);
const eachKb = ((await memoryKb()) - before) / Number(count);

process.stdout.write(JSON.stringify({ eachKb, held: held.length }));
