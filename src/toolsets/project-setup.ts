import { createHash } from "node:crypto";
import { arch } from "node:process";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { TreeFile } from "#executors/executor.ts";
import { readLinks } from "#executors/tree-mirror.ts";
import type { ToolServices } from "./toolset.ts";

/** The commands that install a project's dependencies for its current lockfiles. */
export interface ProjectSetup {
  commands: readonly string[];
  /** Identifies the installed dependencies by repository, commands, lockfiles and toolchains. */
  key: string;
  /** True if the base has the same lockfiles and is a commit of the default branch. */
  isOfDefaultBranch: boolean;
}

/** Lockfiles by ecosystem. Without one, the manifests determine what is installed. */
const ecosystems = [
  {
    lockfile: /(^|\/)(package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?)$/,
    manifest: /(^|\/)package\.json$/,
  },
  {
    lockfile: /(^|\/)(uv|poetry|pdm)\.lock$|(^|\/)Pipfile\.lock$|(^|\/)[\w.-]*requirements[\w.-]*\.(txt|in)$/,
    manifest: /(^|\/)(pyproject\.toml|setup\.py|setup\.cfg)$/,
  },
  { lockfile: /(^|\/)go\.sum$/, manifest: /(^|\/)go\.mod$/ },
  { lockfile: /(^|\/)Cargo\.lock$/, manifest: /(^|\/)Cargo\.toml$/ },
  { lockfile: /(^|\/)Gemfile\.lock$/, manifest: /(^|\/)(Gemfile|[^/]+\.gemspec)$/ },
  { lockfile: /(^|\/)(composer\.lock|gradle\.lockfile)$/, manifest: /(^|\/)(composer\.json|pom\.xml)$/ },
];

/** The version of the format stored under a key. */
const keyVersion = 1;

/** Resolves to undefined if neither the worker nor the repository defines setup commands. */
export async function findSetup(services: ToolServices): Promise<ProjectSetup | undefined> {
  const commands = await commandsOf(services);
  return commands && { commands, key: await keyOf(services, commands), isOfDefaultBranch: await isShared(services) };
}

/** Returns the key of the dependencies that this run's commands may read. Never throws, since commands also run without them. */
export async function findSetupKey(services: ToolServices): Promise<string | undefined> {
  try {
    const commands = await commandsOf(services);
    return commands && (await keyOf(services, commands));
  } catch {
    return undefined;
  }
}

async function commandsOf({ spec, setupCommands }: ToolServices): Promise<readonly string[] | undefined> {
  return spec.worker.setup ?? (await setupCommands?.());
}

/** True if the setup can run on files of the default branch alone, so that what it installs can be shared between runs. */
async function isShared({ spec, workspace, sandbox }: ToolServices): Promise<boolean> {
  // A repository's name may later belong to another repository, so only repositories with an ID share data.
  if (sandbox.isOnDefaultBranch !== true || workspace !== sandbox || spec.origin.repositoryId === undefined)
    return false;
  if (await changesDependencies(workspace)) return false;
  // A merge can replace a folder with a link, and then the base's files below it cannot be read.
  const versions = (await workspace.changes()).length === 0 ? [] : await sandbox.changedFiles();
  return versions.every(({ before, after }) => !before?.isLink && !after?.isLink);
}

async function changesDependencies(workspace: Workspace): Promise<boolean> {
  const changes = await workspace.changes();
  return changes.some(({ path }) =>
    ecosystems.some(({ lockfile, manifest }) => lockfile.test(path) || manifest.test(path)),
  );
}

function lockfilesAmong(paths: readonly string[]): string[] {
  const own = paths.filter((path) => !/(^|\/)(node_modules|\.venv)\//.test(path));
  return ecosystems.flatMap(({ lockfile, manifest }) => {
    const locked = own.filter((path) => lockfile.test(path));
    return locked.length > 0 ? locked : own.filter((path) => manifest.test(path));
  });
}

/** The keys of workspaces whose dependencies are those of the base, by what else the key depends on. */
const baseKeys = new WeakMap<Workspace, Map<string, string>>();

/** Each command needs the key, so the lockfiles are read and hashed only once unless the run changes them. */
async function keyOf(
  { spec: { origin }, workspace, sandbox, sandboxTools = [] }: ToolServices,
  commands: readonly string[],
): Promise<string> {
  const { installationId, repositoryId, owner, repo } = origin;
  const repository = repositoryId ?? `${owner}/${repo}`.toLowerCase();
  const prefix = JSON.stringify([
    keyVersion,
    installationId,
    repository,
    commands,
    sandboxTools,
    arch,
    process.version,
  ]);
  if (await changesDependencies(workspace)) return hashLockfiles(workspace, prefix);

  const keys = baseKeys.get(workspace) ?? new Map<string, string>();
  baseKeys.set(workspace, keys);
  const name = `${sandbox.base.commit} ${prefix}`;
  const key = keys.get(name) ?? (await hashLockfiles(workspace, prefix));
  // Another tool may have written a lockfile meanwhile.
  if (!(await changesDependencies(workspace))) keys.set(name, key);
  return key;
}

async function hashLockfiles(workspace: Workspace, prefix: string): Promise<string> {
  const hash = createHash("sha256");
  const add = (value: string | Uint8Array) => hash.update(`${Buffer.byteLength(value)}:`).update(value);
  add(prefix);
  for (const path of lockfilesAmong(await workspace.paths())) {
    add(path);
    add(await workspace.readBytes(path));
  }
  return hash.digest("hex");
}

/** Returns the files on which the setup of the default branch runs: those of the base, without the run's changes. */
export async function baseFiles(workspace: Workspace): Promise<TreeFile[]> {
  const changed = new Set((await workspace.changes()).map(({ path }) => path));
  const paths = new Set([...(await workspace.paths()), ...changed]);
  const files = await readLinks(workspace);
  const yielder = new EventLoopYielder({ everyMs: maxTurnMs });
  for (const path of paths) {
    if (yielder.isDue) await yielder.turn();
    const content = await workspace.readBase(path);
    if (!content) continue;
    const executable = changed.has(path) ? isScript(content) : (await workspace.stat(path)).executable;
    files.push({ path, content, executable });
  }
  return files;
}

/** Returns the run's current files. */
export async function presentFiles(workspace: Workspace): Promise<TreeFile[]> {
  const files = await readLinks(workspace);
  const yielder = new EventLoopYielder({ everyMs: maxTurnMs });
  for (const path of await workspace.paths()) {
    if (yielder.isDue) await yielder.turn();
    const { executable } = await workspace.stat(path);
    files.push({ path, content: await workspace.readBytes(path), executable });
  }
  return files;
}

const maxTurnMs = 8;

function isScript(content: Uint8Array): boolean {
  return content[0] === 0x23 && content[1] === 0x21;
}
