import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { setTimeout as pause } from "node:timers/promises";
import { ToolError } from "#domain/errors.ts";
import { outputBudget } from "#executors/output-budget.ts";
import type { OverlayMount, PreparedProcess } from "./prepared-process.ts";
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

export interface Launched {
  exitCode: number | null;
  stdout: string;
  stderr: string;
  truncated: boolean;
  timedOut: boolean;
  stopped?: string;
  durationMs: number;
}

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
        stop("It wrote too much output and was ended.");
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
    if (exitCode !== 0 && group?.ranOutOfMemory()) stopped ??= "It used more memory than it may and was ended.";
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
  return new ToolError("The command was stopped before it ended; nothing of it runs any more.", {
    code: "INTERRUPTED",
  });
}
