import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { Octokit } from "@octokit/rest";
import { ProbotOctokit } from "probot";
import type { LocalGitHub } from "#playground/github/local-github.ts";
import { appId, privateKey, TestGitHub, type TestGitHubOptions } from "./test-github.ts";

/** A webhook as the app received it. */
interface ReceivedWebhook {
  headers: IncomingHttpHeaders;
  body: string;
  payload: Record<string, never>;
}

const silent = { debug() {}, info() {}, warn() {}, error() {}, fatal() {}, trace() {} };
const quiet = { log: silent, retry: { enabled: false }, throttle: { enabled: false } };

/** All events that the playground emits. */
const everyEvent = [
  ...["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"],
  ...["pull_request_review_thread", "check_run", "check_suite", "status", "workflow_run", "push", "repository"],
];
const everyPermission = {
  actions: "read",
  checks: "read",
  contents: "write",
  issues: "write",
  metadata: "read",
  pull_requests: "write",
  statuses: "write",
} as const;

/** The playground's GitHub with a repository of one commit, and an app that receives its webhooks and calls its API. */
export class PlaygroundWorld {
  readonly github: TestGitHub;
  readonly app: ProbotOctokit;
  readonly received: ReceivedWebhook[] = [];
  /** The status that the app answers webhooks with. */
  webhookStatus = 200;
  readonly #receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString("utf8");
    this.received.push({ headers: request.headers, body, payload: JSON.parse(body) });
    response.writeHead(this.webhookStatus).end();
  });

  static async start(options: TestGitHubOptions = {}): Promise<PlaygroundWorld> {
    const github = await TestGitHub.start({
      repositories: [{ name: "shop", commits: [firstCommit] }],
      ...options,
      app: { events: everyEvent, permissions: everyPermission, ...options.app },
    });
    const world = new PlaygroundWorld(github);
    await new Promise<void>((resolve) => world.#receiver.listen(0, "127.0.0.1", resolve));
    const { port } = world.#receiver.address() as AddressInfo;
    github.webhook = { url: `http://127.0.0.1:${port}/hook`, secret: webhookSecret };
    return world;
  }

  private constructor(github: TestGitHub) {
    this.github = github;
    this.app = new ProbotOctokit({ auth: { appId, privateKey }, baseUrl: github.apiUrl, ...quiet });
  }

  /** Issues an installation token, narrowed as the API allows it. */
  async token(narrowed: Record<string, unknown> = {}): Promise<string> {
    const { data } = await this.app.request("POST /app/installations/{installation_id}/access_tokens", {
      installation_id: this.github.installationId,
      ...narrowed,
    });
    return data.token;
  }

  async client(narrowed: Record<string, unknown> = {}): Promise<Octokit> {
    return new Octokit({ auth: await this.token(narrowed), baseUrl: this.github.apiUrl, ...quiet });
  }

  /** The event and action of each webhook that has arrived, in order of arrival. */
  get events(): string[] {
    return this.received.map(({ headers, payload }) =>
      [headers["x-github-event"], payload.action].filter(Boolean).join("."),
    );
  }

  async close(): Promise<void> {
    await this.github.close();
    this.#receiver.closeAllConnections();
    await new Promise((resolve) => this.#receiver.close(resolve));
  }
}

export const webhookSecret = "a webhook secret";

/** The default repository. */
export const shop = { owner: "playground", repo: "shop" };

const firstCommit = {
  branch: "main",
  message: "A shop",
  author: "maintainer",
  at: new Date("2025-01-02T03:04:05Z"),
  files: { "README.md": "# Shop\n", "src/total.js": "export const total = 1;\n" },
};

/** Pushes one commit to a branch as the contributor. */
export function commitTo(
  github: LocalGitHub,
  branch: string,
  files: Record<string, string | undefined>,
): Promise<void> {
  return github.push({ branch, message: `Change ${branch}`, author: "contributor", at: new Date(), files });
}
