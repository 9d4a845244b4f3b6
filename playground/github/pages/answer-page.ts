import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { Person } from "#playground/github/person.ts";
import { readJsonBody } from "#playground/github/read-request.ts";
import type { ServerContext } from "#playground/github/rest/answer-rest.ts";
import { ApiError, orNotFound } from "#playground/github/rest/api-error.ts";
import { nameKey, type Repository } from "#playground/github/world.ts";
import { changesAssets } from "#text/changes/render-changes.ts";
import { describeWorld, threadListData, threadPageData } from "./page-data.ts";

export interface PageServer {
  server: ServerContext;
  notice(): string;
  watch(listener: () => void): () => void;
}

interface PageRequest {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
}

const folder = new URL("./browser/", import.meta.url);
const types: Record<string, string> = { css: "text/css", js: "text/javascript", html: "text/html" };
const appPath = /^\/(?:(?!-\/)[^/]+\/[^/]+(?:\/(?:issues|pulls)(?:\/new|\/\d+)?|\/pull\/\d+)?\/?)?$/;
const assetPath = /^\/-\/assets\/([a-z-]+\.(?:css|js))$/;
const dataPath = /^\/-\/repositories\/([^/]+\/[^/]+)\/threads(?:\/(\d+)(?:\/([a-z-]+))?)?$/;

const pageHeaders = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

/** Serves the web page: its files, its data, and people's actions on it. */
export async function answerPage(page: PageServer, asked: PageRequest): Promise<void> {
  try {
    assertSameOrigin(page, asked.request);
    await (asked.request.method === "POST" ? act(page, asked) : show(page, asked));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    sendJson(asked.response, { message: explain(error) }, error.status);
  }
}

function explain({ errors = [], message }: ApiError): string {
  const [problem] = errors;
  if (problem === undefined) return message;
  return typeof problem === "string" ? problem : (problem.message ?? `The ${problem.field} is missing.`);
}

/** Prevents other sites in the browser from acting as the maintainer, across origins or by DNS rebinding. */
function assertSameOrigin({ server }: PageServer, request: IncomingMessage): void {
  const port = new URL(server.world.url).port;
  const host = request.headers.host ?? "";
  const site = request.headers["sec-fetch-site"] ?? "same-origin";
  const origin = request.headers.origin ?? `http://${host}`;
  const isLoopback = [`127.0.0.1:${port}`, `localhost:${port}`].includes(host);
  const isWrite = request.method !== "GET" && request.method !== "HEAD";
  const isJson = (request.headers["content-type"] ?? "").startsWith("application/json");
  if (!isLoopback || (isWrite && (!isJson || site !== "same-origin" || origin !== `http://${host}`))) {
    throw new ApiError(403, "Only the playground's own page may do this.");
  }
}

async function show({ server, notice, watch }: PageServer, { response, url }: PageRequest): Promise<void> {
  if (url.pathname === "/-/world") return sendJson(response, describeWorld(server.world, notice()));
  if (url.pathname === "/-/events") return sendChanges(watch, response);
  if (url.pathname.startsWith("/-/avatars/")) return sendAvatar(server, url, response);

  const [, asset] = assetPath.exec(url.pathname) ?? [];
  if (asset) return sendFile(response, asset);
  if (appPath.test(url.pathname)) return sendFile(response, "index.html");

  const { repository, number } = locate(server, url);
  if (number === undefined) return sendJson(response, threadListData(repository));
  const thread = orNotFound(repository.threads.get(number));
  sendJson(response, await threadPageData(server.world, repository, thread));
}

/** A person's action in an issue or pull request. */
interface Action<T> {
  schema: z.ZodType<T>;
  act(person: Person, number: number, fields: T): unknown;
}

function action<T>(
  schema: z.ZodType<T>,
  act: Action<T>["act"],
): (person: Person, number: number, body: unknown) => unknown {
  return (person, number, body) => act(person, number, parseBody(schema, body));
}

const LineComment = z.object({
  path: z.string(),
  line: z.number().optional(),
  side: z.enum(["LEFT", "RIGHT"]),
  body: z.string(),
});

