import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { readLocalConfig } from "#config/config.ts";
import { mainWorkerFiles } from "#config/program-config.ts";
import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import { UserError } from "#domain/errors.ts";
import { findProgram, isProgramFolder, openProgram, type Program } from "#embed/program.ts";
import { findWorker, listKnownWorkers, readWorker } from "#embed/read-worker.ts";
import { isInside } from "#sandbox/checkout/is-inside.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import type { CommandContext } from "./command-context.ts";
import { checkoutFiles, type LocalWorkers, openLocalWorkers } from "./local-workers.ts";
import { SavedRuns } from "./saved-runs.ts";

/** The files, workers and settings of a checkout or of a program. */
export interface Surroundings {
  /** The folder with the files. */
  root: string;
  config: ReturnType<typeof readLocalConfig>;
  workers: LocalWorkers;
  settings: RepositorySettings;
  savedRuns: SavedRuns;
  /** Undefined for a worker of a checkout and for an included one. */
  program?: Program;
  /** True if the files are in a folder that is not a checkout. */
  isFolder: boolean;
}

/** Finds a worker by its name, its file, or the folder of its program. Includes its surroundings. */
export async function findNamedWorker(
  named: string,
  context: CommandContext,
): Promise<{ name: string; surroundings: Surroundings }> {
  const { cwd } = context;
  const path = resolve(cwd, named);
  if (!isPath(named) && !isProgramFolder(path)) {
    const program = findProgram(cwd);
    const isInProgram = program?.workers().has(named) === true;
    return { name: named, surroundings: await (isInProgram ? programAt(program, context) : checkoutAt(context)) };
  }
  const shared = await sharedFolderOf(path);
  if (shared !== undefined) {
    const main = mainWorkerFiles.find((file) => existsSync(join(path, file))) ?? "main.worker";
    const name = basename(path.endsWith(".worker") ? path : main, ".worker");
    return { name, surroundings: await checkoutAt({ ...context, cwd: shared }) };
  }
  const { entry, ...program } = openProgram(path);
  return { name: entry, surroundings: await programAt(program, context) };
}

/** Finds the surroundings of earlier runs: the program of this folder, or else the checkout. */
export async function findSurroundings(context: CommandContext): Promise<Surroundings> {
  const program = findProgram(context.cwd);
  return program ? programAt(program, context) : checkoutAt(context);
}

/** Finds the same runs without reading the settings and the environment, which they do not need. */
export async function findSavedRuns(context: CommandContext): Promise<SavedRuns> {
  const program = findProgram(context.cwd);
  return new SavedRuns(program ? rootOf(program) : await findRoot(context.cwd), context);
}

function isPath(named: string): boolean {
  return /[/\\]|\.worker$|^\.{1,2}$/.test(named);
}

/** Returns the checkout's root for a path in `.github/workers`, because those workers work on the whole checkout. */
async function sharedFolderOf(path: string): Promise<string | undefined> {
  const folder = path.endsWith(".worker") ? dirname(path) : path;
  const root = await findRoot(folder).catch(() => undefined);
  if (root === undefined) return undefined;
  return /^\.github[/\\]workers([/\\]|$)/.test(relative(root, realpathSync(folder))) ? root : undefined;
}

async function checkoutAt({ cwd, env }: CommandContext): Promise<Surroundings> {
  const config = readLocalConfig(env);
  const root = await findRoot(cwd);
  const workers = await openLocalWorkers(root, config.workersDirectory);
  const settings = parseRepositorySettings(await checkoutFiles(root).readFile(settingsPath), settingsPath);
  return { config, root, workers, settings, savedRuns: new SavedRuns(root, { env }), isFolder: false };
}

async function programAt(program: Program, { env }: CommandContext): Promise<Surroundings> {
  const root = rootOf(program);
  const isFolder = (await findRoot(root).catch(() => undefined)) !== root;
  return {
    config: readLocalConfig(env),
    root,
    workers: workersOf(program),
    settings: parseRepositorySettings(undefined),
    savedRuns: new SavedRuns(root, { env }),
    program,
    isFolder,
  };
}

/** Returns the folder with a program's files. Creates it if it does not exist, but only within the program: nobody has trusted it yet. */
function rootOf({ folder, config }: Program): string {
  const root = resolve(folder, config.sandbox.root);
  let existing = root;
  while (!existsSync(existing)) existing = dirname(existing);
  if (existing !== root && !isInside(realpathSync(existing), realpathSync(folder))) {
    throw new UserError(
      `${root}, which the program names as sandbox.root, does not exist. Create it, or choose another.`,
    );
  }
  mkdirSync(root, { recursive: true });
  return realpathSync(root);
}

/** Returns the workers of a program, by name or by the path of their file. */
function workersOf({ workers }: Program): LocalWorkers {
  const sources = Object.fromEntries(workers());
  return {
    async find(name) {
      const path = isPath(name) ? name : workers().get(name);
      const { worker } = path === undefined ? await findWorker(sources, name) : readWorker(path);
      return { worker, path: path ?? "", isOwn: true };
    },
    async list() {
      return (await listKnownWorkers(sources, [])).map((one) => ({ ...one, isOwn: true }));
    },
  };
}
