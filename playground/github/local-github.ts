import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answerAttachment } from "./attachments.ts";
import { StoredChecks } from "./check-actions.ts";
import { addFork, addRepository, createWorld, type NewApp, type NewRepository } from "./create-world.ts";
import { Credentials } from "./credentials.ts";
import { answerGit, parseGitPath } from "./git/answer-git.ts";
import { type CommitFiles, commitFiles } from "./git/commit-files.ts";
import { diffText, findEntry, moveBranch, readBlob, resolveCommit } from "./git/git-repository.ts";
import { listen } from "./listen.ts";
import { answerPage, type PageServer } from "./pages/answer-page.ts";
import { answerSignIn, isSignIn } from "./pages/answer-sign-in.ts";
import { createOAuth, type OAuthClient } from "./pages/oauth.ts";
import { Person } from "./person.ts";
import { RateLimiter, type RateLimits } from "./rate-limiter.ts";
import { recordPush } from "./record-push.ts";
import { type Interceptor, RequestLog, type RequestRecord } from "./request-log.ts";
import { answerRest, restPath, type ServerContext } from "./rest/answer-rest.ts";
import { fullName } from "./shapes/repository.ts";
import { type GitHubSnapshot, takeSnapshot } from "./snapshot.ts";
import { type WebhookDelivery, Webhooks, type WebhookTarget } from "./webhooks.ts";
import { type AppPermissions, appNamed, nameKey, type Repository, type World } from "./world.ts";

export interface LocalGitHubOptions {
  /** Default: 0, any free port of 127.0.0.1. */
  port?: number;
  app: Omit<NewApp, "slug"> & {
    /** Default: `golem-forge`, which comments as `golem-forge[bot]`. */
    slug?: string;
    /** The app's key in PEM: the public half, or the private one it is derived from. */
    key: string;
    /** The client for signing in to the app. Without one, sign-in is unavailable. */
    oauth?: OAuthClient;
  };
  webhook?: WebhookTarget;
  /** The first one is the default for every method that takes a repository's name. */
  repositories?: readonly NewRepository[];
  /** The lifetime of an installation token. Default: an hour. */
  tokenMs?: number;
  /** The rate limits to enforce. Default: none. */
  limits?: RateLimits;
  /** A notice at the top of the page, such as the model in use. */
  notice?: string;
}

/** A GitHub on the loopback address, for one app: REST, webhooks, git over HTTP, and a page for people. */
export class LocalGitHub {
  readonly world: World;
  readonly credentials: Credentials;
  readonly #options: LocalGitHubOptions;
  readonly #server: Server;
  readonly #log = new RequestLog();
  readonly #webhooks: Webhooks;
  readonly #limits: RateLimiter;
  readonly #watchers = new Set<() => void>();
  #directory = "";
  #notice: string;
  /** The content after the latest change, for all callers of `until`. */
  #afterChange: Promise<GitHubSnapshot> | undefined;

  /** Starts the server. Throws a UserError if the port is taken. */
  static async start(options: LocalGitHubOptions): Promise<LocalGitHub> {
    const github = new LocalGitHub(options);
    await github.listen();
    return github;
  }

