import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Config } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { readAppManifest } from "./app-manifest.ts";
import { type DoctorCheck, failure, ok, warning } from "./doctor-check.ts";

export interface AppClient {
  request(
    route: string,
    parameters?: Record<string, unknown>,
  ): Promise<{ data: unknown; headers: Record<string, string | number | undefined> }>;
}

const maxClockSkewMs = 30_000;
const requestTimeoutMs = 10_000;

/**
 * Checks the App with GitHub before a server starts. Throws a UserError if GitHub rejects its id or key. Resolves to a
 * warning if GitHub does not answer: an outage says nothing about the App.
 */
export async function checkAppAtStart(config: Config, client: AppClient): Promise<string | undefined> {
  const result = await identifyApp(client, config);
  if (result.kind === "refused") throw new UserError(`${result.detail} ${result.fix}`);
  return result.kind === "unreachable" ? result.detail : undefined;
}

/** Checks the App, what it and its installations may do, and whether a delivery reaches this server. */
export async function* checkApp(config: Config, deliveryTimeoutMs: number): AsyncGenerator<DoctorCheck> {
  const client = await connect(config);
  const name = "GitHub App";
  const result = await identifyApp(client, config);
  if (result.kind === "unreachable") {
    const fix = "Check the network, a proxy, and GHE_HOST for an Enterprise Server.";
    yield failure(name, result.detail, fix);
    return;
  }
  yield checkClock(result.clockSkewMs);
  if (result.kind === "refused") {
    yield failure(name, result.detail, result.fix);
    return;
  }
  const { app } = result;
  yield ok(name, `${app.name} (${app.html_url})`);
  yield await checkAccess(app, config);
  yield* checkInstallations(client, app);
  yield await checkWebhook(client, config, deliveryTimeoutMs);
  yield await checkSignIn(app, config);
}

async function connect({ app, github }: Config): Promise<AppClient> {
  // Takes longer to load than the rest of the command.
  const { Probot } = await import("probot");
  const { appId, privateKey, webhookSecret: secret } = app;
  return new Probot({ appId, privateKey, secret, baseUrl: github.apiUrl, logLevel: "fatal" }).auth();
}

const Permissions = z.record(z.string(), z.string());
const AppInfo = z.object({
  name: z.string(),
  slug: z.string().optional(),
  html_url: z.string(),
  client_id: z.string().optional(),
  owner: z.object({ login: z.string().optional(), type: z.string().optional() }).nullish(),
  permissions: Permissions,
  events: z.array(z.string()),
});
type AppInfo = z.infer<typeof AppInfo>;

type Identification =
  | { kind: "identified"; app: AppInfo; clockSkewMs: number }
  | { kind: "refused"; detail: string; fix: string; clockSkewMs: number }
  | { kind: "unreachable"; detail: string };

async function identifyApp(client: AppClient, { app, github }: Config): Promise<Identification> {
  const response = await ask(client, "GET /app");
  // Only these statuses are about the App; an outage or a rate limit says nothing about it.
  if (response.status === undefined || ![200, 401, 404].includes(response.status)) {
    const reason = response.status === undefined ? response.reason : `it responded with status ${response.status}`;
    return { kind: "unreachable", detail: `${github.apiUrl} cannot be reached: ${reason}` };
  }
  const clockSkewMs = Math.abs(Date.now() - Date.parse(response.date ?? "")) || 0;
  if (response.status === 200) return { kind: "identified", app: AppInfo.parse(response.data), clockSkewMs };
  return {
    kind: "refused",
    detail: `GitHub does not accept App ${app.appId} with this private key (status ${response.status}).`,
    fix: "Compare APP_ID with the App's settings page, and generate a new private key there.",
    clockSkewMs,
  };
}

function checkClock(skewMs: number): DoctorCheck {
  const name = "Clock";
  if (skewMs <= maxClockSkewMs) return ok(name, "It matches GitHub's.");
  return failure(
    name,
    `This machine's clock is ${Math.round(skewMs / 1_000)} seconds off GitHub's.`,
    "Synchronize the clock (NTP): GitHub refuses tokens with a wrong time.",
  );
}

