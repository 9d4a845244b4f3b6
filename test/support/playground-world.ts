import { generateKeyPairSync } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { Octokit } from "@octokit/rest";
import { ProbotOctokit } from "probot";
import { type LocalGitHub, type LocalGitHubOptions, startLocalGitHub } from "#playground/github/start-local-github.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

export { privateKey, publicKey };

/** One webhook as it arrived. */
interface Received {
  headers: IncomingHttpHeaders;
  body: string;
  payload: Record<string, never>;
}

/** A repository with one commit, a GitHub around it, and somebody who listens to its webhooks. */
export async function startPlaygroundWorld(options: Partial<LocalGitHubOptions> = {}) {
  const received: Received[] = [];
  const hears = { status: 200 };
  const receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString("utf8");
    received.push({ headers: request.headers, body, payload: JSON.parse(body) });
    response.writeHead(hears.status).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const webhook = {
    url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`,
    secret: "a webhook secret",
  };
  const github = await startLocalGitHub({
    app: { id: 7, key: publicKey },
    webhook,
    repositories: [{ name: "shop", commits: [firstCommit] }],
    ...options,
  });
  const app = new ProbotOctokit({ auth: { appId: 7, privateKey }, baseUrl: github.apiUrl, ...quiet });

  async function token(narrowed: Record<string, unknown> = {}): Promise<string> {
    const { data } = await app.request("POST /app/installations/{installation_id}/access_tokens", {
      installation_id: github.installationId,
      ...narrowed,
    });
    return data.token;
  }

  async function client(narrowed: Record<string, unknown> = {}): Promise<Octokit> {
    return new Octokit({ auth: await token(narrowed), baseUrl: github.apiUrl, ...quiet });
  }

  async function close(): Promise<void> {
    await github.close();
    receiver.closeAllConnections();
    await new Promise((resolve) => receiver.close(resolve));
  }

  return { github, app, token, client, received, hears, webhook, close };
}

export type PlaygroundWorld = Awaited<ReturnType<typeof startPlaygroundWorld>>;

/** Where everything happens unless a test says otherwise. */
export const shop = { owner: "playground", repo: "shop" };

const firstCommit = {
  branch: "main",
  message: "A shop",
  author: "maintainer",
  at: new Date("2025-01-02T03:04:05Z"),
  files: { "README.md": "# Shop\n", "src/total.js": "export const total = 1;\n" },
};

const silent = { debug() {}, info() {}, warn() {}, error() {}, fatal() {}, trace() {} };
const quiet = { log: silent, retry: { enabled: false }, throttle: { enabled: false } };

/** Pushes one commit to a branch, as somebody would. */
export function commitTo(
  github: LocalGitHub,
  branch: string,
  files: Record<string, string | undefined>,
): Promise<void> {
  return github.push({ branch, message: `Change ${branch}`, author: "contributor", at: new Date(), files });
}
