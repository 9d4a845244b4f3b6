import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { setTimeout as pause } from "node:timers/promises";
import { ToolError } from "#domain/errors.ts";
import type { ExecResult } from "#executors/executor.ts";
import { outputBudget } from "#executors/output-budget.ts";
import { launchFds } from "./bubblewrap.ts";
import type { ControlGroup } from "./control-group.ts";
import { processTree, startedAt } from "./process-tree.ts";

export interface Launch {
  /** Arguments of bubblewrap that follow those of its prepared process. */
  args: readonly string[];
  overlays?: readonly OverlayMount[];
  stdin?: string;
  timeoutMs: number;
  outputBytes: number;
  /** The command is killed after this many bytes of output, kept or not. */
  rawOutputBytes: number;
  signal?: AbortSignal;
  onOutput?(stream: "stdout" | "stderr", chunk: string): void;
  /** Called when the command is running. Returns a watch that is stopped when it ends. */
  watch?(pid: number, stop: (why: string) => void): { stop(): void };
}

export type Launched = Omit<ExecResult, "tier" | "changes">;

/** Runs bubblewrap in a prepared process. When this returns or throws, all processes of the sandbox have ended. */
export async function launch(by: PreparedProcess, options: Launch): Promise<Launched> {
  if (options.signal?.aborted) throw interrupted();
  const { child, group } = by;
  const started = performance.now();
  const inits = firstProcesses(by.info);
  const output = { stdout: outputBudget(options.outputBytes), stderr: outputBudget(options.outputBytes) };
  let timedOut = false;
  let aborted = false;
  let stopped: string | undefined;

  function kill(): void {
    if (child.pid === undefined) return;
    // Killing bubblewrap's process group also kills the sandbox's first process, and with it all others.
    for (const pid of [-child.pid, ...processTree(child.pid).reverse()]) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The process has already exited.
      }
    }
  }
  function stop(why: string): void {
    stopped ??= why;
    kill();
  }

  for (const name of ["stdout", "stderr"] as const) {
    const decoder = new StringDecoder("utf8");
    child[name]?.on("data", (chunk: Buffer) => {
      output[name].push(chunk);
      options.onOutput?.(name, decoder.write(chunk));
      if (output.stdout.receivedBytes + output.stderr.receivedBytes > options.rawOutputBytes)
        stop("It wrote too much output and was stopped.");
    });
  }

  const deadline = setTimeout(() => {
    timedOut = true;
    kill();
  }, options.timeoutMs);
  const abort = () => {
    aborted = true;
    kill();
  };
  options.signal?.addEventListener("abort", abort, { once: true });
  let watching: { stop(): void } | undefined;
  try {
    if (child.pid !== undefined) watching = options.watch?.(child.pid, stop);
    await by.start(options.args, options.stdin, options.overlays);
    const exitCode = await by.ended;
    await allGone(inits);
    if (aborted) throw interrupted();
    if (exitCode !== 0 && group?.ranOutOfMemory()) stopped ??= "It exceeded the memory limit and was stopped.";
    const killed = timedOut || stopped !== undefined;
    return {
      exitCode: killed ? null : exitCode,
      stdout: output.stdout.text(),
      stderr: output.stderr.text(),
      truncated: output.stdout.truncated || output.stderr.truncated,
      timedOut,
      durationMs: performance.now() - started,
      ...(stopped ? { stopped } : {}),
    };
  } finally {
    clearTimeout(deadline);
    options.signal?.removeEventListener("abort", abort);
    watching?.stop();
    kill();
  }
}

interface First {
  pid: number;
  startedAt: string | undefined;
}

/** Collects the first process of the sandbox's pid namespace, once bubblewrap reports its id. */
function firstProcesses(info: Readable | undefined): First[] {
  const found: First[] = [];
  let text = "";
  info?.on("error", () => undefined);
  info?.on("data", (chunk: Buffer) => {
    text += chunk.toString("utf8");
    const pid = Number(/"child-pid":\s*(\d+)/.exec(text)?.[1] ?? 0);
    if (pid > 0 && found.length === 0) found.push({ pid, startedAt: startedAt(pid) });
  });
  return found;
}

/** Waits until the sandbox's first processes have ended. The kernel ends such a process last in its namespace. */
async function allGone(first: readonly First[]): Promise<void> {
  for (const { pid, startedAt: since } of first) {
    for (let tries = 0; since !== undefined && startedAt(pid) === since; tries += 1) {
      if (tries > 2_000) throw new Error("A process of the sandbox does not end");
      if (tries === 50) process.kill(pid, "SIGKILL");
      await pause(1);
    }
  }
}

function interrupted(): ToolError {
  return new ToolError("The command was stopped before it ended; none of its processes is left.", {
    code: "INTERRUPTED",
  });
}

interface PreparedProcessOptions {
  /** The bubblewrap arguments that all commands share. */
  args: readonly string[];
  /** A file with the seccomp program. */
  filter: string;
  user: SandboxUser;
  group: ControlGroup | undefined;
}

/** A folder that shows the files of `lower`, which is never written to. Changes are stored in `upper`. */
export interface OverlayMount {
  lower: string;
  upper: string;
  /** An empty folder on the file system of `upper`. */
  work: string;
  target: string;
}

/** A process outside the sandbox that waits to become bubblewrap. It is started and put under its limits in advance. */
export interface PreparedProcess {
  readonly child: ChildProcess;
  readonly group: ControlGroup | undefined;
  /** The information about the sandbox that bubblewrap reports. */
  readonly info: Readable | undefined;
  /** False if the process ended while it waited. */
  readonly isWaiting: boolean;
  /** Resolves to the exit code when the process and its output have ended. */
  readonly ended: Promise<number | null>;
  /** Replaces the process with bubblewrap, with these additional arguments, once it is in its control group. */
  start(args: readonly string[], stdin: string | undefined, overlays?: readonly OverlayMount[]): Promise<void>;
  /** Kills the process, used or not, and all others in its control group. May be called more than once. */
  discard(): Promise<void>;
}

