import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { type Config, readConfig } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { createModels } from "#models/create-models.ts";
import { costOf } from "#models/prices.ts";
import { openStore } from "#runtime/store/open-store.ts";
import { DatabaseInUseError } from "#runtime/store/sqlite/database-lock.ts";
import { readAppManifest } from "./app-manifest.ts";

/** The result of one check, as one line of text. */
export interface DoctorCheck {
  name: string;
  status: "ok" | "warning" | "problem";
  detail: string;
  /** A sentence that says what to do; undefined if there is no problem. */
  fix?: string;
}

export interface DoctorOptions {
  /** The time a webhook delivery may take to appear in GitHub's list. Default: 15 seconds. */
  deliveryTimeoutMs?: number;
  /** Calls the model once, with a question of a few tokens. Default: true. */
  callModel?: boolean;
}

const maxClockSkewMs = 30_000;
const requestTimeoutMs = 10_000;

/** Sends requests as the app. */
interface AppClient {
  request(
    route: string,
    parameters?: Record<string, unknown>,
  ): Promise<{ data: unknown; headers: Record<string, string | number | undefined> }>;
}

/**
 * Checks a deployment from its environment to its webhook, in order, and yields each result when it is known. Makes no
 * changes, but redelivers one webhook and calls the model once.
 */
export async function* runChecks(
  environment: Record<string, string | undefined>,
  { deliveryTimeoutMs = 15_000, callModel = true }: DoctorOptions = {},
): AsyncGenerator<DoctorCheck> {
  const config = tryReadConfig(environment);
  if ("problem" in config) {
    yield {
      name: "Settings",
      status: "problem",
      detail: config.problem,
      fix: "Run golem setup, or see docs/configuration.md.",
    };
    return;
  }
  yield ok("Settings", "All settings are valid.");

  const client = await connect(config);
  const app = yield* checkApp(client, config);
  if (app) {
    yield await checkAccess(app);
    yield await checkInstallations(client);
    yield await guarded("Webhook", () => checkWebhook(client, config, deliveryTimeoutMs));
  }
  yield await guarded("Public address", () => checkPublicAddress(config));
  yield await guarded("Model", () => checkModel(config, callModel));
  yield* checkExecutors(config);
  yield await guarded("Database", () => checkDatabase(config));
}

/**
 * Checks the App with GitHub before a server starts. Throws a UserError if GitHub rejects its id or key. Resolves to a
 * warning if GitHub does not answer: an outage says nothing about the App.
 */
export async function checkAppAtStart(config: Config, client: AppClient): Promise<string | undefined> {
  const result = await identifyApp(client, config);
  if (result.kind === "refused") throw new UserError(`${result.detail} ${result.fix}`);
  return result.kind === "unreachable" ? result.detail : undefined;
}

async function connect({ app, github }: Config): Promise<AppClient> {
  // Takes longer to load than the rest of the command.
  const { Probot } = await import("probot");
  const { appId, privateKey, webhookSecret: secret } = app;
  return new Probot({ appId, privateKey, secret, baseUrl: github.apiUrl, logLevel: "fatal" }).auth();
}

function ok(name: string, detail: string): DoctorCheck {
  return { name, status: "ok", detail };
}

async function guarded(name: string, check: () => Promise<DoctorCheck>): Promise<DoctorCheck> {
  try {
    return await check();
  } catch (error) {
    return { name, status: "problem", detail: error instanceof Error ? error.message : String(error) };
  }
}

function tryReadConfig(environment: Record<string, string | undefined>): Config | { problem: string } {
  try {
    return readConfig(environment);
  } catch (error) {
    if (error instanceof UserError) return { problem: error.message };
    throw error;
  }
}

const AppInfo = z.object({
  name: z.string(),
  html_url: z.string(),
  permissions: z.record(z.string(), z.string()),
  events: z.array(z.string()),
});
type AppInfo = z.infer<typeof AppInfo>;

type Identification =
  | { kind: "identified"; app: AppInfo; clockSkewMs: number }
  | { kind: "refused"; detail: string; fix: string; clockSkewMs: number }
  | { kind: "unreachable"; detail: string };

async function identifyApp(client: AppClient, { app, github }: Config): Promise<Identification> {
  const answer = await ask(client, "GET /app");
  // Only these statuses are about the App; an outage or a rate limit says nothing about it.
  if (answer.status === undefined || ![200, 401, 404].includes(answer.status)) {
    const reason = answer.status === undefined ? answer.reason : `it answers ${answer.status}`;
    return { kind: "unreachable", detail: `${github.apiUrl} cannot be reached: ${reason}` };
  }
  const clockSkewMs = Math.abs(Date.now() - Date.parse(answer.date ?? "")) || 0;
  if (answer.status === 200) return { kind: "identified", app: AppInfo.parse(answer.data), clockSkewMs };
  return {
    kind: "refused",
    detail: `GitHub does not accept App ${app.appId} with this private key (status ${answer.status}).`,
    fix: "Compare APP_ID with the App's settings page, and generate a new private key there.",
    clockSkewMs,
  };
}

