import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { renderBodies } from "#playground/github/attachments.ts";
import type { Caller, Credentials } from "#playground/github/credentials.ts";
import { answerGraphql } from "#playground/github/graphql/answer-graphql.ts";
import type { OAuth } from "#playground/github/pages/oauth.ts";
import type { RateLimiter } from "#playground/github/rate-limiter.ts";
import { readJsonBody } from "#playground/github/read-request.ts";
import type { InjectedResponse, RequestLog } from "#playground/github/request-log.ts";
import { fullName } from "#playground/github/shapes/repository.ts";
import type { Webhooks } from "#playground/github/webhooks.ts";
import { nameKey, type World } from "#playground/github/world.ts";
import { ApiError, moved } from "./api-error.ts";
import { appOperations } from "./app-operations.ts";
import { checkOperations } from "./check-operations.ts";
import { commitOperations } from "./commit-operations.ts";
import { gitOperations } from "./git-operations.ts";
import { issueOperations } from "./issue-operations.ts";
import type { ApiResponse, RestOperation } from "./operation.ts";
import { pullOperations } from "./pull-operations.ts";
import { repositoryOperations } from "./repository-operations.ts";
import { userOperations } from "./user-operations.ts";

/** The parts of the server that answer requests. */
export interface ServerContext {
  world: World;
  credentials: Credentials;
  limits: RateLimiter;
  oauth: OAuth;
  webhooks: Webhooks;
  log: RequestLog;
}

const outsideApiPrefix = /^\/(app|repos|repositories|users|installation|graphql)(\/|$)/;

/** Returns the path of a request to the API without `/api/v3`; undefined for any other request. */
export function restPath(pathname: string): string | undefined {
  if (pathname.startsWith("/api/v3/")) return pathname.slice("/api/v3".length);
  if (pathname === "/api/graphql") return "/graphql";
  return outsideApiPrefix.test(pathname) ? pathname : undefined;
}

const defaultVersion = "2022-11-28";
const supportedVersions = [defaultVersion, "2026-03-10"];

/** Answers a request to the REST API. Resolves to undefined if the connection is to be dropped. */
export async function answerRest(
  server: ServerContext,
  { request, url, path }: { request: IncomingMessage; url: URL; path: string },
): Promise<ApiResponse | undefined> {
  const { world, credentials, limits, log } = server;
  const method = request.method ?? "GET";
  const body = await catchApiError(() => readJsonBody(request));
  const isGraphql = path === "/graphql";
  const present = await catchApiError(() => resolvePath(world, { method, path, search: url.search }));
  const route = await catchApiError(() => findRoute(method, present instanceof ApiError ? path : present));
  const operation = route instanceof ApiError ? undefined : route?.operation;
  const record = log.add({
    method,
    path: `${path}${url.search}`,
    operation: isGraphql ? `${method} /graphql` : operation && `${method} ${operation.path}`,
    body: body instanceof ApiError ? undefined : body,
  });
  const before = await log.before(record);
  if (before === "drop") return undefined;

  let caller: Caller | undefined;
  const answer =
    before ??
    (await catchApiError(async (): Promise<ApiResponse> => {
      checkVersion(request);
      if (body instanceof ApiError) throw body;
      if (present instanceof ApiError) throw present;
      if (route instanceof ApiError) throw route;
      caller = credentials.identify(request.headers.authorization);
      if (caller.kind === "installation") limits.count(caller.token.installation.id, { method, path });
      if (isGraphql) return { status: 200, body: answerGraphql(world, caller, body) };
      if (!route) throw new ApiError(404, `The local GitHub does not implement ${method} ${path}`);
      const found = await route.operation.handle({ ...server, method, caller, params: route.params, url, body });
      return isFull(request) ? { ...found, body: renderBodies(world, found.body) } : found;
    }));
  const response = answer instanceof ApiError ? errorResponse(answer) : toResponse(answer);
  const after = method !== "GET" && response.status < 300 ? await log.after(record) : undefined;
  if (after === "drop") return undefined;

  const final = withEtag(request, after ? toResponse(after) : response);
  record.status = final.status;
  const installation = caller?.kind === "installation" ? caller.token.installation.id : undefined;
  return { ...final, headers: { ...standardHeaders(request), ...limits.headers(installation), ...final.headers } };
}