  constructor(options: LocalGitHubOptions) {
    const { key, oauth, ...app } = { slug: "golem-forge", ...options.app };
    this.#options = options;
    this.#notice = options.notice ?? "";
    this.world = createWorld({
      url: "",
      app,
      emit: (event) => this.#webhooks.emit(event),
      emitInstallationEvent: (event) => this.#webhooks.emitInstallationEvent(event),
      notify: () => {
        this.#afterChange = undefined;
        for (const watcher of this.#watchers) watcher();
      },
    });
    this.#webhooks = new Webhooks(this.world, options.webhook);
    this.credentials = new Credentials({ app, key, tokenMs: options.tokenMs ?? 60 * 60_000, client: oauth });
    this.#limits = new RateLimiter(options.limits ?? {});
    const context: ServerContext = {
      world: this.world,
      credentials: this.credentials,
      limits: this.#limits,
      oauth: createOAuth(oauth),
      webhooks: this.#webhooks,
      log: this.#log,
    };
    const page: PageServer = {
      server: context,
      notice: () => this.#notice,
      watch: (listener) => this.watch(listener),
    };
    this.#server = createServer((request, response) => {
      // Node keeps the date of an answer for a second, which a test that sets the clock does not expect.
      response.setHeader("Date", new Date().toUTCString());
      answer(page, request, response).catch((error: unknown) => {
        // The client closed the connection before it had sent its request.
        if (request.errored === error) return;
        console.error("The local GitHub failed:", error);
        if (response.headersSent) response.destroy();
        else response.writeHead(500).end('{"message":"Server Error"}');
      });
    });
  }

  async listen(): Promise<void> {
    const port = await listen(this.#server, this.#options.port ?? 0);
    this.world.url = `http://127.0.0.1:${port}`;
    // Created only now, so that a taken port leaves nothing behind.
    this.#directory = await mkdtemp(join(tmpdir(), "golem-forge-github-"));
    for (const repository of this.#options.repositories ?? []) await this.createRepository(repository);
  }

  /** The address of the pages, and of git below `/{owner}/{repo}.git`. */
  get url(): string {
    return this.world.url;
  }

  /** The address of the REST API. */
  get apiUrl(): string {
    return `${this.url}/api/v3`;
  }

  /** The value of GHE_HOST for the app. */
  get host(): string {
    return new URL(this.url).host;
  }

  /** The installation of the account that owns the app. */
  get installationId(): number {
    return [...this.world.installations.keys()][0] ?? 0;
  }

  /** The login the app comments with, such as `golem-forge[bot]`. */
  get botLogin(): string {
    return this.world.app.bot.login;
  }

  /** Issues a token for a GitHub Actions job, valid for one repository. The app has to be `github-actions`. */
  issueJobToken(repository: string, permissions: AppPermissions): string {
    const { id, installation } = this.repository(repository);
    if (!installation) throw new Error(`The app is not installed on ${repository}.`);
    return this.credentials.issue({
      installation,
      permissions: { ...permissions, metadata: "read" },
      repositories: new Set([id]),
    }).value;
  }

  revokeToken(token: string): void {
    this.credentials.revoke(token);
  }

  /** Acts as a user in a repository, `owner/name`. Throws an ApiError for actions that they may not perform. */
  as(login: string, repository?: string, app?: string): Person {
    return new Person(this.world, this.repository(repository), login, app);
  }

  /** Returns the repository with this name, or the first one. */
  repository(name?: string): Repository {
    const [first] = this.world.repositories.values();
    const chosen = name ?? (first && fullName(first));
    if (!chosen) throw new Error("This GitHub has no repository yet.");
    const repository = this.world.repositories.get(nameKey(chosen));
    if (!repository) throw new Error(`There is no repository ${chosen}.`);
    return repository;
  }

  createRepository(repository: NewRepository): Promise<Repository> {
    return addRepository(this.world, this.#directory, repository);
  }

  fork(login: string, repository?: string): Promise<Repository> {
    return addFork(this.world, this.#directory, this.repository(repository), login);
  }

  /** Commits on top of a branch and records it as the author's push. A new branch starts at the default branch. */
  async push(commit: CommitFiles, name?: string): Promise<void> {
    const repository = this.repository(name);
    await commitFiles(repository.gitDirectory, [{ from: repository.defaultBranch, ...commit }]);
    const actor = this.world.users.get(nameKey(commit.author)) ?? repository.owner;
    await recordPush({ world: this.world, repository, actor });
  }

  /** Points a branch to another commit or branch, as a force push does, restores it, or deletes it (`to` undefined). */
  async moveBranch(branch: string, to: string | undefined, by: string): Promise<void> {
    const repository = this.repository();
    const { gitDirectory } = repository;
    const commit = to && (await resolveCommit(gitDirectory, to));
    await moveBranch(gitDirectory, branch, { from: await resolveCommit(gitDirectory, branch), to: commit });
    await recordPush({ world: this.world, repository, actor: this.world.users.get(nameKey(by)) ?? repository.owner });
  }

  /** The checks of the latest commit of a branch, reported by an app. Default: `github-actions`. */
  async checks(
    branch: string,
    { app = "github-actions", repository: name }: { app?: string; repository?: string } = {},
  ): Promise<StoredChecks> {
    const repository = this.repository(name);
    const commit = await resolveCommit(repository.gitDirectory, branch);
    if (!commit) throw new Error(`There is no branch ${branch}.`);
    const context = { world: this.world, repository, actor: this.world.app.owner };
    return new StoredChecks(context, { app: appNamed(this.world, app), branch, commit });
  }

  /** Resolves to the text of a file on a branch or commit; to undefined if there is none. */
  async readFile(ref: string, path: string, name?: string): Promise<string | undefined> {
    const { gitDirectory } = this.repository(name);
    const commit = await resolveCommit(gitDirectory, ref);
    const entry = commit && (await findEntry(gitDirectory, commit, path));
    return entry ? (await readBlob(gitDirectory, entry.sha)).toString("utf8") : undefined;
  }

  /** Resolves to the changes of a branch or commit since its merge base with another, as printed by git. */
  diff(base: string, head: string): Promise<string> {
    return diffText(this.repository().gitDirectory, base, head);
  }

  snapshot(): Promise<GitHubSnapshot> {
    return takeSnapshot(this.world);
  }

  /** Calls the listener after every change. Returns a function that removes it. */
  watch(listener: () => void): () => void {
    this.#watchers.add(listener);
    return () => this.#watchers.delete(listener);
  }

  /** Resolves to the first result of `find` that is not undefined. It is called again after every change of GitHub's state, and after nothing else. */
  async until<T>(
    find: (snapshot: GitHubSnapshot) => T | undefined,
    {
      timeoutMs = 120_000,
      what = "the expected state",
      onTimeout = () => new Error(`GitHub did not show ${what} within ${timeoutMs} ms.`),
    }: { timeoutMs?: number; what?: string; onTimeout?: () => Error } = {},
  ): Promise<T> {
    const timeout = AbortSignal.timeout(timeoutMs);
    let changed = Promise.withResolvers<void>();
    let snapshot = this.snapshot();
    const stopWatching = this.watch(() => changed.resolve());
    timeout.addEventListener("abort", () => changed.resolve(), { once: true });
    try {
      for (;;) {
        changed = Promise.withResolvers<void>();
        if (timeout.aborted) throw onTimeout();
        const found = find(await snapshot);
        if (found !== undefined) return found;
        await changed.promise;
        this.#afterChange ??= this.snapshot();
        snapshot = this.#afterChange;
      }
    } finally {
      stopWatching();
    }
  }

  /** Changes the notice at the top of the page. */
  set notice(notice: string) {
    this.#notice = notice;
    this.world.notify();
  }

  get requests(): readonly RequestRecord[] {
    return this.#log.records;
  }

  /** See `RequestLog`. */
  onRequest(interceptor: Interceptor): () => void {
    return this.#log.onRequest(interceptor);
  }

  /** See `RequestLog`. */
  afterWrite(interceptor: Interceptor): () => void {
    return this.#log.afterWrite(interceptor);
  }

  get deliveries(): readonly WebhookDelivery[] {
    return this.#webhooks.deliveries;
  }

  /** Sends a delivery again. */
  redeliver(deliveryId: number): void {
    this.#webhooks.redeliver(deliveryId);
  }

  /** Resolves when no webhook is being delivered. */
  deliveriesSettled(): Promise<void> {
    return this.#webhooks.settled();
  }

  /** Sets the receiver of the next webhooks; undefined turns them off. */
  set webhook(target: WebhookTarget | undefined) {
    this.#webhooks.target = target;
  }

  async close(): Promise<void> {
    this.webhook = undefined;
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#webhooks.settled();
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function answer(page: PageServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { server } = page;
  const url = new URL(request.url ?? "/", server.world.url);
  const path = restPath(url.pathname);
  if (path !== undefined) {
    const found = await answerRest(server, { request, url, path });
    if (!found) return void response.destroy();
    const content = found.body === undefined ? undefined : JSON.stringify(found.body);
    response.writeHead(found.status, found.headers).end(content);
    return;
  }
  const git = parseGitPath(url.pathname);
  if (git) {
    const reply = await answerGit(server, { request, url, path: git });
    if (!reply) return void response.destroy();
    response.writeHead(reply.status, reply.headers).end(reply.body);
    return;
  }
  const log = findLog(server.world, url.pathname);
  if (log !== undefined) return void response.writeHead(200, { "Content-Type": "text/plain; charset=utf-8" }).end(log);
  if (answerAttachment(server, request, response)) return;
  if (isSignIn(url.pathname)) return answerSignIn(server, { request, response, url });
  await answerPage(page, { request, response, url });
}

/** Finds the log of a GitHub Actions job at the address that the REST API redirects to. */
function findLog(world: World, pathname: string): string | undefined {
  const [, name = "", id] = /^\/([^/]+\/[^/]+)\/logs\/(\d+)$/.exec(pathname) ?? [];
  return world.repositories.get(nameKey(name))?.checkRuns.find((run) => run.id === Number(id))?.log;
}
