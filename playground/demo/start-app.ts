import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { UserError } from "#domain/errors.ts";
import { listen } from "#playground/github/listen.ts";

/** The app in a process of its own. */
export interface RunningApp {
  readonly pid: number | undefined;
  /** Resolves when the process has ended, for whatever reason, with a sentence on how. */
  readonly ended: Promise<string>;
  /** Asks it to finish; after `graceMs` it is ended. */
  stop(): Promise<void>;
}

const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const startMs = 30_000;
const graceMs = 25_000;

/** A port of 127.0.0.1 that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server, 0);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts `src/main.ts` with exactly this environment and waits until it is ready. Throws a UserError when it is not. */
export async function startApp(environment: Record<string, string>): Promise<RunningApp> {
  // What it logs goes to the error stream: the story owns the other one.
  const child = spawn(process.execPath, [main], { env: environment, stdio: ["ignore", 2, 2] });
  const ended = new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(`it could not be started: ${error.message}`));
    child.on("exit", (code, signal) => resolve(signal ? `it was ended by ${signal}` : `it exited with ${code}`));
  });
  const app = { pid: child.pid, ended, stop: () => stop(child, ended) };
  const problem = await Promise.race([ended, ready(`http://127.0.0.1:${environment.PORT}/readyz`, child)]);
  if (problem === undefined) return app;

  await app.stop();
  throw new UserError(`The app did not start: ${problem}.`);
}

async function ready(url: string, child: ChildProcess): Promise<string | undefined> {
  const until = Date.now() + startMs;
  while (Date.now() < until && child.exitCode === null) {
    const answer = await fetch(url).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.ok) return undefined;
    await pause(50);
  }
  return `it was not ready after ${startMs / 1000} seconds`;
}

async function stop(child: ChildProcess, ended: Promise<string>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;

  child.kill("SIGTERM");
  const last = setTimeout(() => child.kill("SIGKILL"), graceMs);
  await ended;
  clearTimeout(last);
}
