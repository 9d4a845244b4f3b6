import type { IncomingMessage } from "node:http";
import type { Credentials } from "#playground/github/credentials.ts";
import type { OAuth } from "#playground/github/pages/oauth.ts";
import { readJsonBody } from "#playground/github/read-request.ts";
import type { RequestLog } from "#playground/github/request-log.ts";
import { fullName } from "#playground/github/shapes/repository.ts";
import type { Webhooks } from "#playground/github/webhooks.ts";
import { nameKey, type World } from "#playground/github/world.ts";
import { ApiError, moved } from "./api-error.ts";
import type { RestResponse } from "./operation.ts";
import { findRoute } from "./router.ts";

/** What answering needs. */
export interface ServerContext {
  world: World;
  credentials: Credentials;
  oauth: OAuth;
  webhooks: Webhooks;
  log: RequestLog;
}

const outsideApiPrefix = /^\/(app|repos|repositories|users|installation)(\/|$)/;

/** The path of a request to the REST API, without `/api/v3`; undefined for any other request. */
export function restPath(pathname: string): string | undefined {
  if (pathname.startsWith("/api/v3/")) return pathname.slice("/api/v3".length);
  return outsideApiPrefix.test(pathname) ? pathname : undefined;
}

/** Answers a request to the REST API. Undefined means the connection is to be dropped. */
export async function answerRest(
  server: ServerContext,
  { request, url, path }: { request: IncomingMessage; url: URL; path: string },
): Promise<RestResponse | undefined> {
  const method = request.method ?? "GET";
  const body = await catchApiError(() => readJsonBody(request));
  const route = await catchApiError(() => findRoute(method, resolveRepositoryPath(server.world, path, method)));
  const operation = route instanceof ApiError ? undefined : route?.operation;
  const name = operation && `${method} ${operation.path}`;
  const record = server.log.add({
    method,
    path: `${path}${url.search}`,
    operation: name,
    body: body instanceof ApiError ? undefined : body,
  });
  const early = await server.log.before(record);
  if (early === "drop") return undefined;
  if (early) return finish(record, { status: early.status, body: early.body ?? {}, headers: early.headers ?? {} });

  const answer = await catchApiError(async (): Promise<RestResponse> => {
    if (body instanceof ApiError) throw body;
    if (route instanceof ApiError) throw route;
    const caller = server.credentials.identify(request.headers.authorization);
    if (!route) throw new ApiError(404, `The local GitHub does not know ${method} ${path}`);
    return route.operation.handle({ ...server, method, caller, params: route.params, url, body });
  });
  const shown = answer instanceof ApiError ? errorResponse(answer) : answer;
  const late = method !== "GET" && shown.status < 300 ? await server.log.after(record) : undefined;
  if (late === "drop") return undefined;
  return finish(record, late ? { status: late.status, body: late.body ?? {}, headers: late.headers ?? {} } : shown);
}

/** The path by the repository's present name: GitHub takes its number in place of it, and sends on from names of before. */
function resolveRepositoryPath(world: World, path: string, method: string): string {
  const [, number, ofNumber = ""] = /^\/repositories\/(\d+)(\/.*)?$/.exec(path) ?? [];
  if (number !== undefined) {
    const repository = [...world.repositories.values()].find(({ id }) => id === Number(number));
    return repository ? `/repos/${fullName(repository)}${ofNumber}` : path;
  }
  const [, name, ofName = ""] = /^\/repos\/([^/]+\/[^/]+)(\/.*)?$/.exec(path) ?? [];
  const left = name === undefined ? undefined : world.previousNames.get(nameKey(decodeURIComponent(name)));
  if (left) throw moved(method, `${world.url}/api/v3/repositories/${left.id}${ofName}`);
  return path;
}

function finish(record: { status: number | undefined }, answer: RestResponse): RestResponse {
  record.status = answer.status;
  return answer;
}

async function catchApiError<T>(work: () => T | Promise<T>): Promise<T | ApiError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

function errorResponse({ status, message, errors, location }: ApiError): RestResponse {
  const documentation = "https://docs.github.com/rest";
  return {
    status,
    body: { message, ...(errors && { errors }), documentation_url: documentation, status: String(status) },
    ...(location && { headers: { Location: location } }),
  };
}
