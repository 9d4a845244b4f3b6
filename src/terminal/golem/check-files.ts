import { existsSync, lstatSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { readLocalConfig } from "#config/config.ts";
import { parseRepositorySettings, settingsPath } from "#config/repository-settings.ts";
import { type FileProblem, InvalidFileError, UserError } from "#domain/errors.ts";
import { parseWorker, positionInWorker, type WorkerDefinition, withOutputSchema } from "#domain/worker.ts";
import { findModelNameProblem } from "#models/models.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import { visible, writeWrapped } from "#terminal/style.ts";
import { didYouMean } from "#text/closest-match.ts";
import { pluralize } from "#text/pluralize.ts";
import { positionInYaml } from "#text/read-yaml.ts";
import { findOfferedToolProblems, resolveToolsets } from "#toolsets/open-toolbox.ts";
import { callableBy } from "#toolsets/workers/workers-toolset.ts";
import { type CommandContext, exitCodes } from "./command-context.ts";
import { openLocalWorkers } from "./local-workers.ts";

const workersFolder = ".github/workers";

/** The workers by name in lower case, with the workers each may call. */
type Callees = Map<string, string[]>;

/** `golem check`: prints `file:line:column: message` for each problem of the given files, or of the checkout's. */
export async function checkFiles(given: readonly string[], context: CommandContext): Promise<number> {
  const { cwd, env, output } = context;
  const config = readLocalConfig(env);
  const root = await findRoot(cwd).catch((error) => {
    if (error instanceof UserError) return undefined;
    throw error;
  });
  const files = given.length > 0 ? given.map((file) => resolve(cwd, file)) : await filesOf(root ?? cwd);
  if (files.length === 0) throw new UserError(`There is nothing to check: no ${workersFolder} and no ${settingsPath}.`);
  const workers = await callsByWorker(files, root, config.workersDirectory);
  let problemCount = 0;
  for (const file of files) {
    const problems = (await checkFile(file, workers)).map((problem) => ({ line: 1, column: 1, ...problem }));
    for (const { message, line, column } of problems.sort((a, b) => a.line - b.line || a.column - b.column)) {
      problemCount++;
      writeWrapped(output, visible(`${relative(cwd, file) || file}:${line}:${column}: ${message}\n`));
    }
  }
  const checked = pluralize(files.length, "file");
  const found = pluralize(problemCount, "problem");
  output.write(`${found} in ${checked}.\n`);
  return problemCount > 0 ? exitCodes.failed : exitCodes.answered;
}

/** Includes Markdown files that look like workers, whose names are then reported as wrong. */
async function filesOf(root: string): Promise<string[]> {
  const folder = join(root, workersFolder);
  const names = await readdir(folder).catch(() => []);
  const workers: string[] = [];
  for (const name of names) {
    const path = join(folder, name);
    if (name.endsWith(".worker") || (name.endsWith(".md") && (await hasFrontMatter(path)))) workers.push(path);
  }
  const settings = join(root, settingsPath);
  return lstatSync(settings, { throwIfNoEntry: false }) ? [settings, ...workers.sort()] : workers.sort();
}

async function hasFrontMatter(path: string): Promise<boolean> {
  if (!lstatSync(path).isFile()) return false;
  return /^---\r?\n/.test(await readFile(path, "utf8").catch(() => ""));
}

/** Reads which workers each worker may call. A file that cannot be parsed counts as a worker that calls no others. */
async function callsByWorker(
  files: readonly string[],
  root: string | undefined,
  directory: string | undefined,
): Promise<Callees> {
  const local = await openLocalWorkers(root, directory);
  const calls: Callees = new Map();
  for (const { name } of await local.list()) {
    const found = await local.find(name).catch(() => undefined);
    calls.set(name.toLowerCase(), found ? callableBy(found.worker) : []);
  }
  for (const file of files.filter((path) => path.endsWith(".worker"))) {
    const worker = await readFile(file, "utf8")
      .then((text) => parseWorker(text, file))
      .catch(() => undefined);
    for (const name of [nameOf(file), ...(worker ? [worker.name.toLowerCase()] : [])]) {
      calls.set(name, worker ? callableBy(worker) : []);
    }
  }
  return calls;
}

async function checkFile(file: string, workers: Callees): Promise<FileProblem[]> {
  let text: string;
  try {
    if (lstatSync(file).isSymbolicLink()) return [{ message: "The file is a symbolic link, which is not followed." }];
    text = await readFile(file, "utf8");
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    return [{ message: isMissing ? "File not found." : "The file cannot be read." }];
  }
  try {
    if (file.endsWith(".worker")) {
      const worker = parseWorker(text, basename(file));
      const offered = (await findOfferedToolProblems(worker)).map(({ index, message }) => ({
        message,
        ...positionInWorker(text, ["offered_tools", index]),
      }));
      return [...(await checkWorker(worker, text, file, workers)), ...offered];
    }
    if (/\.ya?ml$/.test(file)) return checkSettings(text, file, workers);
    return [{ message: "The name of a worker file ends in .worker, and that of a settings file in .yml." }];
  } catch (error) {
    if (error instanceof InvalidFileError) return [...error.problems];
    if (error instanceof UserError) return [{ message: error.message }];
    throw error;
  }
}

function checkSettings(text: string, file: string, workers: Callees): FileProblem[] {
  const names = parseRepositorySettings(text, basename(file)).workers ?? [];
  return names.flatMap((name, index) => {
    const message = workers.has(name.toLowerCase()) ? undefined : unknownWorker(name, workers);
    return message ? [{ message, ...positionInYaml(text, ["workers", index]) }] : [];
  });
}

async function checkWorker(
  worker: WorkerDefinition,
  text: string,
  file: string,
  workers: Callees,
): Promise<FileProblem[]> {
  const at = (message: string | undefined, ...path: PropertyKey[]): FileProblem[] =>
    message === undefined ? [] : [{ message, ...positionInWorker(text, path) }];
  return [
    ...at(worker.instructions === "" ? "The worker has no instructions below its front matter." : undefined),
    ...at(worker.model && findModelNameProblem(worker.model), "model"),
    ...Object.keys(worker.toolsets).flatMap((name) => at(findToolsetProblem(worker, name), "toolsets", name)),
    ...(await findModuleProblems(worker, file)).flatMap(({ message, path }) => at(message, "toolsets", ...path)),
    ...at(await findSchemaProblem(worker, file), "output_schema_ref"),
    ...callableBy(worker).flatMap((name, index) => {
      const path = ["toolsets", "workers", "allowed", index];
      if (name === "*") return [];
      if (!workers.has(name.toLowerCase())) return at(unknownWorker(name, workers), ...path);
      const cycle = findCycle(worker.name.toLowerCase(), name.toLowerCase(), workers);
      return at(cycle && `Circular delegation: ${cycle.join(" → ")}.`, ...path);
    }),
  ];
}

function findToolsetProblem(worker: WorkerDefinition, name: string): string | undefined {
  try {
    resolveToolsets({ ...worker, toolsets: { [name]: worker.toolsets[name] ?? {} } });
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}

async function findModuleProblems(
  { toolsets }: WorkerDefinition,
  file: string,
): Promise<{ message: string; path: PropertyKey[] }[]> {
  const { module, tools } = Array.isArray(toolsets.custom) ? {} : (toolsets.custom ?? {});
  if (typeof module !== "string") return [];
  const path = join(dirname(file), module);
  if (!existsSync(path)) return [{ message: `File ${module} not found next to this one.`, path: ["custom"] }];
  const exported = exportsOf(await readFile(path, "utf8").catch(() => ""));
  if (exported === undefined || !Array.isArray(tools)) return [];
  return tools.flatMap((name, index) => {
    if (typeof name !== "string" || exported.includes(name)) return [];
    const message = `${module} exports no ${name}.${didYouMean(name, exported)}`;
    return [{ message, path: ["custom", "tools", index] }];
  });
}

/** Reads a module's exports from its text, since loading it would run code. Undefined if it does not name them. */
function exportsOf(source: string): string[] | undefined {
  if (/^export\s*\*|^export\s+(?:const|let|var)\s*[{[]|\bmodule\.exports\b/m.test(source)) return undefined;
  const declared = source.matchAll(
    /^export\s+(?:async\s+|abstract\s+)*(?:function\s*\*?|const|let|var|class)\s+([\w$]+)/gm,
  );
  const listed = [...source.matchAll(/^export\s*\{([^}]*)\}/gm)].flatMap(([, names = ""]) => names.split(","));
  return [
    ...[...declared].map(([, name = ""]) => name),
    ...listed.map((name) => name.trim().split(/\s+/).at(-1) ?? ""),
  ];
}

async function findSchemaProblem(worker: WorkerDefinition, file: string): Promise<string | undefined> {
  const { output_schema_ref: ref } = worker;
  const schema =
    ref === undefined ? undefined : await readFile(join(dirname(file), ref), "utf8").catch(() => undefined);
  try {
    withOutputSchema(worker, schema);
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}

/** Returns the shortest path from a callee back to the worker; undefined if there is none. */
function findCycle(worker: string, callee: string, workers: Callees): string[] | undefined {
  const open = [[worker, callee]];
  const seen = new Set<string>();
  for (let path = open.shift(); path; path = open.shift()) {
    const last = path.at(-1) ?? "";
    if (last === worker) return path;
    if (seen.has(last)) continue;
    seen.add(last);
    for (const next of workers.get(last) ?? []) open.push([...path, next.toLowerCase()]);
  }
  return undefined;
}

function unknownWorker(name: string, workers: Callees): string {
  return `Worker ${name} not found.${didYouMean(name, [...workers.keys()])}`;
}

function nameOf(file: string): string {
  return basename(file, ".worker").toLowerCase();
}
