import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readLocalConfig } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { openWorkerCatalog, type WorkerFiles } from "#runtime/start/worker-catalog.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import { type DiskEntry, readDiskEntry } from "#sandbox/checkout/read-working-tree.ts";
import { createStyle } from "#terminal/style.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import type { CommandContext } from "./command-context.ts";

export interface LocalWorker {
  worker: WorkerDefinition;
  path: string;
  /** True if the file is part of the checkout. */
  isOwn: boolean;
  /** The model that its program sets, for a worker without a model. */
  model?: string | undefined;
}

/** The workers of a checkout, and those included in Golem Forge. */
export interface LocalWorkers {
  /** Finds a worker by name; the checkout takes precedence. Rejects with a UserError that lists the known names. */
  find(name: string): Promise<LocalWorker>;
  /** Lists every worker that can be read. */
  list(): Promise<{ name: string; description?: string; isOwn: boolean }[]>;
}

/** Opens the workers of a checkout and the included ones; without a checkout, only the included ones. */
export async function openLocalWorkers(root: string | undefined, directory?: string): Promise<LocalWorkers> {
  const catalog = await openWorkerCatalog(directory);
  const files = checkoutFiles(root);

  return {
    async find(name) {
      const { worker, path, model } = await catalog.find(name, files);
      if (path !== undefined) return { worker, isOwn: true, model, path: join(root ?? "", path) };
      return { worker, isOwn: false, path: await fileOf(worker.name, catalog.directory) };
    },
    async list() {
      const listed = await catalog.list(files);
      return listed.map(({ source, ...one }) => ({ ...one, isOwn: source === "repository" }));
    },
  };
}

async function fileOf(name: string, folder: string): Promise<string> {
  const wanted = `${name}.worker`.toLowerCase();
  const file = (await readdir(folder)).find((one) => one.toLowerCase() === wanted);
  return join(folder, file ?? wanted);
}

const maxFileBytes = 1_000_000;

/** Reads worker files from a checkout on disk, if there is one. Throws a UserError for links and special files. */
export function checkoutFiles(root: string | undefined): WorkerFiles {
  return {
    listNames: async (folder) => {
      if (root === undefined) return [];
      try {
        refuse(folder, readDiskEntry(root, `${folder}/.worker`));
        return await readdir(join(root, folder));
      } catch (error) {
        return undefinedIfMissing(error, folder) ?? [];
      }
    },
    readFile: async (path) => {
      if (root === undefined) return undefined;
      try {
        const entry = refuse(path, readDiskEntry(root, path, { maxBytes: maxFileBytes }));
        return entry.kind === "file" ? entry.content.toString("utf8") : undefined;
      } catch (error) {
        return undefinedIfMissing(error, path);
      }
    },
  };
}

function refuse(path: string, entry: DiskEntry): Extract<DiskEntry, { kind: "file" | "nothing" }> {
  if (entry.kind === "file" || entry.kind === "nothing") return entry;
  throw new UserError(`${path} cannot be read: it ${entry.kind === "link" ? "is a symbolic link" : entry.reason}.`);
}

function undefinedIfMissing(cause: unknown, path: string): undefined {
  const { code } = cause as NodeJS.ErrnoException;
  if (code === "ENOENT") return undefined;
  throw code === undefined ? cause : new UserError(`${path} cannot be read (${code}).`, { cause });
}

export async function listWorkers({ cwd, env, output }: CommandContext): Promise<string> {
  const { workersDirectory } = readLocalConfig(env);
  const root = await findRoot(cwd).catch((error) => {
    if (error instanceof UserError) return undefined;
    throw error;
  });
  const listed = await (await openLocalWorkers(root, workersDirectory)).list();
  const paint = createStyle(output);
  const width = Math.max(0, ...listed.map(({ name }) => name.length));
  const lines = listed.map(({ name, description = "", isOwn }) => {
    const from = isOwn ? paint("gray", " (of this checkout)") : "";
    return `${paint("bold", oneLine(name).padEnd(width))}  ${oneLine(description)}${from}`.trimEnd();
  });
  return lines.length > 0 ? `${lines.join("\n")}\n` : "There are no workers.\n";
}
