import { posix } from "node:path";
import { ToolError } from "#domain/errors.ts";
import { TerminalResultValue } from "#domain/result.ts";
import type { ExecResult } from "#executors/executor.ts";
import { truncateLine } from "#text/truncate.ts";
import { withoutProgress } from "#toolsets/run-command.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { isArchive, type PackageManager } from "./install-files.ts";

export interface InstallRequest {
  manager: PackageManager;
  packages: readonly string[];
  dev: boolean;
  /** The registry's URL, replacing the public one. */
  index?: string;
  /** Returns the text of a file in the project's folder or, for a lockfile, in the nearest folder above it. */
  textOf(name: string): string | undefined;
}

export interface InstallCommand {
  command: string[];
  env: Record<string, string>;
  /** Settings that the manager only takes from a file, by path. */
  files?: Record<string, string>;
  /** The hosts that the command needs. */
  hosts: string[];
}

// A name and a version in the registry. URLs, paths, git addresses and options are refused: they install from elsewhere
// or run code.
const nodePackage = /^(@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~_][\w.~-]*(@[\w.^~<>=*|+ -]+)?$/i;
const pythonPackage =
  /^[a-z0-9][\w.-]*(\[[\w,-]+\])?((==|>=|<=|~=|!=|<|>)[\w.*+!-]+(,(==|>=|<=|~=|!=|<|>)[\w.*+!-]+)*)?$/i;
const packageNames: Record<PackageManager, RegExp> = {
  npm: nodePackage,
  pnpm: nodePackage,
  yarn: nodePackage,
  pip: pythonPackage,
  uv: pythonPackage,
  go: /^[a-z0-9][\w.-]*\.[a-z]+(\/[\w.~-]+)*(@[\w.+-]+)?$/i,
  cargo: /^[a-z][\w-]*(@[\w.^~<>=*+-]+)?$/i,
};

const hosts: Record<PackageManager, string[]> = {
  npm: ["registry.npmjs.org"],
  pnpm: ["registry.npmjs.org"],
  yarn: ["registry.npmjs.org", "registry.yarnpkg.com"],
  pip: ["pypi.org", "files.pythonhosted.org"],
  uv: ["pypi.org", "files.pythonhosted.org"],
  go: ["proxy.golang.org", "sum.golang.org"],
  cargo: ["index.crates.io", "static.crates.io"],
};

export const registryHosts = [
  ...new Set([...Object.values(hosts).flat(), "npm.jsr.io", "rubygems.org", "index.rubygems.org"]),
];

