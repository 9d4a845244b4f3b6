import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Config } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Runs } from "#runtime/runs.ts";
import type { RunViewReader } from "#runtime/views/run-view-reader.ts";
import { streamRun } from "./event-stream.ts";
import { markupOf } from "./html.ts";
import { type Action, actions, obey } from "./obey.ts";
import { createOpenRun } from "./open-run.ts";
import { notThere, Refusal, type Sentence } from "./refusal.ts";
import { entriesAtOnce, renderEntries, renderEntriesPage, renderRunPage } from "./render-page.ts";
import type { PageContext } from "./render-parts.ts";
import { allow, htmlType, pageHeaders, redirect, send, sendJson, sendSentence, wantsJson } from "./respond.ts";
import { createRunLinks, deriveKey } from "./run-links.ts";
import { createSealedCookies } from "./sealed-cookies.ts";
import { createSessions } from "./sessions.ts";
import { callbackPath, createSignIn } from "./sign-in.ts";
import { createSignInPages } from "./sign-in-pages.ts";
import { createStandings } from "./standings.ts";
import { createTally } from "./tally.ts";

export interface RunPagesOptions {
  config: Pick<Config, "github"> & { page: NonNullable<Config["page"]>; app: Pick<Config["app"], "webhookSecret"> };
  books: () => RunViewReader;
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
/** Of a person. */
const commandsPerMinute = 30;
/** Of a run: drawing a long one takes its time. */
const viewsPerMinute = 120;
/** Milliseconds a reader may let an answer lie. */
const longestPause = 30_000;

const runPath = /^\/runs\/([a-z0-9-]{1,40})\/([0-9a-f]{32})(?:\/([a-z-]+)(?:\/([a-z0-9-]{1,40})\/(\d{1,15}))?)?$/;

const assets = new Map(
  Object.entries({ "run.js": "text/javascript", "run.css": "text/css" }).map(([name, type]) => [
    `/runs/-/assets/${name}`,
    { type, content: readFileSync(new URL(`./page/${name}`, import.meta.url)) },
  ]),
);

/** The web pages of runs: whoever has a page's link may watch, whoever signs in and may write may command. */
export function createRunPages(options: RunPagesOptions): RunPages {
  const { config, books, runs, openGitHub, onError, now = Date.now } = options;
  const { url, signIn: client } = config.page;
  const secret = config.app.webhookSecret;
  const links = createRunLinks(secret);
  const standings = createStandings({ openGitHub, now });
  const cookies = createSealedCookies({ key: deriveKey(secret, "cookies"), secure: url.startsWith("https:"), now });
  const sessions = client && createSessions(cookies, deriveKey(secret, "forms"));
  const signIn =
    client &&
    sessions &&
    createSignInPages({
      url,
      sessions,
      onError,
      signIn: createSignIn({ url, github: config.github, client, cookies }),
    });
  const open = createOpenRun({ github: config.github, books, links, sessions, standings, now });
  const commands = createTally({ perMinute: commandsPerMinute, now });
  const views = createTally({ perMinute: viewsPerMinute, now });
  const streams = new Map<() => void, string>();

  function answer(request: IncomingMessage, response: ServerResponse): boolean {
    const [path = "", query = ""] = (request.url ?? "").split("?", 2);
    if (path !== "/runs" && !path.startsWith("/runs/")) return false;

    for (const [name, value] of Object.entries(pageHeaders)) response.setHeader(name, value);
    response.setTimeout(longestPause, () => response.destroy());
    respond({ request, response, path, query: new URLSearchParams(query) }).catch((error) => {
      if (!(error instanceof Refusal)) onError(error);
      if (response.headersSent) response.destroy();
      else sendSentence(request, response, error instanceof Refusal ? error : broken);
    });
    return true;
  }

  async function respond(asked: Asked): Promise<void> {
    const { request, response, path, query } = asked;
    const asset = assets.get(path);
    if (asset) {
      allow(request, "GET");
      return send(response, 200, `${asset.type}; charset=utf-8`, asset.content);
    }
    if (signIn && path === "/runs/-/sign-in") return signIn.begin(request, response, query);
    if (signIn && path === callbackPath) return signIn.complete(request, response, query);
    if (signIn && path === "/runs/-/sign-out") return signIn.end(request, response);

    const [, runId = "", key = "", part, laneId = "", before] = runPath.exec(path) ?? [];
    if (!runId || !links.isKey(runId, key)) throw notThere();
    if (part === undefined) return showRun(asked, runId);
    if (part === "entries" && before !== undefined)
      return showEntries(asked, runId, { laneId, before: Number(before) });
    if (before !== undefined) throw notThere();
    if (part === "events") return showEvents(asked, runId);
    if (isAction(part)) return command(asked, runId, part);
    throw notThere();
  }

  async function showRun({ request, response }: Asked, runId: string): Promise<void> {
    allow(request, "GET");
    countView(runId);
    const { root, tree, context } = await open(request, runId);
    const [threadTitle, ...pages] = await Promise.all([
      standings.titleOf(root.origin, root.origin.thread),
      ...tree.runs.map(({ spec }) => books().readEvents(runId, spec.id, { limit: entriesAtOnce })),
    ]);
    const transcripts = new Map(tree.runs.map(({ spec }, at) => [spec.id, pages[at] ?? { events: [], earlier: 0 }]));
    send(response, 200, htmlType, renderRunPage({ tree, transcripts, context, threadTitle }));
  }

  async function showEntries(
    { request, response }: Asked,
    runId: string,
    { laneId, before }: { laneId: string; before: number },
  ): Promise<void> {
    allow(request, "GET");
    countView(runId);
    const { tree, context } = await open(request, runId);
    const lane = tree.runs.find(({ spec }) => spec.id === laneId);
    if (!lane) throw notThere();
    const page = await books().readEvents(runId, laneId, { before, limit: entriesAtOnce });
    if (wantsJson(request)) sendJson(response, 200, { html: markupOf(renderEntries(tree, lane, page, context)) });
    else send(response, 200, htmlType, renderEntriesPage(tree, lane, page, context));
  }

  function countView(runId: string): void {
    if (!views.isWithin(runId)) throw new Refusal(429, "Many people open this run right now. Try again in a minute.");
  }

  async function showEvents({ request, response, query }: Asked, runId: string): Promise<void> {
    if (request.method !== "GET") throw new Refusal(405, "Only GET works here.");
    const ofRun = [...streams.values()].filter((id) => id === runId).length;
    if (streams.size >= mostWatchers.all || ofRun >= mostWatchers.run) {
      throw new Refusal(429, "Too many people watch at the moment. The page tries again by itself.");
    }
    // Counted before anything is waited for: a flood must not slip in between.
    let end = () => {};
    const slot = () => end();
    streams.set(slot, runId);
    response.on("close", () => streams.delete(slot));
    let first: PageContext | undefined = (await open(request, runId)).context;
    if (response.destroyed) return;

    response.setTimeout(0);
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" });
    const context = async () => {
      const known = first ?? (await open(request, runId).catch(() => undefined))?.context;
      first = undefined;
      return known;
    };
    const after = String(request.headers["last-event-id"] ?? query.get("after") ?? "");
    end = streamRun(response, { books: books(), rootId: runId, context, after, now });
  }

  async function command({ request, response }: Asked, runId: string, action: Action): Promise<void> {
    allow(request, "POST");
    if (!signIn) throw new Refusal(401, "Nobody can sign in here. Answer in the thread.");
    const { session, fields } = await signIn.readSent(request);
    if (!commands.isWithin(session.login)) throw new Refusal(429, "That was a lot in one minute. Wait a moment.");
    const { root: spec, tree, context } = await open(request, runId);
    try {
      const order = { action, fields, by: session.login, spec, approvals: tree.approvals };
      const words = await obey(order, { runs: runs(), github: openGitHub(spec.origin) });
      books().invalidate(runId);
      if (wantsJson(request)) sendJson(response, 200, { words });
      else redirect(response, context.path);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new Refusal(409, error.message, { href: context.path, text: "Back to the run" });
    }
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
  request: IncomingMessage;
  response: ServerResponse;
  path: string;
  query: URLSearchParams;
}

const broken: Sentence = { status: 500, words: "Something failed on our side. Try again in a moment." };

function isAction(part: string): part is Action {
  return actions.some((action) => action === part);
}
