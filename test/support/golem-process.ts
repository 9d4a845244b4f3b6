import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

export const golemPath = fileURLToPath(new URL("../../src/terminal/golem.ts", import.meta.url));

interface StartedIn {
  root: string;
  env: Record<string, string>;
}

/** Starts a program in its own process group. Tests can wait for output and type lines. */
export async function startProcess(program: string, args: readonly string[], { root, env }: StartedIn) {
  const cache = await mkdtemp(join(tmpdir(), "golem-cache-"));
  const child = spawn(program, args, {
    cwd: root,
    env: { ...process.env, XDG_CACHE_HOME: cache, ...env },
    stdio: "pipe",
    detached: true,
  });
  const kill = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      process.kill(-child.pid, "SIGKILL");
    }
  };
  onTestFinished(async () => {
    kill();
    await rm(cache, { recursive: true, force: true });
  });
  const ended = new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.on("close", (code, signal) => resolve([code, signal]));
  });
  let text = "";
  let output = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      text += String(chunk);
      output.resolve();
    });
  }
  return {
    child,
    ended,
    /** Kills the process and its children with SIGKILL. */
    kill,
    text: () => text,
    type: (line: string) => child.stdin.write(`${line}\r`),
    async sees(wanted: string) {
      while (!text.includes(wanted)) {
        const hasEnded = await Promise.race([output.promise.then(() => false), ended.then(() => true)]);
        if (hasEnded && !text.includes(wanted)) throw new Error(`It ended without ${wanted}:\n${text}`);
        output = Promise.withResolvers<void>();
      }
    },
  };
}

/** Starts golem at its own terminal, which util-linux's `script` provides. */
export function startAtTerminal(words: readonly string[], { root, env }: StartedIn) {
  const command = [process.execPath, golemPath, ...words].map((word) => `'${word}'`).join(" ");
  return startProcess("script", ["-qec", `exec ${command}`, "/dev/null"], { root, env: { ...env, NO_COLOR: "1" } });
}