/** Returns the command that installs packages without their scripts. Throws a ToolError for other names. */
export function installCommand(request: InstallRequest): InstallCommand {
  const { manager, packages, index } = request;
  const refused = packages.find((name) => !packageNames[manager].test(name) || isArchive(name) || name.length > 200);
  if (refused !== undefined) {
    throw new ToolError(`"${refused}" is not a package of a registry.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: "Give a name with an optional version. URLs, paths, git addresses and options are not accepted.",
    });
  }
  const indexHost = index === undefined ? [] : [new URL(index).host];
  return { ...commands[manager](request), hosts: [...hosts[manager], ...indexHost] };
}

type Command = Omit<InstallCommand, "hosts">;

const commands: Record<PackageManager, (request: InstallRequest) => Command> = {
  npm: npmCommand,
  pnpm: pnpmCommand,
  yarn: yarnCommand,
  pip: pipCommand,
  uv: uvCommand,
  go: goCommand,
  cargo: cargoCommand,
};

/** npm and pnpm wait a minute between attempts by default, also for a host that the sandbox refuses. */
const retrySettings = (prefix: string): Record<string, string> => ({
  [`${prefix}_fetch_retries`]: "2",
  [`${prefix}_fetch_retry_mintimeout`]: "1000",
  [`${prefix}_fetch_retry_maxtimeout`]: "3000",
});

/** Disables git, which a git dependency would start, and any package manager version that the repository names. */
const npmEnvironment = (index: string | undefined): Record<string, string> => ({
  npm_config_globalconfig: "/dev/null",
  npm_config_ignore_scripts: "true",
  npm_config_git: "/bin/false",
  COREPACK_ENABLE_PROJECT_SPEC: "0",
  COREPACK_ENABLE_NETWORK: "0",
  ...retrySettings("npm_config"),
  ...(index !== undefined && { npm_config_registry: index }),
});

function npmCommand({ packages, dev, index, textOf }: InstallRequest): Command {
  const isLocked = textOf("package-lock.json") !== undefined || textOf("npm-shrinkwrap.json") !== undefined;
  const install = packages.length > 0 || !isLocked ? ["install", ...(dev ? ["--save-dev"] : [])] : ["ci"];
  const options = ["--ignore-scripts", "--git=/bin/false", "--no-audit", "--no-fund"];
  return { command: ["npm", ...install, ...options, "--", ...packages], env: npmEnvironment(index) };
}

/** pnpm reads its settings from variables that start with `npm_config` before release 11, and with `pnpm_config` since. */
const pnpmSettings = (prefix: string, index?: string): Record<string, string> => ({
  // The repository may name a version of pnpm, which pnpm would download and start.
  [`${prefix}_manage_package_manager_versions`]: "false",
  [`${prefix}_package_manager_strict`]: "false",
  [`${prefix}_pm_on_fail`]: "ignore",
  // Folders are moved afterwards, so packages must not be links into a store elsewhere.
  [`${prefix}_package_import_method`]: "copy",
  [`${prefix}_confirm_modules_purge`]: "false",
  ...retrySettings(prefix),
  ...(index !== undefined && { [`${prefix}_registry`]: index }),
});

function pnpmCommand({ packages, dev, index, textOf }: InstallRequest): Command {
  const named = packages.length > 0;
  const isLocked = textOf("pnpm-lock.yaml") !== undefined;
  const options = ["--ignore-scripts", "--ignore-pnpmfile"];
  const lock = isLocked ? "--frozen-lockfile" : "--no-frozen-lockfile";
  return {
    command: named
      ? ["pnpm", "add", ...options, ...(dev ? ["--save-dev"] : []), ...packages]
      : ["pnpm", "install", ...options, lock],
    env: { ...npmEnvironment(index), ...pnpmSettings("npm_config"), ...pnpmSettings("pnpm_config", index) },
  };
}

function yarnCommand({ packages, dev, index, textOf }: InstallRequest): Command {
  const lockfile = textOf("yarn.lock");
  const usesBerry =
    lockfile === undefined
      ? /"packageManager"\s*:\s*"yarn@[2-9]/.test(textOf("package.json") ?? "")
      : /^__metadata:/m.test(lockfile);
  const named = packages.length > 0;
  const env = {
    ...npmEnvironment(index),
    // A Yarn release checked into the repository is the repository's code.
    YARN_IGNORE_PATH: "1",
    SKIP_YARN_COREPACK_CHECK: "1",
    YARN_ENABLE_SCRIPTS: "0",
    YARN_ENABLE_TELEMETRY: "0",
    YARN_NODE_LINKER: "node-modules",
    ...(index !== undefined && { YARN_REGISTRY: index, YARN_NPM_REGISTRY_SERVER: index.replace(/\/$/, "") }),
  };
  if (usesBerry) {
    // A manifest can allow the scripts of a package with `dependenciesMeta`, even if the settings forbid it.
    const add = ["yarn", "add", "--mode=skip-build", ...(dev ? ["--dev"] : []), ...packages];
    const install = ["yarn", "install", "--mode=skip-build", "--no-immutable"];
    const keepsLockfile = !named && lockfile !== undefined;
    const yarn = keepsLockfile ? ["bash", "-c", keepLockfile, "bash", ...install] : named ? add : install;
    return { command: checkingVersion("3 or later", "[3-9]*", yarn), env };
  }
  const options = ["--ignore-scripts", "--non-interactive", "--no-default-rc"];
  const yarn = named
    ? ["yarn", "add", ...options, ...(dev ? ["--dev"] : []), ...packages]
    : ["yarn", "install", ...options, ...(lockfile === undefined ? [] : ["--frozen-lockfile"])];
  return { command: checkingVersion("1", "[01].*", yarn), env };
}

/**
 * Installs from a lockfile and leaves it as it was. Fails if the manifests ask for something else. A newer release of
 * Yarn than the project's rewrites the lockfile in its own format, for which `--immutable` would fail.
 */
const keepLockfile = [
  "while [ ! -f yarn.lock ]; do cd .. || exit; done",
  "before=$(mktemp)",
  "after=$(mktemp)",
  'cp yarn.lock "$before"',
  '"$@"; code=$?',
  'cp yarn.lock "$after"',
  'cp "$before" yarn.lock',
  '[ "$code" = 0 ] || exit "$code"',
  `format() { sed -n '/^  version: /{p;q;}' "$1"; }`,
  '[ "$(format "$before")" = "$(format "$after")" ] || exit 0',
  'cmp -s "$before" "$after" && exit 0',
  'echo "yarn.lock does not match the manifests: name the packages to install, which updates it." >&2',
  "exit 1",
].join("\n");

/**
 * Returns a line of bash that makes Yarn 4 repack archives without threads, which need a gigabyte more in large
 * projects. Yarn 3 refuses settings that it does not know, so the line depends on the version.
 */
export function limitYarnMemory(version: string): string {
  return `case "${version}" in 4.*) export YARN_TASK_POOL_MODE=async;; esac`;
}

/** Wraps a yarn command in a version check: Yarn 1 and later versions share a program name but rewrite each other's lockfile. */
function checkingVersion(name: string, pattern: string, yarn: string[]): string[] {
  const script = [
    "version=$(yarn --version) || exit",
    limitYarnMemory("$version"),
    `case "$version" in ${pattern}) exec "$@";; esac`,
    `echo "The project needs Yarn ${name}, and this sandbox has Yarn $version." >&2`,
    "exit 1",
  ];
  return ["bash", "-c", script.join("\n"), "bash", ...yarn];
}

function pipCommand({ packages, index, textOf }: InstallRequest): Command {
  const named = packages.length > 0;
  const listed =
    named || textOf("requirements.txt") !== undefined ? [] : packageRequirementsOf(textOf("pyproject.toml") ?? "");
  if (!named && listed.length === 0 && textOf("requirements.txt") === undefined)
    throw nothingToInstall("requirements.txt or list of packages in pyproject.toml");
  // Installing a source distribution runs its setup.py; a wheel runs nothing.
  const options = ["--user", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"];
  return {
    // Isolated mode ignores modules in the current folder, a user's .pth files and Python's variables.
    command: [
      ...["python3", "-I", "-m", "pip", "install", ...options],
      ...(named || listed.length > 0 ? ["--", ...packages, ...listed] : ["-r", "requirements.txt"]),
    ],
    env: {
      PIP_BREAK_SYSTEM_PACKAGES: "1",
      PIP_CONFIG_FILE: "/dev/null",
      ...(index !== undefined && { PIP_INDEX_URL: index }),
    },
  };
}

/** The groups of dependencies that a project's tests and tools need. */
const groupOfDevelopment = /^(dev|develop|development|tests?|testing|lint|format|typing|all)$/i;

/**
 * Returns the packages that a pyproject.toml lists for its users, tests and tools, as arguments of pip. Reads lists of
 * strings only, the form of the standard, and omits everything that is not a plain name with versions.
 */
export function packageRequirementsOf(pyproject: string): string[] {
  const found = new Set<string>();
  let table = "";
  for (const [, header, key = "", list = ""] of pyproject.matchAll(
    /^\[([\w.-]+)\][ \t]*$|^["']?([\w-]+)["']?[ \t]*=[ \t]*\[((?:[^[\]"'#]|"[^"\n]*"|'[^'\n]*'|#.*\n)*)\]/gm,
  )) {
    if (header !== undefined) table = header;
    const isGroup = /^(project\.optional-dependencies|dependency-groups)$/.test(table);
    if (!(table === "project" && key === "dependencies") && !(isGroup && groupOfDevelopment.test(key))) continue;
    for (const [, one, two] of list.matchAll(/#.*|\{[^}\n]*\}|"([^"\n]*)"|'([^'\n]*)'/g)) {
      const [name = ""] = (one ?? two ?? "").split(";");
      const plain = name.replace(/\s+/g, "");
      if (packageNames.pip.test(plain) && !isArchive(plain)) found.add(plain);
    }
  }
  return [...found];
}

function uvCommand({ packages, dev, index, textOf }: InstallRequest): Command {
  const options = "--no-config --no-build --no-install-project --no-install-workspace";
  const env = {
    UV_NO_CONFIG: "1",
    UV_NO_BUILD: "1",
    UV_PYTHON_DOWNLOADS: "never",
    UV_LINK_MODE: "copy",
    ...(index !== undefined && { UV_DEFAULT_INDEX: index }),
  };
  if (textOf("pyproject.toml") === undefined) {
    const named = packages.length > 0;
    if (!named && textOf("requirements.txt") === undefined)
      throw nothingToInstall("pyproject.toml or requirements.txt");
    const script = 'uv venv --no-config .venv && exec uv pip install --no-config --no-build "$@"';
    return { command: ["bash", "-c", script, "bash", ...(named ? packages : ["-r", "requirements.txt"])], env };
  }
  const isLocked = textOf("uv.lock") !== undefined;
  if (packages.length === 0) {
    return { command: ["uv", "sync", ...options.split(" "), ...(isLocked ? ["--frozen"] : [])], env };
  }
  const script = `uv add --no-config --no-build --no-sync${dev ? " --dev" : ""} "$@" && exec uv sync ${options}`;
  return { command: ["bash", "-c", script, "bash", ...packages], env };
}

function goCommand({ packages, index }: InstallRequest): Command {
  return {
    command: packages.length > 0 ? ["go", "get", ...packages] : ["go", "mod", "download"],
    env: {
      GOPROXY: index ?? "https://proxy.golang.org",
      GOVCS: "*:off",
      GOENV: "off",
      GOWORK: "off",
      GOFLAGS: "-modcacherw",
      GOTOOLCHAIN: "local",
      CGO_ENABLED: "0",
    },
  };
}

function cargoCommand({ packages, dev, index }: InstallRequest): Command {
  // Ignores the repository's compiler and credentials, and disables git.
  const env = {
    RUSTC: "rustc",
    RUSTC_WRAPPER: "",
    RUSTC_WORKSPACE_WRAPPER: "",
    CARGO_NET_GIT_FETCH_WITH_CLI: "false",
    CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS: "cargo:token",
    CARGO_REGISTRIES_CRATES_IO_PROTOCOL: "sparse",
  };
  const config = `[source.crates-io]\nreplace-with = "registry"\n[source.registry]\nregistry = "sparse+${index}"\n`;
  const files: Record<string, string> = index === undefined ? {} : { ".cargo/config.toml": config };
  if (packages.length === 0) return { command: ["cargo", "fetch"], env, files };
  const add = ["cargo", "add", ...(dev ? ["--dev"] : []), ...packages];
  return { command: ["bash", "-c", '"$@" && exec cargo fetch', "bash", ...add], env, files };
}

function nothingToInstall(name: string): ToolError {
  return new ToolError(`${name} does not exist, so name the packages to install.`, { code: "INVALID_ARGUMENTS" });
}

/** The toolchains that provide programs. */
const toolchains = [
  { programs: /^(node|npm|npx|corepack)$/, name: "Node.js" },
  { programs: /^(pnpm|pnpx)$/, name: "pnpm (`npm install --global pnpm`)" },
  { programs: /^(yarn|yarnpkg)$/, name: "Yarn (`npm install --global yarn`)" },
  { programs: /^bunx?$/, name: "Bun" },
  { programs: /^deno$/, name: "Deno" },
  { programs: /^(python3?|pip3?)$/, name: "Python 3" },
  { programs: /^uvx?$/, name: "uv" },
  { programs: /^(poetry|tox|nox|pdm|hatch)$/, name: "that Python tool, installed in a folder of its own," },
  { programs: /^(go|gofmt)$/, name: "Go" },
  { programs: /^(cargo|rustc|rustfmt)$/, name: "Rust" },
  { programs: /^(ruby|bundle|bundler|rspec|rake|gem)$/, name: "Ruby with Bundler" },
  { programs: /^(cmake|ctest)$/, name: "CMake" },
  { programs: /^(make|cc|gcc|g\+\+|c\+\+|clang|ld)$/, name: "the system's package build-essential" },
  { programs: /^(java|javac|mvn|gradle)$/, name: "a JDK with Maven or Gradle" },
  { programs: /^(php|composer)$/, name: "PHP with Composer" },
  { programs: /^dotnet$/, name: "the .NET SDK" },
];

/** Lines that never explain a failed installation: single packages, warnings, requests, the manager's frames. */
const saysLittle =
  /^\s*(?:[│╭╰+-]|Progress: |\[?(?:npm )?warn(?:ing)?\b|gyp (?:info|http|verb)|\d+: 0x|at .*(?:\.yarn\/releases\/|node:|worker eval)|➤ YN00(?:02|13|19|60|85|86):)/i;
const maxLineLength = 300;

/** Keeps the last lines of a package manager's output that say something, each once. */
export function endOfInstallation(text: string, maxLines: number): string {
  const lines = withoutProgress(text)
    .split("\n")
    .filter((line) => /\w/.test(line) && !saysLittle.test(line.slice(0, maxLineLength)))
    .map((line) => truncateLine(line, maxLineLength));
  return [...new Set(lines)].slice(-maxLines).join("\n");
}

export type FailedCommand = Pick<ExecResult, "exitCode" | "stderr">;

/** The last installation of the run that ended; undefined if there was none. */
export function lastInstallation(history: readonly FinishedCall[]): FailedCommand | undefined {
  const call = history.findLast(({ tool }) => tool === "install_package");
  const { data } = TerminalResultValue.safeParse(call?.result.value);
  return data && { exitCode: data.exitCode ?? null, stderr: data.stderr ?? "" };
}

/** Returns the name of a program if a toolchain provides it, not a package of the project. */
function toolchainIn(program: string | undefined): string | undefined {
  return program !== undefined && toolchains.some(({ programs }) => programs.test(program)) ? program : undefined;
}

/** Names the program that a command lacked, and who can provide it; undefined if none was missing. */
function describeProgram({ exitCode, stderr }: FailedCommand): string | undefined {
  if (exitCode === 0) return undefined;
  const program =
    /^prlimit: failed to execute (\S{1,100}): No such file/m.exec(stderr)?.[1] ??
    /^(?:bash: line \d+: |spawn )(\S{1,100})(?:: command not found| ENOENT)$/m.exec(stderr)?.[1] ??
    toolchainIn(/^sh: (?:(?:line )?\d+: )?(\S{1,100}?): (?:command )?not found$/m.exec(stderr)?.[1]) ??
    (/\bJAVA_HOME (?:environment variable )?is not (?:set|defined)/.test(stderr) ? "java" : undefined) ??
    (/\bNo CMAKE_\w+_COMPILER could be found/.test(stderr) ? "c++" : undefined);
  if (!program) return undefined;
  const toolchain = toolchains.find(({ programs }) => programs.test(posix.basename(program)));
  const provider = toolchain ? `${toolchain.name} provides it` : "install_package cannot provide it";
  const isItself = toolchain?.name === posix.basename(program);
  return `${program} is not available in this sandbox${isItself ? "" : `; ${provider}`}. The deployment can mount it: \`sandbox.tools\` in its policy, or GOLEM_FORGE_SANDBOX_TOOL_PATHS.`;
}

