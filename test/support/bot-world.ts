import { createHmac, generateKeyPairSync, randomUUID } from "node:crypto";
import type { components } from "@octokit/openapi-types";
import { HttpResponse, http, passthrough } from "msw";
import { setupServer } from "msw/node";
import { vi } from "vitest";
import { type Bot, createBot } from "#bot/create-bot.ts";
import { type Config, readConfig } from "#config/config.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Runs } from "#runtime/runs.ts";
import { sampleApproval, sampleView } from "./run-view.ts";

type Schema = components["schemas"];

export const api = "https://github.example/api/v3";
export const appId = 4711;
const secret = "a webhook secret";
export const repository = { owner: "octo", repo: "shop", installationId: 7 };

const keyPair = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const privateKey = keyPair.privateKey.export({ type: "pkcs8", format: "pem" }) as string;

/** When everything in this world was said: a while ago, and never too long. */
export const saidAt = new Date(Math.floor(Date.now() / 1_000) * 1_000 - 60_000);

export function person(login: string, type = "User"): Schema["simple-user"] {
  const url = `${api}/users/${login}`;
  return {
    login,
    id: [...login].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7) % 1_000_003,
    node_id: `U_${login}`,
    avatar_url: `${url}/avatar`,
    gravatar_id: "",
    url,
    html_url: `https://github.example/${login}`,
    followers_url: `${url}/followers`,
    following_url: `${url}/following`,
    gists_url: `${url}/gists`,
    starred_url: `${url}/starred`,
    subscriptions_url: `${url}/subscriptions`,
    organizations_url: `${url}/orgs`,
    repos_url: `${url}/repos`,
    events_url: `${url}/events`,
    received_events_url: `${url}/received_events`,
    type,
    site_admin: false,
  };
}

export function comment(id: number, login: string, body: string, more: object = {}): Schema["issue-comment"] {
  const url = `${api}/repos/octo/shop/issues/comments/${id}`;
  return {
    id,
    node_id: `IC_${id}`,
    url,
    html_url: `https://github.example/octo/shop/issues/1#issuecomment-${id}`,
    body,
    user: person(login, login.endsWith("[bot]") ? "Bot" : "User"),
    created_at: saidAt.toISOString(),
    updated_at: saidAt.toISOString(),
    issue_url: `${api}/repos/octo/shop/issues/1`,
    author_association: "COLLABORATOR",
    performed_via_github_app: null,
    ...more,
  };
}

/** What GitHub holds and was asked, changed by tests at will. */
interface GitHubState {
  /** Answers of the permission endpoint by login; a number is a status. Others: 404. */
  permissions: Record<string, string | number | object>;
  comments: Schema["issue-comment"][];
  reactions: string[];
  /** Every request, as `POST /repos/octo/shop/issues/1/comments`. */
  requests: string[];
  bodies: unknown[];
  headForked: boolean;
  deliveries: object[];
  redelivered: number[];
}

/** A GitHub on the network, for the few calls these tests make; any other fails the test. */
export function startGitHub() {
  const state: GitHubState = {
    permissions: { ada: "write", mia: "admin", tom: "read" },
    comments: [],
    reactions: [],
    requests: [],
    bodies: [],
    headForked: false,
    deliveries: [],
    redelivered: [],
  };
  let nextId = 1000;
  const at = (path: string) => `${api}${path}`;
  const repo = "/repos/octo/shop";

  const server = setupServer(
    http.all(/^http:\/\/127\.0\.0\.1:/, () => passthrough()),
    http.get(at("/app"), () => HttpResponse.json({ id: appId, slug: "golem-forge", name: "Golem Forge" })),
    http.post(at("/app/installations/:id/access_tokens"), () =>
      HttpResponse.json(
        { token: "ghs_installation", expires_at: new Date(Date.now() + 3_600_000).toISOString() },
        { status: 201 },
      ),
    ),
    http.get(at("/app/hook/deliveries"), () => HttpResponse.json(state.deliveries)),
    http.post(at("/app/hook/deliveries/:id/attempts"), ({ params }) => {
      state.redelivered.push(Number(params.id));
      return HttpResponse.json({}, { status: 202 });
    }),
    http.get(at(`${repo}/collaborators/:login/permission`), ({ params }) => {
      const answer = state.permissions[String(params.login)] ?? 404;
      if (typeof answer === "number") return HttpResponse.json({ message: "no" }, { status: answer });
      if (typeof answer === "object") return HttpResponse.json(answer);
      const permission = { maintain: "write", triage: "read" }[answer] ?? answer;
      return HttpResponse.json({ permission, role_name: answer, user: person(String(params.login)) });
    }),
    http.get(at(`${repo}/issues/:number/comments`), ({ request }) => {
      const query = new URL(request.url).searchParams;
      const [page, size] = [Number(query.get("page") ?? 1), Number(query.get("per_page") ?? 30)];
      const shown = state.comments.slice((page - 1) * size, page * size);
      const more = page * size < state.comments.length;
      query.set("page", String(page + 1));
      const link = `<${request.url.split("?")[0]}?${query}>; rel="next"`;
      return HttpResponse.json(shown, { headers: more ? { link } : {} });
    }),
    http.post(at(`${repo}/issues/:number/comments`), async ({ request }) => {
      const { body } = (await request.json()) as { body: string };
      const made = comment(nextId++, "golem-forge[bot]", body, { performed_via_github_app: { id: appId } });
      state.comments.push(made);
      return HttpResponse.json(made, { status: 201 });
    }),
    http.patch(at(`${repo}/issues/comments/:id`), async ({ request, params }) => {
      const found = state.comments.find(({ id }) => id === Number(params.id));
      if (!found) return HttpResponse.json({ message: "Not Found" }, { status: 404 });
      found.body = ((await request.json()) as { body: string }).body;
      return HttpResponse.json(found);
    }),
    http.post(at(`${repo}/issues/comments/:id/reactions`), async ({ request, params }) => {
      state.reactions.push(`${params.id} ${((await request.json()) as { content: string }).content}`);
      return HttpResponse.json({ id: 1 }, { status: 201 });
    }),
    http.post(at(`${repo}/issues/:number/reactions`), async ({ request, params }) => {
      state.reactions.push(`#${params.number} ${((await request.json()) as { content: string }).content}`);
      return HttpResponse.json({ id: 1 }, { status: 201 });
    }),
    http.get(at(`${repo}/pulls/:number`), ({ params }) =>
      HttpResponse.json({
        number: Number(params.number),
        html_url: "https://github.example/octo/shop/pull/2",
        title: "A change",
        body: null,
        state: "open",
        merged: false,
        draft: true,
        head: { ref: "patch", sha: "b".repeat(40), repo: { id: state.headForked ? 2 : 1 } },
        base: { ref: "main", sha: "a".repeat(40), repo: { id: 1 } },
      }),
    ),
  );
  server.events.on("request:start", ({ request }) => {
    if (request.url.startsWith(api)) state.requests.push(`${request.method} ${request.url.slice(api.length)}`);
  });
  server.listen({ onUnhandledFrame: "error" });
  return { state, server };
}

