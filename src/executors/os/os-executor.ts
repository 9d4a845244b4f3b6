import { spawnSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { deferred } from "#domain/async-work.ts";
import { messageOf, ToolError } from "#domain/errors.ts";
import type { Availability, ExecSession, Executor, SessionOptions } from "#executors/executor.ts";
import { firstLine } from "#text/truncate.ts";
import { defaultGuestLimits, etcFolders, type GuestLimits, guestSystem } from "./bubblewrap.ts";
import { removeAbandonedGroups } from "./control-group.ts";
import { GitObjectsCache } from "./git-objects-cache.ts";
import { removeTree } from "./guest-folder.ts";
import { type Launched, type SandboxUser, sandboxUser } from "./launch.ts";
import { OsSession, type SandboxResources } from "./os-session.ts";
import { seccompFilter } from "./seccomp-filter.ts";
import { SetupCache } from "./setup-cache.ts";
import { SpareTrees } from "./spare-trees.ts";

export interface OsExecutorOptions {
  /** The folder for the copies of trees. Default: the system's folder for temporary files. */
  directory?: string;
  /** The uid that commands run as if this process is root. No account may use it. */
  uid?: number;
  /** Read-only folders with programs, in addition to those in /usr. */
  toolPaths?: readonly string[];
  limits?: Partial<GuestLimits>;
  /** Registries with a private address that may be listed in `network`. */
  privateRegistries?: readonly string[];
  /** The dependencies that setups prepared. */
  setups?: SetupCache;
}

const requiredPrograms = ["/usr/bin/prlimit", "/bin/bash"];
const folderName = "golem-forge-";

/** Runs programs in bubblewrap: own namespaces, no network, filtered system calls, hard limits. */
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
    await using _ = deferred(() => session.close());
    return await runEscapeChecks((command) => session.probe(command));
  }

  return {
    tier: "os",
    async probe(): Promise<Availability> {
      let problem: string | undefined;
      try {
        problem = await setUp();
      } catch (error) {
        problem = `it cannot be set up: ${messageOf(error)}`;
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
      await resources?.spares.idle();
      if (resources) await removeTree(resources.directory);
      resources = undefined;
    },
  };
}

function missingRequirement(): string | undefined {
  if (process.platform !== "linux") return `it needs Linux, and this is ${process.platform}`;
  if (process.arch !== "x64" && process.arch !== "arm64")
    return `its system call filter does not support ${process.arch}`;
  const isInstalled = ["/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap"].some((path) => existsSync(path));
  if (!isInstalled) return "bubblewrap is not installed: `apt-get install bubblewrap`";
  const absent = requiredPrograms.find((path) => !existsSync(path));
  return absent ? `${absent} is missing` : undefined;
}