async function* checkApp(client: AppClient, config: Config): AsyncGenerator<DoctorCheck, AppInfo | undefined> {
  const name = "GitHub App";
  const result = await identifyApp(client, config);
  if (result.kind === "unreachable") {
    const fix = "Check the network, a proxy, and GHE_HOST for an Enterprise Server.";
    yield { name, status: "problem", detail: result.detail, fix };
    return undefined;
  }
  yield checkClock(result.clockSkewMs);
  if (result.kind === "refused") {
    yield { name, status: "problem", detail: result.detail, fix: result.fix };
    return undefined;
  }
  yield ok(name, `${result.app.name} (${result.app.html_url})`);
  return result.app;
}

function checkClock(skewMs: number): DoctorCheck {
  const name = "Clock";
  if (skewMs <= maxClockSkewMs) return ok(name, "It agrees with GitHub's.");
  return {
    name,
    status: "problem",
    detail: `This machine's clock is ${Math.round(skewMs / 1_000)} seconds off GitHub's.`,
    fix: "Synchronize the clock (NTP): GitHub refuses tokens with a wrong time.",
  };
}

/** Compares the App's permissions and events with those in app.yml. */
async function checkAccess(app: AppInfo): Promise<DoctorCheck> {
  const { default_permissions, default_events } = await readAppManifest();
  const rank = { read: 1, write: 2, admin: 3 } as Record<string, number>;
  const permissions = Object.entries(default_permissions)
    .filter(([name, level]) => (rank[app.permissions[name] ?? ""] ?? 0) < (rank[level] ?? 0))
    .map(([name, level]) => `${name}: ${level}`);
  const events = default_events.filter((event) => !app.events.includes(event));
  if (permissions.length === 0 && events.length === 0) return ok("Permissions", "The App has all of app.yml.");
  const missing = [
    permissions.length > 0 && `permissions ${permissions.join(", ")}`,
    events.length > 0 && `events ${events.join(", ")}`,
  ];
  return {
    name: "Permissions",
    status: "problem",
    detail: `The App lacks ${missing.filter(Boolean).join(" and ")}.`,
    fix: `Add them under ${app.html_url.replace("/apps/", "/settings/apps/")}/permissions, then accept them for each installation.`,
  };
}

async function checkInstallations(client: AppClient): Promise<DoctorCheck> {
  const answer = await ask(client, "GET /app/installations");
  const count = Array.isArray(answer.data) ? answer.data.length : 0;
  if (count > 0) return ok("Installations", `${count}${count === 30 ? " or more" : ""}.`);
  return {
    name: "Installations",
    status: "warning",
    detail: "The App is not installed anywhere yet.",
    fix: "Install it on a repository from its page on GitHub.",
  };
}

const Hook = z.object({ url: z.string().optional() });
const Deliveries = z.array(
  z.object({
    id: z.number(),
    guid: z.string(),
    event: z.string(),
    delivered_at: z.string(),
    status_code: z.number(),
    status: z.string(),
  }),
);

/** Redelivers GitHub's latest ping, or else its latest delivery, and waits for the webhook's response. */
async function checkWebhook(client: AppClient, { app }: Config, timeoutMs: number): Promise<DoctorCheck> {
  const name = "Webhook";
  const { url = "" } = Hook.parse((await ask(client, "GET /app/hook/config")).data ?? {});
  if (!url)
    return {
      name,
      status: "problem",
      detail: "The App has no webhook.",
      fix: "Set its webhook URL and secret on the App's settings page.",
    };
  if (!url.endsWith(app.webhookPath) && app.webhookProxy === undefined) {
    return {
      name,
      status: "problem",
      detail: `GitHub sends webhooks to ${url}, and this server takes them at ${app.webhookPath}.`,
      fix: "Correct the webhook URL on the App's settings page, or WEBHOOK_PATH.",
    };
  }
  const list = async () => Deliveries.parse((await ask(client, "GET /app/hook/deliveries")).data ?? []);
  const before = await list();
  const sample = before.find(({ event }) => event === "ping") ?? before[0];
  if (!sample) {
    return {
      name,
      status: "warning",
      detail: "GitHub has sent no delivery yet, so there is none to try.",
      fix: "Comment /help on an issue, then run golem doctor again.",
    };
  }
  await client.request("POST /app/hook/deliveries/{delivery_id}/attempts", { delivery_id: sample.id });
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const attempt = (await list()).find(
      ({ guid, id }) => guid === sample.guid && !before.some((known) => known.id === id),
    );
    if (attempt) return webhookResult(attempt, url);
    if (Date.now() > deadline) {
      return {
        name,
        status: "warning",
        detail: "GitHub did not report the delivery in time.",
        fix: `Look at the App's recent deliveries, and try again.`,
      };
    }
    await delay(Math.min(500, timeoutMs / 4));
  }
}

