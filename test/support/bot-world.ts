import { createHmac, randomUUID } from "node:crypto";
import { afterEach, vi } from "vitest";
import { type Bot, createBot } from "#bot/create-bot.ts";
import type { RunSpec } from "#domain/run.ts";
import { addUser } from "#playground/github/create-world.ts";
import { showRepository } from "#playground/github/shapes/repository.ts";
import { showComment, showIssue } from "#playground/github/shapes/thread.ts";
import { showUser } from "#playground/github/shapes/user.ts";
import { nameKey, type StoredComment, type User } from "#playground/github/world.ts";
import type { Runs } from "#runtime/runs.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { configFor, webhookSecret } from "./github-world.ts";
import { sampleApproval, sampleView } from "./run-view.ts";
import { TestGitHub } from "./test-github.ts";

/** The time of every comment and event in this world, one minute ago. */
export const eventTime = new Date(Math.floor(Date.now() / 1_000) * 1_000 - 60_000);

/** Returns the key that deduplicates a comment, which does not depend on the id of the delivery. */
export const commentKey = (id: number) => `comment ${id} ${eventTime.toISOString()}`;

/** Creates a fake `Runs` that records its calls, and answers as if a worker were running in the thread. */
export function recordingRuns() {
  const known = new Set<string>();
  return {
    startRun: vi.fn<Runs["startRun"]>(async () => ({ id: "r1" }) as RunSpec),
    listSchedules: vi.fn<Runs["listSchedules"]>(async () => ({ schedules: [], invalidFiles: [] })),
    startScheduled: vi.fn<Runs["startScheduled"]>(async () => undefined),
    startTriggered: vi.fn<Runs["startTriggered"]>(async () => ({ problems: [] })),
    deliverMessage: vi.fn<Runs["deliverMessage"]>(async () => "r1"),
    decideApprovals: vi.fn<Runs["decideApprovals"]>(async () => [sampleApproval()]),
    revokeApproval: vi.fn<Runs["revokeApproval"]>(async () => sampleApproval({ status: "revoked" })),
    deliverReview: vi.fn<Runs["deliverReview"]>(async () => "r1"),
    reportChecks: vi.fn<Runs["reportChecks"]>(async () => {}),
    pullRequestClosed: vi.fn<Runs["pullRequestClosed"]>(async () => false),
    pullRequestReopened: vi.fn<Runs["pullRequestReopened"]>(async () => {}),
    repostRequest: vi.fn<Runs["repostRequest"]>(async () => {}),
    findRequest: vi.fn<Runs["findRequest"]>(async () => undefined),
    continueRun: vi.fn<Runs["continueRun"]>(async () => false),
    listOpenPullRequests: vi.fn<Runs["listOpenPullRequests"]>(async () => []),
    listClosedPullRequests: vi.fn<Runs["listClosedPullRequests"]>(async () => []),
    requestBaseMerge: vi.fn<Runs["requestBaseMerge"]>(async () => {}),
    requestStop: vi.fn<Runs["requestStop"]>(async () => []),
    requestResume: vi.fn<Runs["requestResume"]>(async () => []),
    requestCancel: vi.fn<Runs["requestCancel"]>(async () => ({ closed: [], unreadable: [] })),
    requestExit: vi.fn<Runs["requestExit"]>(async () => []),
    requestRetry: vi.fn<Runs["requestRetry"]>(async () => {}),
    clearConversation: vi.fn<Runs["clearConversation"]>(async () => {}),
    listModels: vi.fn<Runs["listModels"]>(async () => ({ current: "openai:a", available: ["openai:a", "openai:b"] })),
    changeModel: vi.fn<Runs["changeModel"]>(async () => {}),
    raiseCostLimit: vi.fn<Runs["raiseCostLimit"]>(async () => 7),
    showChanges: vi.fn<Runs["showChanges"]>(async () => {}),
    runToolCommand: vi.fn<Runs["runToolCommand"]>(async () => {}),
    reportLocation: vi.fn<Runs["reportLocation"]>(async () => {}),
    stopUnreachable: vi.fn<Runs["stopUnreachable"]>(async () => {}),
    refreshReachable: vi.fn<Runs["refreshReachable"]>(async () => {}),
    recordKey: vi.fn<Runs["recordKey"]>(async (key) => void known.add(key)),
    hasRecorded: vi.fn<Runs["hasRecorded"]>(async (key) => known.has(key)),
    threadActivity: vi.fn<Runs["threadActivity"]>(async () => "live"),
    findPaused: vi.fn<Runs["findPaused"]>(async () => undefined),
    mayAnswer: vi.fn<Runs["mayAnswer"]>(async () => false),
    listRunViews: vi.fn<Runs["listRunViews"]>(async () => [sampleView()]),
    pendingApprovals: vi.fn<Runs["pendingApprovals"]>(async () => [sampleApproval()]),
    listWorkers: vi.fn<Runs["listWorkers"]>(async () => [
      { name: "fixer", description: "Fixes bugs" },
      { name: "reviewer" },
    ]),
    findRunView: vi.fn<Runs["findRunView"]>(async () => undefined),
  };
}
export type RecordingRuns = ReturnType<typeof recordingRuns>;

