import { execFile } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { UserError } from "#domain/errors.ts";
import { freePort } from "#playground/github/listen.ts";
import { LocalGitHub } from "#playground/github/local-github.ts";
import { type ModelServer, startModelServer } from "#playground/model/model-server.ts";
import { workerScript } from "#playground/model/worker-scripts.ts";
import { DemoApp } from "./demo-app.ts";
import { readSampleIssue, readSampleRepository } from "./sample-repository.ts";

export interface Playground {
  github: LocalGitHub;
  app: DemoApp;
  /** The model in use, as a sentence. */
  notice: string;
  /** The page of the sample issue. */
  issue: { number: number; url: string };
  /** The URL for cloning and pushing as the maintainer, with a credential. */
  cloneUrl: string;
  close(): Promise<void>;
}

const appId = 1;
const scriptedModel = "compatible:scripted";
/** Settings of a real deployment that the demo ignores. */
const ignoredVariables = [
  ...["PRIVATE_KEY_PATH", "WEBHOOK_PROXY_URL", "WEBHOOK_PATH", "GOLEM_FORGE_REPOSITORIES"],
  ...["NODE_ENV", "NODE_OPTIONS", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"],
];

export interface PlaygroundOptions {
  /** The port of the page; 0 takes any free one. */
  port: number;
  /** Undefined for the scripted model. */
  model: string | undefined;
  environment: Record<string, string | undefined>;
  /** Called after the app exited unexpectedly and was restarted. */
  onRestart?: (message: string) => void;
}

/** Starts the local GitHub with the sample repository, a scripted model where needed, and the app in its own process. */
export async function startPlayground(options: PlaygroundOptions): Promise<Playground> {
  await requireGit();
  const cleanups: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  };
  try {
    return { ...(await start(options, cleanups)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function requireGit(): Promise<void> {
  await promisify(execFile)("git", ["--version"]).catch((error: unknown) => {
    throw new UserError("The demo needs git, which is not installed or not in your PATH.", { cause: error });
  });
}

async function start(
  { port, model, environment, onRestart = () => {} }: PlaygroundOptions,
  cleanups: (() => Promise<unknown>)[],
): Promise<Omit<Playground, "close">> {
  const notice = describeModel(model);
  const directory = await mkdtemp(join(tmpdir(), "golem-forge-demo-"));
  cleanups.push(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  const secret = randomBytes(24).toString("hex");
  const appPort = await freePort();
  const url = `http://127.0.0.1:${appPort}`;
  const oauth = {
    clientId: "Iv1.playground",
    clientSecret: randomBytes(20).toString("hex"),
    callbackUrl: `${url}/runs/-/signed-in`,
  };
  const github = await LocalGitHub.start({
    port,
    notice,
    app: { id: appId, key: publicKey, oauth },
    webhook: { url: `${url}/api/github/webhooks`, secret },
    repositories: [await readSampleRepository()],
  });
  cleanups.push(() => github.close());
  const stopCi = runSampleCi(github);
  cleanups.push(async () => stopCi());
  const server = model ? undefined : await startModelServer({ script: workerScript });
  if (server) cleanups.push(() => server.close());
  const variables = {
    ...inherited(environment),
    ...modelVariables(model, server),
    APP_ID: String(appId),
    PRIVATE_KEY: privateKey,
    WEBHOOK_SECRET: secret,
    PORT: String(appPort),
    HOST: "127.0.0.1",
    GOLEM_FORGE_URL: url,
    GITHUB_CLIENT_ID: oauth.clientId,
    GITHUB_CLIENT_SECRET: oauth.clientSecret,
    GHE_HOST: github.host,
    GHE_PROTOCOL: "http",
    LOG_LEVEL: environment.LOG_LEVEL ?? "error",
    DATABASE_URL: `file:${join(directory, "golem-forge.db")}`,
    GOLEM_FORGE_STATUS_INTERVAL_MS: "500",
    GOLEM_FORGE_WRITE_INTERVAL_MS: "0",
  };
  const app = await DemoApp.start(variables, (how) => {
    const message = `The app stopped unexpectedly (${how}) and has been restarted. No work was lost: every run continues where it was.`;
    github.notice = `${message} ${notice}`;
    onRestart(message);
  });
  cleanups.push(() => app.stop());
  // Opened only now: the app would not receive the webhook before it listens.
  const { number } = github.as("visitor").openIssue(await readSampleIssue());
  return {
    github,
    app,
    notice,
    issue: { number, url: `${github.url}/playground/paginate/issues/${number}` },
    cloneUrl: cloneUrl(github),
  };
}

function cloneUrl(github: LocalGitHub): string {
  const maintainer = github.world.users.get("maintainer");
  if (!maintainer) throw new Error("The world has no maintainer.");
  const token = github.credentials.issueToUser(maintainer);
  return `http://maintainer:${token}@${github.host}/playground/paginate.git`;
}

function describeModel(model: string | undefined): string {
  return model
    ? `Workers use ${model}.`
    : "No model is configured, so a scripted model answers. It really reads files, edits them, runs tests and opens a pull request, but only in prepared steps on the sample issue, for every worker except explorer.";
}

function inherited(environment: Record<string, string | undefined>): Record<string, string> {
  const kept = Object.entries(environment).filter(([name]) => !ignoredVariables.includes(name));
  return Object.fromEntries(kept.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

function modelVariables(model: string | undefined, server: ModelServer | undefined): Record<string, string> {
  if (model) return { GOLEM_FORGE_MODEL: model };
  return {
    GOLEM_FORGE_MODEL: scriptedModel,
    OPENAI_COMPATIBLE_BASE_URL: server?.url ?? "",
    OPENAI_COMPATIBLE_API_KEY: "not needed",
  };
}

const ciRule = "CHANGELOG.md does not change in this pull request.";

/** Runs the sample's CI on each new head: CHANGELOG.md needs a new line. Returns a function that stops it. */
function runSampleCi(github: LocalGitHub): () => void {
  const checked = new Set<string>();
  let running = Promise.resolve();
  const stop = github.watch(() => {
    running = running.then(() => checkPulls(github, checked)).catch((error: unknown) => console.error(error));
  });
  return stop;
}

async function checkPulls(github: LocalGitHub, checked: Set<string>): Promise<void> {
  for (const { pulls } of Object.values(await github.snapshot())) {
    for (const { state, pull } of pulls) {
      if (!pull || state !== "open" || checked.has(pull.commit)) continue;
      checked.add(pull.commit);
      await check(github, pull);
    }
  }
}

async function check(github: LocalGitHub, { head, base }: { head: string; base: string }): Promise<void> {
  const [before, after] = await Promise.all([base, head].map((ref) => github.readFile(ref, "CHANGELOG.md")));
  const isGood = after !== undefined && after !== before;
  const checks = await github.checks(head);
  const workflow = checks.startWorkflow("CI");
  checks.report("changelog", {
    conclusion: isGood ? "success" : "failure",
    title: isGood ? "CHANGELOG.md changes" : "CHANGELOG.md is missing a line",
    summary: isGood ? "" : ciRule,
    log: `Run git diff --exit-code ${base}...${head} -- CHANGELOG.md\n${isGood ? "1 file changed" : `Error: ${ciRule}\nError: Process completed with exit code 1.`}\n`,
    annotations: isGood
      ? []
      : [{ path: "CHANGELOG.md", start_line: 1, end_line: 1, annotation_level: "failure", message: ciRule }],
  });
  checks.completeWorkflow(workflow);
}
