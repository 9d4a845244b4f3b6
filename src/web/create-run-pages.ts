import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import type { Config } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { Runs } from "#runtime/runs.ts";
import type { RunViewReader } from "#runtime/views/run-view-reader.ts";
import { changesAssets } from "#text/changes/render-changes.ts";
import { markupOf } from "#text/html.ts";
import type { AccessCache } from "./access-cache.ts";
import { streamRun } from "./event-stream.ts";
import { executePageCommand, type PageAction, pageActions } from "./execute-page-command.ts";
import { type FindRunServices, type FoundRun, findRun } from "./find-run.ts";
import { costsPath, listPath, showRuns } from "./list-runs.ts";
import { createRateLimit, type RateLimit } from "./rate-limit.ts";
import { maxEntriesPerPage, renderEntries, renderEntriesPage, renderRunPage } from "./render-page.ts";
import { PageError, runNotFound, runsLink, securityHeaders, sendMessage, wantsJson } from "./responses.ts";
import { deriveKey, type RunLinks } from "./run-links.ts";
import { createSealedCookies, createSessions, type Sessions } from "./sessions.ts";
import { costsCsvPath, downloadCosts, showCosts } from "./show-costs.ts";
import {
  callbackPath,
  createSignIn,
  createSignInRoutes,
  type FormVariables,
  requireForm,
  signOutPath,
} from "./sign-in.ts";

export interface RunPagesOptions {
  config: Pick<Config, "github"> & { page: NonNullable<Config["page"]>; app: Pick<Config["app"], "webhookSecret"> };
  views: () => RunViewReader;
  runs: () => Runs;
  openGitHub: OpenGitHub;
  /** Receives internal errors. The person only sees that something failed. */
  onError: (error: unknown) => void;
  now?: () => number;
  links: RunLinks;
  access: AccessCache;
}

const maxStreams = { perRun: 16, total: 64 };
/** The limit for one person. */
const commandsPerMinute = 30;
/** The limit for one run, since rendering a long one takes time. */
const viewsPerMinute = 120;
/** The time a client may stay idle during a request. */
const idleTimeoutMs = 30_000;

const assetTypes = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };
const assets = Object.entries({
  ...changesAssets,
  "run.js": new URL("./page/run.js", import.meta.url),
  "run.css": new URL("./page/run.css", import.meta.url),
  "favicon.svg": new URL("./page/favicon.svg", import.meta.url),
}).map(([name, address]) => ({
  path: `/runs/-/assets/${name}`,
  type: assetTypes[name.split(".")[1] as keyof typeof assetTypes],
  content: readFileSync(address),
}));

/** The web pages of runs. Anyone with a page's link can read it; people who sign in and have write access can give commands. */
export function createRunPages(options: RunPagesOptions) {
  const { config, now = Date.now } = options;
  const { url, signIn } = config.page;
  const secret = config.app.webhookSecret;
  const cookies = createSealedCookies({ key: deriveKey(secret, "cookies"), secure: url.startsWith("https:"), now });
  const services: Services = {
    ...options,
    now,
    github: config.github,
    sessions: signIn && createSessions({ cookies, key: deriveKey(secret, "forms"), keys: options.runs, now }),
    commandLimit: createRateLimit({ perMinute: commandsPerMinute, now }),
    viewLimit: createRateLimit({ perMinute: viewsPerMinute, now }),
    streams: new Map(),
  };
  const app = createApp(services);
  const { sessions } = services;
  if (signIn && sessions) {
    const { github } = config;
    app.route(
      "/",
      createSignInRoutes({
        url,
        sessions,
        onError: options.onError,
        signIn: createSignIn({ url, github, client: signIn, cookies }),
      }),
    );
    app.post(actionRoute, requireForm({ url, sessions }), (c) => executeCommand(services, c));
  } else {
    app.post(actionRoute, () => {
      throw new PageError(401, "Sign-in is not set up here. Reply in the issue or pull request instead.");
    });
  }
  for (const path of ["/runs/-/sign-in", callbackPath, `${runRoute}/*`, runRoute])
    app.all(path, methodNotAllowed("GET"));
  app.all(signOutPath, methodNotAllowed("POST"));

  const listener = getRequestListener(app.fetch, { hostname: "localhost", overrideGlobalObjects: false });
  return {
    answer: (request: IncomingMessage, response: ServerResponse): void => {
      response.setTimeout(idleTimeoutMs, () => response.destroy());
      void listener(request, response);
    },
    /** Ends all event streams. */
    close: (): void => {
      for (const end of services.streams.values()) end.abort?.();
    },
  };
}

