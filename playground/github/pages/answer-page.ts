import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { actAs } from "#playground/github/person.ts";
import { readJsonBody } from "#playground/github/read-request.ts";
import type { ServerContext } from "#playground/github/rest/answer-rest.ts";
import { ApiError, notFound } from "#playground/github/rest/api-error.ts";
import { nameKey, type Repository } from "#playground/github/world.ts";
import { describeThread, describeThreads, describeWorld } from "./page-data.ts";

interface PageRequest {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
}

interface PageContext {
  server: ServerContext;
  notice: string | undefined;
  watch(listener: () => void): () => void;
}

const folder = new URL("./browser/", import.meta.url);
const types: Record<string, string> = { css: "text/css", js: "text/javascript", html: "text/html" };
const appPath = /^\/(?:(?!-\/)[^/]+\/[^/]+(?:\/(?:issues|pulls)(?:\/new|\/\d+)?|\/pull\/\d+)?\/?)?$/;
const assetPath = /^\/-\/assets\/([a-z-]+\.(?:css|js))$/;
const dataPath = /^\/-\/repositories\/([^/]+\/[^/]+)\/threads(?:\/(\d+)(?:\/(comments|state))?)?$/;

const pageHeaders = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

/** Answers what the web page asks: itself, its data, and what a person does on it. */
export async function answerPage(page: PageContext, asked: PageRequest): Promise<void> {
  try {
    assertSameOrigin(page, asked.request);
    await (asked.request.method === "POST" ? act(page, asked) : show(page, asked));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const problem = error.errors?.[0];
    const message = problem?.message ?? (problem ? `The ${problem.field} is missing.` : error.message);
    sendJson(asked.response, { message }, error.status);
  }
}

/** Another site in the same browser must not act as the maintainer: not by name rebinding, not across origins. */
function assertSameOrigin({ server }: PageContext, request: IncomingMessage): void {
  const port = new URL(server.world.url).port;
  const host = request.headers.host ?? "";
  const site = request.headers["sec-fetch-site"] ?? "same-origin";
  const origin = request.headers.origin ?? `http://${host}`;
  const loopback = [`127.0.0.1:${port}`, `localhost:${port}`].includes(host);
  const acts = request.method !== "GET" && request.method !== "HEAD";
  const json = (request.headers["content-type"] ?? "").startsWith("application/json");
  if (!loopback || (acts && (!json || site !== "same-origin" || origin !== `http://${host}`))) {
    throw new ApiError(403, "This address only answers its own page.");
  }
}

async function show({ server, notice, watch }: PageContext, { response, url }: PageRequest): Promise<void> {
  if (url.pathname === "/-/world") return sendJson(response, describeWorld(server.world, notice));
  if (url.pathname === "/-/events") return sendChanges(watch, response);
  if (url.pathname.startsWith("/-/avatars/")) return sendAvatar(server, url, response);

  const [, asset] = assetPath.exec(url.pathname) ?? [];
  if (asset) return sendFile(response, asset);
  if (appPath.test(url.pathname)) return sendFile(response, "index.html");

  const { repository, number } = locate(server, url);
  if (number === undefined) return sendJson(response, describeThreads(repository));
  const thread = repository.threads.get(number);
  if (!thread) throw notFound();
  sendJson(response, await describeThread(repository, thread));
}

const NewThread = z.object({ as: z.string(), title: z.string(), body: z.string() });
const NewComment = z.object({ as: z.string(), body: z.string() });
const NewState = z.object({ as: z.string(), state: z.enum(["open", "closed"]) });

async function act({ server }: PageContext, { request, response, url }: PageRequest): Promise<void> {
  const { repository, number, part } = locate(server, url);
  const body = await readJsonBody(request);
  if (number === undefined) {
    const { as, title, body: text } = parseBody(NewThread, body);
    const thread = actAs({ world: server.world, repository, login: as }).openIssue({ title, body: text });
    return sendJson(response, { number: thread.number }, 201);
  }
  if (part === "comments") {
    const { as, body: text } = parseBody(NewComment, body);
    const comment = actAs({ world: server.world, repository, login: as }).comment(number, text);
    return sendJson(response, { id: comment.id }, 201);
  }
  if (part !== "state") throw notFound();

  const { as, state } = parseBody(NewState, body);
  const person = actAs({ world: server.world, repository, login: as });
  if (state === "closed") person.close(number);
  else person.reopen(number);
  sendJson(response, { state });
}

function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw new ApiError(422, "The page sent something this server does not understand.");
  return parsed.data;
}

function locate(
  server: ServerContext,
  url: URL,
): { repository: Repository; number: number | undefined; part: string | undefined } {
  const [, name = "", number, part] = dataPath.exec(url.pathname) ?? [];
  const repository = server.world.repositories.get(nameKey(decodeURIComponent(name)));
  if (!repository) throw notFound();
  return { repository, number: number === undefined ? undefined : Number(number), part };
}

async function sendFile(response: ServerResponse, name: string): Promise<void> {
  const content = await readFile(new URL(name, folder)).catch(() => undefined);
  if (!content) throw notFound();

  const type = types[name.split(".").at(-1) ?? ""] ?? "text/plain";
  response.writeHead(200, { ...pageHeaders, "Content-Type": `${type}; charset=utf-8` }).end(content);
}

function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  const headers = { ...pageHeaders, "Content-Type": "application/json; charset=utf-8" };
  response.writeHead(status, headers).end(JSON.stringify(value));
}

/** Server-sent events: one empty message after every change, and the page asks for what it shows. */
function sendChanges(watch: PageContext["watch"], response: ServerResponse): void {
  response.writeHead(200, { ...pageHeaders, "Content-Type": "text/event-stream" });
  response.write("retry: 1000\n\n");
  const stop = watch(() => void response.write("data: changed\n\n"));
  response.on("close", stop);
}

const palette = ["#8250df", "#0969da", "#1a7f37", "#9a6700", "#bc4c00", "#bf3989"];

function sendAvatar({ world }: ServerContext, url: URL, response: ServerResponse): void {
  const id = Number(url.pathname.split("/").at(-1));
  const user = [...world.users.values()].find((candidate) => candidate.id === id);
  const person = user && user.type !== "Bot";
  const letter = person ? (/[a-z0-9]/i.exec(user.login)?.[0]?.toUpperCase() ?? "?") : "⚒";
  const color = person ? palette[id % palette.length] : "#24292f";
  const text = `<text x="20" y="21" font-family="system-ui,sans-serif" font-size="20" font-weight="600" fill="#fff" text-anchor="middle" dominant-baseline="central">${letter}</text>`;
  const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" fill="${color}"/>${text}</svg>`;
  response.writeHead(200, { ...pageHeaders, "Content-Type": "image/svg+xml" }).end(picture);
}
