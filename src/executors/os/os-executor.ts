import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chownSync, existsSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ToolError } from "#domain/errors.ts";
import { SerialQueue } from "#domain/serial-queue.ts";
import type {
  Availability,
  ExecRequest,
  ExecResult,
  ExecSession,
  Executor,
  TreeChanges,
  TreeSource,
} from "#executors/executor.ts";
import { createTreeMirror } from "#executors/tree-mirror.ts";
import { validateChanges } from "#executors/validate-changes.ts";
import { bubblewrap, commandArguments } from "./bubblewrap.ts";
import { controlGroup, removeAbandonedGroups } from "./control-group.ts";
import { runEscapeChecks } from "./escape-checks.ts";
import { guestFolder, removeTree } from "./guest-folder.ts";
import { defaultGuestLimits, type GuestLimits } from "./guest-limits.ts";
import { type GuestSystem, guestSystem } from "./guest-system.ts";
import { type Launched, launch } from "./launch.ts";
import { type PreparedProcess, prepareProcess } from "./prepared-process.ts";
import { proxiedCommand } from "./proxied-command.ts";
import { startRegistryProxy } from "./registry-proxy.ts";
import { type SandboxUser, sandboxUser } from "./sandbox-user.ts";
import { seccompFilter } from "./seccomp-filter.ts";
import { startWatchdog } from "./watchdog.ts";

export interface OsExecutorOptions {
  /** Where copies of trees lie. Default: the system's folder for temporary files. */
  directory?: string;
  /** The uid guests run as when this process is root. It must be nobody else's. */
  uid?: number;
  /** Read-only folders of programs beside those of /usr. */
  toolPaths?: readonly string[];
  limits?: Partial<GuestLimits>;
  /** Registries with a private address that `network` may name. */
  privateRegistries?: readonly string[];
}

const treeLimits = { files: 200_000, bytes: 1_000_000_000 };
const requiredPrograms = ["/usr/bin/prlimit", "/bin/bash"];
const folderName = "golem-forge-";
/** From one command until a process is made ready for the next. */
const prepareDelayMs = 20;

/** Everything sessions share, once the sandbox was found to hold. */
interface SandboxResources {
  directory: string;
  etc: string;
  filter: string;
  user: SandboxUser;
  system: GuestSystem;
  limits: GuestLimits;
  privateRegistries: readonly string[];
}

/** Runs real programs in bubblewrap, on this machine's kernel: own namespaces, no network, filtered system calls, hard limits. */
export function createOsExecutor(options: OsExecutorOptions = {}): Executor {
  const open = new Set<ExecSession>();
  let resources: SandboxResources | undefined;

  async function setUp(): Promise<string | undefined> {
    const missing = missingRequirement();
    if (missing) return missing;
    const who = sandboxUser(options.uid);
    if ("problem" in who) return who.problem;

    resources = prepare(options, who.user);
    const session = createSession(resources, () => undefined);
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
    async open() {
      if (!resources) throw new ToolError("unavailable: no OS sandbox", { code: "UNAVAILABLE" });
      const session = createSession(resources, () => open.delete(session));
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
  // Guests' own folders are closed; this one must let them through to theirs. Fails where somebody has the name already.
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
    system: guestSystem(options.toolPaths ?? []),
    limits: { ...defaultGuestLimits, ...options.limits },
    privateRegistries: options.privateRegistries ?? [],
  };
}

/**
 * ext4 gives no number of a file again for minutes after it was deleted, and looks at each of those before it finds one
 * that is free: after a few runs of some thousand files a new file takes twenty times as long. With this mark each
 * session's folder gets a part of the disk of its own. Other file systems have neither the fault nor the mark.
 */
function spreadFolders(directory: string): void {
  spawnSync("/usr/bin/chattr", ["+T", directory], { stdio: "ignore", timeout: 5_000 });
}

/** Folders of processes that were killed before they could tidy up. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = new RegExp(`^${folderName}(\\d+)-`).exec(name)?.[1];
    const path = join(parent, name);
    // Anybody may make a folder of that name here; one that is not ours could be changed under our hands.
    const isOurs = pid && !existsSync(`/proc/${pid}`) && lstatSync(path).uid === process.getuid?.();
    if (isOurs) void removeTree(path).catch(() => undefined);
  }
}

interface OsSession extends ExecSession {
  /** Runs a command without any tree. */
  probe(command: string[]): Promise<Launched>;
}

