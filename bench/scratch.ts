import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Calls `work` with a new temporary folder, and removes the folder afterwards. */
export async function inScratch<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "golem-bench-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Writes a tree of files into a folder. */
export async function writeTree(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  const paths = Object.keys(files);
  for (const parent of new Set(paths.map(dirname))) await mkdir(join(folder, parent), { recursive: true });
  for (const path of paths) await writeFile(join(folder, path), files[path] ?? "");
}
