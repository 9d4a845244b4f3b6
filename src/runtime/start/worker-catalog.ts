import { readdir, readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { UserError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Triggers } from "#domain/trigger.ts";
import { parseWorker, type WorkerDefinition, withOutputSchema } from "#domain/worker.ts";
import { closestMatch } from "#text/closest-match.ts";

const repositoryFolder = ".github/workers";
const ending = ".worker";

/** The settings of the repository are read right before a worker is started, and its workers are of the same moment. */
const maxFindAgeMs = 5_000;
const maxListAgeMs = 30_000;

/** The files of a repository, on GitHub or in a checkout. */
export type WorkerFiles = Pick<GitHub, "listNames" | "readFile">;

/** The workers that can be started: those of the deployment, and those on a repository's default branch. */
export interface WorkerCatalog {
  /** Returns the worker of this name; the repository's own has precedence. Throws a UserError that lists the workers. */
  find(name: string, files: WorkerFiles): Promise<{ worker: WorkerDefinition; source: RunSpec["workerSource"] }>;
  /** Returns all workers, sorted by name. */
  list(files: WorkerFiles): Promise<{ name: string; description?: string }[]>;
  /** Returns the workers whose files have triggers. Files that are not valid are left out. */
  triggers(files: WorkerFiles): Promise<{ worker: string; on: Triggers }[]>;
  /** The folder of the deployment's workers. */
  readonly directory: string;
}

/** Reads the deployment's workers at once, so that an invalid one is reported at start-up. */
export async function openWorkerCatalog(directory: string): Promise<WorkerCatalog> {
  const shipped = await readShipped(directory);

  async function find(name: string, files: WorkerFiles): ReturnType<WorkerCatalog["find"]> {
    const wanted = name.toLowerCase();
    const own = await readOwn(files, maxFindAgeMs);
    const file = own.find((path) => nameOf(path) === wanted);
    if (file) return { worker: await readOwnWorker(files, file), source: "repository" };

    const worker = shipped.get(wanted);
    if (worker) return { worker, source: "deployment" };
    throw unknownWorker(name, [...own.map(nameOf), ...shipped.keys()]);
  }

  async function list(files: WorkerFiles): Promise<{ name: string; description?: string }[]> {
    const own = await Promise.all((await readOwn(files, maxListAgeMs)).map((file) => describeOwn(files, file)));
    const names = new Set(own.map(({ name }) => name));
    const rest = [...shipped.values()].filter(({ name }) => !names.has(name.toLowerCase()));
    return [...own, ...rest.map(({ name, description }) => ({ name, description }))].sort((a, b) =>
      a.name.localeCompare(b.name),
    );
  }

  async function triggers(files: WorkerFiles): Promise<{ worker: string; on: Triggers }[]> {
    const own = await Promise.all(
      (await readOwn(files, maxFindAgeMs)).map((file) => readOwnWorker(files, file).catch(ignoreInvalid)),
    );
    const names = new Set(own.map((worker) => worker?.name.toLowerCase()));
    const others = [...shipped].filter(([name]) => !names.has(name)).map(([, worker]) => worker);
    return [...own, ...others].flatMap((worker) => (worker?.on ? [{ worker: worker.name, on: worker.on }] : []));
  }

  return { find, list, triggers, directory };
}

async function readShipped(directory: string): Promise<Map<string, WorkerDefinition>> {
  const workers = new Map<string, WorkerDefinition>();
  for (const file of (await filesIn(directory)).filter((name) => name.endsWith(ending)).sort()) {
    const parsed = parseWorker(await readFile(join(directory, file), "utf8"), file);
    const { output_schema_ref: ref } = parsed;
    const schema = ref === undefined ? undefined : await readFile(join(directory, ref), "utf8").catch(() => undefined);
    const worker = withOutputSchema(parsed, schema);
    workers.set(worker.name.toLowerCase(), worker);
  }
  return workers;
}

async function filesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    throw new UserError(`GOLEM_FORGE_WORKERS names a folder that cannot be read: ${directory}`, { cause: error });
  }
}

async function readOwn(files: WorkerFiles, maxAgeMs: number): Promise<string[]> {
  const names = await files.listNames(repositoryFolder, { maxAgeMs });
  return names.filter((name) => name.endsWith(ending));
}

async function readOwnWorker(files: WorkerFiles, file: string): Promise<WorkerDefinition> {
  const path = `${repositoryFolder}/${file}`;
  const text = await files.readFile(path, { maxAgeMs: maxListAgeMs });
  if (text === undefined) throw new UserError(`${path} is no longer on the default branch.`);
  const worker = parseWorker(text, path);
  if (worker.name.toLowerCase() !== nameOf(file)) {
    throw new UserError(`${path} names its worker ${worker.name}: the name and the file name must be the same.`);
  }
  return withOutputSchema(worker, await readSchema(files, path, worker.output_schema_ref));
}

/** Reads the file that `output_schema_ref` names, relative to the worker file. */
async function readSchema(files: WorkerFiles, path: string, ref: string | undefined): Promise<string | undefined> {
  const schema = ref === undefined ? ".." : posix.join(posix.dirname(path), ref);
  return schema.startsWith("..") ? undefined : files.readFile(schema, { maxAgeMs: maxListAgeMs });
}

async function describeOwn(files: WorkerFiles, file: string): Promise<{ name: string; description?: string }> {
  try {
    const { name, description } = await readOwnWorker(files, file);
    return { name, description };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { name: nameOf(file), description: `cannot be used: ${error.message}` };
  }
}

function ignoreInvalid(error: unknown): undefined {
  if (!(error instanceof UserError)) throw error;
}

function nameOf(file: string): string {
  return file.slice(0, -ending.length).toLowerCase();
}

function unknownWorker(name: string, known: string[]): UserError {
  const near = closestMatch(name, known);
  const list = [...new Set(known)].sort().join(", ");
  return new UserError(
    `There is no worker ${JSON.stringify(name)}.${near ? ` Did you mean ${near}?` : ""} You can run: ${list || "none yet"}.`,
  );
}
