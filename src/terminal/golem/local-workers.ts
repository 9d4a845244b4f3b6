import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WorkerDefinition } from "#domain/worker.ts";
import { openWorkerCatalog, type WorkerFiles } from "#runtime/start/worker-catalog.ts";
import { readDiskEntry } from "#sandbox/checkout/read-disk-entry.ts";

export interface LocalWorker {
  worker: WorkerDefinition;
  /** The path of its file. */
  path: string;
  /** The file is part of the checkout. */
  isOwn: boolean;
}

/** The workers of a checkout, and those that ship with Golem Forge. */
export interface LocalWorkers {
  /** Finds a worker by name; one of the checkout wins. Rejects with a UserError that lists the known names. */
  find(name: string): Promise<LocalWorker>;
  /** Lists every worker that can be read. */
  list(): Promise<{ name: string; description?: string; isOwn: boolean }[]>;
}

const shipped = fileURLToPath(new URL("../../../workers", import.meta.url));

/** Opens the workers of a checkout; without one, those that ship. */
export async function openLocalWorkers(root: string | undefined, directory = shipped): Promise<LocalWorkers> {
  const catalog = await openWorkerCatalog(directory);
  const files = checkoutFiles(root);
  const ownFolder = join(root ?? "", ".github/workers");

  return {
    async find(name) {
      const { worker, source } = await catalog.find(name, files);
      const isOwn = source === "repository";
      return { worker, isOwn, path: await fileOf(worker.name, isOwn ? ownFolder : directory) };
    },
    async list() {
      const own = new Set((await files.listFiles(".github/workers")).map((file) => file.toLowerCase()));
      const listed = await catalog.list(files);
      return listed.map((one) => ({ ...one, isOwn: own.has(`${one.name.toLowerCase()}.worker`) }));
    },
  };
}

async function fileOf(name: string, folder: string): Promise<string> {
  const wanted = `${name}.worker`.toLowerCase();
  const file = (await readdir(folder)).find((one) => one.toLowerCase() === wanted);
  return join(folder, file ?? wanted);
}

const maxFileBytes = 1_000_000;

/** Reads worker files and settings from a checkout on disk. Without a checkout there are none. Does not follow links. */
export function checkoutFiles(root: string | undefined): WorkerFiles {
  return {
    listFiles: async (folder) => {
      if (root === undefined) return [];
      const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => []);
      return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
    },
    readFile: async (path) => {
      const context = root === undefined ? undefined : readDiskEntry(root, path, { largest: maxFileBytes });
      return context?.kind === "file" ? context.content.toString("utf8") : undefined;
    },
  };
}
