import { posix } from "node:path";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { folderOf } from "#sandbox/paths.ts";
import { findTestRunner, hasTestTarget, type TestRunner } from "./test-runner.ts";

export interface FoundTests {
  folder: string;
  runner: TestRunner;
  /** The subfolders, or the file, to which the tests are limited. */
  only: string[];
}

/** The number of packages whose tests one call runs if it names none. */
const maxPackagesAtOnce = 5;

/** Finds the tests of the given folder; by default those of a monorepo's changed packages. */
export async function findTests(
  workspace: Workspace,
  { path, args, canRunCode }: { path: string | undefined; args: readonly string[]; canRunCode: boolean },
): Promise<FoundTests[]> {
  const named = path === undefined ? undefined : workspace.resolve(path);
  if (named) await workspace.stat(named);
  const changed = named === undefined ? await changedPackages(workspace) : [];
  // Arguments such as the name of a file belong to one runner.
  if (changed.length > 0 && changed.length <= (args.length > 0 ? 1 : maxPackagesAtOnce)) {
    const found = await testsOfPackages(workspace, changed);
    if (found) return found;
  }
  const found = await findNearest(workspace, named ?? "");
  if (!found) {
    throw new ToolError(`No supported test runner was found in ${named || "the repository"}.`, {
      code: "UNAVAILABLE",
      suggestion:
        suggestFolders([...(await packageFolders(workspace)), ...(await makeFolders(workspace))]) ??
        suggestOtherWay(canRunCode),
    });
  }
  const { scriptOfAllPackages } = found.runner;
  if (named === undefined && scriptOfAllPackages !== undefined)
    await requirePackage(workspace, scriptOfAllPackages, changed);
  if (changed.length === 0) return [found];
  return [withReason(found, `Changed packages: ${changed.join(", ")}; name one in path to run only its tests.`)];
}

/** Finds the tests of changed packages; undefined if they cannot be told apart from those of the whole repository. */
async function testsOfPackages(workspace: Workspace, packages: readonly string[]): Promise<FoundTests[] | undefined> {
  const groups = new Map<string, { found: FoundTests; names: string[] }>();
  for (const name of packages) {
    const found = await findNearest(workspace, name);
    if (!found || (found.folder === "" && found.only.length === 0)) return undefined;
    const group = groups.get(found.folder);
    groups.set(found.folder, {
      found: group ? { ...found, only: bothOrAll(group.found.only, found.only) } : found,
      names: [...(group?.names ?? []), name],
    });
  }
  const which = packages.length === 1 ? "the only changed package" : `of ${packages.length} changed packages`;
  return [...groups.values()].map(({ found, names }) =>
    withReason(found, `These are the tests of ${names.join(", ")}, ${which}; path "." runs those of the root.`),
  );
}

/** Joins two limits to subfolders. No subfolder means all tests. */
function bothOrAll(a: string[], b: string[]): string[] {
  return a.length > 0 && b.length > 0 ? [...a, ...b] : [];
}

function withReason(found: FoundTests, reason: string): FoundTests {
  return { ...found, runner: { ...found.runner, reason: `${found.runner.reason} ${reason}` } };
}

/** Refuses to run the tests of a large monorepo as a whole, which takes minutes or more memory than there is. */
async function requirePackage(workspace: Workspace, script: string, changed: readonly string[]): Promise<void> {
  const folders = await packageFolders(workspace);
  if (folders.length <= maxPackagesAtOnce) return;
  throw new ToolError(
    `The test script of the root, \`${script}\`, starts the tests of all ${folders.length} packages.`,
    {
      code: "INVALID_ARGUMENTS",
      suggestion: `${suggestFolders(changed.length > 0 ? changed : folders)} \`.\` runs all.`,
    },
  );
}

/** Returns the command that runs the named tests, or those of the folder or file that was asked for. */
export async function testCommand(
  workspace: Workspace,
  { folder, runner, only }: FoundTests,
  args: readonly string[],
): Promise<string[]> {
  const asked = args.length > 0 ? args : only;
  const forFiles = (await areFiles(workspace, folder, asked)) ? runner.commandForFiles : undefined;
  const forNamed = forFiles ?? runner.commandForNamed ?? runner.command;
  const named = runner.select ?? ((names: readonly string[]) => [...names]);
  if (args.length > 0) return [...forNamed, ...named(await fromFolder(workspace, { folder, only }, args))];
  if (only.length === 0) return runner.command;
  if (runner.limitTo) return only.length === 1 ? [...forNamed, ...only.flatMap(runner.limitTo)] : runner.command;
  if (!runner.folderOptions) return [...forNamed, ...named(only)];
  const paths = only.map(async (path) => {
    const { type } = await workspace.stat(posix.join(folder, path));
    return type === "directory" ? `${path}/` : path;
  });
  return [...runner.command, ...runner.folderOptions, ...(await Promise.all(paths))];
}

