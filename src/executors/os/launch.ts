import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { setTimeout as pause } from "node:timers/promises";
import { ToolError } from "#domain/errors.ts";
import { outputBudget } from "#executors/output-budget.ts";
import type { OverlayMount, PreparedProcess } from "./prepared-process.ts";
import { processTree, startedAt } from "./process-tree.ts";

export interface Launch {
  /** Arguments of bubblewrap, after those its process stands by with. */
  args: readonly string[];
  overlays?: readonly OverlayMount[];
  stdin?: string;
  timeoutMs: number;
  outputBytes: number;
  /** Bytes after which the command is ended, kept or not. */
  rawOutputBytes: number;
  signal?: AbortSignal;
  onOutput?(stream: "stdout" | "stderr", chunk: string): void;
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

/** Runs bubblewrap to its end, in the process that stood by for it. When this returns or throws, no process of the guest is alive. */
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
