import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { UserError } from "#domain/errors.ts";
import { compileOutputSchema } from "#domain/output-schema.ts";
import { parseWorker, WorkerDefinition, withOutputSchema } from "#domain/worker.ts";
import { closestMatch } from "#text/closest-match.ts";
import { describeProblems } from "#text/invalid-file.ts";
import type { WorkerCatalogue, WorkerSource } from "./options.ts";

export interface ReadWorker {
  worker: WorkerDefinition;
  /** The folder of its file; undefined for a worker without a file. */
  directory: string | undefined;
}

/**
 * Reads a worker from a definition, the text of a file, or a path. A worker without a file reads its output schema from
 * `folder`, by default the current one. Throws a UserError that names every problem.
 */
export function readWorker(source: WorkerSource, folder = "."): ReadWorker {
  const path = typeof source === "string" && !source.includes("\n") ? resolve(source) : undefined;
  const directory = path && dirname(path);
  const worker =
    typeof source !== "string"
      ? checked(source)
      : path === undefined
        ? parseWorker(source, "The worker")
        : parseWorker(textOf(path), basename(path));
  const { output_schema_ref: ref } = worker;
  const schema = ref === undefined ? undefined : resolve(directory ?? folder, ref);
  const text = schema !== undefined && existsSync(schema) ? readFileSync(schema, "utf8") : undefined;
  return { worker: withOutputSchema(worker, text), directory };
}

/** Finds a worker by name. Rejects with a UserError that lists the known names. */
export async function findWorker(catalogue: WorkerCatalogue | undefined, name: string): Promise<ReadWorker> {
  const source = await lookUp(catalogue, name);
  if (source !== undefined) return readWorker(source);

  const names = namesOf(catalogue);
  const near = closestMatch(name, names);
  const hint = near ? ` Did you mean ${near}?` : "";
  const list = names.length > 0 ? ` Known workers: ${names.join(", ")}.` : "";
  throw new UserError(`There is no worker ${JSON.stringify(name)} here.${hint}${list}`);
}

/** Lists the workers of a catalogue; a catalogue that is a function is asked for the wanted names. */
export async function listCatalogue(
  catalogue: WorkerCatalogue | undefined,
  wanted: readonly string[],
): Promise<{ name: string; description?: string }[]> {
  const names = typeof catalogue === "function" ? wanted : namesOf(catalogue);
  const found = await Promise.all(names.map(async (name) => ({ name, source: await lookUp(catalogue, name) })));
  return found.flatMap(({ name, source }) => {
    if (source === undefined) return [];
    const { description } = readWorker(source).worker;
    return [{ name, ...(description !== undefined && { description }) }];
  });
}

async function lookUp(catalogue: WorkerCatalogue | undefined, name: string): Promise<WorkerSource | undefined> {
  if (typeof catalogue === "function") return catalogue(name);
  return catalogue && Object.hasOwn(catalogue, name) ? catalogue[name] : undefined;
}

function namesOf(catalogue: WorkerCatalogue | undefined): string[] {
  return typeof catalogue === "object" ? Object.keys(catalogue) : [];
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

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new UserError(`The worker ${path} cannot be read.`, { cause: error });
  }
}
