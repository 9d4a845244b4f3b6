import type { GuestLimits } from "./guest-limits.ts";
import type { GuestSystem } from "./guest-system.ts";

/** What all commands of a session have in common. */
export interface SandboxOptions {
  system: GuestSystem;
  /** Folders of this machine. */
  tree: string;
  home: string;
  etc: string;
  limits: GuestLimits;
}

export interface CommandOptions {
  /** A folder with `proxy.sock`, for a command that may reach the network. */
  proxy?: string;
  limits: GuestLimits;
  env: Record<string, string>;
  /** Inside the tree. */
  cwd: string;
  timeoutMs: number;
  command: readonly string[];
}

const guestTree = "/workspace";
const guestHome = "/home/golem";
export const guestProxy = "/run/golem";

/** File descriptors a launch hands over. */
export const launchFds = { seccomp: 3, start: 4, info: 5 };

/** The arguments of bubblewrap: five namespaces of its own, no capability, no network, nothing writable but its own folders. */
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
    ...system.mounts,
    ...["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"],
    // What the machine was booted with, and the keys of its users, are nobody's business in here.
    ...["cmdline", "keys"].flatMap((name) => ["--ro-bind-try", `${etc}/resolv.conf`, `/proc/${name}`]),
    ...["--dev", "/dev", "--size", megabytes(limits.temporaryMb / 4), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"],
    ...["--size", megabytes(limits.temporaryMb), "--tmpfs", "/tmp"],
    ...["--bind", tree, guestTree, "--bind", home, guestHome],
    ...["--seccomp", String(launchFds.seccomp), "--info-fd", String(launchFds.info)],
  ];
}

/** What follows for one command: where, with what, and the command itself. */
export function commandArguments(options: CommandOptions): string[] {
  const { proxy, env, cwd, command } = options;
  return [
    ...environment(env),
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
    NO_COLOR: "1",
    PYTHONDONTWRITEBYTECODE: "1",
    GOPATH: `${guestHome}/go`,
    GOTOOLCHAIN: "local",
    CARGO_HOME: `${guestHome}/.cargo`,
    npm_config_update_notifier: "false",
    npm_config_fund: "false",
    npm_config_audit: "false",
    // Without these, programs ask a registry they cannot reach again and again, until the deadline.
    npm_config_offline: "true",
    CARGO_NET_OFFLINE: "true",
    PIP_NO_INDEX: "1",
  };
}

function environment(variables: Record<string, string>): string[] {
  return Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
}

function resourceLimits({ limits, timeoutMs }: CommandOptions): string[] {
  const cpuSeconds = Math.ceil(timeoutMs / 1_000) * 8 + 5;
  return [
    "/usr/bin/prlimit",
    `--data=${limits.memoryMb * 1_048_576}`,
    `--nproc=${limits.processes}`,
    `--nofile=${limits.openFiles}`,
    `--fsize=${Math.ceil(limits.diskMb / 4) * 1_048_576}`,
    `--cpu=${cpuSeconds}`,
    "--core=0",
    "--",
  ];
}
