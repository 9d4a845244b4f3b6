import type { Experimental_SandboxProcess, Experimental_SandboxSession } from "ai";
import { SerialQueue } from "#domain/async-work.ts";
import { messageOf, ToolError } from "#domain/errors.ts";
import {
  type Availability,
  type ExecRequest,
  type ExecResult,
  type ExecSession,
  type Executor,
  gitSafetyEnvironment,
  type TreeSource,
} from "#executors/executor.ts";
import { type OutputBudget, outputBudget } from "#executors/output-budget.ts";
import { createTreeMirror } from "#executors/tree-mirror.ts";
import { type ProposedChange, validateChanges } from "#executors/validate-changes.ts";

/** The exports of a module that provides remote sandboxes. */
interface RemoteModule {
  openSandbox(options: unknown): PromiseLike<RemoteSandbox>;
  /** False if no command in its sandboxes can connect to another host. */
  hasNetwork?: boolean;
}

export interface RemoteExecutorOptions {
  /** A package name or a file URL. It is loaded when the first session is opened. */
  module: string;
  /** Passed to its `openSandbox` unchanged. */
  options?: unknown;
  load?(module: string): Promise<unknown>;
}

const treeLimits = { files: 20_000, bytes: 200_000_000 };
const rawOutputBytes = 64_000_000;

/** Runs commands in an AI SDK sandbox. Its isolation is up to the provider; the changed files are validated here. */
export function createRemoteExecutor({
  module,
  options,
  load = (name) => import(name),
}: RemoteExecutorOptions): Executor {
  const open = new Set<ExecSession>();
  let loaded: RemoteModule | undefined;

  return {
    tier: "remote",
    async probe(): Promise<Availability> {
      try {
        const found = (await load(module)) as Partial<RemoteModule>;
        if (typeof found.openSandbox !== "function") throw new Error("it exports no openSandbox");
        loaded = found as RemoteModule;
        const hasNetwork = found.hasNetwork !== false;
        const network = hasNetwork ? " They may have network, so running code in them needs approval." : "";
        return {
          tier: "remote",
          available: true,
          reason: `Remote sandboxes come from ${module}.${network}`,
          hasNetwork,
        };
      } catch (error) {
        const why = messageOf(error);
        return { tier: "remote", available: false, reason: `no remote sandbox (${module} cannot be used: ${why})` };
      }
    },
    async open() {
      if (!loaded) throw new ToolError("unavailable: no remote sandbox", { code: "UNAVAILABLE" });
      const session = remoteSession(await loaded.openSandbox(options), () => open.delete(session));
      open.add(session);
      return session;
    },
    async close() {
      await Promise.all([...open].map((session) => session.close()));
    },
  };
}

function remoteSession(sandbox: RemoteSandbox, onClose: () => void): ExecSession {
  const mirror = createTreeMirror(treeLimits, { digests: "all" });
  const queue = new SerialQueue();
  const surveyChanges = () => remoteChanges(sandbox, { known: mirror.paths, digest: mirror.digest });
  /** True from the start of a command until its changes are known. */
  let hasUnknownChanges = false;

  async function bring(tree: TreeSource): Promise<void> {
    if (hasUnknownChanges) await dropChanges();
    hasUnknownChanges = true;
    const { write, remove } = await mirror.nextDelta(tree);
    for (const path of remove) await sandbox.deleteFile({ path });
    for (const { path, content } of write) await sandbox.writeBinaryFile({ path, content });
    const executable = write.filter((file) => file.executable).map(({ path }) => path);
    await runOnPaths(sandbox, ["chmod", "+x"], executable);
  }

  /** Drops the partial changes of a failed command: the next one starts from the workspace again. */
  async function dropChanges(): Promise<void> {
    await sandbox.run({ command: "chmod -R u+rwX ." });
    const left = (await surveyChanges()).map(({ path }) => path);
    mirror.markStale(left);
    // A folder may be in the place of a file.
    await runOnPaths(sandbox, ["rm", "-rf"], left);
  }

  async function exec(tree: TreeSource, request: ExecRequest): Promise<ExecResult> {
    if (request.network?.length || request.isolated) {
      throw new ToolError("Commands have no network access in the remote sandbox.", {
        code: "UNAVAILABLE",
      });
    }
    await bring(tree);
    const known = new Set(mirror.paths);
    const ran = await runCommand(sandbox, request);
    const found = await surveyChanges();
    mirror.markStale(found.map(({ path }) => path));
    hasUnknownChanges = false;
    const resolve = (path: string) => tree.resolve(path);
    const changes = await validateChanges(found, { resolve, known, isIgnored: mirror.isIgnored });
    return { tier: "remote", ...ran, changes };
  }

  return {
    tier: "remote",
    exec: (tree, request) => queue.run(() => exec(tree, request)),
    async close() {
      await sandbox.stop?.();
      onClose();
    },
  };
}