function webhookResult(
  { status_code: code, status, event }: z.infer<typeof Deliveries>[number],
  url: string,
): DoctorCheck {
  const name = "Webhook";
  if (code >= 200 && code < 300) return ok(name, `${url} answered a ${event} delivery with ${code}.`);
  const fix =
    code === 400 || code === 401
      ? "The secrets differ: set the same one on the App's settings page and in WEBHOOK_SECRET."
      : "Start the server, and make sure that GitHub can reach it: HOST=0.0.0.0, the port, TLS and the reverse proxy.";
  return { name, status: "problem", detail: `${url} did not take a ${event} delivery: ${code || status}.`, fix };
}

async function checkPublicAddress({ page }: Config): Promise<DoctorCheck> {
  const name = "Public address";
  if (!page)
    return {
      name,
      status: "warning",
      detail: "GOLEM_FORGE_URL is not set: there are no run pages.",
      fix: "Set it to this server's public address.",
    };
  try {
    const response = await fetch(`${page.url}/healthz`, { signal: AbortSignal.timeout(requestTimeoutMs) });
    if (response.ok) return ok(name, `${page.url} answers.`);
    return {
      name,
      status: "problem",
      detail: `${page.url}/healthz answered ${response.status}.`,
      fix: "Check the reverse proxy's target.",
    };
  } catch (error) {
    return {
      name,
      status: "problem",
      detail: `${page.url} cannot be reached: ${reasonOf(error)}`,
      fix: "Start the server, and check DNS, TLS and the reverse proxy.",
    };
  }
}

async function checkModel(config: Config, callModel: boolean): Promise<DoctorCheck> {
  const name = "Model";
  const models = createModels(config.models);
  const model = models.defaultModel;
  if (!model) {
    return {
      name,
      status: "warning",
      detail: "GOLEM_FORGE_MODEL is not set: only workers that name a model can run.",
      fix: "Set it, such as GOLEM_FORGE_MODEL=anthropic:claude-sonnet-4-5, with its key.",
    };
  }
  const problem = models.findModelProblem(model);
  if (problem) return { name, status: "problem", detail: problem };
  const price = isPriced(model) ? "" : " Its price is not known, so the cost limit does not apply to it.";
  if (!callModel) return ok(name, `${model} is set up; it was not called.${price}`);
  await models.call({
    model,
    instructions: "Answer with the single word OK.",
    messages: [{ role: "user", content: "Are you there?" }],
    tools: [],
    signal: AbortSignal.timeout(60_000),
  });
  return { name, status: price ? "warning" : "ok", detail: `${model} answered.${price}` };
}

function isPriced(model: string): boolean {
  return costOf(model, { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, searches: 0 }) !== undefined;
}

async function* checkExecutors({ executors: options }: Config): AsyncGenerator<DoctorCheck> {
  const executors = createExecutors(options);
  try {
    for (const { tier, available, reason } of await executors.availabilities()) {
      if (tier === "remote" && !options.remote) continue;
      yield { name: `Sandbox (${tier})`, status: available ? "ok" : "warning", detail: reason };
    }
  } finally {
    await executors.close();
  }
}

async function checkDatabase({ database }: Config): Promise<DoctorCheck> {
  const name = "Database";
  try {
    const { store } = await openStore(database, { onError: () => {} });
    await store.ping();
    await store.close();
    return ok(name, database.kind === "sqlite" ? database.path : "PostgreSQL answers.");
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    // A database in use means that the server is running.
    return { name, status: error instanceof DatabaseInUseError ? "ok" : "problem", detail: error.message };
  }
}

interface Answer {
  status: number | undefined;
  data?: unknown;
  date?: string | undefined;
  reason?: string;
}

async function ask(client: AppClient, route: string): Promise<Answer> {
  try {
    const { data, headers } = await client.request(route, {
      request: { signal: AbortSignal.timeout(requestTimeoutMs), retries: 0 },
    });
    return { status: 200, data, date: headers.date?.toString() };
  } catch (error) {
    const answer = z
      .object({ status: z.number(), response: z.object({ headers: z.object({ date: z.string().optional() }) }) })
      .safeParse(error);
    if (answer.success) return { status: answer.data.status, date: answer.data.response.headers.date };
    return { status: undefined, reason: reasonOf(error) };
  }
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
