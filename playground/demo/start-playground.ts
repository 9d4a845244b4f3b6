import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalGitHub } from "#playground/github/local-github.ts";
import { fixerScript } from "#playground/model/fixer-script.ts";
import { type ModelServer, startModelServer } from "#playground/model/model-server.ts";
import { readSampleIssue, readSampleRepository } from "./sample-repository.ts";
import { freePort, type RunningApp, startApp } from "./start-app.ts";

export interface Playground {
  github: LocalGitHub;
  app: RunningApp;
  /** Which model answers, as a sentence. */
  notice: string;
  /** The page of the sample issue. */
  issue: { number: number; url: string };
  close(): Promise<void>;
}

const appId = 1;
const scriptedModel = "compatible:scripted";
/** What the deployment of somebody's real app may have set, and this one must not follow. */
const ignoredVariables = [
  ...["PRIVATE_KEY_PATH", "WEBHOOK_PROXY_URL", "WEBHOOK_PATH", "GOLEM_FORGE_REPOSITORIES"],
  ...["NODE_ENV", "NODE_OPTIONS", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"],
];

/**
 * Starts a local GitHub with the sample repository, a scripted model when `model` is undefined, and the real app in a
 * process of its own, given nothing but environment variables. `port` is the page's; 0 takes a free one.
 */
export async function startPlayground({
  port,
  model,
  environment,
}: {
  port: number;
  model: string | undefined;
  environment: Record<string, string | undefined>;
}): Promise<Playground> {
  const cleanups: (() => Promise<unknown>)[] = [];
  async function close(): Promise<void> {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  }

  try {
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
    const server = model ? undefined : await startModelServer({ script: fixerScript });
    if (server) cleanups.push(() => server.close());
    const app = await startApp({
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
    });
    cleanups.push(() => app.stop());
    // Only now: what happened before the app listened would never be told again.
    const { number } = github.as("visitor").openIssue(await readSampleIssue());
    return { github, app, notice, issue: { number, url: `${github.url}/playground/paginate/issues/${number}` }, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function describeModel(model: string | undefined): string {
  return model
    ? `Workers use ${model}.`
    : "No model is set, so a scripted model answers: it really reads, edits and opens a pull request, but it can only fix the sample issue.";
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
    OPENAI_COMPATIBLE_API_KEY: "none is needed",
  };
}
