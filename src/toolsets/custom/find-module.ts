import { mkdtemp, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, extname, isAbsolute, join, posix, relative, resolve } from "node:path";
import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { codeFiles, isModuleName } from "./code-files.ts";
import type { ToolModule } from "./tool-process.ts";

const repositoryFolder = ".github/workers";
const longestModule = 1_000_000;

export interface FoundModule extends ToolModule {
  /** Deletes what was put on disk for it. */
  release(): Promise<void>;
}

type Place = Pick<ToolServices, "workerDirectory" | "customToolsFrom" | "github" | "spec">;

/**
 * Finds the module a worker calls its tools: beside the deployment's own worker, or on the repository's default branch
 * where the deployment allows this repository. Throws a UserError that says why it cannot be had.
 */
export function findModule(module: string, services: Place): Promise<FoundModule> {
  if (!isModuleName(module)) {
    throw new UserError(`module: ${module} is no module. It is a file such as ./tools.ts, beside the worker.`);
  }
  const { workerDirectory } = services;
  return workerDirectory === undefined ? fromRepository(module, services) : fromFolder(module, workerDirectory);
}

async function fromFolder(module: string, folder: string): Promise<FoundModule> {
  const root = await realpath(folder);
  const wanted = resolve(root, module);
  const path = isWithin(wanted, root) ? await realpath(wanted).catch(() => undefined) : wanted;
  if (path === undefined) throw new UserError(await notThere(module, root));
  if (!isWithin(path, root) || isAbsolute(module)) {
    throw new UserError(`module: ${module} lies outside the folder of the worker. Put it beside the worker.`);
  }
  return { path, shown: module, readable: await readableAround(path), release: async () => {} };
}

/** What a module on disk may read: the modules of its folder. */
export async function readableAround(path: string): Promise<string[]> {
  return [...new Set([path, ...(await codeFiles(dirname(path)))])];
}

function isWithin(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== "" && !way.startsWith("..") && !isAbsolute(way);
}

async function notThere(module: string, root: string): Promise<string> {
  const there = (await readdir(root)).filter(isModuleName).sort();
  const near = closestMatch(basename(module), there);
  const list = there.length > 0 ? `There are: ${there.join(", ")}.` : "There are no modules.";
  return `module: there is no ${module} in the folder of the worker.${near ? ` Did you mean ./${near}?` : ""} ${list}`;
}

async function fromRepository(
  module: string,
  { github, customToolsFrom, spec: { worker, origin } }: Place,
): Promise<FoundModule> {
  const repository = `${origin.owner}/${origin.repo}`;
  if (!customToolsFrom?.(origin.owner, origin.repo)) {
    throw new UserError(
      `The worker ${worker.name} comes from ${repository} and wants to run ${module}, and custom tools of repositories ` +
        `are off. Whoever runs Golem Forge can allow them with GOLEM_FORGE_CUSTOM_TOOLS_FROM=${repository}.`,
    );
  }
  const path = posix.normalize(posix.join(repositoryFolder, module));
  if (!path.startsWith(`${repositoryFolder}/`) || posix.isAbsolute(module) || /[\\\0]/.test(module)) {
    throw new UserError(`module: ${module} lies outside ${repositoryFolder}. Put it beside the worker.`);
  }
  const source = await github.readFile(path);
  if (source === undefined) throw new UserError(`module: ${path} is not on the default branch of ${repository}.`);
  if (source.length > longestModule) {
    throw new UserError(`module: ${path} is longer than ${longestModule.toLocaleString("en")} characters.`);
  }
  return onDisk(source, extname(path), module);
}

/** The process that runs it can read nothing but files, so it is given one that only this user can read. */
async function onDisk(source: string, ending: string, shown: string): Promise<FoundModule> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "golem-forge-tools-")));
  const path = join(folder, `tools${ending}`);
  await writeFile(path, source, { mode: 0o600 });
  return { path, shown, readable: [path], release: () => rm(folder, { recursive: true, force: true }) };
}