/** Compares the App's permissions and events with those in app.yml. */
async function checkAccess(app: AppInfo, { github }: Config): Promise<DoctorCheck> {
  const name = "Permissions";
  const { default_permissions, default_events } = await readAppManifest();
  const permissions = missingPermissions(default_permissions, app.permissions);
  const events = default_events.filter((event) => !app.events.includes(event));
  if (permissions.length === 0 && events.length === 0)
    return ok(name, "The App has all permissions and events of app.yml.");
  const missing = [
    permissions.length > 0 && `permissions ${permissions.join(", ")}`,
    events.length > 0 && `events ${events.join(", ")}`,
  ];
  return failure(
    name,
    `The App lacks the ${missing.filter(Boolean).join(" and ")}.`,
    `Add them under ${settingsOf(app, github.webUrl)}/permissions, then accept them for each installation.`,
  );
}

function missingPermissions(needed: Record<string, string>, given: Record<string, string>): string[] {
  const rank: Record<string, number> = { read: 1, write: 2, admin: 3 };
  return Object.entries(needed)
    .filter(([name, level]) => (rank[given[name] ?? ""] ?? 0) < (rank[level] ?? 0))
    .map(([name, level]) => `${name}: ${level}`);
}

/** Returns the address of the App's settings, which depends on its owner. */
function settingsOf({ owner, slug, html_url }: AppInfo, webUrl: string): string {
  const organization = owner?.type === "Organization" ? `organizations/${owner.login}/` : "";
  return `${webUrl}/${organization}settings/apps/${slug ?? html_url.split("/").at(-1)}`;
}

const Installation = z.object({
  account: z.object({ login: z.string().optional(), type: z.string().optional() }).nullable(),
  permissions: Permissions,
  html_url: z.string(),
  suspended_at: z.string().nullish(),
});

/** Yields the number of installations, and each that is suspended or has not accepted the App's current permissions. */
async function* checkInstallations(client: AppClient, app: AppInfo): AsyncGenerator<DoctorCheck> {
  const name = "Installations";
  const response = await ask(client, "GET /app/installations", { per_page: 100 });
  if (response.status !== 200) {
    const detail = `GitHub did not list them: ${response.reason ?? `it responded with status ${response.status}`}`;
    yield warning(name, detail, "Run golem doctor again.");
    return;
  }
  const installations = z.array(Installation).parse(response.data);
  if (installations.length === 0) {
    const fix = `Install it on a repository: ${app.html_url}/installations/new`;
    yield warning(name, "The App is not installed anywhere yet.", fix);
    return;
  }
  yield ok(name, `${installations.length}${installations.length === 100 ? " or more" : ""}.`);
  const { default_permissions } = await readAppManifest();
  for (const { account, permissions, html_url: url, suspended_at } of installations) {
    const owner = account?.login ?? "An installation";
    if (suspended_at) {
      const fix = `Unsuspend it: ${url}`;
      yield warning(name, `${owner} has suspended the App.`, fix);
      continue;
    }
    // What the App itself lacks is reported once. An installation of a person has no permissions of an organization.
    const { members, ...ofPerson } = default_permissions;
    const needed = account?.type === "User" ? ofPerson : default_permissions;
    const lacking = new Set(missingPermissions(needed, app.permissions));
    const missing = missingPermissions(needed, permissions).filter((permission) => !lacking.has(permission));
    if (missing.length === 0) continue;
    const detail = `${owner} has not granted ${missing.join(", ")}.`;
    yield failure(name, detail, `An owner has to accept the App's permissions: ${url}`);
  }
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
    return failure(name, "The App has no webhook.", "Set its webhook URL and secret on the App's settings page.");
  if (!url.endsWith(app.webhookPath) && app.webhookProxy === undefined) {
    return failure(
      name,
      `GitHub sends webhooks to ${url}, and this server receives them at ${app.webhookPath}.`,
      "Correct the webhook URL on the App's settings page, or WEBHOOK_PATH.",
    );
  }
  const list = async () => Deliveries.parse((await ask(client, "GET /app/hook/deliveries")).data ?? []);
  const before = await list();
  const sample = before.find(({ event }) => event === "ping") ?? before[0];
  if (!sample) {
    return warning(
      name,
      "GitHub has not sent a delivery yet, so there is none to check.",
      "Comment /help on an issue, then run golem doctor again.",
    );
  }
  await ask(client, "POST /app/hook/deliveries/{delivery_id}/attempts", { delivery_id: sample.id });
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const attempt = (await list()).find(
      ({ guid, id }) => guid === sample.guid && !before.some((known) => known.id === id),
    );
    if (attempt) return webhookResult(attempt, url);
    if (Date.now() > deadline) {
      return warning(
        name,
        "GitHub did not report the delivery in time.",
        `Look at the App's recent deliveries, and try again.`,
      );
    }
    await delay(Math.min(500, timeoutMs / 4));
  }
}

