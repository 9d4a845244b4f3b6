import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "#playground/github/listen.ts";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import { type ModelServerOptions, startModelServer } from "#playground/model/model-server.ts";
import type { App } from "../../src/app.ts";
import { appId, privateKey, TestGitHub, type TestGitHubOptions } from "./test-github.ts";

export interface ForgeOptions {
  script: ModelServerOptions["script"];
  repositories?: TestGitHubOptions["repositories"];
  /** The rate limits that GitHub enforces. Default: none. */
  limits?: TestGitHubOptions["limits"];
  /** Variables in addition to those of every app. */
  environment?: Record<string, string>;
  /** How long to wait for a change in a thread. Default: two minutes. */
  timeoutMs?: number;
  /** Options for Node, if the app has its own process. */
  nodeOptions?: string[];
}

/** Another process of the app with the same database and GitHub. */
export interface Replica {
  url: string;
  /** Sends SIGSTOP or SIGCONT to suspend or resume the process, or SIGUSR2 for `shift-clock.ts`. */
  send(signal: "SIGSTOP" | "SIGCONT" | "SIGUSR2"): void;
  hasEnded(): boolean;
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** The default repository. */
export const forgeRepository = {
  name: "shop",
  commits: [
    {
      branch: "main",
      message: "A shop",
      author: "maintainer",
      at: new Date("2025-01-02T03:04:05Z"),
      files: { "README.md": "# Shop\n", "src/total.js": "export const total = (items) => items.length + 1;\n" },
    },
  ],
};

/** Returns the program of the app: the bundle that the global set-up wrote, which starts in half the time. */
export const appProgram = () =>
  process.env.GOLEM_FORGE_TEST_APP ?? fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const webhookSecret = "a secret of the webhook";
const oauth = { clientId: "Iv1.forge", clientSecret: "a secret of the OAuth client" };

/**
 * Prepares the app, configured only by environment variables, with a GitHub that has signed webhooks and git over HTTP, and a
 * model over HTTP. Nothing inside the product is replaced.
 */
export async function startForge(options: ForgeOptions) {
  const directory = await mkdtemp(join(tmpdir(), "golem-forge-e2e-"));
  const port = await freePort();
  const model = await startModelServer({ script: options.script });
  const github = await TestGitHub.start({
    app: { oauth: { ...oauth, callbackUrl: `http://127.0.0.1:${port}/runs/-/signed-in` } },
    webhook: { url: `http://127.0.0.1:${port}/api/github/webhooks`, secret: webhookSecret },
    repositories: options.repositories ?? [forgeRepository],
    ...(options.limits && { limits: options.limits }),
  });
  const environment: Record<string, string> = {
    PATH: process.env.PATH ?? "",
    // Tests start the app many times; the cache spares the later starts the compilation.
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? "",
    APP_ID: String(appId),
    PRIVATE_KEY: privateKey,
    WEBHOOK_SECRET: webhookSecret,
    PORT: String(port),
    HOST: "127.0.0.1",
    LOG_LEVEL: "warn",
    GHE_HOST: github.host,
    GHE_PROTOCOL: "http",
    GOLEM_FORGE_MODEL: "openai:scripted",
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: "sk-not-a-real-key-of-anyone",
    DATABASE_URL: `file:${join(directory, "forge.db")}`,
    GOLEM_FORGE_STATUS_INTERVAL_MS: "50",
    GOLEM_FORGE_WRITE_INTERVAL_MS: "0",
    GOLEM_FORGE_URL: `http://127.0.0.1:${port}`,
    GITHUB_CLIENT_ID: oauth.clientId,
    GITHUB_CLIENT_SECRET: oauth.clientSecret,
    // Testing for an OS sandbox at every start takes longer than most stories. Tests that need one turn it on.
    GOLEM_FORGE_SANDBOX: "off",
    ...options.environment,
  };
  let app: App | undefined;
  let child: ChildProcess | undefined;
  const replicas: Replica[] = [];
  let closed = false;
  let printed = "";

  const print = (text: string) => {
    printed = (printed + text).slice(-100_000);
  };

  /** Starts the app in this process, which takes a tenth of the CPU time of a process of its own. */
  async function start(more: Record<string, string> = {}): Promise<void> {
    const { createApp } = await import("../../src/app.ts");
    app = await createApp({ GOLEM_FORGE_STOP_SECONDS: "0", ...environment, ...more }, { write: print });
    await app.start();
  }

  /** Starts the app in its own process, which can be killed, and waits until it is ready or has exited. */
  async function startProcess(more: Record<string, string> = {}, program = appProgram()): Promise<ChildProcess> {
    child = spawnApp(more, program);
    await untilReady(child, port);
    return child;
  }

  /** Stops the app in this process. */
  async function stop(): Promise<void> {
    await app?.stop();
    app = undefined;
  }

  /** Ends the app's own process. Resolves to its exit code. */
  async function end(signal: NodeJS.Signals): Promise<number | null> {
    if (!child) throw new Error("The app has no process of its own.");
    return endApp(child, signal);
  }

  /** Starts another process of the app on its own port, and waits until it is ready. */
  async function startReplica(more: Record<string, string> = {}, program = appProgram()): Promise<Replica> {
    const own = await freePort();
    const child = spawnApp({ ...more, PORT: String(own) }, program);
    const replica: Replica = {
      url: `http://127.0.0.1:${own}`,
      send: (signal) => void child.kill(signal),
      hasEnded: () => hasEnded(child),
      end: (signal) => endApp(child, signal),
    };
    replicas.push(replica);
    await untilReady(child, own);
    return replica;
  }

  function spawnApp(more: Record<string, string>, program = appProgram()): ChildProcess {
    const env = { ...environment, ...more };
    const child = spawn(process.execPath, [...(options.nodeOptions ?? []), program], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", print);
    }
    const kill = () => child.kill("SIGKILL");
    process.once("exit", kill);
    child.once("exit", () => process.off("exit", kill));
    // The world may have been closed while the process was starting.
    if (closed) kill();
    return child;
  }

  /** Resolves to the first result of `find` that is not undefined. It is called again after every change on GitHub. */
  function inThread<T>(number: number, find: (thread: SnapshotThread) => T | undefined, what: string): Promise<T> {
    return github
      .until(
        (snapshot) => {
          const [repository] = Object.values(snapshot);
          const thread = [...(repository?.issues ?? []), ...(repository?.pulls ?? [])].find(
            (one) => one.number === number,
          );
          return thread && find(thread);
        },
        { what, timeoutMs: options.timeoutMs ?? 120_000 },
      )
      .catch((error: Error) => {
        throw new Error(`${error.message}\nThe app printed:\n${printed}`);
      });
  }

  return {
    github,
    model,
    environment,
    databasePath: join(directory, "forge.db"),
    url: `http://127.0.0.1:${port}`,
    webhookSecret,
    start,
    stop,
    startProcess,
    end,
    startReplica,
    /** Returns the id of the process that `startProcess` has started. */
    pid: () => child?.pid,
    printed: () => printed,
    inThread,
    /** Resolves to the bot's first comment that matches. */
    botComment: (number: number, pattern: RegExp): Promise<SnapshotComment> =>
      inThread(
        number,
        ({ comments }) => comments.find(({ author, body }) => author === github.botLogin && pattern.test(body)),
        `a comment of the bot like ${pattern}`,
      ),
    close: async () => {
      closed = true;
      await Promise.all([
        stop(),
        child && endApp(child, "SIGKILL"),
        ...replicas.map((replica) => replica.end("SIGKILL")),
      ]);
      await github.close();
      await model.close();
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

export type Forge = Awaited<ReturnType<typeof startForge>>;

/** Returns the short id of the approval that a comment requests. */
export function approvalIdIn({ body }: SnapshotComment): string {
  return /\/approve ([a-z0-9]+)/.exec(body)?.[1] ?? "";
}

async function untilReady(app: ChildProcess, port: number): Promise<void> {
  const ended = once(app, "exit").then(() => true);
  while (!(await isReady(port)) && !hasEnded(app)) await Promise.race([ended, pause(20)]);
}

async function endApp(app: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (hasEnded(app)) return app.exitCode;
  const exited = once(app, "exit");
  app.kill(signal);
  await exited;
  return app.exitCode;
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

async function isReady(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}
