import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { WorkerFiles } from "#runtime/start/worker-catalog.ts";
import { readDiskEntry } from "#sandbox/checkout/read-disk-entry.ts";

const largestFile = 1_000_000;

/** Reads worker files and settings from a checkout on disk. Without a checkout there are none. Does not follow links. */
export function checkoutFiles(root: string | undefined): WorkerFiles {
  return {
    listFiles: async (folder) => {
      if (root === undefined) return [];
      const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => []);
      return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
    },
    readFile: async (path) => {
      const context = root === undefined ? undefined : readDiskEntry(root, path, { largest: largestFile });
      return context?.kind === "file" ? context.content.toString("utf8") : undefined;
    },
  };
}
