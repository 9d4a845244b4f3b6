import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chownSync, existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ToolError } from "#domain/errors.ts";
import type { Availability, ExecSession, Executor, SessionOptions } from "#executors/executor.ts";
import { defaultGuestLimits, type GuestLimits, guestSystem } from "./bubblewrap.ts";
import { removeAbandonedGroups } from "./control-group.ts";
import { runEscapeChecks } from "./escape-checks.ts";
import { GitObjectsCache } from "./git-objects-cache.ts";
import { removeTree } from "./guest-folder.ts";
import { OsSession, type SandboxResources } from "./os-session.ts";
import { type SandboxUser, sandboxUser } from "./prepared-process.ts";
import { seccompFilter } from "./seccomp-filter.ts";
import { SetupCache } from "./setup-cache.ts";

export interface OsExecutorOptions {
  /** The folder for the copies of trees. Default: the system's folder for temporary files. */
  directory?: string;
  /** The uid that commands run as if this process is root. No account may use it. */
  uid?: number;
  /** Additional read-only folders with programs, besides those in /usr. */
  toolPaths?: readonly string[];
  limits?: Partial<GuestLimits>;
  /** Registries with a private address that may be listed in `network`. */
  privateRegistries?: readonly string[];
  /** The dependencies that setups prepared. */
  setups?: SetupCache;
}

const requiredPrograms = ["/usr/bin/prlimit", "/bin/bash"];
const folderName = "golem-forge-";

/**
 * Runs real programs on this machine in bubblewrap, with separate namespaces, no network, filtered system calls and
 * hard limits.
 */
export function createOsExecutor(options: OsExecutorOptions = {}): Executor {
  const open = new Set<ExecSession>();
  let resources: SandboxResources | undefined;

  async function setUp(): Promise<string | undefined> {
    const missing = missingRequirement();
    if (missing) return missing;
    const who = sandboxUser(options.uid);
    if ("problem" in who) return who.problem;

    resources = prepare(options, who.user);
    const session = new OsSession(resources, () => undefined);
    try {
      return await runEscapeChecks((command) => session.probe(command));
    } finally {
      await session.close();
    }
  }

  return {
    tier: "os",
    async probe(): Promise<Availability> {
      let problem: string | undefined;
      try {
        problem = await setUp();
      } catch (error) {
        problem = `it cannot be set up: ${error instanceof Error ? error.message : error}`;
      }
      if (!problem) return { tier: "os", available: true, reason: "OS sandbox ready; escape checks passed." };
      if (resources) await removeTree(resources.directory);
      resources = undefined;
      return { tier: "os", available: false, reason: `no OS sandbox (${problem})` };
    },
    async open({ tools = [] }: SessionOptions = {}) {
      if (!resources) throw new ToolError("unavailable: no OS sandbox", { code: "UNAVAILABLE" });
      const toolPaths = [...tools, ...(options.toolPaths ?? [])];
      const system = tools.length > 0 ? guestSystem(toolPaths, resources.user) : resources.system;
      const session = new OsSession({ ...resources, system }, () => open.delete(session));
      open.add(session);
      return session;
    },
    async close() {
      await Promise.all([...open].map((session) => session.close()));
      if (resources) await removeTree(resources.directory);
      resources = undefined;
    },
  };
}

function missingRequirement(): string | undefined {
  if (process.platform !== "linux") return `it needs Linux, and this is ${process.platform}`;
  if (process.arch !== "x64" && process.arch !== "arm64") return `its system call filter does not know ${process.arch}`;
  const isInstalled = ["/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap"].some((path) => existsSync(path));
  if (!isInstalled) return "bubblewrap is not installed: `apt-get install bubblewrap`";
  const absent = requiredPrograms.find((path) => !existsSync(path));
  return absent ? `${absent} is missing` : undefined;
}

function prepare(options: OsExecutorOptions, user: SandboxUser): SandboxResources {
  const parent = options.directory ?? tmpdir();
  removeAbandoned(parent);
  removeAbandonedGroups();
  // The sandboxes' own folders are private; this one must let their users through. Fails if the name already exists.
  const directory = join(parent, `${folderName}${process.pid}-${randomBytes(8).toString("hex")}`);
  mkdirSync(directory, { mode: 0o711 });
  spreadFolders(directory);
  const etc = join(directory, "etc");
  for (const folder of ["", "alternatives", "ssl", "java"])
    mkdirSync(join(etc, folder), { mode: 0o755, recursive: true });
  const files: Record<string, string> = {
    passwd: "root:x:0:0::/root:/usr/sbin/nologin\ngolem:x:1000:1000::/home/golem:/bin/bash\n",
    group: "root:x:0:\ngolem:x:1000:\n",
    hosts: "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(etc, name), text, { mode: 0o644 });
  const filter = join(directory, "seccomp");
  writeFileSync(filter, seccompFilter(process.arch === "arm64" ? "arm64" : "x64"));
  return {
    directory,
    etc,
    filter,
    user,
    system: guestSystem(options.toolPaths ?? [], user),
    limits: { ...defaultGuestLimits, ...options.limits },
    privateRegistries: options.privateRegistries ?? [],
    objects: new GitObjectsCache(directory),
    setups: options.setups,
    canMountOverlays: canMountOverlays(directory, user),
  };
}

/** Returns true if an overlay can be mounted in a user namespace. Kernels before 5.11, and some containers, do not allow it. */
function canMountOverlays(directory: string, user: SandboxUser): boolean {
  const folder = join(directory, "overlay");
  const names = ["lower", "upper", "work", "target"].map((name) => join(folder, name));
  for (const path of [folder, ...names]) {
    mkdirSync(path, { mode: 0o755 });
    if (user) chownSync(path, user.uid, user.gid);
  }
  const [lower, upper, work, target = ""] = names;
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work},userxattr`;
  const mount = ["mount", "-t", "overlay", "overlay", "-o", options, "--", target];
  const { status } = spawnSync("/usr/bin/unshare", ["--user", "--map-root-user", "--mount", ...mount], {
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    stdio: "ignore",
    timeout: 5_000,
    ...user,
  });
  return status === 0;
}

/**
 * Opens the prepared dependencies. They are stored next to the copies of trees, so that files can be moved there, and
 * outlive this process.
 */
export function setupCacheFor(options: Pick<OsExecutorOptions, "directory">): SetupCache {
  return new SetupCache(join(options.directory ?? tmpdir(), `golem-setups-${process.getuid?.() ?? "user"}`));
}

/**
 * Spreads the sessions' folders over the disk. ext4 does not reuse an inode for minutes after its file was deleted, and
 * checks each such inode when it searches for a free one: after a few runs with thousands of files, creating a file
 * takes 20 times as long. Other file systems have neither the problem nor this attribute.
 */
function spreadFolders(directory: string): void {
  spawnSync("/usr/bin/chattr", ["+T", directory], { stdio: "ignore", timeout: 5_000 });
}

/** Removes the folders of processes that were killed before they could clean up. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = new RegExp(`^${folderName}(\\d+)-`).exec(name)?.[1];
    const path = join(parent, name);
    // Anyone can create a folder with that name here, and the owner of another's folder could change it during the
    // removal.
    const isOurs = pid && !existsSync(`/proc/${pid}`) && lstatSync(path).uid === process.getuid?.();
    if (isOurs) void removeTree(path).catch(() => undefined);
  }
}