export function botConfig(environment: Record<string, string> = {}): Config {
  return readConfig({
    APP_ID: String(appId),
    PRIVATE_KEY: privateKey,
    WEBHOOK_SECRET: secret,
    GHE_HOST: "github.example",
    HOST: "127.0.0.1",
    PORT: "0",
    LOG_LEVEL: "silent",
    GOLEM_FORGE_WRITE_INTERVAL_MS: "0",
    ...environment,
  });
}

/** Runs that write down what they were asked, and answer as one calm thread would. */
export function recordingRuns() {
  const known = new Set<string>();
  return {
    startRun: vi.fn<Runs["startRun"]>(async () => ({ id: "r1" }) as RunSpec),
    deliverMessage: vi.fn<Runs["deliverMessage"]>(async () => true),
    decideApprovals: vi.fn<Runs["decideApprovals"]>(async () => [sampleApproval()]),
    requestStop: vi.fn<Runs["requestStop"]>(async () => []),
    requestResume: vi.fn<Runs["requestResume"]>(async () => []),
    requestCancel: vi.fn<Runs["requestCancel"]>(async () => []),
    runToolCommand: vi.fn<Runs["runToolCommand"]>(async () => {}),
    reportLocation: vi.fn<Runs["reportLocation"]>(async () => {}),
    stopUnreachable: vi.fn<Runs["stopUnreachable"]>(async () => {}),
    refreshReachable: vi.fn<Runs["refreshReachable"]>(async () => {}),
    recordOnce: vi.fn<Runs["recordOnce"]>(async (key) => known.size < known.add(key).size),
    threadActivity: vi.fn<Runs["threadActivity"]>(async () => "live"),
    status: vi.fn<Runs["status"]>(async () => [sampleView()]),
    pendingApprovals: vi.fn<Runs["pendingApprovals"]>(async () => [sampleApproval()]),
    listWorkers: vi.fn<Runs["listWorkers"]>(async () => [
      { name: "fixer", description: "Fixes bugs" },
      { name: "reviewer" },
    ]),
    view: vi.fn<Runs["view"]>(async () => undefined),
  };
}
export type RecordingRuns = ReturnType<typeof recordingRuns>;

export interface BotWorld {
  bot: Bot;
  url: string;
  runs: RecordingRuns;
}

export async function startBot(
  environment: Record<string, string> = {},
  { runs = recordingRuns(), ready = async () => {} }: { runs?: RecordingRuns; ready?: () => Promise<void> } = {},
): Promise<BotWorld> {
  const bot = await createBot({ config: botConfig(environment), runs: () => runs, ready });
  return { bot, url: await bot.start(), runs };
}

export interface Said {
  body?: string;
  login?: string;
  sender?: string;
  type?: string;
  action?: string;
  issue?: object;
  comment?: object;
  payload?: object;
}

/** The payload of a comment on issue 1, or on what `issue` says. */
export function commentPayload({
  body = "/run fixer",
  login = "ada",
  sender = login,
  type = "User",
  ...more
}: Said = {}) {
  return {
    action: more.action ?? "created",
    installation: { id: repository.installationId },
    repository: { name: "shop", full_name: "octo/shop", owner: person("octo") },
    issue: {
      number: 1,
      state: "open",
      locked: false,
      title: "It breaks",
      body: "Help",
      user: person("mia"),
      ...more.issue,
    },
    comment: { ...comment(50, login, body), user: person(login, type), ...more.comment },
    sender: person(sender, type),
    ...more.payload,
  };
}

export function sign(body: string, key = secret): string {
  return `sha256=${createHmac("sha256", key).update(body).digest("hex")}`;
}

/** Posts a signed delivery to the bot. */
export async function deliver(
  url: string,
  payload: object,
  { id = randomUUID() as string, name = "issue_comment", headers = {} as Record<string, string> } = {},
): Promise<Response> {
  const body = JSON.stringify(payload);
  return fetch(`${url}/api/github/webhooks`, {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "x-github-delivery": id,
      "x-github-event": name,
      "x-hub-signature-256": sign(body),
      ...headers,
    },
  });
}
