import { createPublicKey } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOwners, type Owners } from "./account-changes.ts";
import { addRepository, createWorld, type NewApp, type NewRepository } from "./create-world.ts";
import { createCredentials } from "./credentials.ts";
import { answerGit, parseGitPath } from "./git/answer-git.ts";
import { type CommitFiles, commitFiles } from "./git/commit-files.ts";
import { branches, diffText, findEntry, readBlob, resolveCommit } from "./git/git-repository.ts";
import { listen } from "./listen.ts";
import { answerPage } from "./pages/answer-page.ts";
import { answerSignIn, isSignIn } from "./pages/answer-sign-in.ts";
import { createOAuth, type OAuthClient } from "./pages/oauth.ts";
import { actAs, type Person } from "./person.ts";
import { createRequestLog, type RequestLog, type RequestRecord } from "./request-log.ts";
import { answerRest, restPath, type ServerContext } from "./rest/answer-rest.ts";
import { findVisibleRepository } from "./rest/operation.ts";
import { fullName } from "./shapes/repository.ts";
import { type GitHubSnapshot, takeSnapshot } from "./snapshot.ts";
import { recordPush } from "./user-actions.ts";
import { createWebhooks, type Webhook, type WebhookDelivery } from "./webhooks.ts";
import type { CheckRun, Repository } from "./world.ts";

export interface LocalGitHubOptions {
  /** 0, the default, takes any free port of 127.0.0.1. */
  port?: number;
  app: Omit<NewApp, "slug"> & {
    /** Default: `golem-forge`, so that the app comments as `golem-forge[bot]`. */
    slug?: string;
    /** The app's key in PEM: the public half, or the private one it is derived from. */
    key: string;
    /** How people sign in to it; undefined where nobody can. */
    oauth?: OAuthClient;
  };
  webhook?: Webhook;
  /** The first one is where people act when nothing else is said. */
  repositories?: readonly NewRepository[];
  /** Holds the bare repositories. Default: a temporary folder that is gone after `close`. */
  dataDirectory?: string;
  /** Milliseconds an installation token lives. Default: an hour. */
  tokenMs?: number;
  /** What the page says at its top, such as which model is used. */
  notice?: string;
}

/** A GitHub of our own on loopback, with handles for people and for tests. */
export interface LocalGitHub extends Pick<RequestLog, "onRequest" | "afterWrite"> {
  /** The pages, and git below `/{owner}/{repo}.git`. */
  readonly url: string;
  /** The REST API. */
  readonly apiUrl: string;
  /** What to give the app as GHE_HOST. */
  readonly host: string;
  /** The first one, of the account that owns the app. */
  readonly installationId: number;
  /** The app's own login, `golem-forge[bot]`. */
  readonly botLogin: string;
  /** Acts as someone in a repository, `owner/name`. Throws an ApiError for what they may not do. */
  as(login: string, repository?: string): Person;
  createRepository(repository: NewRepository): Promise<void>;
  /** What owners do to their repositories and to the app. */
  readonly owners: Owners;
  /** The repository of this name, or the first. */
  repository(name?: string): Repository;
  /** Commits on top of a branch, as somebody's push. A new branch grows from the default branch. */
  push(commit: CommitFiles, repository?: string): Promise<void>;
  /** Adds a check run to a commit. */
  addCheck(check: Omit<CheckRun, "id" | "startedAt">, repository?: string): void;
  /** The text of a file on a branch or commit; undefined when there is none. */
  readFile(ref: string, path: string, repository?: string): Promise<string | undefined>;
  /** What one branch or commit changed since it left another, as git prints it. */
  diff(base: string, head: string, repository?: string): Promise<string>;
  snapshot(): Promise<GitHubSnapshot>;
  /** Resolves to what `find` gives as soon as that is not undefined, asked again after every change. */
  until<T>(
    find: (snapshot: GitHubSnapshot) => T | undefined,
    options?: { timeoutMs?: number; what?: string },
  ): Promise<T>;
  /** Calls back after every change. Returns what stops it. */
  watch(listener: () => void): () => void;
  readonly requests: readonly RequestRecord[];
  /** Requests for which there is no operation here: a test fails on them. */
  unknownRequests(): RequestRecord[];
  readonly deliveries: readonly WebhookDelivery[];
  /** Sends a delivery again. */
  redeliver(deliveryId: number): void;
  /** Resolves when no webhook is under way. */
  deliveriesSettled(): Promise<void>;
  /** Where webhooks go from now on; undefined turns them off. */
  setWebhook(hook: Webhook | undefined): void;
  close(): Promise<void>;
}

