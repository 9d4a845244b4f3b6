import { posix } from "node:path";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { GuestChange, IsolatedFolder } from "#executors/executor.ts";
import { folderOf } from "#sandbox/paths.ts";
import { readYaml } from "#text/read-yaml.ts";

export const managers = ["npm", "pnpm", "yarn", "pip", "uv", "go", "cargo"] as const;
export type PackageManager = (typeof managers)[number];

interface ManagerFiles {
  /** The files it receives, anywhere in the repository. */
  inputs: RegExp;
  /** The names of the files it may change in project folders. */
  results: readonly string[];
  /** The lockfiles among the results that some projects do not keep in the repository. */
  optional?: readonly string[];
  /** The name of the file that marks a folder as a project. */
  manifest: RegExp;
  /** The folder with dependencies next to a manifest. */
  folder?: string;
  /** Folders with dependencies in the home folder, and how many levels below are merged with existing ones. */
  home?: IsolatedFolder["keep"]["home"];
}

// A patch changes a dependency's files, and a lockfile contains its hash.
const nodeFiles = (...names: string[]) =>
  new RegExp(
    String.raw`(^|/)(package\.json|${names.map((name) => name.replace(/\./g, "\\.")).join("|")}|[^/]+\.patch)$`,
  );

const node = { manifest: /(^|\/)package\.json$/, folder: "node_modules" };

const rules: Record<PackageManager, ManagerFiles> = {
  npm: {
    ...node,
    inputs: nodeFiles("package-lock.json", "npm-shrinkwrap.json", ".npmrc"),
    results: ["package.json", "package-lock.json", "npm-shrinkwrap.json"],
    optional: ["package-lock.json", "npm-shrinkwrap.json"],
  },
  pnpm: {
    ...node,
    inputs: nodeFiles("pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc"),
    results: ["package.json", "pnpm-lock.yaml"],
    optional: ["pnpm-lock.yaml"],
  },
  yarn: {
    ...node,
    inputs: nodeFiles("yarn.lock"),
    results: ["package.json", "yarn.lock"],
    optional: ["yarn.lock"],
  },
  pip: {
    inputs: /(^|\/)(requirements\.txt|pyproject\.toml)$/,
    results: [],
    manifest: /(^|\/)(requirements\.txt|pyproject\.toml)$/,
    // .local/lib/python3.11/site-packages
    home: [{ path: ".local", mergeDepth: 3 }],
  },
  uv: {
    inputs: /(^|\/)(pyproject\.toml|uv\.lock|requirements\.txt)$/,
    results: ["pyproject.toml", "uv.lock"],
    optional: ["uv.lock"],
    manifest: /(^|\/)(pyproject\.toml|requirements\.txt)$/,
    folder: ".venv",
  },
  go: {
    inputs: /(^|\/)go\.(mod|sum)$/,
    results: ["go.mod", "go.sum"],
    manifest: /(^|\/)go\.mod$/,
    // Paths include versions, so nothing needs to be replaced.
    home: [{ path: "go/pkg/mod", mergeDepth: 40 }],
  },
  cargo: {
    inputs: /(^|\/)(Cargo\.(toml|lock)|(lib|main)\.rs|src\/bin\/[^/]+\.rs)$/,
    results: ["Cargo.toml", "Cargo.lock"],
    optional: ["Cargo.lock"],
    manifest: /(^|\/)Cargo\.toml$/,
    home: [{ path: ".cargo/registry", mergeDepth: 40 }],
  },
};

/** Returns the package manager indicated by the files of a folder and the lockfiles above it; undefined if there is none. */
export async function findManager(workspace: Workspace, folder: string): Promise<PackageManager | undefined> {
  const present = new Set(await workspace.paths());
  const has = (name: string) => present.has(posix.join(folder, name));
  const isAbove = (name: string) => nearest(present, folder, name) !== undefined;
  if (has("package.json")) {
    if (isAbove("pnpm-lock.yaml") || isAbove("pnpm-workspace.yaml")) return "pnpm";
    return isAbove("yarn.lock") ? "yarn" : "npm";
  }
  if (has("go.mod")) return "go";
  if (has("Cargo.toml")) return "cargo";
  if (has("pyproject.toml") && isAbove("uv.lock")) return "uv";
  return ["requirements.txt", "pyproject.toml", "setup.py"].some(has) ? "pip" : undefined;
}

