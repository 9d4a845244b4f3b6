import { readdir, readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import {
  applyProgramConfig,
  mainWorkerFiles,
  type ProgramConfig,
  parseProgramConfig,
  programConfigFiles,
} from "#config/program-config.ts";
import { UserError } from "#domain/errors.ts";
import { type GitHub, GitHubRefusalError } from "#domain/github.ts";
import type { FoundWorker, RunSpec } from "#domain/run.ts";
import type { Triggers } from "#domain/trigger.ts";
import { parseWorker, type WorkerDefinition, withOutputSchema } from "#domain/worker.ts";
import { didYouMean } from "#text/closest-match.ts";

const repositoryFolder = ".github/workers";
const ending = ".worker";

/** The repository's settings are read right before a worker is started, and its workers have to match them. */
const maxFindAgeMs = 5_000;
const maxListAgeMs = 30_000;

/** The files of a repository, on GitHub or in a checkout. */
export type WorkerFiles = Pick<GitHub, "listNames" | "readFile">;

export interface ListedWorker {
  name: string;
  description?: string;
  source: RunSpec["workerSource"];
}

export interface WorkerTriggers {
  worker: string;
  on: Triggers;
}

/** A file that cannot be used. */
export interface InvalidFile {
  path: string;
  problem: string;
}

/** The workers that can be started: those of the deployment, and those on the repository's default branch. */
export type WorkerCatalog = Awaited<ReturnType<typeof openWorkerCatalog>>;

interface DeploymentWorkers {
  /** By their names in lower case. */
  workers: ReadonlyMap<string, WorkerDefinition>;
  invalidFiles: readonly InvalidFile[];
}

/** The folder of the workers that are included. */
const shippedWorkers = fileURLToPath(new URL("../../../workers", import.meta.url));

/**
 * Opens the workers of a folder, or those that are included, which are read at their first use: that takes a sixth of the
 * start. Rejects with a UserError if the folder cannot be read.
 */
export async function openWorkerCatalog(folder?: string) {
  /** The folder of the deployment's workers. */
  const directory = folder ?? shippedWorkers;
  let reading: Promise<DeploymentWorkers> | undefined;
  function readDeployment(): Promise<DeploymentWorkers> {
    reading ??= readShipped(directory);
    reading.catch(() => {
      reading = undefined;
    });
    return reading;
  }
  if (folder !== undefined) await readDeployment();

  /** Returns the worker with this name; the repository's own takes precedence. Throws a UserError that lists the workers. */
  async function find(name: string, files: WorkerFiles): Promise<FoundWorker & { path?: string }> {
    const wanted = name.toLowerCase();
    const { workers: shipped, invalidFiles } = await readDeployment();
    const { paths, config } = await readOwn(files, maxFindAgeMs);
    const worker = shipped.get(wanted);
    const path =
      paths.find((one) => nameOf(one) === wanted) ??
      (await findByNameInFile(files, worker ? paths.filter(isMain) : paths, wanted));
    if (path)
      return { worker: await readOwnWorker(files, path, config), source: "repository", path, model: config?.model };

    if (worker) return { worker, source: "deployment" };
    const invalid = invalidFiles.find(({ path: file }) => nameOf(file) === wanted);
    if (invalid) throw new UserError(invalid.problem);
    throw unknownWorker(name, [...paths.map(nameOf), ...shipped.keys()]);
  }

  /** False for a worker whose file has another name, if a worker of the deployment has the name that it gives itself. */
  const canBeFound = (name: string, path: string, { workers: shipped }: DeploymentWorkers) =>
    nameOf(path) === name.toLowerCase() || isMain(path) || !shipped.has(name.toLowerCase());

  /** Returns all workers, sorted by name. */
  async function list(files: WorkerFiles): Promise<ListedWorker[]> {
    const deployment = await readDeployment();
    const { paths, config } = await readOwn(files, maxListAgeMs);
    const described = await Promise.all(paths.map((path) => describeOwn(files, path, config)));
    const own = described.filter(({ name }, index) => canBeFound(name, paths[index] ?? "", deployment));
    const names = new Set(own.map(({ name }) => name));
    const rest = [...deployment.workers.values()].filter(({ name }) => !names.has(name.toLowerCase()));
    return [
      ...own.map((worker) => ({ ...worker, source: "repository" as const })),
      ...rest.map(({ name, description }) => ({ name, description, source: "deployment" as const })),
      ...deployment.invalidFiles.map(({ path, problem }) => ({
        name: nameOf(path),
        description: `cannot be used: ${problem}`,
        source: "deployment" as const,
      })),
    ].sort((a, b) => a.name.localeCompare(b.name));
  }

  /** Returns the workers whose files have triggers, and the files that are invalid. `maxAgeMs` is that of the list of files. */
  async function triggers(
    files: WorkerFiles,
    { maxAgeMs = maxFindAgeMs }: { maxAgeMs?: number | undefined } = {},
  ): Promise<{ workers: WorkerTriggers[]; invalidFiles: InvalidFile[] }> {
    const deployment = await readDeployment();
    const listed = await orInvalid(repositoryFolder, readOwn(files, maxAgeMs));
    if ("problem" in listed) return { workers: [], invalidFiles: [listed] };
    const { paths, config } = listed;
    const read = await Promise.all(paths.map((path) => orInvalid(path, readOwnWorker(files, path, config))));
    const own = read.flatMap((worker, index) =>
      "problem" in worker || !canBeFound(worker.name, paths[index] ?? "", deployment) ? [] : [worker],
    );
    const names = new Set([...paths.map(nameOf), ...own.map(({ name }) => name.toLowerCase())]);
    const others = [...deployment.workers].filter(([name]) => !names.has(name)).map(([, worker]) => worker);
    return {
      workers: [...own, ...others].flatMap(({ name, on }) => (on ? [{ worker: name, on }] : [])),
      invalidFiles: read.flatMap((worker) => ("problem" in worker ? [worker] : [])),
    };
  }

  /** Returns the deployment's workers, and its files that cannot be used. */
  async function deploymentWorkers() {
    const { workers, invalidFiles } = await readDeployment();
    return { workers: [...workers.values()], invalidFiles };
  }

  return { find, list, triggers, directory, deploymentWorkers };
}

async function readShipped(directory: string): Promise<DeploymentWorkers> {
  const workers = new Map<string, WorkerDefinition>();
  const invalidFiles: InvalidFile[] = [];
  for (const file of (await filesIn(directory)).filter((name) => name.endsWith(ending)).sort()) {
    const read = await orInvalid(file, readShippedWorker(directory, file));
    if ("problem" in read) invalidFiles.push(read);
    else workers.set(read.name.toLowerCase(), read);
  }
  return { workers, invalidFiles };
}

async function readShippedWorker(directory: string, file: string): Promise<WorkerDefinition> {
  const worker = parseWorker(await readFile(join(directory, file), "utf8"), file);
  const { output_schema_ref: ref } = worker;
  const schema = ref === undefined ? undefined : await readFile(join(directory, ref), "utf8").catch(() => undefined);
  return withOutputSchema(worker, schema);
}

async function filesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    throw new UserError(`GOLEM_FORGE_WORKERS names a folder that cannot be read: ${directory}`, { cause: error });
  }
}

