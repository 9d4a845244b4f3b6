import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, extname, isAbsolute, join, posix, relative, resolve } from "node:path";
import { UserError } from "#domain/errors.ts";
import { isInside } from "#sandbox/checkout/is-inside.ts";
import { didYouMean } from "#text/closest-match.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const repositoryFolder = ".github/workers";
const maxModuleCharacters = 1_000_000;

/** A module on disk and the files that its process may read. */
export interface ToolModule {
  path: string;
  /** The name in the worker file. */
  shown: string;
  readable: readonly string[];
}

export interface FoundModule extends ToolModule {
  /** Deletes the temporary files of the module. */
  release(): Promise<void>;
}

type ModuleServices = Pick<
  ToolServices,
  "workerDirectory" | "programDirectory" | "customToolsFrom" | "github" | "spec"
>;

/**
 * Finds the module with a worker's tools: next to a worker of the deployment, or on the repository's default branch if
 * the deployment allows its custom tools. Throws a UserError if there is none.
 */
export function findModule(module: string, services: ModuleServices): Promise<FoundModule> {
  if (!isModuleName(module)) {
    throw new UserError(
      `module: ${module} is not a module. Name a file in the folder of the worker, such as ./tools.ts.`,
    );
  }
  const { workerDirectory, programDirectory = workerDirectory } = services;
  if (workerDirectory === undefined || programDirectory === undefined) return fromRepository(module, services);
  return fromFolder(module, workerDirectory, programDirectory);
}

/** The module is given relative to the worker, which may be in a subfolder of its program, or relative to the program. */
async function fromFolder(module: string, workerFolder: string, programFolder: string): Promise<FoundModule> {
  const [folder, root] = await Promise.all([realpath(workerFolder), realpath(programFolder)]);
  const places = [...new Set([resolve(folder, module), resolve(root, module)])];
  const inside = places.filter((place) => isBelow(place, root));
  const found = await Promise.all(inside.map((place) => realpath(place).catch(() => undefined)));
  const path = found.find((one) => one !== undefined);
  if (inside.length === 0 || isAbsolute(module) || (path !== undefined && !isBelow(path, root))) {
    throw new UserError(`module: ${module} is outside the folder of the worker. Move it there.`);
  }
  if (path === undefined) throw new UserError(await missingModule(module, folder));
  return { path, shown: module, readable: await readableAround(path), release: async () => {} };
}

/** Lists the files that a module on disk may read: the modules of its folder. */
export async function readableAround(path: string): Promise<string[]> {
  return [...new Set([path, ...(await codeFiles(dirname(path)))])];
}

function isBelow(path: string, root: string): boolean {
  return path !== root && isInside(path, root);
}

async function missingModule(module: string, root: string): Promise<string> {
  const there = (await readdir(root)).filter(isModuleName).sort();
  const list = there.length > 0 ? `Modules there: ${there.join(", ")}.` : "It has no modules.";
  return `module: ${module} does not exist in the folder of the worker.${didYouMean(basename(module), there, "./")} ${list}`;
}

async function fromRepository(
  module: string,
  { github, customToolsFrom, spec: { worker, origin } }: ModuleServices,
): Promise<FoundModule> {
  const repository = `${origin.owner}/${origin.repo}`;
  if (!customToolsFrom?.(origin.owner, origin.repo)) {
    throw new UserError(
      `The worker ${worker.name} comes from ${repository} and uses ${module}, but custom tools of repositories ` +
        `are off. The operator of this deployment can allow them with GOLEM_FORGE_CUSTOM_TOOLS_FROM=${repository}.`,
    );
  }
  // A program's workers may be one folder below its modules.
  const path = posix.join(repositoryFolder, module.replace(/^\.\.\//, ""));
  if (!path.startsWith(`${repositoryFolder}/`) || posix.isAbsolute(module) || /[\\\0]/.test(module)) {
    throw new UserError(`module: ${module} is outside ${repositoryFolder}. Move it there.`);
  }
  const source = await github.readFile(path);
  if (source === undefined) throw new UserError(`module: ${path} is not on the default branch of ${repository}.`);
  if (source.length > maxModuleCharacters) {
    throw new UserError(`module: ${path} is longer than ${maxModuleCharacters.toLocaleString("en")} characters.`);
  }
  return onDisk(source, extname(path), module);
}

/** Writes the module to disk, readable only by this user: its process can only load it from a file. */
async function onDisk(source: string, extension: string, shown: string): Promise<FoundModule> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "golem-forge-tools-")));
  const path = join(folder, `tools${extension}`);
  await writeFile(path, source, { mode: 0o600 });
  return { path, shown, readable: [path], release: () => rm(folder, { recursive: true, force: true }) };
}

const extensions = [".ts", ".mts", ".js", ".mjs", ".json"];
const maxFiles = 500;
const maxDepth = 6;

/** True if a module with this file name may contain custom tools. */
function isModuleName(name: string): boolean {
  return extensions.slice(0, -1).some((extension) => name.endsWith(extension));
}

/**
 * Lists the modules and JSON files in and below a folder, sorted: the files that a module there may import. Hidden
 * files, links, installed packages and files of other types are left out, so that a key or a database next to a worker
 * cannot be read.
 */
async function codeFiles(folder: string, depth = 0): Promise<string[]> {
  if (depth > maxDepth) return [];
  const entries = (await readdir(folder, { withFileTypes: true })).filter(
    ({ name }) => !name.startsWith(".") && name !== "node_modules",
  );
  const here = entries.filter(
    (entry) => entry.isFile() && extensions.some((extension) => entry.name.endsWith(extension)),
  );
  const folders = entries.filter((entry) => entry.isDirectory());
  const below = await Promise.all(folders.map(({ name }) => codeFiles(join(folder, name), depth + 1)));
  const found = [...here.map(({ name }) => join(folder, name)), ...below.flat()].sort();
  if (found.length > maxFiles) {
    throw new UserError(
      `${folder} has more than ${maxFiles} modules. Move the workers and their tools.ts to a separate folder.`,
    );
  }
  return found;
}

/** Returns the SHA-256 of the files that a module may read, and of their paths from its folder. */
export async function digestOf({ path, readable }: ToolModule): Promise<string> {
  const hash = createHash("sha256");
  for (const file of readable) {
    const name = relative(dirname(path), file);
    const content = await readFile(file);
    hash.update(`${name.length}:${name}${content.length}:`).update(content);
  }
  return hash.digest("hex");
}