const actions: Record<string, (person: Person, number: number, body: unknown) => unknown> = {
  comments: action(z.object({ body: z.string() }), (person, number, { body }) => person.comment(number, body)),
  state: action(z.object({ state: z.enum(["open", "closed"]) }), (person, number, { state }) =>
    state === "closed" ? person.close(number) : person.reopen(number),
  ),
  reviews: action(
    z.object({
      event: z.enum(["APPROVE", "REQUEST_CHANGES", "COMMENT"]),
      body: z.string(),
      comments: z.array(LineComment),
    }),
    (person, number, review) => person.review(number, review),
  ),
  replies: action(z.object({ comment: z.number(), body: z.string() }), (person, _, { comment, body }) =>
    person.reply(comment, body),
  ),
  resolve: action(z.object({ comment: z.number(), resolved: z.boolean() }), (person, _, { comment, resolved }) =>
    person.resolve(comment, resolved),
  ),
  ready: action(z.object({}), (person, number) => person.markReady(number)),
  merge: action(z.object({}), (person, number) => person.merge(number)),
};

async function act({ server }: PageServer, { request, response, url }: PageRequest): Promise<void> {
  const { repository, number, part } = locate(server, url);
  const body = await readJsonBody(request);
  const { as } = parseBody(z.object({ as: z.string() }), body);
  const person = new Person(server.world, repository, as);
  if (number === undefined) {
    const issue = parseBody(z.object({ title: z.string(), body: z.string() }), body);
    return sendJson(response, { number: person.openIssue(issue).number }, 201);
  }
  const perform = orNotFound(actions[part ?? ""]);

  await perform(person, number, body);
  sendJson(response, {}, 201);
}

function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw new ApiError(422, "The page sent a request that this server does not understand.");
  return parsed.data;
}

function locate(
  server: ServerContext,
  url: URL,
): { repository: Repository; number: number | undefined; part: string | undefined } {
  const [, name = "", number, part] = dataPath.exec(url.pathname) ?? [];
  const repository = orNotFound(server.world.repositories.get(nameKey(decodeURIComponent(name))));
  return { repository, number: number === undefined ? undefined : Number(number), part };
}

async function sendFile(response: ServerResponse, name: string): Promise<void> {
  const address = Object.entries(changesAssets).find(([shared]) => shared === name)?.[1] ?? new URL(name, folder);
  const content = orNotFound(await readFile(address).catch(() => undefined));

  const type = types[name.split(".").at(-1) ?? ""] ?? "text/plain";
  response.writeHead(200, { ...pageHeaders, "Content-Type": `${type}; charset=utf-8` }).end(content);
}

function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  const headers = { ...pageHeaders, "Content-Type": "application/json; charset=utf-8" };
  response.writeHead(status, headers).end(JSON.stringify(value));
}

/** Sends an empty event after every change. The page then reloads its data. */
function sendChanges(watch: PageServer["watch"], response: ServerResponse): void {
  response.writeHead(200, { ...pageHeaders, "Content-Type": "text/event-stream" });
  response.write("retry: 1000\n\n");
  const stop = watch(() => void response.write("data: changed\n\n"));
  response.on("close", stop);
}

const palette = ["#8250df", "#0969da", "#1a7f37", "#9a6700", "#bc4c00", "#bf3989"];

function sendAvatar({ world }: ServerContext, url: URL, response: ServerResponse): void {
  const id = Number(url.pathname.split("/").at(-1));
  const user = [...world.users.values()].find((candidate) => candidate.id === id);
  const isPerson = user && user.type !== "Bot";
  const letter = isPerson ? (/[a-z0-9]/i.exec(user.login)?.[0]?.toUpperCase() ?? "?") : "⚒";
  const color = isPerson ? palette[id % palette.length] : "#24292f";
  const text = `<text x="20" y="21" font-family="system-ui,sans-serif" font-size="20" font-weight="600" fill="#fff" text-anchor="middle" dominant-baseline="central">${letter}</text>`;
  const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" fill="${color}"/>${text}</svg>`;
  response.writeHead(200, { ...pageHeaders, "Content-Type": "image/svg+xml" }).end(picture);
}
