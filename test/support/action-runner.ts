import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import { listen } from "#playground/github/listen.ts";
import type { LocalGitHub } from "#playground/github/local-github.ts";

const workflowPath = ".github/workflows/golem-forge.yml";

const Triggers = z.record(
  z.string(),
  z
    .object({ types: z.array(z.string()).optional(), workflows: z.array(z.string()).optional() })
    .loose()
    .nullable()
    .catch(null),
);
const Workflow = z.object({
  name: z.string(),
  on: Triggers,
  permissions: z.record(z.string(), z.enum(["read", "write"])),
  jobs: z.record(
    z.string(),
    z.object({
      steps: z.array(
        z
          .object({
            run: z.string().optional(),
            uses: z.string().optional(),
            env: z.record(z.string(), z.string()).default({}),
          })
          .loose(),
      ),
    }),
  ),
});
type Workflow = z.infer<typeof Workflow>;

const CompositeAction = z.object({
  runs: z.object({ using: z.literal("composite"), steps: z.array(z.object({ run: z.string().optional() })) }),
});

const Event = z.object({
  action: z.string().optional(),
  sender: z.object({ type: z.string() }),
  repository: z.object({
    id: z.number(),
    full_name: z.string(),
    default_branch: z.string(),
    owner: z.object({ id: z.number() }),
  }),
  workflow_run: z.object({ name: z.string() }).optional(),
});

export interface ActionRunnerOptions {
  github: LocalGitHub;
  /** The secrets of the repository, by name. */
  secrets: Record<string, string>;
  /** Added to the environment of each job. */
  environment?: Record<string, string>;
  /** The maximum number of concurrent jobs. Default: one, as the workflow's concurrency group allows. */
  parallel?: number;
  /** The program that jobs run instead of the npm package. Default: `golem` of this checkout. */
  golem?: string | undefined;
}

interface RunningJob {
  /** Counted from 1. */
  number: number;
  event: string;
  /** Undefined until it has started. */
  process?: ChildProcess;
  done: Promise<void>;
}

export interface FinishedJob {
  number: number;
  event: string;
  exitCode: number | null;
  output: string;
}

const root = fileURLToPath(new URL("../../", import.meta.url));

/**
 * Runs the workflow of the GitHub Action for the webhooks of a local GitHub, as GitHub's runner does. Each job is a process
 * with the event in a file, a token that expires with the job, and no files of earlier jobs.
 */