interface OwnWorkers {
  /** The paths of the worker files. If two have the same name, the first one counts. */
  paths: string[];
  /** The configuration of the program that the workers belong to, if any. */
  config: ProgramConfig | undefined;
}

/** Finds the workers of a repository: those in `.github/workers`, and those of a Golem Forge program there. */
async function readOwn(files: WorkerFiles, maxAgeMs: number): Promise<OwnWorkers> {
  const workersIn = async (folder: string) => {
    const names = await files.listNames(folder, { maxAgeMs });
    return names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);
  };
  const names = await files.listNames(repositoryFolder, { maxAgeMs });
  if (names.length === 0) return { paths: [], config: undefined };
  const file = programConfigFiles.find((name) => names.includes(name));
  const config = file === undefined ? undefined : await readProgramConfig(files, `${repositoryFolder}/${file}`);
  const named = [...(names.includes("workers") ? ["workers"] : []), ...(config?.workerPaths ?? [])];
  const folders = named.map((path) => posix.join(repositoryFolder, path).replace(/\/$/, ""));
  const inside = folders.filter((folder) => folder.startsWith(`${repositoryFolder}/`));
  const paths = await Promise.all([repositoryFolder, ...new Set(inside)].map(workersIn));
  const byName = new Map(
    paths
      .flat()
      .toReversed()
      .map((path) => [nameOf(path), path]),
  );
  return { paths: [...byName.values()].toReversed(), config };
}