interface Services extends FindRunServices {
  runs: () => Runs;
  openGitHub: OpenGitHub;
  onError: (error: unknown) => void;
  links: RunLinks;
  access: AccessCache;
  sessions: Sessions | undefined;
  commandLimit: RateLimit;
  viewLimit: RateLimit;
  streams: Map<symbol, { runId: string; abort?: () => void }>;
}

type PageEnv = FormVariables & { Bindings: HttpBindings };

const runRoute = "/runs/:runId{[a-z0-9-]{1,40}}/:key{[0-9a-f]{32}}";
const actionRoute = `${runRoute}/:action{${pageActions.join("|")}}`;

function createApp(services: Services): Hono<PageEnv> {
  const { links, onError } = services;
  const app = new Hono<PageEnv>();
  app.use(async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(securityHeaders)) c.res.headers.set(name, value);
    // An unread request body must not be parsed as the next request, and an open connection of an ended stream would keep
    // the server from stopping.
    if (c.res.status >= 400 || c.res.headers.get("content-type")?.startsWith("text/event-stream"))
      c.res.headers.set("connection", "close");
  });
  app.onError((error, c) => {
    if (error instanceof PageError) return sendMessage(c, error);
    onError(error);
    return sendMessage(c, { status: 500, message: "Something went wrong. Try again in a moment." });
  });
  const pageNotFound = () => new PageError(404, "Page not found.", runsLink);
  app.notFound((c) => sendMessage(c, c.req.path.startsWith("/runs/") ? runNotFound() : pageNotFound()));

  for (const { path, type, content } of assets) {
    app.get(path, (c) => c.body(content, 200, { "content-type": type }));
    app.all(path, methodNotAllowed("GET"));
  }
  app.get("/favicon.ico", (c) => c.redirect("/runs/-/assets/favicon.svg"));
  app.get("/", (c) => c.redirect(listPath));
  app.get(listPath, (c) => showRuns(services, c));
  app.get(costsPath, (c) => showCosts(services, c));
  app.get(costsCsvPath, (c) => downloadCosts(services, c));

  const verifyLink = async (c: Context, next: () => Promise<void>) => {
    if (!links.isKey(c.req.param("runId") ?? "", c.req.param("key") ?? "")) throw runNotFound();
    await next();
  };
  app.use(runRoute, verifyLink);
  app.use(`${runRoute}/*`, verifyLink);
  app.get(runRoute, (c) => showRun(services, c));
  app.get(`${runRoute}/entries/:childId{[a-z0-9-]{1,40}}/:before{\\d{1,15}}`, (c) => showEntries(services, c));
  app.get(`${runRoute}/events`, (c) => showEvents(services, c));
  return app;
}

function methodNotAllowed(allowed: "GET" | "POST") {
  return (c: Context): never => {
    // With the allowed method, the path itself does not exist.
    if (c.req.method === allowed) throw runNotFound();
    throw new PageError(405, `Use ${allowed} here.`);
  };
}

async function showRun(services: Services, c: Context): Promise<Response> {
  const { runId, tree, page } = await viewRun(services, c);
  const pages = await Promise.all(
    tree.runs.map(({ spec }) => services.views().readEvents(runId, spec.id, { limit: maxEntriesPerPage })),
  );
  const transcripts = new Map(
    tree.runs.map(({ spec }, index) => [spec.id, pages[index] ?? { events: [], earlier: 0 }]),
  );
  return c.html(renderRunPage({ tree, transcripts, context: page }));
}

