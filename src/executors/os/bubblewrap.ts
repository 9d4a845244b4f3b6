import { existsSync, lstatSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { dirname, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gitSafetyEnvironment } from "#executors/executor.ts";
import { packageFolder } from "#executors/own-files.ts";

/** The limits of one command. When it exceeds one, its whole process tree is killed. */
export interface GuestLimits {
  /** All processes together. Each process also has it as its RLIMIT_DATA. */
  memoryMb: number;
  processes: number;
  openFiles: number;
  /** The tree and the home folder together. */
  diskMb: number;
  diskFiles: number;
  /** The changed files, not counting ignored ones. Above it, all changes of the command are discarded. */
  changedFiles: number;
  /** The size of /tmp; /dev/shm gets a quarter of it. */
  temporaryMb: number;
  /** Bytes of output, kept or not. */
  outputBytes: number;
}

export const defaultGuestLimits: GuestLimits = {
  memoryMb: 2_048,
  processes: 256,
  openFiles: 4_096,
  diskMb: 8_192,
  diskFiles: 400_000,
  changedFiles: 10_000,
  temporaryMb: 256,
  outputBytes: 64_000_000,
};

/** The options that all commands of a session share. */
export interface SandboxOptions {
  system: GuestSystem;
  /** Folders on the host. */
  tree: string;
  home: string;
  etc: string;
  limits: GuestLimits;
}

export interface CommandOptions {
  /** A folder with `proxy.sock`, for a command with network access. */
  proxy?: string;
  /** Additional mounts, as arguments of bubblewrap. */
  mounts?: readonly string[];
  limits: GuestLimits;
  /** True if a control group limits the memory of all processes together. */
  hasControlGroup: boolean;
  env: Record<string, string>;
  /** Relative to the tree. */
  cwd: string;
  timeoutMs: number;
  command: readonly string[];
}

export const guestTree = "/workspace";
export const guestHome = "/home/golem";
/** The path of the git objects in the sandbox. */
export const guestObjects = "/run/git-objects";
export const guestProxy = "/run/golem";

/** The file descriptors passed to a launch. */
export const launchFds = { seccomp: 3, start: 4, info: 5 };

/** Returns bubblewrap's arguments: no capabilities, no network, and only the session's folders are writable. */
export function bubblewrap({ system, tree, home, etc, limits }: SandboxOptions): string[] {
  const megabytes = (count: number) => String(count * 1_048_576);
  const namespaces = ["user", "pid", "ipc", "uts", "net"].map((name) => `--unshare-${name}`);
  return [
    ...namespaces,
    "--unshare-cgroup-try",
    "--disable-userns",
    ...["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"],
    ...["--die-with-parent", "--new-session", "--clearenv"],
    ...environment(standardEnvironment(system)),
    ...["--ro-bind", etc, "/etc"],
    // Before the programs of this machine, which may be in it.
    ...["--size", megabytes(limits.temporaryMb), "--tmpfs", "/tmp"],
    ...system.mounts,
    ...["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"],
    // Hides the kernel's command line and the users' keys.
    ...["cmdline", "keys"].flatMap((name) => ["--ro-bind-try", `${etc}/resolv.conf`, `/proc/${name}`]),
    ...["--dev", "/dev", "--size", megabytes(limits.temporaryMb / 4), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"],
    ...["--bind", tree, guestTree, "--bind", home, guestHome],
    ...["--seccomp", String(launchFds.seccomp), "--info-fd", String(launchFds.info)],
  ];
}

/** Returns the further arguments for one command: its environment, its folder and the command itself. */
export function commandArguments(options: CommandOptions): string[] {
  const { proxy, mounts = [], env, cwd, command } = options;
  return [
    ...environment(env),
    ...mounts,
    ...(proxy ? ["--ro-bind", proxy, guestProxy] : []),
    ...["--remount-ro", "/", "--chdir", cwd === "" ? guestTree : `${guestTree}/${cwd}`],
    "--",
    ...resourceLimits(options),
    ...command,
  ];
}

function standardEnvironment({ path }: GuestSystem): Record<string, string> {
  return {
    PATH: path,
    HOME: guestHome,
    USER: "golem",
    LANG: "C.UTF-8",
    TMPDIR: "/tmp",
    CI: "true",
    PYTHONDONTWRITEBYTECODE: "1",
    ...gitSafetyEnvironment,
    POETRY_VIRTUALENVS_IN_PROJECT: "1",
    COREPACK_ENABLE_PROJECT_SPEC: "0",
    COREPACK_ENABLE_STRICT: "0",
    // Otherwise pnpm 11 downloads and starts the version that the repository names, and installs packages before a script.
    pnpm_config_pm_on_fail: "ignore",
    pnpm_config_verify_deps_before_run: "false",
    GOPATH: `${guestHome}/go`,
    GOTOOLCHAIN: "local",
    GOPROXY: "off",
    CARGO_HOME: `${guestHome}/.cargo`,
    npm_config_update_notifier: "false",
    npm_config_fund: "false",
    npm_config_audit: "false",
    // Otherwise programs retry a registry that they cannot reach until the deadline.
    npm_config_offline: "true",
    CARGO_NET_OFFLINE: "true",
    PIP_NO_INDEX: "1",
  };
}

function environment(variables: Record<string, string>): string[] {
  return Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
}

/**
 * Programs reserve more memory than they use: V8 for each of Yarn's threads, and parsers of JavaScript 6 GB at once. Where
 * a control group limits what is used, a single process may reserve this many times as much.
 */
const reservedTimes = 4;

function resourceLimits({ limits, timeoutMs, hasControlGroup }: CommandOptions): string[] {
  const cpuSeconds = Math.ceil(timeoutMs / 1_000) * 8 + 5;
  const dataMb = limits.memoryMb * (hasControlGroup ? reservedTimes : 1);
  return [
    "/usr/bin/prlimit",
    `--data=${dataMb * 1_048_576}`,
    `--nproc=${limits.processes}`,
    `--nofile=${limits.openFiles}`,
    `--fsize=${Math.ceil(limits.diskMb / 4) * 1_048_576}`,
    `--cpu=${cpuSeconds}`,
    "--core=0",
    "--",
  ];
}

// Not all of /usr: an image may keep an application and its secrets in /usr/src or /usr/local.
const usrFolders = ["bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include"].flatMap((name) => [
  `/usr/${name}`,
  `/usr/local/${name}`,
]);
const moreFolders = ["/usr/local/go", "/usr/local/cargo", "/usr/local/rustup"];

/** The folders in /etc that programs need. Those of Debian's JDKs have their version in the name. */
export function etcFolders(): string[] {
  return ["alternatives", "ssl", "java", ...readdirSync("/etc").filter((name) => /^java-\d+-openjdk$/.test(name))];
}

const rootFolders = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"];
const guestNode = "/opt/node/bin";

/** The read-only part of the sandbox: programs and libraries of this machine, without user data. */
export interface GuestSystem {
  /** Arguments of bubblewrap. */
  mounts: string[];
  path: string;
}

/**
 * `toolPaths` are additional folders with programs, such as a toolchain in /opt. Their `bin` comes first in the PATH.
 * Folders that the sandbox user cannot access are left out, because bubblewrap would fail to start with them.
 */
export function guestSystem(given: readonly string[], user: { uid: number } | undefined): GuestSystem {
  // All of /tmp would take the place of the sandbox's own, and show other programs' files.
  const toolPaths = given.filter((path) => resolve(path) !== "/tmp" && isReachable(resolve(path), user));
  const etc = etcFolders().map((name) => `/etc/${name}`);
  const bound = [...usrFolders, ...moreFolders, ...etc, ...toolPaths.map((path) => resolve(path))].filter((path) =>
    existsSync(path),
  );
  const mounts = bound.flatMap((path) => ["--ro-bind", path, path]);
  for (const path of rootFolders) {
    if (!existsSync(path)) continue;
    if (lstatSync(path).isSymbolicLink()) mounts.push("--symlink", readlinkSync(path), path);
    else mounts.push("--ro-bind", path, path);
  }
  const nodeFolder = dirname(process.execPath);
  if (!bound.some((path) => isInside(nodeFolder, path))) {
    mounts.push("--ro-bind", nodeFolder, guestNode);
    // npm is installed next to node, which finds it by a relative link.
    const npm = resolve(nodeFolder, "../lib/node_modules/npm");
    if (existsSync(npm)) mounts.push("--ro-bind", npm, "/opt/node/lib/node_modules/npm");
  }
  for (const path of secretFolders()) {
    if (bound.some((folder) => isInside(path, folder))) mounts.push("--tmpfs", path);
  }

  const tools = toolPaths.flatMap((path) => [resolve(path, "bin"), resolve(path)]);
  const path = [guestNode, ...tools, "/usr/local/go/bin", "/usr/local/cargo/bin", "/usr/local/bin", "/usr/bin", "/bin"];
  return { mounts, path: path.filter((folder) => folder === guestNode || existsSync(folder)).join(":") };
}

/** Returns the folders of this program and its settings, which must be hidden if they are inside a visible folder. */
function secretFolders(): string[] {
  return [...new Set([fileURLToPath(packageFolder).replace(/\/$/, ""), process.cwd()])];
}

/** Returns true if a user can access all folders of a path. Checks only the permissions of the owner and of others. */
function isReachable(path: string, user: { uid: number } | undefined): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return false;
  const mayEnter = user === undefined || (found.mode & 0o001) !== 0 || (found.uid === user.uid && found.mode & 0o100);
  return Boolean(mayEnter) && (path === dirname(path) || isReachable(dirname(path), user));
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep);
}