/** Returns the path of a file in a folder, or in the nearest folder above that has one. */
function nearest(present: ReadonlySet<string>, folder: string, name: string): string | undefined {
  for (let at = folder; ; at = folderOf(at)) {
    const path = posix.join(at, name);
    if (present.has(path)) return path;
    if (at === "") return undefined;
  }
}

/** The maximum number of files. The deepest folders, which are mostly fixtures, are left out first. */
const maxFiles = 2_000;

/** The files of a project that a package manager receives, and those that are taken back from it. */
export interface InstallFiles {
  isolated: IsolatedFolder;
  /** Returns the text of a file in the project's folder or, for a lockfile, in the nearest folder above it. */
  textOf(name: string): string | undefined;
}

/** Reads the files that a package manager needs. Throws a ToolError if requirements.txt lists more than registry packages. */
export async function installFiles(
  workspace: Workspace,
  manager: PackageManager,
  folder: string,
): Promise<InstallFiles> {
  const { inputs, results, optional = [], manifest, folder: dependencies, home = [] } = rules[manager];
  const depth = (path: string) => path.split("/").length;
  const paths = (await workspace.paths())
    .filter((path) => inputs.test(path) && !/(^|\/)(node_modules|\.venv)\//.test(path))
    .sort((a, b) => depth(a) - depth(b))
    .slice(0, maxFiles);
  const read = await Promise.all(paths.map((path) => readInput(workspace, path)));
  const files = read.filter(({ path, content }) => content.length > 0 || posix.basename(path) !== ".npmrc");
  if (manager === "yarn") for (const { path, content } of files) checkYarnFile(path, Buffer.from(content).toString());
  const contents = new Map(files.map(({ path, content }) => [path, content]));
  const projects = new Set([folder, ...paths.filter((path) => manifest.test(path)).map(folderOf)]);
  const inProjects = (name: string) => [...projects].map((project) => posix.join(project, name));
  // A project that exists without a lockfile has decided against it, or ignores it.
  const isNew = !paths.some((path) => manifest.test(path));
  const mayChange = (path: string) => isNew || contents.has(path) || !optional.includes(posix.basename(path));
  return {
    isolated: {
      files,
      results: new Set(results.flatMap(inProjects).filter(mayChange)),
      keep: { tree: dependencies === undefined ? [] : inProjects(dependencies), home },
    },
    textOf(name) {
      const isManifest = manifest.test(name);
      const path = isManifest ? posix.join(folder, name) : nearest(new Set(contents.keys()), folder, name);
      const content = contents.get(path ?? "");
      return content === undefined ? undefined : Buffer.from(content).toString("utf8");
    },
  };
}

async function readInput(workspace: Workspace, path: string): Promise<GuestChange> {
  // Cargo requires a file for each target of a package but does not read it.
  const content = path.endsWith(".rs") ? new Uint8Array() : await workspace.readBytes(path);
  const text = Buffer.from(content).toString("utf8");
  if (path.endsWith("requirements.txt")) checkRequirements(path, text);
  const settings = settingsIn[posix.basename(path)]?.(text, path);
  return { path, content: settings === undefined ? content : Buffer.from(settings), executable: false };
}

/** Files of settings, of which a package manager receives only those that its lockfile depends on. */
const settingsIn: Record<string, (text: string, path: string) => string> = {
  "pnpm-workspace.yaml": lockfileSettings,
  ".npmrc": npmrcSettings,
};

const plainSettingsOfLockfile = [
  ...["autoInstallPeers", "excludeLinksFromLockfile", "injectWorkspacePackages", "linkWorkspacePackages"],
  ...["dedupePeerDependents", "nodeLinker", "hoistPattern", "publicHoistPattern", "shamefullyHoist"],
];
const settingsOfLockfile = new Set([
  ...["packages", "catalog", "catalogs", "overrides", "packageExtensions", "patchedDependencies"],
  ...["ignoredOptionalDependencies", "peerDependencyRules"],
  ...plainSettingsOfLockfile,
]);
/** In an `.npmrc`, the names are in lower case. */
const settingsOfNpmrc = new Set([
  ...plainSettingsOfLockfile.map((name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)),
  ...["legacy-peer-deps", "strict-peer-deps", "install-strategy", "prefer-dedupe"],
]);

/** Returns the settings of an `.npmrc` that affect the lockfile, with plain values only: no variables, URLs or commands. */
function npmrcSettings(text: string): string {
  const settings = text.matchAll(/^[ \t]*([a-z-]+(?:\[\])?)[ \t]*=[ \t]*([\w*@-][\w*@/-]*)[ \t]*\r?$/gm);
  return [...settings]
    .filter(([, name = ""]) => settingsOfNpmrc.has(name.replace("[]", "")))
    .map(([, name, value]) => `${name}=${value}\n`)
    .join("");
}

/** Returns the pnpm settings that affect the lockfile. The others configure registries, hooks, programs and pnpm versions. */
function lockfileSettings(text: string, path: string): string {
  const settings = readYaml(text, path);
  const entries = typeof settings === "object" && settings !== null ? Object.entries(settings) : [];
  return JSON.stringify(Object.fromEntries(entries.filter(([name]) => settingsOfLockfile.has(name))));
}

/** Throws a ToolError for an `exec:` dependency in a manifest, lockfile or patch, which makes Yarn run a program. */
function checkYarnFile(path: string, text: string): void {
  const read = withoutEscapes(path.endsWith("package.json") ? withoutScripts(text) : text);
  if (read !== undefined && !/["'@]exec:|\sexec:(?=\S)/i.test(read)) return;
  throw new ToolError(`${path} has a dependency of type exec:, for which Yarn runs a program of the repository.`, {
    code: "DENIED",
    suggestion: "Install nothing here. Say in your answer that people have to remove this dependency first.",
  });
}

function withoutScripts(manifest: string): string {
  try {
    return JSON.stringify({ ...JSON.parse(manifest.replace(/^\uFEFF/, "")), scripts: undefined });
  } catch {
    // Yarn cannot read it either, and says so.
    return "";
  }
}

/** The address of a patched package is encoded, and may be that of a patched package itself. */
const maxEncodings = 10;

/** Decodes what JSON, YAML and Yarn decode; undefined if it is encoded too often. */
function withoutEscapes(text: string): string | undefined {
  const character = (_: string, hex: string) => String.fromCharCode(Number.parseInt(hex, 16));
  let decoded = text.replace(/\\(?:u00|x)([0-7][0-9a-f])/gi, character);
  for (let times = 0; times < maxEncodings; times++) {
    const next = decoded.replace(/%([0-7][0-9a-f])/gi, character);
    if (next === decoded) return decoded;
    decoded = next;
  }
  return undefined;
}

function checkRequirements(path: string, text: string): void {
  const refused = findUnsupportedRequirement(text);
  if (refused === undefined) return;
  throw new ToolError(`${path} lists more than registry packages: ${JSON.stringify(refused.slice(0, 200))}.`, {
    code: "DENIED",
    suggestion: "Name the packages that are needed. Options, URLs and paths are not accepted.",
  });
}

const version = String.raw`[=<>!~]{1,3}\s*[\w.*+!-]+`;
const plainRequirement = new RegExp(
  String.raw`^[a-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*\(?(${version}(\s*,\s*${version})*)?\)?$`,
  "i",
);
const plainMarker = /^[\w\s.,'"<>=!~()+-]*$/;
const plainHash = /^sha(256|384|512):[0-9a-f]+$/i;

/** Returns the first line that is not a registry package: options, URLs, paths and archives can run code. */
function findUnsupportedRequirement(text: string): string | undefined {
  const lines = text.replace(/\\\r?\n/g, " ").split(/\r?\n/);
  return lines.map((line) => line.replace(/(^|\s)#.*$/, "").trim()).find((line) => line !== "" && !isPlain(line));
}

/** True if a package manager would interpret the name as a file in the tree. */
export function isArchive(name: string): boolean {
  return /\.(zip|whl|egg|tar|tgz|tbz2?|txz|tlz|gz|bz2|xz|lzma)$/i.test(name);
}

function isPlain(line: string): boolean {
  const [requirement = "", ...hashes] = line.split(/\s+--hash=/);
  const end = requirement.indexOf(";");
  const name = (end === -1 ? requirement : requirement.slice(0, end)).trim();
  const marker = end === -1 ? "" : requirement.slice(end + 1);
  return (
    plainRequirement.test(name) &&
    !isArchive(name) &&
    plainMarker.test(marker) &&
    !/(^|\s)-/.test(marker) &&
    hashes.every((hash) => plainHash.test(hash.trim()))
  );
}
