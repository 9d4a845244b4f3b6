import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Config } from "#config.ts";
import { UserError } from "#errors.ts";
import { canWrite, type OpenGitHub } from "#github.ts";
import { isListedRepository } from "#is-listed-repository.ts";
import type { RunSpec } from "#run.ts";
import type { RunBooks, RunTree } from "#runtime/run-books.ts";
import type { Runs } from "#runtime/runs.ts";
import { streamRun } from "./event-stream.ts";
import { markupOf } from "./html.ts";
import { type Action, actions, obey } from "./obey.ts";
import { readForm } from "./read-form.ts";
import { entriesAtOnce, renderEntries, renderEntriesPage, renderRunPage, renderSentence } from "./render-page.ts";
import type { PageContext } from "./render-parts.ts";
import { createRunLinks, deriveKey } from "./run-links.ts";
import { createSealedCookies } from "./sealed-cookies.ts";
import { createSessions, type Session } from "./sessions.ts";
import { callbackPath, createSignIn } from "./sign-in.ts";
import { createStandings } from "./standings.ts";
import { createTally } from "./tally.ts";
import type { Viewer } from "./viewer.ts";

export interface RunPagesOptions {
  config: Pick<Config, "github"> & { page: NonNullable<Config["page"]>; app: Pick<Config["app"], "webhookSecret"> };
  books: () => RunBooks;
  runs: () => Runs;
  openGitHub: OpenGitHub;
  /** What failed on our side; the person is only told that it did. */
  onError: (error: unknown) => void;
  now?: () => number;
}

export interface RunPages {
  /** Answers requests below `/runs/`. False for any other. */
  answer(request: IncomingMessage, response: ServerResponse): boolean;
  /** The page of a run's tree, for its thread. Undefined where nobody could open it. */
  linkTo(spec: RunSpec): Promise<string | undefined>;
  /** Ends what is being watched. */
  close(): void;
}

/** People who watch at one time: of one run, and of all. */
const mostWatchers = { run: 16, all: 64 };
const commandsPerMinute = 30;
const longestPause = 30_000;

const runPath = /^\/runs\/([a-z0-9-]{1,40})\/([0-9a-f]{32})(?:\/([a-z-]+)(?:\/([a-z0-9-]{1,40})\/(\d{1,15}))?)?$/;
const pagePath = /^\/runs\/[a-z0-9-]{1,40}\/[0-9a-f]{32}$/;

const assets = new Map(
  Object.entries({ "run.js": "text/javascript", "run.css": "text/css" }).map(([name, type]) => [
    `/runs/-/assets/${name}`,
    { type, content: readFileSync(new URL(`./page/${name}`, import.meta.url)) },
  ]),
);