function createSession(ground: SandboxResources, onClose: () => void): OsSession {
  const { user, limits } = ground;
  const name = randomBytes(8).toString("hex");
  const folder = join(ground.directory, name);
  const tree = join(folder, "tree");
  const home = join(folder, "home");
  mkdirSync(folder, { mode: 0o711 });
  function makeOwn(path: string): void {
    mkdirSync(path, { mode: 0o700 });
    if (user) chownSync(path, user.uid, user.gid);
  }
  for (const path of [tree, home]) makeOwn(path);
  const guest = guestFolder(tree, user, { changes: limits.changedFiles });
  const mirror = createTreeMirror(treeLimits);
  const stop = new AbortController();
  const queue = new SerialQueue();
  let commands = 0;
  let clearing: Promise<void> = Promise.resolve();
  let ready = prepare();
  let preparing: NodeJS.Timeout | undefined;

  function prepare(): PreparedProcess {
    commands += 1;
    const args = bubblewrap({ system: ground.system, tree, home, etc: ground.etc, limits });
    const group = user ? controlGroup(`${name}-${commands}`, limits) : undefined;
    return prepareProcess({ args, filter: ground.filter, user, group });
  }

  /** The process for this command. Where the one that stood by was ended, another one. */
  async function takeReady(): Promise<PreparedProcess> {
    clearTimeout(preparing);
    if (!ready.isWaiting) {
      await ready.discard();
      ready = prepare();
    }
    return ready;
  }

  /** Starting a process holds up everyone else here, who may be ending a command in this very moment. */
  function prepareSoon(): void {
    preparing = setTimeout(prepareNext, prepareDelayMs).unref();
  }

  function prepareNext(): void {
    try {
      if (!ready.isWaiting && !stop.signal.aborted) ready = prepare();
    } catch {
      // The next command tries again, and says why.
    }
  }

  async function run(request: Omit<ExecRequest, "network">, proxy?: string): Promise<Launched> {
    const { timeoutMs, outputBytes } = request;
    const by = await takeReady();
    try {
      return await launch(by, {
        args: commandArguments({
          proxy,
          limits,
          env: request.env ?? {},
          cwd: request.cwd ?? "",
          timeoutMs,
          command: proxy ? proxiedCommand(request.command) : request.command,
        }),
        stdin: request.stdin,
        timeoutMs,
        outputBytes,
        rawOutputBytes: limits.outputBytes,
        signal: request.signal ? AbortSignal.any([request.signal, stop.signal]) : stop.signal,
        onOutput: request.onOutput,
        watch: (pid, onExcess) => startWatchdog({ pid, folders: [tree, home], limits, group: by.group }, onExcess),
      });
    } finally {
      await by.discard();
    }
  }

  async function runWithNetwork(request: ExecRequest): Promise<Launched> {
    if (!request.network?.length) return run(request);
    const proxyFolder = join(folder, "proxy");
    mkdirSync(proxyFolder, { mode: 0o711, recursive: true });
    const socket = join(proxyFolder, "proxy.sock");
    rmSync(socket, { force: true });
    const { privateRegistries: privateHosts } = ground;
    const proxy = await startRegistryProxy({ socket, allowed: request.network, privateHosts });
    try {
      return await run(request, proxyFolder);
    } finally {
      await proxy.close();
    }
  }

  /** What a command left is too much to look through, so none of it is kept, nor what was kept aside before. */
  function startOver(): TreeChanges {
    const left = join(folder, `left-${commands}`);
    renameSync(tree, left);
    makeOwn(tree);
    mirror.reset();
    guest.reset();
    clearing = Promise.all([clearing, removeTree(left)]).then(() => undefined);
    // Whoever closes the session hears of it.
    clearing.catch(() => undefined);
    const reason = "holds more changed files than are looked through, so nothing of this command was taken over";
    return { written: [], deleted: [], rejected: [{ path: "the tree", reason }], ignoredFiles: 0 };
  }

  async function exec(source: TreeSource, request: ExecRequest): Promise<ExecResult> {
    if (stop.signal.aborted) throw new ToolError("The sandbox is closed.", { code: "UNAVAILABLE" });
    await guest.write(await mirror.nextDelta(source));
    const known = new Set(mirror.paths);
    try {
      const launched = await runWithNetwork(request);
      const proposed = await guest.collect({ isIgnored: mirror.isIgnored, known });
      if (!proposed) return { tier: "os", ...launched, changes: startOver() };
      mirror.markStale(proposed.map(({ path }) => path).filter((path) => known.has(path) || !mirror.isIgnored(path)));
      const resolve = (path: string) => source.resolve(path);
      const changes = await validateChanges(proposed, { resolve, known, isIgnored: mirror.isIgnored });
      return { tier: "os", ...launched, changes };
    } catch (error) {
      // Half of a command's changes are none: the next one starts from the workspace again.
      const left = await guest.collect({ isIgnored: mirror.isIgnored, known }).catch(() => undefined);
      if (left) mirror.markStale(left.map(({ path }) => path));
      else startOver();
      throw error;
    }
  }

  return {
    tier: "os",
    probe: (command) => run({ command, timeoutMs: 10_000, outputBytes: 20_000 }),
    exec: (source, request) => queue.run(() => exec(source, request).finally(prepareSoon)),
    async close() {
      stop.abort();
      await queue.idle();
      clearTimeout(preparing);
      await ready.discard();
      await clearing;
      await removeTree(folder);
      onClose();
    },
  };
}