/** A comment to deliver. Fields that a test leaves out have ordinary values. */
export interface CommentEvent {
  body?: string;
  /** The author. Default: ada, who has write access. */
  login?: string;
  sender?: string;
  type?: string;
  action?: string;
  /** The number of the issue or pull request. Default: issue 1. */
  thread?: number;
  /** Changes to the payload in GitHub's format. */
  issue?: object;
  comment?: { id?: number } & Record<string, unknown>;
  payload?: object;
}

export interface BotOptions {
  environment?: Record<string, string>;
  runs?: RecordingRuns;
  store?: Store;
  ready?: () => Promise<string>;
}

/** The repository octo/shop at the playground's GitHub, and a bot with recording runs that serves it. */
export class BotWorld {
  readonly hub: TestGitHub;
  readonly runs: RecordingRuns;
  readonly store: Store;
  readonly bot: Bot;
  url = "";
  #nextCommentId = 50;

  static async start({
    environment,
    runs = recordingRuns(),
    store = openMemoryStore(),
    ready = async () => "ready",
  }: BotOptions = {}) {
    const hub = await TestGitHub.start({ repositories: [shop] });
    Object.assign(hub.as("mia").openIssue({ title: "It breaks", body: "Help" }), { updatedAt: eventTime });
    const bot = createBot({ config: configFor(hub, environment), runs: () => runs, deliveries: store, ready });
    const world = new BotWorld({ hub, bot, runs, store });
    world.url = await bot.start();
    return world;
  }

  private constructor({ hub, bot, runs, store }: Pick<BotWorld, "hub" | "bot" | "runs" | "store">) {
    this.hub = hub;
    this.bot = bot;
    this.runs = runs;
    this.store = store;
  }

  /** Starts another bot with the same GitHub and store. The test has to stop it. */
  async startBot({ environment, runs = this.runs, store = this.store, ready = async () => "ready" }: BotOptions = {}) {
    const config = configFor(this.hub, environment);
    const bot = createBot({ config, runs: () => runs, deliveries: store, ready });
    return { bot, url: await bot.start(), runs };
  }

  /** Issue 1 as runs refer to it. */
  get thread() {
    const { id: repositoryId, owner, name: repo } = this.hub.repository();
    return { installationId: 1, repositoryId, owner: owner.login, repo, thread: 1 };
  }

  /** Posts a comment, which GitHub delivers and the bot processes. */
  async comment(event: CommentEvent = {}, delivery: DeliveryOptions = {}): Promise<Response> {
    return this.send(this.commentPayload(event), delivery);
  }

  /** Posts a signed delivery to the bot and waits until it is processed. */
  async send(payload: object, options: DeliveryOptions = {}): Promise<Response> {
    const response = await this.deliver(payload, options);
    await this.bot.idle();
    return response;
  }