export class ActionRunner {
  readonly finished: FinishedJob[] = [];
  readonly #options: ActionRunnerOptions;
  readonly #waiting: { event: string; payload: unknown }[] = [];
  readonly #running = new Set<RunningJob>();
  #count = 0;
  #isClosed = false;
  readonly #server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const payload: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    await this.trigger(String(request.headers["x-github-event"]), payload);
    response.writeHead(200).end();
  });

  /** Starts to receive the webhooks of the local GitHub, whose app has to be `github-actions`. */
  static async start(options: ActionRunnerOptions): Promise<ActionRunner> {
    const runner = new ActionRunner(options);
    const port = await listen(runner.#server, 0);
    options.github.webhook = { url: `http://127.0.0.1:${port}/`, secret: "not checked" };
    return runner;
  }

  private constructor(options: ActionRunnerOptions) {
    this.#options = options;
  }

  /** Queues a job for the event, if the workflow of the default branch has a trigger for it. */
  async trigger(event: string, payload: unknown): Promise<void> {
    const { repository, sender, action, workflow_run: completed } = Event.parse(payload);
    // Actions with a job's token do not start jobs.
    if (sender.type === "Bot" && event !== "workflow_run") return;
    const workflow = await this.#readWorkflow(repository.full_name, repository.default_branch);
    const trigger = workflow?.on[event];
    if (!workflow || trigger === undefined) return;
    if (trigger?.types && action !== undefined && !trigger.types.includes(action)) return;
    if (trigger?.workflows && !trigger.workflows.includes(completed?.name ?? "")) return;
    this.#waiting.push({ event, payload });
    this.#next();
  }

  /** Starts a job for the workflow's schedule. */
  async triggerSchedule(repository: string): Promise<void> {
    const { id, owner, defaultBranch } = this.#options.github.repository(repository);
    await this.trigger("schedule", {
      repository: { id, full_name: repository, owner: { id: owner.id }, default_branch: defaultBranch },
      sender: { type: "User" },
    });
  }

  /** Kills all jobs, as if their machines had failed, or sends them another signal. */
  kill(signal: NodeJS.Signals = "SIGKILL"): void {
    for (const { process } of this.#running) process?.kill(signal);
  }

  /** Resolves to the process of a job that is running, as soon as there is one. Undefined once `isOver` returns true. */
  async nextStarted(isOver: () => boolean): Promise<ChildProcess | undefined> {
    for (;;) {
      const running = [...this.#running].find(({ process }) => process);
      if (running || isOver()) return running?.process;
      await pause(50);
    }
  }

  /** Resolves when no job is running or waiting. */
  async idle(): Promise<void> {
    while (this.#running.size > 0 || this.#waiting.length > 0) {
      await Promise.race([...this.#running].map(({ done }) => done));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting.length = 0;
    for (const { process } of this.#running) process?.kill("SIGKILL");
    await Promise.all([...this.#running].map(({ done }) => done));
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #next(): void {
    while (!this.#isClosed && this.#running.size < (this.#options.parallel ?? 1)) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#count += 1;
      const job: RunningJob = { number: this.#count, event: next.event, done: Promise.resolve() };
      this.#running.add(job);
      job.done = this.#run(job, next.payload).then((finished) => {
        this.finished.push(finished);
        this.#running.delete(job);
        this.#next();
      });
    }
  }

  async #run(job: RunningJob, payload: unknown): Promise<FinishedJob> {
    const { github, environment = {}, secrets, golem = join(root, "src/terminal/golem.ts") } = this.#options;
    const { number, event } = job;
    const { full_name: name, id, owner, default_branch: branch } = Event.parse(payload).repository;
    const workflow = await this.#readWorkflow(name, branch);
    if (!workflow) return { number, event, exitCode: null, output: "The workflow is gone." };
    const [[jobName, { steps }] = ["", { steps: [] }]] = Object.entries(workflow.jobs);
    const step = steps.find(({ run, uses }) => `${run} ${uses}`.includes("golem-forge"));
    const permissions = Object.fromEntries(
      Object.entries(workflow.permissions).map(([permission, access]) => [permission.replaceAll("-", "_"), access]),
    );
    const token = github.issueJobToken(name, permissions);
    const expressions = { "github.token": token, ...mapKeys(secrets, (secret) => `secrets.${secret}`) };
    const folder = await mkdtemp(join(tmpdir(), "golem-forge-job-"));
    try {
      const eventPath = join(folder, "event.json");
      // Only webhooks of an App name an installation.
      await writeFile(
        eventPath,
        JSON.stringify(payload, (key, value) => (key === "installation" ? undefined : value)),
      );
      const child = spawn(...(await commandOf(step, golem)), {
        cwd: folder,
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
          HOME: folder,
          CI: "true",
          GITHUB_ACTIONS: "true",
          GITHUB_API_URL: github.apiUrl,
          GITHUB_SERVER_URL: github.url,
          GITHUB_REPOSITORY: name,
          GITHUB_REPOSITORY_ID: String(id),
          GITHUB_REPOSITORY_OWNER_ID: String(owner.id),
          GITHUB_EVENT_NAME: event,
          GITHUB_EVENT_PATH: eventPath,
          GITHUB_JOB: jobName,
          GITHUB_RUN_ID: String(number),
          GITHUB_RUN_ATTEMPT: "1",
          RUNNER_TEMP: folder,
          GITHUB_ACTION_PATH: root,
          ...mapValues(step?.env ?? {}, (text) => evaluate(text, expressions)),
          ...environment,
        },
      });
      job.process = child;
      let output = "";
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding("utf8").on("data", (text: string) => {
          output = (output + text).slice(-100_000);
        });
      }
      // The job was started while the runner was closing.
      if (this.#isClosed) child.kill("SIGKILL");
      await once(child, "close");
      return { number, event, exitCode: child.exitCode, output };
    } finally {
      github.revokeToken(token);
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    }
  }

  async #readWorkflow(repository: string, branch: string): Promise<Workflow | undefined> {
    const text = await this.#options.github.readFile(branch, workflowPath, repository);
    return text === undefined ? undefined : Workflow.parse(parse(text));
  }
}

/** Returns the command of the step: this program instead of the npm package, or what its `action.yml` runs. */
async function commandOf(step: { uses?: string | undefined } | undefined, golem: string): Promise<[string, string[]]> {
  if (!step?.uses) return [process.execPath, [golem, "action"]];
  const { runs } = CompositeAction.parse(parse(await readFile(join(root, "action.yml"), "utf8")));
  const scripts = runs.steps.flatMap(({ run = "" }) => (run === "" || run.startsWith("npm ci ") ? [] : [run]));
  // As the runner starts `shell: bash`.
  return ["bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", scripts.join("\n")]];
}

/** Replaces `${{ … }}` in a value of `env:`. */
function evaluate(text: string, expressions: Record<string, string>): string {
  return text.replace(/\$\{\{\s*([\w.]+)\s*\}\}/g, (_, name: string) => expressions[name] ?? "");
}

function mapValues(record: Record<string, string>, change: (value: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}

function mapKeys(record: Record<string, string>, change: (name: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [change(name), value]));
}