/** Starts it on 127.0.0.1. Throws a UserError when the port is taken. */
export async function startLocalGitHub(options: LocalGitHubOptions): Promise<LocalGitHub> {
  const log = createRequestLog();
  const watchers = new Set<() => void>();
  let context: ServerContext | undefined;
  const server = createServer((request, response) => {
    if (!context) return void response.destroy();
    answer({ server: context, watch, notice: options.notice }, request, response).catch((error: unknown) => {
      console.error("The local GitHub failed:", error);
      if (response.headersSent) response.destroy();
      else response.writeHead(500).end('{"message":"Server Error"}');
    });
  });
  const port = await listen(server, options.port ?? 0);
  // After the port is ours: where it is taken, nothing is left behind.
  const directory = options.dataDirectory ?? (await mkdtemp(join(tmpdir(), "golem-forge-github-")));
  const host = `127.0.0.1:${port}`;
  const { key, oauth, ...app } = { slug: "golem-forge", ...options.app };
  const world = createWorld({
    url: `http://${host}`,
    app,
    emit: (event) => webhooks.emit(event),
    emitInstallationEvent: (event) => webhooks.emitInstallationEvent(event),
    notify: () => {
      for (const watcher of watchers) watcher();
    },
  });
  const webhooks = createWebhooks({ world, hook: options.webhook });
  const publicKey = createPublicKey(key).export({ type: "spki", format: "pem" }).toString();
  const credentials = createCredentials({ app, publicKey, tokenMs: options.tokenMs ?? 60 * 60_000, client: oauth });
  for (const repository of options.repositories ?? []) await addRepository(world, directory, repository);
  const owners = createOwners({ world, credentials });
  const [installation] = world.installations.values();
  context = { world, credentials, oauth: createOAuth(oauth), webhooks, log };

  function watch(listener: () => void): () => void {
    watchers.add(listener);
    return () => watchers.delete(listener);
  }

  function repositoryOf(name: string | undefined): Repository {
    const [first] = world.repositories.values();
    const chosen = name ?? (first && fullName(first));
    if (!chosen) throw new Error("This GitHub has no repository yet.");
    return world.repositories.get(chosen.toLowerCase()) ?? findVisibleRepository(world, chosen, undefined);
  }

  function until<T>(
    find: (snapshot: GitHubSnapshot) => T | undefined,
    { timeoutMs = 20_000, what = "what was waited for" }: { timeoutMs?: number; what?: string } = {},
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = watch(() => void look());
      const timer = setTimeout(() => {
        settle(() => reject(new Error(`GitHub did not show ${what} within ${timeoutMs} ms.`)));
      }, timeoutMs);
      let looking = false;
      let changed = false;
      let settled = false;
      // One look at a time: what changes meanwhile is seen by one more look, however much it is.
      async function look() {
        changed = true;
        if (looking) return;
        looking = true;
        try {
          while (changed && !settled) {
            changed = false;
            const found = find(await takeSnapshot(world));
            if (found !== undefined) settle(() => resolve(found));
          }
        } catch (error) {
          settle(() => reject(error));
        }
        looking = false;
      }
      function settle(end: () => void) {
        settled = true;
        clearTimeout(timer);
        stop();
        end();
      }
      void look();
    });
  }

  async function close(): Promise<void> {
    webhooks.setTarget(undefined);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await webhooks.settled();
    if (!options.dataDirectory) await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }

  return {
    url: world.url,
    apiUrl: `${world.url}/api/v3`,
    host,
    installationId: installation?.id ?? 0,
    botLogin: world.app.bot.login,
    as: (login, name) => actAs({ world, repository: repositoryOf(name), login }),
    owners,
    repository: repositoryOf,
    createRepository: async (repository) => void (await addRepository(world, directory, repository)),
    push: async (commit, name) => {
      const repository = repositoryOf(name);
      const before = await branches(repository.gitDirectory);
      await commitFiles(repository.gitDirectory, [{ from: repository.defaultBranch, ...commit }]);
      const by = world.users.get(commit.author.toLowerCase()) ?? repository.owner;
      recordPush({ world, repository, actor: by }, before, await branches(repository.gitDirectory));
    },
    addCheck: (check, name) => {
      repositoryOf(name).checks.push({ ...check, id: world.nextId(), startedAt: new Date() });
    },
    readFile: async (ref, path, name) => {
      const { gitDirectory } = repositoryOf(name);
      const commit = await resolveCommit(gitDirectory, ref);
      const entry = commit && (await findEntry(gitDirectory, commit, path));
      return entry ? (await readBlob(gitDirectory, entry.sha)).toString("utf8") : undefined;
    },
    diff: (base, head, name) => diffText(repositoryOf(name).gitDirectory, base, head),
    snapshot: () => takeSnapshot(world),
    until,
    watch,
    requests: log.records,
    unknownRequests: () => log.records.filter(({ operation }) => operation === undefined),
    onRequest: log.onRequest,
    afterWrite: log.afterWrite,
    deliveries: webhooks.deliveries,
    redeliver: (id) => void webhooks.redeliver(id),
    deliveriesSettled: webhooks.settled,
    setWebhook: webhooks.setTarget,
    close,
  };
}

type Reception = { server: ServerContext; notice: string | undefined; watch(listener: () => void): () => void };

async function answer(reception: Reception, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { server } = reception;
  const url = new URL(request.url ?? "/", server.world.url);
  const path = restPath(url.pathname);
  if (path !== undefined) {
    const found = await answerRest(server, { request, url, path });
    if (!found) return void response.destroy();
    const headers = { ...restHeaders(), ...found.headers };
    response.writeHead(found.status, headers).end(found.body === undefined ? undefined : JSON.stringify(found.body));
    return;
  }
  const git = parseGitPath(url.pathname);
  if (git) {
    const reply = await answerGit(server, { request, url, path: git });
    if (!reply) return void response.destroy();
    response.writeHead(reply.status, reply.headers).end(reply.body);
    return;
  }
  if (isSignIn(url.pathname)) return answerSignIn(server, { request, response, url });
  await answerPage(reception, { request, response, url });
}

function restHeaders(): Record<string, string> {
  return {
    "Content-Type": "application/json; charset=utf-8",
    "X-GitHub-Request-Id": "playground",
    "X-GitHub-Enterprise-Version": "3.19.0",
    "X-RateLimit-Limit": "5000",
    "X-RateLimit-Remaining": "4999",
    "X-RateLimit-Reset": String(Math.floor(Date.now() / 1000) + 3600),
  };
}
