import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { mainWorkerFiles, type ProgramConfig, parseProgramConfig, programConfigFiles } from "#config/program-config.ts";
import { UserError } from "#domain/errors.ts";
import { parseWorker } from "#domain/worker.ts";

/** A Golem Forge program on disk: a folder with workers, and with a configuration if it needs one. */
export interface Program {
  folder: string;
  config: ProgramConfig;
  /** The fields of the configuration that are not supported here. */
  ignored: readonly string[];
  /** Returns the paths of the worker files, both by file name and by the name in the file. */
  workers(): ReadonlyMap<string, string>;
}

const ending = ".worker";

/** The subfolders of a program that may contain workers, which may have subfolders of their own. */
const workersFolders = ["workers", ".workers"];

/** Opens a program and finds the worker to start. Throws a UserError if there is none, or more than one. */
export function openProgram(path: string): Program & { entry: string } {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new UserError(`${path} cannot be read: there is no such file or folder.`);
  if (stat.isDirectory()) {
    const program = readProgram(path);
    return { ...program, entry: findEntry(program) };
  }
  if (!path.endsWith(ending))
    throw new UserError(`${path} is not a worker: the name of a worker file ends in ${ending}.`);
  return { ...readProgram(programFolderOf(path)), entry: path };
}

/** Returns the program of a folder: its own, or that of the nearest folder above it. Undefined if there is none. */
export function findProgram(folder: string): Program | undefined {
  const found = [folder, ...foldersAbove(folder)].find(isProgramFolder);
  return found === undefined ? undefined : readProgram(found);
}

/** True for a folder with a main worker or a configuration file. */
export function isProgramFolder(folder: string): boolean {
  return [...mainWorkerFiles, ...programConfigFiles].some((name) => existsSync(join(folder, name)));
}

/** Returns the folder of the program that a worker file belongs to. */
function programFolderOf(path: string): string {
  const folder = dirname(path);
  const found = [folder, ...foldersAbove(folder)].find(isProgramFolder);
  return found ?? (workersFolders.includes(basename(folder)) ? dirname(folder) : folder);
}

/** Returns the folders above a folder, nearest first, up to the root of a git checkout. */
function foldersAbove(folder: string): string[] {
  const above = dirname(folder);
  return above === folder || existsSync(join(folder, ".git")) ? [] : [above, ...foldersAbove(above)];
}

function readProgram(folder: string): Program {
  const file = programConfigFiles.map((name) => join(folder, name)).find((path) => existsSync(path));
  const read = parseProgramConfig(file && readFileSync(file, "utf8"), file ? basename(file) : "");
  const folders = [...workersFolders, ...read.config.workerPaths].map((path) => resolve(folder, path));
  let workers: ReadonlyMap<string, string> | undefined;
  return {
    folder,
    ...read,
    workers() {
      workers ??= listWorkers([
        ...new Set([...workerFilesIn(folder), ...folders.flatMap((path) => workerFilesIn(path, { recursive: true }))]),
      ]);
      return workers;
    },
  };
}

/** Indexes worker files by name. The first file of a name wins, and names in files take precedence over file names. */
function listWorkers(files: readonly string[]): ReadonlyMap<string, string> {
  const workers = new Map<string, string>();
  const add = (name: string | undefined, path: string) => {
    if (name !== undefined && !workers.has(name)) workers.set(name, path);
  };
  for (const path of files) add(nameIn(path), path);
  for (const path of files) add(basename(path, ending), path);
  return workers;
}

function workerFilesIn(folder: string, { recursive = false } = {}): string[] {
  const entries = statSync(folder, { throwIfNoEntry: false })?.isDirectory()
    ? readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
    : [];
  const files = entries.filter((entry) => !entry.isDirectory() && entry.name.endsWith(ending));
  const folders = entries.filter(
    (entry) => recursive && entry.isDirectory() && !/^(\.|node_modules$)/.test(entry.name),
  );
  return [
    ...files.map(({ name }) => join(folder, name)),
    ...folders.flatMap(({ name }) => workerFilesIn(join(folder, name), { recursive })),
  ];
}

/** Returns the name in a worker file. An unreadable file is reported when its worker is called. */
function nameIn(path: string): string | undefined {
  try {
    return parseWorker(readFileSync(path, "utf8"), basename(path)).name;
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

function findEntry({ folder, workers }: Program): string {
  const own = [...new Set(workers().values())].filter((path) => dirname(path) === folder);
  const main = mainWorkerFiles.map((name) => join(folder, name)).find((path) => own.includes(path));
  const entry = main ?? (own.length === 1 ? own[0] : undefined);
  if (entry !== undefined) return entry;
  const names = own.map((path) => basename(path));
  throw new UserError(
    names.length === 0
      ? `${folder} has no worker: a program has a ${mainWorkerFiles[0]}.`
      : `${folder} has several workers and no ${mainWorkerFiles[0]}. Name one of them: ${names.join(", ")}.`,
  );
}