/** True for a request that also asks for the HTML of texts. */
function isFull({ headers }: IncomingMessage): boolean {
  return headers.accept === "application/vnd.github.full+json";
}

/** Returns the path with the repository's current name. GitHub also accepts its id, and redirects earlier names. */
function resolvePath(world: World, { method, path, search }: { method: string; path: string; search: string }): string {
  const [, id, belowId = ""] = /^\/repositories\/(\d+)(\/.*)?$/.exec(path) ?? [];
  if (id !== undefined) {
    const repository = [...world.repositories.values()].find((one) => one.id === Number(id));
    return repository ? `/repos/${fullName(repository)}${belowId}` : path;
  }
  const [, name, belowName = ""] = /^\/repos\/([^/]+\/[^/]+)(\/.*)?$/.exec(path) ?? [];
  const renamed = name === undefined ? undefined : world.previousNames.get(nameKey(decodeURIComponent(name)));
  if (renamed) throw moved(method, `${world.url}/api/v3/repositories/${renamed.id}${belowName}${search}`);
  return path;
}

function checkVersion(request: IncomingMessage): void {
  const version = request.headers["x-github-api-version"];
  if (version === undefined || supportedVersions.includes(String(version))) return;
  throw new ApiError(400, `"${version}" is not a supported version.`);
}

function standardHeaders(request: IncomingMessage): Record<string, string> {
  return {
    "Content-Type": "application/json; charset=utf-8",
    "X-GitHub-Request-Id": "playground",
    "X-GitHub-Enterprise-Version": "3.19.0",
    "X-GitHub-Api-Version-Selected": String(request.headers["x-github-api-version"] ?? defaultVersion),
  };
}

function toResponse({ status, body, headers = {} }: ApiResponse | InjectedResponse): Required<ApiResponse> {
  return { status, body, headers };
}

function errorResponse({ status, message, errors, headers }: ApiError): Required<ApiResponse> {
  const documentation_url = "https://docs.github.com/rest";
  const body = { message, ...(errors && { errors }), documentation_url, status: String(status) };
  return { status, body, headers };
}

/** Answers 304 to a client that already has this response. As on GitHub, an ETag is valid for one token. */
function withEtag(request: IncomingMessage, response: Required<ApiResponse>): Required<ApiResponse> {
  if (request.method !== "GET" || response.status !== 200) return response;
  const content = `${request.headers.authorization}\n${JSON.stringify(response.body)}`;
  const etag = `W/"${createHash("sha256").update(content).digest("hex")}"`;
  const headers = { ...response.headers, ETag: etag };
  if (request.headers["if-none-match"] !== etag) return { ...response, headers };
  return { status: 304, body: undefined, headers };
}

async function catchApiError<T>(work: () => T | Promise<T>): Promise<T | ApiError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

const operations = [
  ...appOperations,
  ...checkOperations,
  ...gitOperations,
  ...issueOperations,
  ...pullOperations,
  ...commitOperations,
  ...repositoryOperations,
  ...userOperations,
];

const routes = operations
  .map((operation) => ({ operation, pattern: patternOf(operation.path) }))
  // A fixed segment goes before a parameter in the same place: `/pulls/comments/1` is not pull request "comments".
  .sort((a, b) => specificity(b.operation.path) - specificity(a.operation.path));

function specificity(path: string): number {
  return path.split("/").filter((segment) => !segment.startsWith("{")).length;
}

/** Finds the operation for a method and a path without `/api/v3`. */
function findRoute(
  method: string,
  path: string,
): { operation: RestOperation; params: Record<string, string> } | undefined {
  for (const { operation, pattern } of routes) {
    const match = operation.method === method.toLowerCase() ? pattern.exec(path) : null;
    if (match) return { operation, params: decodeAll(match.groups ?? {}) };
  }
  return undefined;
}

function patternOf(template: string): RegExp {
  const source = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    // Paths, refs and branches contain slashes.
    return ["path", "ref", "branch", "basehead"].includes(name) ? `(?<${name}>.*)` : `(?<${name}>[^/]+)`;
  });
  // The path of the root folder may have a trailing slash.
  return new RegExp(`^${source.replace("/contents/(?<path>.*)", "/contents(?:/(?<path>.*))?")}$`);
}

function decodeAll(groups: Record<string, string | undefined>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, part]) => [name, decodeURIComponent(part ?? "")]));
  } catch {
    throw new ApiError(400, "The address is not valid");
  }
}