/** The web pages of runs: whoever has a page's link may watch, whoever signs in and may write may command. */
export function createRunPages({
  config,
  books,
  runs,
  openGitHub,
  onError,
  now = Date.now,
}: RunPagesOptions): RunPages {
  const { url, signIn: client } = config.page;
  const secret = config.app.webhookSecret;
  const links = createRunLinks(secret);
  const cookies = createSealedCookies({ key: deriveKey(secret, "cookies"), secure: url.startsWith("https:"), now });
  const sessions = createSessions(cookies, deriveKey(secret, "forms"));
  const signIn = client && createSignIn({ url, github: config.github, client, cookies });
  const standings = createStandings({ openGitHub, now });
  const commands = createTally({ perMinute: commandsPerMinute, now });
  const streams = new Map<() => void, string>();

  function answer(request: IncomingMessage, response: ServerResponse): boolean {
    const [path = "", query = ""] = (request.url ?? "").split("?", 2);
    if (path !== "/runs" && !path.startsWith("/runs/")) return false;

    for (const [name, value] of Object.entries(pageHeaders)) response.setHeader(name, value);
    response.setTimeout(longestPause, () => response.destroy());
    respond(request, response, { path, query: new URLSearchParams(query) }).catch((error) => {
      if (!(error instanceof Refusal)) onError(error);
      if (response.headersSent) return response.destroy();
      const { status, words, link } = error instanceof Refusal ? error : broken;
      sendSentence(request, response, { status, words, link });
    });
    return true;
  }

  async function respond(request: IncomingMessage, response: ServerResponse, { path, query }: Asked): Promise<void> {
    const asset = assets.get(path);
    if (asset) {
      allow(request, "GET");
      return send(response, 200, `${asset.type}; charset=utf-8`, asset.content);
    }
    if (path === "/runs/-/sign-in") return beginSignIn(request, response, query);
    if (path === callbackPath) return completeSignIn(request, response, query);
    if (path === "/runs/-/sign-out") return signOut(request, response);

    const [, runId = "", key = "", part, lane = "", before] = runPath.exec(path) ?? [];
    if (!runId || !links.isKey(runId, key)) throw notThere();
    const page = links.pathOf(runId);
    if (part === undefined) return showRun(request, response, runId);
    if (part === "entries" && before !== undefined) return showEntries(request, response, { runId, lane, before });
    if (before !== undefined) throw notThere();
    if (part === "events") return showEvents(request, response, { runId, query });
    if (isAction(part)) return command(request, response, { runId, action: part, page });
    throw notThere();
  }

  async function showRun(request: IncomingMessage, response: ServerResponse, runId: string): Promise<void> {
    allow(request, "GET");
    const { tree, context } = await open(request, runId);
    const { origin } = rootOf(tree);
    const [threadTitle, ...pages] = await Promise.all([
      standings.titleOf(origin, origin.thread),
      ...tree.lanes.map(({ spec }) => books().events(runId, spec.id, { limit: entriesAtOnce })),
    ]);
    const transcripts = new Map(tree.lanes.map(({ spec }, at) => [spec.id, pages[at] ?? { events: [], earlier: 0 }]));
    send(response, 200, htmlType, renderRunPage({ tree, transcripts, context, threadTitle }));
  }

  async function showEntries(
    request: IncomingMessage,
    response: ServerResponse,
    { runId, lane: laneId, before }: { runId: string; lane: string; before: string },
  ): Promise<void> {
    allow(request, "GET");
    const { tree, context } = await open(request, runId);
    const lane = tree.lanes.find(({ spec }) => spec.id === laneId);
    if (!lane) throw notThere();
    const page = await books().events(runId, laneId, { before: Number(before), limit: entriesAtOnce });
    if (wantsJson(request))
      return sendJson(response, 200, { html: markupOf(renderEntries(tree, lane, page, context)) });
    send(response, 200, htmlType, renderEntriesPage(tree, lane, page, context));
  }

  async function showEvents(
    request: IncomingMessage,
    response: ServerResponse,
    { runId, query }: { runId: string; query: URLSearchParams },
  ): Promise<void> {
    allow(request, "GET");
    if (
      streams.size >= mostWatchers.all ||
      [...streams.values()].filter((id) => id === runId).length >= mostWatchers.run
    ) {
      throw new Refusal(429, "Too many people watch at the moment. The page tries again by itself.");
    }
    // Counted before anything is waited for: a flood must not slip in between.
    let end = () => {};
    const ending = () => end();
    streams.set(ending, runId);
    response.on("close", () => streams.delete(ending));
    try {
      const { context } = await open(request, runId);
      response.setTimeout(0);
      response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" });
      if (response.destroyed) return;
      let first: PageContext | undefined = context;
      end = streamRun(response, {
        books: books(),
        rootId: runId,
        context: async () => {
          const known = first ?? (await open(request, runId).catch(() => undefined))?.context;
          first = undefined;
          return known;
        },
        after: String(request.headers["last-event-id"] ?? query.get("after") ?? ""),
        now,
      });
    } catch (error) {
      streams.delete(ending);
      throw error;
    }
  }

  /** The run, and what its viewer may see and do. Throws a Refusal. */
  async function open(request: IncomingMessage, runId: string): Promise<{ tree: RunTree; context: PageContext }> {
    const tree = await books().read(runId);
    if (!tree) throw notThere();
    const { origin } = rootOf(tree);
    const { owner, repo, thread, isPullRequest } = origin;
    const { repositories } = config.github;
    if (repositories && !isListedRepository(repositories, owner, repo)) throw notThere();

    const path = links.pathOf(runId);
    const session = signIn && sessions.of(request);
    if (await standings.isPrivate(origin)) await checkReader(origin, session, path);
    const address = `${config.github.webUrl}/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}`;
    const threadUrl = `${address}/${isPullRequest ? "pull" : "issues"}/${thread}`;
    return { tree, context: { viewer: await viewerOf(origin, session, path), path, threadUrl, address, now: now() } };
  }

  /** A link may be passed on, and outlive somebody's access: code that is not public takes more. */
  async function checkReader(origin: RunSpec["origin"], session: Session | undefined, path: string): Promise<void> {
    if (!signIn) {
      throw new Refusal(
        403,
        "This run is about a private repository, and nobody can sign in here: whoever operates Golem Forge has not set GITHUB_CLIENT_ID.",
      );
    }
    if (!session) {
      const link = { href: signInPath(path), text: "Sign in with GitHub" };
      throw new Refusal(401, "This run is about a private repository. Sign in to show that you may read it.", link);
    }
    if ((await standings.permissionOf(origin, session.login)) === "none") {
      throw new Refusal(
        403,
        `This run is about a private repository, and GitHub does not say that ${session.login} may read it.`,
      );
    }
  }

  async function viewerOf(origin: RunSpec["origin"], session: Session | undefined, path: string): Promise<Viewer> {
    if (!signIn) return { kind: "anonymous" };
    if (!session) return { kind: "guest", signInPath: signInPath(path) };
    const commands = canWrite(await standings.permissionOf(origin, session.login));
    return { kind: "known", login: session.login, formKey: sessions.formKey(session), commands };
  }

  async function command(
    request: IncomingMessage,
    response: ServerResponse,
    { runId, action, page }: { runId: string; action: Action; page: string },
  ): Promise<void> {
    allow(request, "POST");
    const { session, fields } = await readOrder(request);
    if (!commands.isWithin(session.login)) throw new Refusal(429, "That was a lot in one minute. Wait a moment.");
    const { tree } = await open(request, runId);
    const { spec } = tree.lanes[0] ?? {};
    if (!spec) throw notThere();
    try {
      const order = { action, fields, by: session.login, spec, approvals: tree.approvals };
      const words = await obey(order, { runs: runs(), github: openGitHub(spec.origin) });
      if (wantsJson(request)) return sendJson(response, 200, { words });
      redirect(response, page);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new Refusal(409, error.message, { href: page, text: "Back to the run" });
    }
  }

  /** A form of one of our own pages, sent by whoever signed in. */
  async function readOrder(request: IncomingMessage): Promise<{ session: Session; fields: URLSearchParams }> {
    const { origin, "sec-fetch-site": site = "same-origin" } = request.headers;
    if (origin !== url || site !== "same-origin") throw new Refusal(403, "This was not sent by a page of ours.");
    const session = signIn && sessions.of(request);
    if (!session) throw new Refusal(401, "You are not signed in any more. Open the run again and sign in.");
    const fields = await readForm(request);
    if (fields === undefined) throw new Refusal(413, "That is more than a form of ours sends.");
    if (!sessions.isFormKey(session, fields.get("form") ?? "")) {
      throw new Refusal(403, "This form is of another sign-in. Open the run again.");
    }
    return { session, fields };
  }

  function beginSignIn(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): void {
    allow(request, "GET");
    const to = query.get("to") ?? "";
    if (!signIn || !pagePath.test(to)) throw notThere();
    const { location, cookie } = signIn.begin(to);
    response.setHeader("set-cookie", cookie);
    redirect(response, location);
  }

  async function completeSignIn(
    request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    allow(request, "GET");
    if (!signIn) throw notThere();
    try {
      const { login, id, to, cookie } = await signIn.complete(request, query);
      response.setHeader("set-cookie", [sessions.begin({ login, id }), cookie]);
      redirect(response, to);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      if (error.cause) onError(error.cause);
      throw new Refusal(400, error.message);
    }
  }

  async function signOut(request: IncomingMessage, response: ServerResponse): Promise<void> {
    allow(request, "POST");
    await readOrder(request);
    response.setHeader("set-cookie", sessions.end());
    sendSentence(request, response, { status: 200, words: "You are signed out here." });
  }

  async function linkTo({ rootId, origin }: RunSpec): Promise<string | undefined> {
    if (!signIn && (await standings.isPrivate(origin))) return undefined;
    return `${url}${links.pathOf(rootId)}`;
  }

  return {
    answer,
    linkTo,
    close: () => {
      for (const end of streams.keys()) end();
    },
  };
}