  /** Adds a comment and returns the payload of its delivery. */
  commentPayload({ body = "/run fixer", login = "ada", sender = login, type = "User", ...event }: CommentEvent = {}) {
    const { world } = this.hub;
    const repository = this.hub.repository();
    const thread = repository.threads.get(event.thread ?? 1);
    if (!thread) throw new Error(`There is no issue ${event.thread}.`);
    const comment = this.addComment({ id: event.comment?.id, thread: thread.number, body, login });
    return {
      action: event.action ?? "created",
      installation: { id: 1 },
      repository: showRepository(world, repository),
      issue: { ...showIssue(world, repository, thread), ...event.issue },
      comment: { ...showComment(world, repository, comment), user: this.#showUser(login, type), ...event.comment },
      sender: this.#showUser(sender, type),
      ...event.payload,
    };
  }

  /** Returns the payload of an event of issue 1. */
  issuePayload(action: string, { login = "ada", issue = {} }: { login?: string; issue?: object } = {}) {
    const { comment: _, ...payload } = this.commentPayload({ action, login });
    return { ...payload, issue: { ...payload.issue, ...issue } };
  }

  /** Adds a comment without delivering it. */
  addComment({
    id = this.#nextCommentId++,
    thread = 1,
    body,
    login,
    app,
  }: Pick<StoredComment, "body"> & Partial<Pick<StoredComment, "id" | "thread" | "app">> & { login: string }) {
    const author = this.#user(login);
    const times = { createdAt: eventTime, updatedAt: eventTime };
    const comment = { id, thread, body, author, app, reactions: [], minimized: undefined, ...times };
    this.hub.repository().comments.set(id, comment);
    return comment;
  }

  /** Adds a comment of the app itself. */
  addOwnComment(body: string, id?: number): StoredComment {
    return this.addComment({ body, login: this.hub.botLogin, app: this.hub.world.app, ...(id && { id }) });
  }

  /** Posts a signed delivery to the bot. */
  deliver(payload: object, options: DeliveryOptions = {}): Promise<Response> {
    return deliver(this.url, payload, options);
  }

  idOf(login: string): number {
    return this.#user(login).id;
  }

  setPermission(login: string, permission: "admin" | "maintain" | "write" | "triage" | "read" | "none"): void {
    this.#user(login);
    this.hub.repository().permissions.set(nameKey(login), permission);
  }

  /** Overrides GitHub's answer to requests for a person's permission. */
  answerPermission(status: number, body: unknown = { message: "No" }): () => void {
    return this.hub.onRequest(({ operation }) =>
      operation?.includes("/collaborators/") ? { status, body } : undefined,
    );
  }

  /** The bodies of the bot's comments on issue 1, oldest first. */
  get replies(): string[] {
    return this.ownComments.map(({ body }) => body);
  }

  get ownComments(): StoredComment[] {
    const { comments } = this.hub.repository();
    return [...comments.values()].filter(({ author }) => author === this.hub.world.app.bot);
  }

  /** The bot's reactions on issue 1 and its comments, such as `77 eyes` and `#1 eyes`. */
  get reactions(): string[] {
    const { comments, threads } = this.hub.repository();
    const targets = [
      ...[...threads.values()].map(({ number, reactions }) => ({ name: `#${number}`, reactions })),
      ...[...comments.values()].map(({ id, reactions }) => ({ name: `${id}`, reactions })),
    ];
    return targets.flatMap(({ name, reactions }) => reactions.map(({ content }) => `${name} ${content}`));
  }

  /** The requests about the repository, such as `POST /repos/octo/shop/issues/1/comments`. */
  get requests(): string[] {
    return this.hub.requests
      .map(({ method, path }) => `${method} ${path}`)
      .filter((request) => request.includes("/repos/"));
  }

  async close(): Promise<void> {
    await this.bot.stop();
    await this.hub.close();
  }

  #user(login: string): User {
    return addUser(this.hub.world, login, login.endsWith("[bot]") ? "Bot" : "User");
  }

  #showUser(login: string, type: string) {
    return { ...showUser(this.hub.world, this.#user(login)), type };
  }
}

/** Returns a function that starts worlds, each closed after its test. */
export function botWorlds(): (options?: BotOptions) => Promise<BotWorld> {
  const open: BotWorld[] = [];
  afterEach(() => Promise.all(open.splice(0).map((world) => world.close())));
  return async (options) => {
    const world = await BotWorld.start(options);
    open.push(world);
    return world;
  };
}

const shop = {
  owner: "octo",
  name: "shop",
  permissions: { ada: "write", mia: "admin", tom: "read" } as const,
  commits: [{ branch: "main", message: "A shop", author: "mia", at: new Date(0), files: { "sum.js": "1\n" } }],
};

export interface DeliveryOptions {
  id?: string;
  name?: string;
  headers?: Record<string, string>;
}

/** Posts a signed delivery. */
export function deliver(
  url: string,
  payload: object,
  { id = randomUUID(), name = "issue_comment", headers = {} }: DeliveryOptions = {},
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

export function sign(body: string, key = webhookSecret): string {
  return `sha256=${createHmac("sha256", key).update(body).digest("hex")}`;
}
