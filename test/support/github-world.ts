import { pino } from "pino";
import { afterEach } from "vitest";
import { connectApp, createOpenGitHub } from "#bot/github/open-github.ts";
import { readConfig } from "#config/config.ts";
import type { GitHub, OpenGitHub, Permission, RepositoryRef } from "#domain/github.ts";
import { addUser, type NewRepository } from "#playground/github/create-world.ts";
import { executeGit, gitEnvironment } from "#playground/github/git/run-git.ts";
import type { RequestRecord } from "#playground/github/request-log.ts";
import type { SnapshotThread } from "#playground/github/snapshot.ts";
import type { AppIdentity } from "#playground/github/world.ts";
import { appId, privateKey, TestGitHub, type TestGitHubOptions } from "./test-github.ts";

export const webhookSecret = "a webhook secret";

/** Returns the configuration of an app that uses this GitHub. */
export function configFor(hub: TestGitHub, environment: Record<string, string> = {}) {
  return readConfig({
    APP_ID: String(appId),
    PRIVATE_KEY: privateKey,
    WEBHOOK_SECRET: webhookSecret,
    GHE_HOST: hub.host,
    GHE_PROTOCOL: "http",
    HOST: "127.0.0.1",
    PORT: "0",
    LOG_LEVEL: "silent",
    GOLEM_FORGE_WRITE_INTERVAL_MS: "0",
    ...environment,
  });
}

/** The repository octo/sums. ada has write access, mallory does not. */
export const sums: NewRepository = {
  owner: "octo",
  name: "sums",
  permissions: { ada: "write", mallory: "read" },
  commits: [
    {
      branch: "main",
      message: "Sums",
      author: "ada",
      at: new Date("2026-01-01T00:00:00Z"),
      files: { "sum.js": "export const sum = 1;\n", "README.md": "# Sums\n" },
    },
  ],
};

/** The playground's GitHub with one repository, and the product's own client for it. */
export class GitHubWorld {
  readonly hub: TestGitHub;
  readonly openGitHub: OpenGitHub;
  readonly repository: RepositoryRef;
  readonly github: GitHub;

  static async start({
    repository = sums,
    environment,
    ...options
  }: TestGitHubOptions & { repository?: NewRepository; environment?: Record<string, string> } = {}) {
    const hub = await TestGitHub.start({ repositories: [repository], ...options });
    const config = configFor(hub, environment);
    const rest = connectApp(config, pino({ level: "silent" }));
    return new GitHubWorld(hub, createOpenGitHub(rest, config));
  }

  private constructor(hub: TestGitHub, openGitHub: OpenGitHub) {
    const { id, owner, name } = hub.repository();
    this.hub = hub;
    this.openGitHub = openGitHub;
    this.repository = { installationId: hub.installationId, repositoryId: id, owner: owner.login, repo: name };
    this.github = openGitHub(this.repository);
  }

  /** Returns the pull requests in the snapshot. */
  async pulls(): Promise<SnapshotThread[]> {
    const { owner, repo } = this.repository;
    return (await this.hub.snapshot())[`${owner}/${repo}`]?.pulls ?? [];
  }

  /** Runs git in the bare repository and returns its output. */
  async git(...args: string[]): Promise<string> {
    const { gitDirectory } = this.hub.repository();
    const { code, output, messages } = await executeGit({
      args: ["--git-dir", gitDirectory, ...args],
      env: gitEnvironment(),
    });
    if (code !== 0) throw new Error(messages);
    return output.toString();
  }

  setPermission(login: string, permission: Permission): void {
    addUser(this.hub.world, login, "User");
    this.hub.repository().permissions.set(login, permission);
  }

  /** Posts a comment with a time in the past; `editedAt` is the time of its last edit. */
  comment(
    number: number,
    body: string,
    { by, at, editedAt = at, app }: { by: string; at: Date; editedAt?: Date; app?: AppIdentity },
  ): void {
    addUser(this.hub.world, by, by.endsWith("[bot]") ? "Bot" : "User");
    Object.assign(this.hub.as(by).comment(number, body), { createdAt: at, updatedAt: editedAt, app });
  }

  /** Opens the issue with this number, and all missing ones before it. */
  openIssue(number: number, issue: { title: string; body?: string; labels?: string[]; by?: string }) {
    const { threads } = this.hub.repository();
    const visitor = this.hub.as("visitor");
    while (threads.size < number - 1) visitor.openIssue({ title: `Issue ${threads.size + 1}` });
    const { by = "mallory", ...fields } = issue;
    return this.hub.as(by).openIssue(fields);
  }

  /** The requests that write, without those for tokens. */
  get writes(): RequestRecord[] {
    return this.hub.requests.filter(
      ({ method, operation = "" }) =>
        /^(POST|PATCH|PUT|DELETE)$/.test(method) && !/access_tokens|^git-/.test(operation),
    );
  }

  close(): Promise<void> {
    return this.hub.close();
  }
}

/** Returns a function that starts worlds, each closed after its test. */
export function githubWorlds(): (...options: Parameters<typeof GitHubWorld.start>) => Promise<GitHubWorld> {
  const open: GitHubWorld[] = [];
  afterEach(() => Promise.all(open.splice(0).map((world) => world.close())));
  return async (...options) => {
    const world = await GitHubWorld.start(...options);
    open.push(world);
    return world;
  };
}
