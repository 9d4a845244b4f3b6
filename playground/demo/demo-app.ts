import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { UserError } from "#domain/errors.ts";

const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const startTimeoutMs = 120_000;
const shutdownGraceMs = 25_000;
const maxRestarts = 10;

/** The app in a separate process, which is restarted if it exits unexpectedly. */
export class DemoApp {
  /** Resolves to the reason if the app cannot be kept running. */
  readonly failed: Promise<string>;
  readonly #environment: Record<string, string>;
  readonly #onRestart: (how: string) => void;
  readonly #fail: (reason: string) => void;
  #child: ChildProcess | undefined;
  #ended: Promise<string> = Promise.resolve("");
  #restarts = 0;
  #stopping = false;

  /** Starts `src/main.ts` with exactly this environment and waits until it is ready. Throws a UserError if it cannot start. */
  static async start(environment: Record<string, string>, onRestart: (how: string) => void): Promise<DemoApp> {
    const app = new DemoApp(environment, onRestart);
    const problem = await app.#spawn();
    if (problem === undefined) return app;

    await app.stop();
    throw new UserError(`The app did not start: ${problem}.`);
  }

  private constructor(environment: Record<string, string>, onRestart: (how: string) => void) {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.failed = promise;
    this.#fail = resolve;
    this.#environment = environment;
    this.#onRestart = onRestart;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Asks the process to finish, and kills it after a grace period. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (child?.pid === undefined || hasEnded(child)) return;

    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), shutdownGraceMs);
    await this.#ended;
    clearTimeout(timer);
  }

  /** Starts the process. Resolves to the problem if it does not become ready. */
  async #spawn(): Promise<string | undefined> {
    // The app logs to standard error, because standard output is for the demo.
    const child = spawn(process.execPath, [main], { env: this.#environment, stdio: ["ignore", 2, 2] });
    const ended = new Promise<string>((resolve) => {
      child.on("error", (error) => resolve(`it could not be started: ${error.message}`));
      child.on("exit", (code, signal) => resolve(signal ? `it was ended by ${signal}` : `it exited with code ${code}`));
    });
    this.#child = child;
    this.#ended = ended;
    const problem = await Promise.race([ended, untilReady(`http://127.0.0.1:${this.#environment.PORT}/readyz`, child)]);
    if (problem === undefined) void ended.then((how) => this.#restart(how));
    return problem;
  }

  async #restart(how: string): Promise<void> {
    if (this.#stopping) return;
    this.#restarts += 1;
    if (this.#restarts > maxRestarts) return this.#fail(how);

    const problem = await this.#spawn();
    if (problem === undefined) this.#onRestart(how);
    else if (!this.#stopping) this.#fail(problem);
  }
}

async function untilReady(url: string, child: ChildProcess): Promise<string | undefined> {
  const deadline = Date.now() + startTimeoutMs;
  while (Date.now() < deadline && !hasEnded(child)) {
    const response = await fetch(url).catch(() => undefined);
    await response?.arrayBuffer();
    if (response?.ok) return undefined;
    await pause(50);
  }
  return `it was not ready after ${startTimeoutMs / 1000} seconds`;
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