async function runCommand(sandbox: RemoteSandbox, request: ExecRequest): Promise<Omit<ExecResult, "tier" | "changes">> {
  const started = performance.now();
  const stdout = outputBudget(request.outputBytes);
  const stderr = outputBudget(request.outputBytes);
  const command = request.stdin === undefined ? shellWords(request.command) : withInput(request.command, request.stdin);
  const child = await sandbox.spawn({
    command,
    ...(request.cwd ? { workingDirectory: request.cwd } : {}),
    env: { ...gitSafetyEnvironment, ...request.env },
  });
  let timedOut = false;
  let stopped: string | undefined;
  const deadline = setTimeout(() => {
    timedOut = true;
    void child.kill();
  }, request.timeoutMs);
  const abort = () => void child.kill();
  request.signal?.addEventListener("abort", abort, { once: true });
  try {
    const tooMuch = () => {
      if (stdout.receivedBytes + stderr.receivedBytes <= rawOutputBytes || stopped) return;
      stopped = "It wrote too much output and was stopped.";
      void child.kill();
    };
    const [ended] = await Promise.allSettled([
      child.wait(),
      readAll(child.stdout, stdout, (chunk) => request.onOutput?.("stdout", chunk), tooMuch),
      readAll(child.stderr, stderr, (chunk) => request.onOutput?.("stderr", chunk), tooMuch),
    ]);
    if (request.signal?.aborted)
      throw new ToolError("The command was stopped before it ended.", { code: "INTERRUPTED" });
    const killed = timedOut || stopped !== undefined;
    if (ended.status === "rejected" && !killed) throw ended.reason;
    return {
      exitCode: killed || ended.status === "rejected" ? null : ended.value.exitCode,
      stdout: stdout.text(),
      stderr: stderr.text(),
      durationMs: performance.now() - started,
      timedOut,
      truncated: stdout.truncated || stderr.truncated,
      ...(stopped ? { stopped } : {}),
    };
  } finally {
    clearTimeout(deadline);
    request.signal?.removeEventListener("abort", abort);
  }
}

async function readAll(
  stream: Experimental_SandboxProcess["stdout"],
  budget: OutputBudget,
  show: (chunk: string) => void,
  check: () => void,
): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    budget.push(chunk);
    show(decoder.decode(chunk, { stream: true }));
    check();
  }
}

function withInput(command: readonly string[], input: string): string {
  return `printf %s ${shellWords([input])} | ${shellWords(command)}`;
}

/** Quotes words for a POSIX shell. */
function shellWords(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
}

/** The kernel limits a single argument, such as a whole command, to 128 KiB. */
const maxPathsLength = 60_000;

/** Runs a program on paths, as often as their number requires. */
async function runOnPaths(sandbox: RemoteSandbox, program: readonly string[], paths: readonly string[]): Promise<void> {
  let [start, length] = [0, 0];
  for (const [index, path] of paths.entries()) {
    length += shellWords([path]).length + 1;
    if (length < maxPathsLength && index < paths.length - 1) continue;
    await sandbox.run({ command: shellWords([...program, "--", ...paths.slice(start, index + 1)]) });
    [start, length] = [index + 1, 0];
  }
}

/** A sandbox session of the AI SDK, optionally with a method to stop it. */
export type RemoteSandbox = Experimental_SandboxSession & { stop?(): PromiseLike<void> };

const maxKilobytes = 10_240;
const skipped = [".git", "node_modules", "__pycache__", ".venv"];
const find = `find . \\( ${skipped.map((name) => `-name ${name}`).join(" -o ")} \\) -prune -o`;
const survey = {
  present: `${find} -type f -print0`,
  digests: `${find} -type f -size -${maxKilobytes + 1}k -exec sha1sum -z -- {} +`,
  programs: `${find} -type f -perm -u+x -print0`,
  large: `${find} -type f -size +${maxKilobytes}k -print0`,
  special: `${find} ! -type f ! -type d -print0`,
};

/**
 * Lists the differences between a remote sandbox and the files copied to it, using standard Linux programs. A file that
 * they could not list or read counts as rejected, not as deleted.
 */
async function remoteChanges(
  sandbox: RemoteSandbox,
  { known, digest }: { known: ReadonlySet<string>; digest(path: string): string | undefined },
): Promise<ProposedChange[]> {
  const [files, digests, programs, large, special] = await Promise.all([
    list(sandbox, survey.present),
    list(sandbox, survey.digests),
    list(sandbox, survey.programs),
    list(sandbox, survey.large),
    list(sandbox, survey.special),
  ]);
  const executable = new Set(programs.records.map(relative));
  const reject = (path: string, what: string): ProposedChange => ({ kind: "special", path, what });
  const changes = [
    ...large.records.map((path) => reject(relative(path), "file larger than 10 MB")),
    ...special.records.map((path) => reject(relative(path), "link, device, socket or pipe")),
  ];
  const seen = new Set(changes.map(({ path }) => path));
  for (const record of digests.records) {
    // A digest, two characters for how it was read, and the path.
    const path = relative(record.slice(42));
    seen.add(path);
    if (digest(path) === record.slice(0, 40)) continue;
    // The size comes from `find`; the validator checks that of the content.
    changes.push({ kind: "file", path, size: 0, executable: executable.has(path), read: () => read(sandbox, path) });
  }
  const unread = files.records.map(relative).filter((path) => !seen.has(path));
  for (const path of unread) changes.push(reject(path, "file that could not be read"));
  const isListed = [files, large, special].every(({ isComplete }) => isComplete);
  const missing = new Set(known).difference(seen).difference(new Set(unread));
  for (const path of missing) {
    if (path.split("/").some((name) => skipped.includes(name))) continue;
    changes.push(isListed ? { kind: "gone", path } : reject(path, "file that the sandbox did not list"));
  }
  return changes;
}

/** Returns the records that a command printed, each ended by a NUL. Not complete if it failed, or its output was cut off. */
async function list(sandbox: RemoteSandbox, command: string): Promise<{ records: string[]; isComplete: boolean }> {
  const { stdout, exitCode } = await sandbox.run({ command });
  const isComplete = exitCode === 0 && /(^|\0)$/.test(stdout);
  return { records: stdout.split("\0").filter((record) => record !== ""), isComplete };
}

async function read(sandbox: RemoteSandbox, path: string): Promise<Uint8Array> {
  const content = await sandbox.readBinaryFile({ path });
  if (!content) throw new Error(`${path} no longer exists in the remote sandbox`);
  return content;
}

function relative(path: string): string {
  return path.replace(/^\.\//, "");
}
