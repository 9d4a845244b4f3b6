import { createHash, randomBytes } from "node:crypto";
import { chownSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { deferred, SerialQueue } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { GitFolder } from "#domain/workspace.ts";
import type {
  ExecRequest,
  ExecResult,
  ExecSession,
  IsolatedFolder,
  TreeChanges,
  TreeSource,
} from "#executors/executor.ts";
import { createTreeMirror, ignoredFiles, type TreeMirror } from "#executors/tree-mirror.ts";
import { validateChanges } from "#executors/validate-changes.ts";
import {
  bubblewrap,
  commandArguments,
  type GuestLimits,
  type GuestSystem,
  guestHome,
  guestObjects,
  guestTree,
} from "./bubblewrap.ts";
import { controlGroup } from "./control-group.ts";
import type { GitObjectsCache } from "./git-objects-cache.ts";
import { GuestFolder, removeTree } from "./guest-folder.ts";
import {
  type Launched,
  launch,
  type OverlayMount,
  type PreparedProcess,
  prepareProcess,
  type SandboxUser,
} from "./launch.ts";
import { mergeFolder } from "./merge-folder.ts";
import { startWatchdog } from "./process-tree.ts";
import { proxiedCommand, startRegistryProxy } from "./registry-proxy.ts";
import { dependencyFolders, homeFolders, isNodeModules, type SetupCache, writableFolders } from "./setup-cache.ts";
import { type SpareTrees, treeLimits } from "./spare-trees.ts";

export interface SandboxResources {
  directory: string;
  etc: string;
  filter: string;
  user: SandboxUser;
  system: GuestSystem;
  limits: GuestLimits;
  privateRegistries: readonly string[];
  objects: GitObjectsCache;
  spares: SpareTrees;
  setups: SetupCache | undefined;
  canMountOverlays: boolean;
}

interface CommandFolders {
  tree: string;
  home: string;
}

interface CommandMounts {
  folders?: CommandFolders;
  /** Arguments of bubblewrap. */
  mounts?: readonly string[];
  overlays?: readonly OverlayMount[];
}

/** Of the home folder of an isolated command. */
const temporaryFolder = ".tmp";
/** The delay after a command before the process for the next one is started. */
const prepareDelayMs = 20;
/** Keeps pnpm from downloading the version a repository names. npm would warn about these as environment variables. */
const pnpmSettings = "manage-package-manager-versions=false\npackage-manager-strict=false\n";
/** The size in megabytes of a writable folder inside prepared dependencies. */
const writableMb = 64;

/** A run's sandbox: its tree and its home folder. Commands run one at a time. */
export class OsSession implements ExecSession {
  readonly tier = "os";
  readonly #resources: SandboxResources;
  readonly #onClose: () => void;
  readonly #name = randomBytes(8).toString("hex");
  readonly #folder: string;
  readonly #folders: CommandFolders;
  readonly #guest: GuestFolder;
  readonly #homeFolder: GuestFolder;
  #mirror: TreeMirror = createTreeMirror(treeLimits, { keepLinks: true });
  readonly #stop = new AbortController();
  readonly #queue = new SerialQueue();
  #commands = 0;
  #clearing: Promise<void> = Promise.resolve();
  #prepared: PreparedProcess;
  #preparing: NodeJS.Timeout | undefined;
  /** The commit whose objects `.git` contains, and the folder with them. */
  #git: { commit: string; objects: string } | undefined;
  #hasGitFolder = false;
  /** The folders of the tree and of the home folder that were installed in this session. */
  readonly #installed = { tree: new Set<string>(), home: new Set<string>() };

  constructor(resources: SandboxResources, onClose: () => void) {
    this.#resources = resources;
    this.#onClose = onClose;
    this.#folder = join(resources.directory, this.#name);
    mkdirSync(this.#folder, { mode: 0o711 });
    this.#folders = this.#makeFolders(this.#folder);
    this.#writeSettings(this.#folders);
    const { user, limits } = resources;
    this.#guest = new GuestFolder(this.#folders.tree, user, { changes: limits.changedFiles });
    this.#homeFolder = new GuestFolder(this.#folders.home, user);
    this.#prepared = this.#prepare(this.#folders);
  }

  /** Runs a command without a tree. */
  probe(command: string[]): Promise<Launched> {
    return this.#run({ command, timeoutMs: 10_000, outputBytes: 20_000 });
  }

  exec(source: TreeSource, request: ExecRequest): Promise<ExecResult> {
    const { isolated } = request;
    const exec = isolated
      ? () => this.#execIsolated(source, request, isolated)
      : () => this.#exec(source, request).finally(() => this.#prepareSoon(source));
    return this.#queue.run(exec);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#queue.idle();
    clearTimeout(this.#preparing);
    await this.#prepared.discard();
    await this.#clearing;
    await removeTree(this.#folder);
    if (this.#git) await this.#resources.objects.release(this.#git.commit);
    this.#onClose();
  }

  async #exec(source: TreeSource, request: ExecRequest): Promise<ExecResult> {
    await this.#bring(source);
    const { isIgnored } = this.#mirror;
    const known = new Set(this.#mirror.paths);
    try {
      const setup = this.#setupMounts(request.setup);
      const mounts = [...this.#gitMounts(), ...setup.mounts];
      const launched = await this.#runWithNetwork(request, { mounts, overlays: setup.overlays });
      const proposed = await this.#guest.collect({ isIgnored, known });
      if (!proposed) return { tier: "os", ...launched, changes: this.#startOver() };
      this.#mirror.markStale(proposed.map(({ path }) => path).filter((path) => known.has(path) || !isIgnored(path)));
      const resolve = (path: string) => source.resolve(path);
      const changes = await validateChanges(proposed, { resolve, known, isIgnored });
      return { tier: "os", ...launched, changes };
    } catch (error) {
      // The partial changes of a failed command are dropped: the next command starts from the workspace again.
      const left = await this.#guest.collect({ isIgnored, known }).catch(() => undefined);
      if (left) this.#mirror.markStale(left.map(({ path }) => path));
      else this.#startOver();
      throw error;
    }
  }

  /** Runs a command in an empty folder with an empty home, and keeps what it installed if it succeeds. */
  async #execIsolated(source: TreeSource, request: ExecRequest, isolated: IsolatedFolder): Promise<ExecResult> {
    await this.#bring(source);
    this.#commands += 1;
    const folder = join(this.#folder, `isolated-${this.#commands}`);
    mkdirSync(folder, { mode: 0o711 });
    await using _ = deferred(() => removeTree(folder));
    const folders = this.#makeFolders(folder);
    const guest = new GuestFolder(folders.tree, this.#resources.user);
    await guest.write({ write: [...isolated.files], remove: [] });
    if (isolated.keepDependencies) {
      this.#writeSettings(folders);
      await this.#writeGitFolder(guest, await source.gitFolder?.());
    }
    const mounts = isolated.keepDependencies ? this.#gitMounts() : [];
    // Package managers unpack more than the memory that /tmp may take.
    this.#makeOwn(join(folders.home, temporaryFolder));
    const env = { ...request.env, TMPDIR: `${guestHome}/${temporaryFolder}` };
    const launched = await this.#runWithNetwork({ ...request, env }, { folders, mounts });
    if (launched.exitCode !== 0) return { tier: "os", ...launched, changes: noChanges };
    const changes = await resultsOf(guest, source, isolated);
    await this.#keep(folders, isolated);
    return { tier: "os", ...launched, changes };
  }

  async #keep({ tree, home }: CommandFolders, isolated: IsolatedFolder): Promise<void> {
    const { keepDependencies, keep } = isolated;
    await this.#keepFolders({ tree, home }, keep);
    if (keepDependencies === undefined) return;
    const known = new Set(isolated.files.map(({ path }) => path));
    const isIgnored = ignoredFiles(rulesIn(isolated));
    if (keepDependencies !== "session") {
      await this.#resources.setups?.save(keepDependencies.key, { tree, home, known, isIgnored });
      return;
    }
    await this.#keepFolders(
      { tree, home },
      {
        tree: dependencyFolders({ tree, known, isIgnored }),
        home: homeFolders.map((path) => ({ path, mergeDepth: 0 })),
      },
    );
  }

  async #keepFolders({ tree, home }: CommandFolders, keep: IsolatedFolder["keep"]): Promise<void> {
    const { user } = this.#resources;
    for (const path of keep.tree) {
      const isKept = await mergeFolder({ from: tree, to: this.#folders.tree, path, mergeDepth: 0 }, user);
      if (isKept) this.#installed.tree.add(path);
    }
    for (const { path, mergeDepth } of keep.home) {
      const isKept = await mergeFolder({ from: home, to: this.#folders.home, path, mergeDepth }, user);
      if (isKept) this.#installed.home.add(path);
    }
  }

  async #bring(source: TreeSource): Promise<void> {
    if (this.#stop.signal.aborted) throw new ToolError("The sandbox is closed.", { code: "UNAVAILABLE" });
    if (this.#hasGitFolder) {
      await this.#guest.write(await this.#mirror.nextDelta(source));
      return;
    }
    const git = await source.gitFolder?.();
    const spare = git && this.#mirror.paths.size === 0 ? this.#resources.spares.take(git.commit) : undefined;
    if (spare) {
      this.#guest.adopt(spare.guest);
      this.#mirror = spare.mirror;
    }
    await this.#guest.write(await this.#mirror.nextDelta(source));
    await this.#writeGitFolder(this.#guest, git);
    this.#hasGitFolder = true;
  }

  async #writeGitFolder(guest: GuestFolder, git: GitFolder | undefined): Promise<void> {
    if (!git) return;
    const { commit } = git;
    this.#git ??= { commit, objects: await this.#resources.objects.use(git) };
    const objects = { path: "objects/info/alternates", content: Buffer.from(`${guestObjects}\n`) };
    await guest.writeGitFolder([...(await git.files()), objects]);
  }

  #gitMounts(): string[] {
    return this.#git ? ["--ro-bind", this.#git.objects, guestObjects] : [];
  }

  /**
   * Mounts the prepared dependencies that this session has not installed itself: as the lower layer of an overlay whose
   * changes stay in the session, or read-only if this machine cannot mount overlays.
   */
  #setupMounts(key: string | undefined): { mounts: string[]; overlays: OverlayMount[] } {
    const setup = key === undefined ? undefined : this.#resources.setups?.find(key);
    const mounts: string[] = [];
    const overlays: OverlayMount[] = [];
    for (const part of setup ? (["tree", "home"] as const) : []) {
      for (const path of setup?.[part].filter((folder) => !this.#installed[part].has(folder)) ?? []) {
        (part === "tree" ? this.#guest : this.#homeFolder).makeFolder(path);
        const lower = `${setup?.directory}/${part}/${path}`;
        // Other characters could be interpreted in the mount options.
        if (this.#resources.canMountOverlays && /^[\w@./+-]+$/.test(lower + this.#folder)) {
          const layer = join(this.#folder, "layers", createHash("sha1").update(`${key}/${part}/${path}`).digest("hex"));
          const [upper, work] = [join(layer, "upper"), join(layer, "work")];
          if (!existsSync(layer)) {
            mkdirSync(layer, { recursive: true, mode: 0o711 });
            this.#makeOwn(upper);
            this.#makeOwn(work);
          }
          overlays.push({ lower, upper, work, target: join(this.#folders[part], path) });
        } else {
          const target = `${part === "tree" ? guestTree : guestHome}/${path}`;
          mounts.push("--ro-bind", lower, target);
          for (const name of isNodeModules(path) ? writableFolders : [])
            mounts.push("--size", String(writableMb * 1_048_576), "--tmpfs", `${target}/${name}`);
        }
      }
    }
    return { mounts, overlays };
  }

  async #runWithNetwork(
    request: ExecRequest,
    { folders = this.#folders, ...mounted }: CommandMounts = {},
  ): Promise<Launched> {
    if (!request.network?.length) return this.#run(request, { folders, ...mounted });
    const proxyFolder = join(this.#folder, "proxy");
    mkdirSync(proxyFolder, { mode: 0o711, recursive: true });
    const socket = join(proxyFolder, "proxy.sock");
    rmSync(socket, { force: true });
    const { privateRegistries: privateHosts } = this.#resources;
    const proxy = await startRegistryProxy({ socket, allowed: request.network, privateHosts });
    await using _ = deferred(() => proxy.close());
    const launched = await this.#run(request, { folders, ...mounted, proxyFolder });
    if (launched.exitCode === 0 || proxy.refused.size === 0) return launched;
    const notes = [...proxy.refused].map(([host, reason]) => `The sandbox did not connect to ${host}. ${reason}\n`);
    return { ...launched, stderr: launched.stderr + notes.join("") };
  }

  async #run(
    request: ExecRequest,
    { folders = this.#folders, mounts, overlays, proxyFolder }: CommandMounts & { proxyFolder?: string } = {},
  ): Promise<Launched> {
    const { timeoutMs, outputBytes, signal, stdin, onOutput } = request;
    const { limits } = this.#resources;
    const prepared = await this.#takePrepared(folders);
    await using _ = deferred(() => prepared.discard());
    return await launch(prepared, {
      args: commandArguments({
        proxy: proxyFolder,
        mounts,
        limits,
        hasControlGroup: prepared.group !== undefined,
        env: request.env ?? {},
        cwd: request.cwd ?? "",
        timeoutMs,
        command: proxyFolder ? proxiedCommand(request.command) : request.command,
      }),
      overlays,
      stdin,
      timeoutMs,
      outputBytes,
      rawOutputBytes: limits.outputBytes,
      signal: signal ? AbortSignal.any([signal, this.#stop.signal]) : this.#stop.signal,
      onOutput,
      watch: (pid, onExcess) =>
        startWatchdog(
          { pid, folders: [folders.tree, folders.home, join(this.#folder, "layers")], limits, group: prepared.group },
          onExcess,
        ),
    });
  }

  #prepare({ tree, home }: CommandFolders): PreparedProcess {
    this.#commands += 1;
    const { system, etc, limits, user, filter } = this.#resources;
    const args = bubblewrap({ system, tree, home, etc, limits });
    const group = user ? controlGroup(`${this.#name}-${this.#commands}`, limits) : undefined;
    return prepareProcess({ args, filter, user, group });
  }

  /** Returns the process for a command. Replaces one that exited while it waited. */
  async #takePrepared(folders: CommandFolders): Promise<PreparedProcess> {
    if (folders !== this.#folders) return this.#prepare(folders);
    clearTimeout(this.#preparing);
    if (!this.#prepared.isWaiting) {
      await this.#prepared.discard();
      this.#prepared = this.#prepare(folders);
    }
    return this.#prepared;
  }

  /**
   * Prepares the next command of this session and the first one of the next, after a delay, since that would slow down
   * everything else in this program, such as the end of a command.
   */
  #prepareSoon(source: TreeSource): void {
    this.#preparing = setTimeout(() => {
      try {
        if (!this.#prepared.isWaiting && !this.#stop.signal.aborted) this.#prepared = this.#prepare(this.#folders);
      } catch {
        // The next command tries again, and reports the reason.
      }
      if (this.#git) void this.#resources.spares.prepare(this.#git.commit, source);
    }, prepareDelayMs).unref();
  }

  /** Discards the tree and all files in it, because a command left too many files to examine. */
  #startOver(): TreeChanges {
    const { tree } = this.#folders;
    const left = join(this.#folder, `left-${this.#commands}`);
    renameSync(tree, left);
    this.#makeOwn(tree);
    this.#mirror.reset();
    this.#guest.reset();
    this.#hasGitFolder = false;
    this.#installed.tree.clear();
    this.#clearing = Promise.all([this.#clearing, removeTree(left)]).then(() => undefined);
    // A failure is reported when the session is closed.
    this.#clearing.catch(() => undefined);
    return rejectedTree("has too many changed files to check, so none of this command's changes were applied");
  }

  #makeFolders(parent: string): CommandFolders {
    const folders = { tree: join(parent, "tree"), home: join(parent, "home") };
    this.#makeOwn(folders.tree);
    this.#makeOwn(folders.home);
    return folders;
  }

  #writeSettings({ home }: CommandFolders): void {
    for (const folder of [".config", ".config/pnpm"]) this.#makeOwn(join(home, folder));
    writeFileSync(join(home, ".config/pnpm/rc"), pnpmSettings, { mode: 0o644 });
  }

  #makeOwn(path: string): void {
    const { user } = this.#resources;
    mkdirSync(path, { mode: 0o700 });
    if (user) chownSync(path, user.uid, user.gid);
  }
}

function rejectedTree(reason: string): TreeChanges {
  return { written: [], deleted: [], rejected: [{ path: "the tree", reason }], ignoredFiles: 0 };
}

const nothing = new Uint8Array();
const noChanges: TreeChanges = { written: [], deleted: [], rejected: [], ignoredFiles: 0 };

/** Returns the expected result files that the command changed. All other files in its folder are dropped. */
async function resultsOf(guest: GuestFolder, source: TreeSource, isolated: IsolatedFolder): Promise<TreeChanges> {
  const { files, results, keep } = isolated;
  const known = new Set(files.map(({ path }) => path));
  if (isolated.keepDependencies) return noChanges;
  const isIgnored = (path: string) => keep.tree.some((kept) => path.startsWith(`${kept}/`));
  const proposed = await guest.collect({ isIgnored, known });
  if (!proposed) return rejectedTree("has too many files to check, so none of them were copied back");
  const wanted = proposed.filter(({ path, kind }) => results.has(path) && kind !== "gone");
  const changes = await validateChanges(wanted, { resolve: (path) => source.resolve(path), known, isIgnored });
  const given = new Map(files.map(({ path, content }) => [path, content]));
  const written = changes.written.filter(
    ({ path, content }) => !Buffer.from(content).equals(given.get(path) ?? nothing),
  );
  return { ...changes, written };
}

/** The .gitignore files of an isolated folder, by path. */
function rulesIn({ files }: IsolatedFolder): Map<string, string> {
  const rules = files.filter(({ path }) => path === ".gitignore" || path.endsWith("/.gitignore"));
  return new Map(rules.map(({ path, content }) => [path, Buffer.from(content).toString("utf8")]));
}
