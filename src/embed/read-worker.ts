import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { applyProgramConfig } from "#config/program-config.ts";
import { UserError } from "#domain/errors.ts";
import { compileOutputSchema } from "#domain/output-schema.ts";
import { parseWorker, WorkerDefinition, withOutputSchema } from "#domain/worker.ts";
import { didYouMean } from "#text/closest-match.ts";
import { describeProblems } from "#text/read-yaml.ts";
import type { WorkerSource, WorkerSources } from "./options.ts";
import { openProgram, type Program } from "./program.ts";

export interface ReadWorker {
  worker: WorkerDefinition;
  /** The folder of its file; undefined for a worker without a file. */
  directory: string | undefined;
  /** The program that its file belongs to. */
  program?: Program;
}

/**
 * Reads a worker from a definition, the text of a file, or the path of a file or of a program. A worker without a file reads
 * its output schema from `folder`, by default the current one. Throws a UserError that names every problem.
 */
export function readWorker(source: WorkerSource, folder = "."): ReadWorker {
  if (typeof source !== "string") return { worker: completed(checked(source), folder), directory: undefined };
  if (source.includes("\n"))
    return { worker: completed(parseWorker(source, "The worker"), folder), directory: undefined };
  const { entry: path, ...program } = openProgram(resolve(source));
  const directory = dirname(path);
  const worker = completed(parseWorker(readWorkerFile(path), basename(path)), directory);
  return { worker: applyProgramConfig(worker, program.config), directory, program };
}

/** Adds the output schema that a worker refers to, relative to a folder. */
function completed(worker: WorkerDefinition, folder: string): WorkerDefinition {
  const { output_schema_ref: ref } = worker;
  const path = ref === undefined ? undefined : resolve(folder, ref);
  return withOutputSchema(worker, path !== undefined && existsSync(path) ? readFileSync(path, "utf8") : undefined);
}

/** Finds a worker by name. Rejects with a UserError that lists the known names. */
export async function findWorker(sources: WorkerSources | undefined, name: string): Promise<ReadWorker> {
  const source = await lookUp(sources, name);
  if (source !== undefined) return readWorker(source);

  const names = namesOf(sources);
  const hint = didYouMean(name, names);
  const list = names.length > 0 ? ` Known workers: ${names.join(", ")}.` : "";
  throw new UserError(`Worker ${JSON.stringify(name)} not found.${hint}${list}`);
}

/** Lists the workers that may be called. A function of the program is called with the wanted names. */
export async function listKnownWorkers(
  sources: WorkerSources | undefined,
  wanted: readonly string[],
): Promise<{ name: string; description?: string }[]> {
  const names = typeof sources === "function" ? wanted : distinctNames(sources, wanted);
  const found = await Promise.all(names.map(async (name) => ({ name, source: await lookUp(sources, name) })));
  return found.flatMap(({ name, source }) => {
    if (source === undefined) return [];
    const { description } = readWorker(source).worker;
    return [{ name, ...(description !== undefined && { description }) }];
  });
}

async function lookUp(sources: WorkerSources | undefined, name: string): Promise<WorkerSource | undefined> {
  if (typeof sources === "function") return sources(name);
  return sources && Object.hasOwn(sources, name) ? sources[name] : undefined;
}

/** Returns the names of the workers. If a source has several names, returns its first one and those that are wanted. */
function distinctNames(
  sources: Readonly<Record<string, WorkerSource>> | undefined,
  wanted: readonly string[],
): string[] {
  const entries = Object.entries(sources ?? {});
  const first = new Map(entries.toReversed().map(([name, source]) => [source, name]));
  return entries.filter(([name, source]) => wanted.includes(name) || first.get(source) === name).map(([name]) => name);
}

function namesOf(sources: WorkerSources | undefined): string[] {
  return typeof sources === "object" ? Object.keys(sources) : [];
}

function checked(definition: Exclude<WorkerSource, string>): WorkerDefinition {
  const parsed = WorkerDefinition.safeParse(definition);
  if (parsed.success) {
    const { output_schema: schema } = parsed.data;
    if (schema) compileOutputSchema(schema, "output_schema");
    return parsed.data;
  }
  const fieldsAt = (path: readonly PropertyKey[]) => (path.length === 0 ? Object.keys(WorkerDefinition.shape) : []);
  const problems = describeProblems(parsed.error.issues, fieldsAt, definition);
  throw new UserError(`This is not a worker: ${problems}`);
}

function readWorkerFile(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new UserError(`The worker ${path} cannot be read.`, { cause: error });
  }
}