function webhookResult(
  { status_code: code, status, event }: z.infer<typeof Deliveries>[number],
  url: string,
): DoctorCheck {
  const name = "Webhook";
  if (code >= 200 && code < 300) return ok(name, `${url} answered a delivery of ${event} with ${code}.`);
  const fix =
    code === 400 || code === 401
      ? "The secrets differ: set the same one on the App's settings page and in WEBHOOK_SECRET."
      : "Start the server, and make sure that GitHub can reach it: HOST=0.0.0.0, the port, TLS and the reverse proxy.";
  const detail = `${url} did not accept a ${event} delivery: ${code || status}.`;
  return failure(name, detail, fix);
}

/** Asks GitHub about a token that does not exist: it responds with 404 if the client and its secret are right. */
async function checkSignIn({ client_id: ownClient }: AppInfo, { page, github }: Config): Promise<DoctorCheck> {
  const name = "Sign-in";
  if (!page) return ok(name, "Off: there are no run pages.");
  if (!page.signIn) {
    const detail =
      "GITHUB_CLIENT_ID is not set: run pages cannot be used to approve, and show public repositories only.";
    return warning(name, detail, "Set it and GITHUB_CLIENT_SECRET, from the App's settings page.");
  }
  const { clientId, clientSecret } = page.signIn;
  const fix = "Copy the client ID and a new client secret from the App's settings page.";
  if (ownClient !== undefined && ownClient !== clientId) {
    return failure(name, `The App's client ID is ${ownClient}, not ${clientId}.`, fix);
  }
  const authorization = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`;
  try {
    const { status } = await fetch(`${github.apiUrl}/applications/${encodeURIComponent(clientId)}/token`, {
      method: "POST",
      headers: { authorization, accept: "application/vnd.github+json", "content-type": "application/json" },
      body: JSON.stringify({ access_token: "gho_checked-by-golem-doctor" }),
      signal: AbortSignal.timeout(requestTimeoutMs),
    });
    if ([401, 403].includes(status)) return failure(name, "GitHub does not accept GITHUB_CLIENT_SECRET.", fix);
    if ([404, 422].includes(status)) return ok(name, "GitHub accepts the client and its secret.");
    return warning(name, `Could not check whether people can sign in: GitHub responded with status ${status}.`);
  } catch (error) {
    return warning(name, `Could not check whether people can sign in: ${describeRequestError(error)}`);
  }
}

interface AppResponse {
  status: number | undefined;
  data?: unknown;
  date?: string | undefined;
  reason?: string;
}

async function ask(client: AppClient, route: string, parameters: Record<string, unknown> = {}): Promise<AppResponse> {
  try {
    const { data, headers } = await client.request(route, {
      ...parameters,
      request: { signal: AbortSignal.timeout(requestTimeoutMs), retries: 0 },
    });
    return { status: 200, data, date: headers.date?.toString() };
  } catch (error) {
    const response = z
      .object({ status: z.number(), response: z.object({ headers: z.object({ date: z.string().optional() }) }) })
      .safeParse(error);
    if (response.success) return { status: response.data.status, date: response.data.response.headers.date };
    return { status: undefined, reason: describeRequestError(error) };
  }
}

/** Returns the message of the innermost cause: "connect ECONNREFUSED …" rather than "fetch failed". */
export function describeRequestError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof Error) return describeRequestError(error.cause);
  // Several addresses of a host were tried.
  if (error instanceof AggregateError && error.errors.length > 0) return describeRequestError(error.errors[0]);
  return error.message;
}