async function readProgramConfig(files: WorkerFiles, path: string): Promise<ProgramConfig> {
  return parseProgramConfig(await files.readFile(path, { maxAgeMs: maxListAgeMs }), path).config;
}

/** Finds a worker by the name in its file, which may differ from the file name. */
async function findByNameInFile(
  files: WorkerFiles,
  paths: readonly string[],
  wanted: string,
): Promise<string | undefined> {
  const described = await Promise.all(paths.map((path) => describeOwn(files, path, undefined)));
  return paths.find((_, index) => described[index]?.name.toLowerCase() === wanted);
}

function isMain(path: string): boolean {
  return mainWorkerFiles.some((name) => path === `${repositoryFolder}/${name}`);
}

async function readOwnWorker(
  files: WorkerFiles,
  path: string,
  config: ProgramConfig | undefined,
): Promise<WorkerDefinition> {
  const text = await files.readFile(path, { maxAgeMs: maxListAgeMs });
  if (text === undefined) throw new UserError(`${path} is no longer on the default branch.`);
  const worker = parseWorker(text, path);
  const complete = withOutputSchema(worker, await readSchema(files, path, worker.output_schema_ref));
  return config ? applyProgramConfig(complete, config, folderSeen(config)) : complete;
}

/** Returns the folder of the repository that a program works on; undefined for the whole repository. */
function folderSeen({ sandbox: { root } }: ProgramConfig): string | undefined {
  const folder = posix.resolve("/", root);
  return folder === "/" ? undefined : folder;
}

/** Reads the file that `output_schema_ref` names, relative to the worker file. */
async function readSchema(files: WorkerFiles, path: string, ref: string | undefined): Promise<string | undefined> {
  const schema = ref === undefined ? ".." : posix.join(posix.dirname(path), ref);
  return schema.startsWith("..") ? undefined : files.readFile(schema, { maxAgeMs: maxListAgeMs });
}

async function describeOwn(
  files: WorkerFiles,
  path: string,
  config: ProgramConfig | undefined,
): Promise<{ name: string; description?: string }> {
  try {
    const { name, description } = await readOwnWorker(files, path, config);
    return { name, description };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { name: nameOf(path), description: `cannot be used: ${error.message}` };
  }
}

/** Returns the problem of a file that is invalid in place of its content. */
export async function orInvalid<T>(path: string, reading: Promise<T>): Promise<T | InvalidFile> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof UserError) || error instanceof GitHubRefusalError) throw error;
    return { path, problem: error.message };
  }
}

function nameOf(path: string): string {
  return posix.basename(path, ending).toLowerCase();
}

function unknownWorker(name: string, known: string[]): UserError {
  const list = [...new Set(known)].sort().join(", ");
  return new UserError(
    `Worker ${JSON.stringify(name)} not found.${didYouMean(name, known)} You can run: ${list || "none yet"}.`,
  );
}