/** The errors of toolchains that are too old for a project, with the version that it needs if they name it. */
const tooOld = [
  { name: "Go", says: /invalid go version '(\d[\w.]{0,20})'|go\.mod requires go >= (\d[\w.]{0,20})/ },
  {
    name: "Rust",
    says: /requires rustc (\d[\w.]{0,20}) or newer|lock ?file version \S{1,20} requires `-Znext-lockfile-bump`|feature `edition20\d\d` is required/,
  },
  { name: "Python", says: /requires a different Python: \S{1,20} not in '[>=~]{1,2} ?(\d[\w.]{0,20})/ },
  { name: "Ruby", says: /Your Ruby version is \S{1,20}, but your Gemfile specified [>=~ ]*(\d[\w.]{0,20})/ },
  { name: "JDK", says: /release version (\d{1,3}) not supported|invalid (?:source|target) release: (\d{1,3})/ },
  { name: "CMake", says: /CMake (\d[\w.]{0,20}) or higher is required/ },
];

/** Names a toolchain that is older than what the project needs; undefined if none is known to be. */
function describeOldToolchain(stderr: string): string | undefined {
  for (const { name, says } of tooOld) {
    const [found, ...versions] = says.exec(stderr) ?? [];
    if (found === undefined) continue;
    const version = versions.find((one) => one !== undefined);
    const needed = version === undefined ? `a newer version of ${name}` : `${name} ${version} or later`;
    return `This project needs ${needed}, which this sandbox does not have. The deployment can mount it: \`sandbox.tools\` in its policy, or GOLEM_FORGE_SANDBOX_TOOL_PATHS.`;
  }
  return undefined;
}

/**
 * Explains what to do about a missing program or package, in a sentence or two; undefined if none was missing. `installation`
 * is the last one of the run: if it failed, there is no point in calling install_package again as before.
 */
export function describeMissingProgram(failed: FailedCommand, installation?: FailedCommand): string | undefined {
  const { exitCode, stderr } = failed;
  if (exitCode === 0) return undefined;
  const program = describeProgram(failed) ?? describeOldToolchain(stderr);
  if (program !== undefined) return program;
  if (
    /Could not find .{1,200} in (locally installed gems|any of the sources)|bundler: command not found|Bundler::(GemNotFound|GitError)/.test(
      stderr,
    )
  ) {
    return "The gems of the Gemfile are not installed, and install_package cannot install gems. `setup: [bundle install]` in the worker's file or the repository's settings does.";
  }
  if (/ in offline mode and the artifact |No cached version of \S+ available for offline mode/.test(stderr)) {
    return "The dependencies or plugins of this project are not in the sandbox, and install_package cannot install those of Maven or Gradle.";
  }
  const distribution = /PackageNotFoundError: No package metadata was found for ([\w.-]{1,100})/.exec(stderr)?.[1];
  if (distribution) {
    return `${distribution} is not installed. If it is the project itself, \`setup: [pip install --editable .]\` in the worker's file or the repository's settings installs it; otherwise call install_package.`;
  }
  const isPackage =
    /\bENOTCACHED\b|could not determine executable to run|^sh: .{0,200}: not found$|\bNo module named ['"]?(pytest|black|ruff)\b|ModuleNotFoundError: No module named|Cannot find (module|package) '([^./#]|\/workspace\/(\S{1,500}\/)?node_modules\/)|disabled by GOPROXY=off|\bretry without `--offline`/m;
  if (!isPackage.test(stderr)) return undefined;
  if (!installation || installation.exitCode === 0)
    return "A package that it needs is not installed. Call install_package.";
  const missing = describeProgram(installation);
  return missing === undefined
    ? "A package that it needs is not installed: the last call of install_package failed. Remove the cause of that first."
    : `A package that it needs is not installed, and install_package cannot install it. ${missing}`;
}