// bubblewrap 0.8 cannot mount overlays. Root in a separate user namespace can, and bubblewrap drops that privilege
// again.
const mounter = [
  "count=$1; shift",
  'while ((count-- > 0)); do mount -t overlay overlay -o "$1" -- "$2" || exit 125; shift 2; done',
  'exec bwrap "$@"',
].join("\n");

/**
 * The script of a prepared process. Closes the file descriptors above `launchFds`, which it may have inherited, and
 * waits for its arguments: when they arrive, it is in its control group. Exits if the sender ends without sending them.
 */
const launcher = [
  "for fd in /proc/self/fd/*; do",
  `  fd=\${fd##*/}; if ((fd > ${launchFds.info})); then eval "exec $fd>&-"; fi`,
  "done",
  `mapfile -t -d '' words <&${launchFds.start}; exec ${launchFds.start}<&-`,
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  "[[ ${words[0]} == no-input ]] && exec </dev/null",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  '[[ ${words[-1]} == go ]] || exit; count=${words[1]}; args=("$@" "${words[@]:2+2*count:${#words[@]}-3-2*count}")',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  '((count == 0)) && exec bwrap "${args[@]}"',
  `exec unshare --user --map-root-user --mount /bin/bash --norc --noprofile -c '${mounter}' bash "$count" "\${words[@]:2:2*count}" "\${args[@]}"`,
].join("\n");

/** Starts a process in advance, since starting it and moving it into a control group takes longer than the sandbox itself. */
export function prepareProcess({ args, filter, user, group }: PreparedProcessOptions): PreparedProcess {
  const program = openSync(filter, "r");
  const child = spawn("/bin/bash", ["--norc", "--noprofile", "-c", launcher, "bash", ...args], {
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    cwd: "/",
    detached: true,
    stdio: ["pipe", "pipe", "pipe", program, "pipe", "pipe"],
    ...user,
  });
  closeSync(program);
  const [, , , , start, info] = child.stdio as unknown as (Readable & Writable)[];
  const handles = [child, ...child.stdio] as { ref?(): void; unref?(): void }[];
  // A waiting process must not keep this program alive.
  for (const handle of handles) handle?.unref?.();
  child.stdin?.on("error", () => undefined);
  start?.on("error", () => undefined);

  let waits = true;
  const ended = Promise.withResolvers<number | null>();
  // It may fail before anything awaits `ended`.
  ended.promise.catch(() => undefined);
  child.on("error", (error) => {
    waits = false;
    ended.reject(error);
  });
  child.on("exit", () => {
    waits = false;
  });
  child.on("close", (code) => ended.resolve(code));
  const grouped = child.pid === undefined ? undefined : group?.add(child.pid);
  grouped?.catch(() => undefined);

  let discarded: Promise<void> | undefined;
  async function end(): Promise<void> {
    for (const handle of handles) handle?.ref?.();
    child.kill("SIGKILL");
    await ended.promise.catch(() => undefined);
    group?.remove();
  }

  return {
    child,
    group,
    info,
    get isWaiting() {
      // Node may not have emitted its exit event yet.
      return waits && child.pid !== undefined && startedAt(child.pid) !== undefined;
    },
    ended: ended.promise,
    async start(more, stdin, overlays = []) {
      waits = false;
      const mounts = overlays.flatMap(({ lower, upper, work, target }) => [
        `lowerdir=${lower},upperdir=${upper},workdir=${work},userxattr`,
        target,
      ]);
      const words = [stdin === undefined ? "no-input" : "input", `${overlays.length}`, ...mounts, ...more, "go"];
      if (words.some((word) => word.includes("\0"))) throw new Error("A command cannot have NUL in its words");
      for (const handle of handles) handle?.ref?.();
      await grouped;
      child.stdin?.end(stdin);
      start?.end(words.map((word) => `${word}\0`).join(""));
    },
    discard() {
      waits = false;
      discarded ??= end();
      return discarded;
    },
  };
}

/** The user that commands run as. Undefined: the user of this process, which is not root. */
export type SandboxUser = { uid: number; gid: number } | undefined;

/** Outside the ranges that distributions and useradd assign. */
const defaultUid = 58_213;

/**
 * Chooses the user of the sandbox. As root, commands could write kernel settings, because files in /proc/sys check for
 * the owner and not for capabilities. So root switches to an unused uid, and without one there is no sandbox.
 */
export function sandboxUser(configured: number | undefined): { user: SandboxUser } | { problem: string } {
  if (process.getuid?.() !== 0) return { user: undefined };
  const uid = configured ?? defaultUid;
  if (!Number.isInteger(uid) || uid < 1_000 || uid >= 65_534) {
    return { problem: `the sandbox's uid must be between 1000 and 65533, and is ${uid}` };
  }
  if (belongsToAccount(uid))
    return { problem: `uid ${uid} belongs to a user of this machine: give the sandbox one of its own` };
  return { user: { uid, gid: uid } };
}

function belongsToAccount(uid: number): boolean {
  const users = readFileSync("/etc/passwd", "utf8").split("\n");
  // A name alone is fine. An entry with a login shell is an account.
  return users.some((line) => {
    const [, , id, , , , shell = ""] = line.split(":");
    return Number(id) === uid && id !== "" && !/(nologin|false)$/.test(shell.trim());
  });
}