async function showEntries(services: Services, c: Context): Promise<Response> {
  const { runId, tree, page } = await viewRun(services, c);
  const childId = c.req.param("childId") ?? "";
  const run = tree.runs.find(({ spec }) => spec.id === childId);
  if (!run) throw runNotFound();
  const before = Number(c.req.param("before"));
  const entries = await services.views().readEvents(runId, childId, { before, limit: maxEntriesPerPage });
  if (wantsJson(c)) return c.json({ html: markupOf(renderEntries(tree, run, entries, page)) });
  return c.html(renderEntriesPage(tree, run, entries, page));
}

async function viewRun(services: Services, c: Context): Promise<FoundRun & { runId: string }> {
  const runId = c.req.param("runId") ?? "";
  // Anonymous visitors of a run share a limit, which does not count for people who have signed in.
  const session = await services.sessions?.current(c);
  if (!services.viewLimit.allows(session ? `${runId} ${session.login}` : runId)) {
    throw new PageError(429, "Too many people are opening this run. Try again in a minute.");
  }
  return { runId, ...(await findRun(services, c, runId)) };
}

async function showEvents(services: Services, c: Context<PageEnv>): Promise<Response> {
  const { streams, views, now, onError } = services;
  const rootId = c.req.param("runId") ?? "";
  if (!services.viewLimit.allows(`events of ${rootId}`)) {
    throw new PageError(429, "Too many people are watching. The page will try again automatically.");
  }
  const streamsOfRun = [...streams.values()].filter(({ runId }) => runId === rootId).length;
  if (streams.size >= maxStreams.total || streamsOfRun >= maxStreams.perRun) {
    throw new PageError(429, "Too many people are watching. The page will try again automatically.");
  }
  // Counted before the first await, so that a flood of requests cannot exceed the limit.
  const id = Symbol(rootId);
  const entry: { runId: string; abort?: () => void } = { runId: rootId };
  streams.set(id, entry);
  const { outgoing } = c.env;
  outgoing.on("close", () => streams.delete(id));

  await findRun(services, c, rootId);
  const find = () =>
    findRun(services, c, rootId).catch((error) => {
      if (error instanceof PageError) return undefined;
      throw error;
    });
  const after = (c.req.header("last-event-id") ?? c.req.query("after")) || "";
  outgoing.setTimeout(0);
  c.header("x-accel-buffering", "no");
  return streamSSE(c, async (stream: SSEStreamingApi) => {
    entry.abort = () => stream.abort();
    const closeConnection = () => outgoing.destroy();
    await streamRun(stream, { views: views(), rootId, find, after, closeConnection, now }).catch((error: unknown) => {
      // Hono would print it to the console.
      if (!stream.aborted) onError(error);
    });
  });
}

async function executeCommand(services: Services, c: Context<PageEnv>): Promise<Response> {
  const { commandLimit, runs, openGitHub, views } = services;
  const { session, fields } = c.var.form;
  const by = session.login;
  if (!commandLimit.allows(by)) throw new PageError(429, "Too many commands in one minute. Wait a moment.");
  const rootId = c.req.param("runId") ?? "";
  const { root: spec, tree, page } = await findRun(services, c, rootId);
  const action = pageActions.find((known): known is PageAction => known === c.req.param("action"));
  if (!action) throw runNotFound();
  try {
    const command = { action, fields, by, byId: session.id, spec, approvals: tree.approvals };
    const message = await executePageCommand(command, { runs: runs(), github: openGitHub(spec.origin) });
    views().invalidate(rootId);
    return wantsJson(c) ? c.json({ message }) : c.redirect(page.path, 303);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new PageError(409, error.message, { href: page.path, text: "Back to the run" });
  }
}
