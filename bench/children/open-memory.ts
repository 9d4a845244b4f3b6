import { openSandbox } from "../../src/sandbox/open-sandbox.ts";
import type { GitSandbox } from "../../src/sandbox/sandbox.ts";
import { collectGarbage } from "../collect-garbage.ts";
import { ownPeakMb } from "../process-memory.ts";

// Measures, in a separate process, the memory for opening a repository and for further sandboxes on the same base.

const [url = ""] = process.argv.slice(2);
const source = { tenant: "bench", url, token: async () => undefined };
const megabyte = 1024 ** 2;
const further = 50;

async function open(): Promise<GitSandbox> {
  const sandbox = await openSandbox({ source, at: { branch: "bench" }, changes: [] });
  await sandbox.stat("");
  return sandbox;
}

function heldBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** In a function, because the bundle is CommonJS. */
async function measure(): Promise<void> {
  const bareMb = process.memoryUsage.rss() / megabyte;
  const held = [await open()];
  const peakMb = ownPeakMb();
  collectGarbage();
  const openMb = process.memoryUsage.rss() / megabyte;
  const paths = await held[0]?.paths();
  const before = heldBytes();
  for (let index = 0; index < further; index++) {
    const sandbox = await open();
    for (const path of paths?.slice(0, 5) ?? []) await sandbox.write(path, Buffer.alloc(4_096, 65 + (index % 20)));
    held.push(sandbox);
  }
  const eachKb = (heldBytes() - before) / 1_024 / further;

  process.stdout.write(JSON.stringify({ bareMb, peakMb, openMb, eachKb, held: held.length }));
}

void measure();