function prepare(options: OsExecutorOptions, user: SandboxUser): SandboxResources {
  const parent = options.directory ?? tmpdir();
  mkdirSync(parent, { recursive: true, mode: 0o711 });
  removeAbandoned(parent);
  removeAbandonedGroups();
  // The sandboxes' own folders are private; this one must let their users through. Fails if the name already exists.
  const directory = join(parent, `${folderName}${process.pid}-${randomBytes(8).toString("hex")}`);
  mkdirSync(directory, { mode: 0o711 });
  spreadFolders(directory);
  const etc = join(directory, "etc");
  for (const folder of ["", ...etcFolders(), "maven/logging"])
    mkdirSync(join(etc, folder), { mode: 0o755, recursive: true });
  const files: Record<string, string> = {
    passwd: "root:x:0:0::/root:/usr/sbin/nologin\ngolem:x:1000:1000::/home/golem:/bin/bash\n",
    group: "root:x:0:\ngolem:x:1000:\n",
    hosts: "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
  };
  // Debian's Maven does not start without these. Its other settings may contain passwords.
  for (const name of ["maven/m2.conf", "maven/logging/simplelogger.properties"])
    if (existsSync(`/etc/${name}`)) files[name] = readFileSync(`/etc/${name}`, "utf8");
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
    spares: new SpareTrees({ directory, user }),
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

/** Opens the prepared dependencies, next to the copies of trees, so that files can be moved between the two. */
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

const EscapeReport = z.record(z.string(), z.boolean());

/** The checks by name, with the meaning of a failure. */
const meanings: Record<string, string> = {
  user: "the guest is root to the kernel",
  capabilities: "the guest has capabilities",
  privileges: "the guest can gain privileges",
  filter: "system calls are not filtered",
  settings: "kernel settings can be opened for writing",
  network: "the guest reaches this machine's network",
  interfaces: "the guest sees network interfaces",
  environment: "this program's environment is visible",
  outside: "files outside the sandbox can be written",
  program: "this program's own files are visible",
  namespaces: "the guest can create namespaces",
  memory: "memory is not limited",
  processes: "other processes are visible",
  descriptors: "file descriptors of this program are open",
};

// Opens files for writing but never writes. It runs inside the sandbox, so it is JavaScript without dependencies.
const script = String.raw`
const fs = require("node:fs");
const net = require("node:net");
const { spawnSync } = require("node:child_process");
const [port, marker, program, descriptors] = process.argv.slice(1);
const text = (path) => { try { return fs.readFileSync(path, "utf8"); } catch { return ""; } };
const status = text("/proc/self/status");
const field = (name) => (new RegExp("^" + name + ":\\s*(\\S+)", "m").exec(status) || [])[1];
const opens = (path, flags) => { try { fs.closeSync(fs.openSync(path, flags)); return true; } catch { return false; } };
const settings = ["kernel/core_pattern", "vm/drop_caches", "vm/overcommit_memory", "kernel/modprobe"];
const report = {
  // If root's files appear to be this user's, this user is root to the kernel, whatever uid it sees.
  user: fs.statSync("/proc/sys/kernel/core_pattern").uid !== process.getuid(),
  capabilities: /^0+$/.test(field("CapEff") || "") && /^0+$/.test(field("CapPrm") || ""),
  privileges: field("NoNewPrivs") === "1",
  filter: field("Seccomp") === "2",
  settings: !settings.some((name) => opens("/proc/sys/" + name, "r+")) && !opens("/proc/sysrq-trigger", "r+"),
  interfaces: text("/proc/net/dev").trim().split("\n").slice(2).every((line) => line.trim().startsWith("lo:")),
  environment: !JSON.stringify(process.env).includes(marker) && !text("/proc/1/environ").includes(marker),
  outside: ["/canary", "/etc/canary", "/usr/bin/canary", "/dev/canary", "/opt/canary"].every((path) => !opens(path, "wx")),
  program: !fs.existsSync(program),
  namespaces: spawnSync("unshare", ["--user", "true"]).status !== 0,
  memory: /^Max data size\s+\d+/m.test(text("/proc/self/limits")),
  processes: fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).length < 10,
  descriptors: descriptors.trim().split(" ").every((fd) => ["0", "1", "2"].includes(fd)),
};
const socket = net.connect({ port: Number(port), host: "127.0.0.1", timeout: 1000 });
const end = (reached) => { socket.destroy(); console.log(JSON.stringify({ ...report, network: !reached })); };
socket.on("connect", () => end(true));
socket.on("error", () => end(false));
socket.on("timeout", () => end(false));
`;

/** Tries to escape from inside the sandbox. Resolves to a sentence about the gaps it found; undefined if there are none. */
export async function runEscapeChecks(run: (command: string[]) => Promise<Launched>): Promise<string | undefined> {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const marker = `canary-${randomUUID()}`;
  process.env.GOLEM_FORGE_CANARY = marker;
  try {
    const program = fileURLToPath(import.meta.url);
    const { port } = server.address() as AddressInfo;
    // The shell itself opens the folder to list it, so only descriptors that still exist afterwards count.
    const inner =
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
      'open=; for fd in /proc/$$/fd/*; do [ -L "$fd" ] && open="$open ${fd##*/}"; done; exec node -e "$0" "$@" "$open"';
    const { stdout, stderr, exitCode } = await run(["bash", "-c", inner, script, String(port), marker, program]);

    const report = parseReport(stdout);
    if (exitCode !== 0 || !report) return `it does not start: ${firstLine(stderr) || `exit code ${exitCode}`}`;

    const failed = Object.keys(meanings).filter((name) => report[name] !== true);
    return failed.length > 0 ? `escape checks failed: ${failed.map((name) => meanings[name]).join(", ")}` : undefined;
  } finally {
    delete process.env.GOLEM_FORGE_CANARY;
    server.close();
  }
}

function parseReport(stdout: string): Record<string, boolean> | undefined {
  try {
    return EscapeReport.parse(JSON.parse(stdout));
  } catch {
    return undefined;
  }
}
