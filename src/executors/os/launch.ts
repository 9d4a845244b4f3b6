import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { setTimeout as pause } from "node:timers/promises";
import { ToolError } from "#errors.ts";
import { outputBudget } from "#executors/output-budget.ts";
import { launchFds } from "./bubblewrap.ts";
import type { ControlGroup } from "./control-group.ts";
import { processTree, startedAt } from "./process-tree.ts";
import type { SandboxUser } from "./sandbox-user.ts";

export interface Launch {
  /** Arguments of bubblewrap. */
  args: readonly string[];
  /** A file with the seccomp program. */
  filter: string;
  user: SandboxUser;
  stdin?: string;
  timeoutMs: number;
  outputBytes: number;
  /** Bytes after which the command is ended, kept or not. */
  rawOutputBytes: number;
  signal?: AbortSignal;
  onOutput?(stream: "stdout" | "stderr", chunk: string): void;
  group?: ControlGroup;
  /** Told when it runs; returns what to do when it has ended. */
  watch?(pid: number, stop: (why: string) => void): { stop(): void };
}

export interface Launched {
  exitCode: number | null;
  stdout: string;
  stderr: string;
  truncated: boolean;
  timedOut: boolean;
  stopped?: string;
  durationMs: number;
}

/**
 * Closes every file descriptor but the named ones, which this process may have got from whoever started it, and waits
 * for a word: by then the process is in its control group.
 */
const launcher = [
  "for fd in /proc/self/fd/*; do",
  `  fd=\${fd##*/}; if ((fd > ${launchFds.info})); then eval "exec $fd>&-"; fi`,
  "done",
  `read -r -n 1 <&${launchFds.start}; exec ${launchFds.start}<&-`,
  'exec bwrap "$@"',
].join("\n");

/** Runs bubblewrap to its end. When this returns or throws, no process of the guest is alive. */
export async function launch(options: Launch): Promise<Launched> {
  if (options.signal?.aborted) throw interrupted();
  const filter = openSync(options.filter, "r");
  const started = performance.now();
  const child = spawn("/bin/bash", ["--norc", "--noprofile", "-c", launcher, "bash", ...options.args], {
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    cwd: "/",
    detached: true,
    stdio: [options.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe", filter, "pipe", "pipe"],
    ...options.user,
  });
  closeSync(filter);
  const [, , , , startPipe, infoPipe] = child.stdio as unknown as (Readable & Writable)[];
  const inits = firstProcesses(infoPipe);
  const output = { stdout: outputBudget(options.outputBytes), stderr: outputBudget(options.outputBytes) };
  let timedOut = false;
  let aborted = false;
  let stopped: string | undefined;

  function kill(): void {
    if (child.pid === undefined) return;
    // The group holds bubblewrap; its death takes the guest's first process along, and that takes all the others.
    for (const pid of [-child.pid, ...processTree(child.pid).reverse()]) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Gone already.
      }
    }
  }
  function stop(why: string): void {
    stopped ??= why;
    kill();
  }

  const ended = Promise.withResolvers<number | null>();
  child.on("error", (error) => ended.reject(error));
  child.on("close", (code) => ended.resolve(code));
  for (const name of ["stdout", "stderr"] as const) {
    const decoder = new StringDecoder("utf8");
    child[name]?.on("data", (chunk: Buffer) => {
      output[name].push(chunk);
      options.onOutput?.(name, decoder.write(chunk));
      if (output.stdout.seen + output.stderr.seen > options.rawOutputBytes)
        stop("It wrote too much output and was ended.");
    });
  }
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(options.stdin);
  startPipe?.on("error", () => undefined);

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
    if (child.pid !== undefined) {
      options.group?.add(child.pid);
      watching = options.watch?.(child.pid, stop);
    }
    startPipe?.end("g");
    const exitCode = await ended.promise;
    await allGone(inits);
    if (aborted) throw interrupted();
    if (exitCode !== 0 && options.group?.ranOutOfMemory()) stopped ??= "It used more memory than it may and was ended.";
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
    options.group?.remove();
  }
}

interface First {
  pid: number;
  startedAt: string | undefined;
}

/** The first process of the guest's own pid namespace, once bubblewrap says which it is. */
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

/** A pid namespace's first process goes last, so its end is the end of all. */
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
  return new ToolError("The command was stopped before it ended; nothing of it runs any more.", {
    code: "INTERRUPTED",
  });
}
