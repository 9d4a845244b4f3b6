import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { isArchive } from "./unsupported-requirement.ts";

export const managers = ["npm", "pip", "go", "cargo"] as const;
export type PackageManager = (typeof managers)[number];

export interface InstallRequest {
  manager: PackageManager;
  packages: readonly string[];
  dev: boolean;
  /** Files of the project's folder. */
  has(name: string): boolean;
}

export interface InstallCommand {
  command: string[];
  env: Record<string, string>;
  /** Hosts it needs. */
  hosts: string[];
  /** Files of the folder it is meant to change. */
  manifests: string[];
}

// A name and a version of the registry. Not a URL, a path, a git address or an option: those come from elsewhere, or run code.
const names: Record<PackageManager, RegExp> = {
  npm: /^(@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~_][\w.~-]*(@[\w.^~<>=*|+ -]+)?$/i,
  pip: /^[a-z0-9][\w.-]*(\[[\w,-]+\])?((==|>=|<=|~=|!=|<|>)[\w.*+!-]+(,(==|>=|<=|~=|!=|<|>)[\w.*+!-]+)*)?$/i,
  go: /^[a-z0-9][\w.-]*\.[a-z]+(\/[\w.~-]+)*(@[\w.+-]+)?$/i,
  cargo: /^[a-z][\w-]*(@[\w.^~<>=*+-]+)?$/i,
};

const hosts: Record<PackageManager, string[]> = {
  npm: ["registry.npmjs.org"],
  pip: ["pypi.org", "files.pythonhosted.org"],
  go: ["proxy.golang.org", "sum.golang.org"],
  cargo: ["index.crates.io", "static.crates.io"],
};

const manifests: Record<PackageManager, string[]> = {
  npm: ["package.json", "package-lock.json", "npm-shrinkwrap.json"],
  pip: [],
  go: ["go.mod", "go.sum"],
  cargo: ["Cargo.toml", "Cargo.lock"],
};

/** How packages are installed without any of them running a script. Throws a ToolError for what is no package of a registry. */
export function installCommand({ manager, packages, dev, has }: InstallRequest): InstallCommand {
  const strange = packages.find((name) => !names[manager].test(name) || isArchive(name) || name.length > 200);
  if (strange !== undefined) {
    throw new ToolError(`"${strange}" is not a package of a registry.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: "Give a name with an optional version; URLs, paths, git addresses and options are not taken.",
    });
  }
  return { ...commandFor({ manager, packages, dev, has }), hosts: hosts[manager], manifests: manifests[manager] };
}

function commandFor({ manager, packages, dev, has }: InstallRequest): Pick<InstallCommand, "command" | "env"> {
  const named = packages.length > 0;
  switch (manager) {
    case "npm": {
      const how = named || !has("package-lock.json") ? ["install", ...(dev ? ["--save-dev"] : [])] : ["ci"];
      // The repository's own .npmrc may name any program as git, which a dependency from git would start.
      // Nor does the configuration count that an earlier command left in the home folder.
      const own = ["--userconfig=/dev/null", "--globalconfig=/dev/null"];
      const options = ["--ignore-scripts", "--git=/bin/false", ...own, "--no-audit", "--no-fund"];
      return { command: ["npm", ...how, ...options, "--", ...packages], env: {} };
    }
    case "pip": {
      if (!named && !has("requirements.txt")) throw nothingToInstall("requirements.txt");
      const what = named ? ["--", ...packages] : ["-r", "requirements.txt"];
      // A source distribution runs its setup.py; a wheel runs nothing.
      const options = ["--user", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"];
      return {
        // Isolated: no module of the tree, and no .pth file that an earlier command left in the home folder, runs here.
        command: ["python3", "-I", "-m", "pip", "install", ...options, ...what],
        env: { PIP_BREAK_SYSTEM_PACKAGES: "1", PIP_CONFIG_FILE: "/dev/null" },
      };
    }
    case "go":
      return {
        command: named ? ["go", "get", ...packages] : ["go", "mod", "download"],
        env: { GOPROXY: "https://proxy.golang.org", GOVCS: "*:off", GOENV: "off", GOFLAGS: "", GOTOOLCHAIN: "local" },
      };
    case "cargo":
      return {
        command: named ? ["cargo", "add", ...(dev ? ["--dev"] : []), ...packages] : ["cargo", "fetch"],
        // The repository's own .cargo/config.toml may name any program for these.
        env: {
          RUSTC: "rustc",
          RUSTC_WRAPPER: "",
          RUSTC_WORKSPACE_WRAPPER: "",
          CARGO_NET_GIT_FETCH_WITH_CLI: "false",
          CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS: "cargo:token",
        },
      };
  }
}

/** The package manager the files of a folder speak of; undefined when none does. */
export async function findManager(workspace: Workspace, folder: string): Promise<PackageManager | undefined> {
  const files: [string, PackageManager][] = [
    ["package.json", "npm"],
    ["go.mod", "go"],
    ["Cargo.toml", "cargo"],
    ["requirements.txt", "pip"],
    ["pyproject.toml", "pip"],
    ["setup.py", "pip"],
  ];
  for (const [name, manager] of files) {
    if (await workspace.exists(folder === "" ? name : `${folder}/${name}`)) return manager;
  }
  return undefined;
}

function nothingToInstall(name: string): ToolError {
  return new ToolError(`There is no ${name}, so name the packages to install.`, { code: "INVALID_ARGUMENTS" });
}