async function areFiles(workspace: Workspace, folder: string, args: readonly string[]): Promise<boolean> {
  const names = args.filter((arg) => !arg.startsWith("-"));
  const exist = await Promise.all(names.map((name) => workspace.exists(posix.join(folder, name))));
  return names.length > 0 && exist.every(Boolean);
}

/** Makes arguments that name files relative to the folder in which the runner starts. */
function fromFolder(
  workspace: Workspace,
  { folder, only }: Pick<FoundTests, "folder" | "only">,
  args: readonly string[],
) {
  const [subfolder] = only;
  if (subfolder === undefined) return [...args];
  const paths = args.map(async (arg) => {
    const isFile = !arg.startsWith("-") && (await workspace.exists(posix.join(folder, subfolder, arg)));
    return isFile ? posix.join(subfolder, arg) : arg;
  });
  return Promise.all(paths);
}

/** Finds the runner of a folder, or of the nearest folder above, limited to the tests in this folder if possible. */
async function findNearest(workspace: Workspace, folder: string): Promise<FoundTests | undefined> {
  for (let at = folder; ; at = folderOf(at)) {
    const runner = await findTestRunner(workspace, at);
    if (runner) {
      const start = runner.folder ?? at;
      const canLimit = runner.folderOptions !== undefined || runner.limitTo !== undefined;
      const isLimited = start !== folder && (canLimit || (await workspace.stat(folder)).type === "file");
      const only = isLimited ? [posix.relative(start, folder)] : [];
      return { folder: start, runner, only };
    }
    if (at === "") return undefined;
  }
}

/** Files that mark a folder as a package with its own tests. Nx has packages with a `project.json` only. */
const packageManifests = [
  ...["package.json", "project.json", "pyproject.toml", "go.mod", "Cargo.toml"],
  ...["pom.xml", "build.gradle", "build.gradle.kts"],
];

/**
 * Returns the packages below the root that the run has changed: for each changed file, the nearest folder with a
 * manifest. Empty if a change is outside of all of them, since it may affect any, unless it is a text such as a changeset.
 */
async function changedPackages(workspace: Workspace): Promise<string[]> {
  const packages = new Set<string>();
  const byFolder = new Map<string, string>();
  for (const { path } of await workspace.changes()) {
    const folder = folderOf(path);
    const changed = byFolder.get(folder) ?? (await packageOf(workspace, folder));
    byFolder.set(folder, changed);
    if (changed !== "" || !path.endsWith(".md")) packages.add(changed);
  }
  return packages.has("") ? [] : [...packages].sort();
}

async function packageOf(workspace: Workspace, folder: string): Promise<string> {
  for (let at = folder; at !== ""; at = folderOf(at)) {
    for (const name of packageManifests) if (await workspace.exists(`${at}/${name}`)) return at;
  }
  return "";
}

/** The folders with a manifest that a suggestion names. */
const maxSuggestedFolders = 12;
const maxReadMakefiles = 50;

/** The folders of a monorepo's packages, without its examples. */
async function packageFolders(workspace: Workspace): Promise<string[]> {
  const folders = (await workspace.paths()).flatMap((path) => {
    const [, folder = ""] = /^(?!.*(?:node_modules|examples?)\/)(.+)\/([^/]+)$/.exec(path) ?? [];
    return folder !== "" && packageManifests.includes(posix.basename(path)) ? [folder] : [];
  });
  return [...new Set(folders)];
}

/** The folders whose Makefile has a target `test`, the nearest to the root first. */
async function makeFolders(workspace: Workspace): Promise<string[]> {
  const depth = (path: string) => path.split("/").length;
  const makefiles = (await workspace.paths()).filter((path) => /\/Makefile$/.test(path));
  const folders: string[] = [];
  for (const path of makefiles.sort((a, b) => depth(a) - depth(b)).slice(0, maxReadMakefiles)) {
    if (hasTestTarget(await workspace.read(path))) folders.push(folderOf(path));
  }
  return folders;
}

/** Suggests what to do in a project without a supported runner, naming only tools that the worker is offered. */
function suggestOtherWay(canRunCode: boolean): string {
  const next = canRunCode ? "start its tests with run_code" : "say in your answer that the tests were not run";
  return `Give the folder of the project in \`path\`, or ${next}.`;
}

function suggestFolders(folders: readonly string[]): string | undefined {
  if (folders.length === 0) return undefined;
  const shown = folders.slice(0, maxSuggestedFolders).join(", ");
  const more = folders.length > maxSuggestedFolders ? ` and ${folders.length - maxSuggestedFolders} more` : "";
  return `Give the folder of a package in \`path\`: ${shown}${more}.`;
}