interface Asked {
  path: string;
  query: URLSearchParams;
}

interface Sentence {
  status: number;
  words: string;
  link?: { href: string; text: string } | undefined;
}

/** An answer that shows and does nothing, with words for the person. */
class Refusal extends Error implements Sentence {
  readonly status: number;
  readonly link: Sentence["link"];

  constructor(status: number, words: string, link?: Sentence["link"]) {
    super(words);
    this.status = status;
    this.link = link;
  }

  get words(): string {
    return this.message;
  }
}

/** Equal for a run that is not there and for a link that is not right. */
function notThere(): Refusal {
  return new Refusal(404, "There is nothing here. Open the run from the link in its thread.");
}

const broken: Sentence = { status: 500, words: "Something failed on our side. Try again in a moment." };

function rootOf({ lanes: [root] }: RunTree): RunSpec {
  if (!root) throw notThere();
  return root.spec;
}

function signInPath(to: string): string {
  return `/runs/-/sign-in?to=${encodeURIComponent(to)}`;
}

function isAction(part: string): part is Action {
  return (actions as readonly string[]).includes(part);
}

function allow({ method }: IncomingMessage, allowed: "GET" | "POST"): void {
  if (method === allowed || (allowed === "GET" && method === "HEAD")) return;
  throw new Refusal(405, `Only ${allowed} works here.`);
}

const htmlType = "text/html; charset=utf-8";

const pageHeaders = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex, nofollow",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

function wantsJson({ headers }: IncomingMessage): boolean {
  return headers.accept === "application/json";
}

function send(response: ServerResponse, status: number, type: string, content: string | Buffer): void {
  // A body that was not read must not be taken for the next request.
  response.writeHead(status, { "content-type": type, ...(status >= 400 ? { connection: "close" } : {}) }).end(content);
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  send(response, status, "application/json; charset=utf-8", JSON.stringify(value));
}

function sendSentence(request: IncomingMessage, response: ServerResponse, { status, words, link }: Sentence): void {
  if (wantsJson(request)) sendJson(response, status, { words });
  else send(response, status, htmlType, renderSentence({ title: "Golem Forge", words, ...(link && { link }) }));
}

function redirect(response: ServerResponse, location: string): void {
  response.writeHead(303, { location }).end();
}
