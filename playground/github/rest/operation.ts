import type { paths } from "@octokit/openapi-types";
import { z } from "zod";
import type { Caller, Credentials, InstallationToken } from "#playground/github/credentials.ts";
import type { RateLimiter } from "#playground/github/rate-limiter.ts";
import type { ActionContext } from "#playground/github/user-actions.ts";
import type { Webhooks } from "#playground/github/webhooks.ts";
import { type AppPermissions, nameKey, type Repository, type User, type World } from "#playground/github/world.ts";
import { ApiError, notFound, validationFailed } from "./api-error.ts";

type Method = "get" | "post" | "patch" | "put" | "delete";
type Success = 200 | 201 | 202 | 204 | 302;
type Responses<P extends keyof paths, M extends Method> =
  paths[P] extends Record<M, { responses: infer R }> ? R : never;
type JsonOf<R> = R extends { content: { "application/json": infer Body } } ? Body : undefined;

/** A successful response of an operation, as GitHub publishes it. */
type Reply<P extends keyof paths, M extends Method> = {
  [S in keyof Responses<P, M> & Success]: {
    status: S;
    body: JsonOf<Responses<P, M>[S]>;
    headers?: Record<string, string>;
  };
}[keyof Responses<P, M> & Success];

export interface ApiResponse {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

export interface ApiRequest {
  world: World;
  method: string;
  credentials: Credentials;
  limits: RateLimiter;
  webhooks: Webhooks;
  caller: Caller;
  /** The decoded parts of the path, by their names in the operation's template. */
  params: Readonly<Record<string, string>>;
  url: URL;
  body: unknown;
}

/** A request about one repository, by a token that allows it. */
export interface RepositoryRequest extends ApiRequest {
  repository: Repository;
  token: InstallationToken;
  /** The app's bot is the actor. */
  context: ActionContext;
}

export interface RestOperation {
  method: string;
  /** GitHub's own template, such as `/repos/{owner}/{repo}`. */
  path: string;
  handle(request: ApiRequest): ApiResponse | Promise<ApiResponse>;
}

type Handle<C, P extends keyof paths, M extends Method> = (request: C) => Reply<P, M> | Promise<Reply<P, M>>;

/** Builds an operation. `authorize` checks the caller and adds what the handler needs; it throws an ApiError otherwise. */
function operation<C, M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  authorize: (request: ApiRequest) => C,
  handle: Handle<C, P, M>,
): RestOperation {
  return { method, path, handle: (request) => handle(authorize(request)) };
}

/** An operation that the app calls with its own signature. */
export function appOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<ApiRequest, P, M>,
): RestOperation {
  const authorize = (request: ApiRequest) => {
    if (request.caller.kind !== "app") throw new ApiError(401, "A JSON web token could not be decoded");
    return request;
  };
  return operation(method, path, authorize, handle);
}

/** An operation that the app calls for a person, with the token of their sign-in. */
export function userOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<ApiRequest & { user: User }, P, M>,
): RestOperation {
  const authorize = (request: ApiRequest) => {
    if (request.caller.kind !== "user") throw new ApiError(401, "Requires authentication");
    return { ...request, user: request.caller.user };
  };
  return operation(method, path, authorize, handle);
}

/** An operation of the app's OAuth client about itself. */
export function clientOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<ApiRequest, P, M>,
): RestOperation {
  const authorize = (request: ApiRequest) => {
    const { caller, params } = request;
    if (caller.kind !== "client" || caller.clientId !== params.client_id) throw notFound();
    return request;
  };
  return operation(method, path, authorize, handle);
}

/** An operation that any installation token may request. */
export function installationOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<ApiRequest & { token: InstallationToken }, P, M>,
): RestOperation {
  return operation(method, path, (request) => ({ ...request, token: requireToken(request.caller) }), handle);
}

/** An operation on a repository. `needs` lists sets of permissions, one of which the token must have. */
export function repositoryOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  needs: AppPermissions | AppPermissions[],
  handle: Handle<RepositoryRequest, P, M>,
): RestOperation {
  const authorize = (request: ApiRequest) => {
    const { world, params } = request;
    const token = requireToken(request.caller);
    const repository = findVisibleRepository(world, `${params.owner}/${params.repo}`, token);
    const isCovered = covers(token, repository);
    // A public repository can be read with any token.
    const isPublicRead = method === "get" && !isCovered && !repository.private;
    const isAllowed = isCovered && [needs].flat().some((permissions) => allows(token, permissions));
    if (!isPublicRead && !isAllowed) throw new ApiError(403, "Resource not accessible by integration");
    const context = { world, repository, actor: world.app.bot, app: world.app };
    return { ...request, token, repository, context };
  };
  return operation(method, path, authorize, handle);
}

export function requireToken(caller: Caller): InstallationToken {
  if (caller.kind === "installation") return caller.token;
  throw new ApiError(401, "Requires authentication with an installation access token");
}

/** Returns a repository that is public or covered by the token. Otherwise throws a 404, which does not reveal private names. */
export function findVisibleRepository(world: World, name: string, token: InstallationToken): Repository {
  const repository = world.repositories.get(nameKey(name));
  if (!repository || (repository.private && !covers(token, repository))) throw notFound();
  return repository;
}

/** True for the repositories that a token was issued for. */
export function covers({ installation, repositories }: InstallationToken, repository: Repository): boolean {
  return installation === repository.installation && (repositories?.has(repository.id) ?? true);
}

/** True if the token has all of these permissions. `write` includes `read`, and every token may read metadata. */
export function allows(token: InstallationToken, needed: AppPermissions): boolean {
  const granted: AppPermissions = { metadata: "read", ...token.permissions };
  return Object.entries(needed).every(([name, level]) => granted[name] === "write" || granted[name] === level);
}

/** Parses the request's body. Throws a 422 that names missing or invalid fields. */
export function parseBody<T>(request: ApiRequest, resource: string, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(request.body ?? {});
  if (parsed.success) return parsed.data;

  throw validationFailed(
    ...parsed.error.issues.map((issue) => ({
      resource,
      field: issue.path.join("."),
      code:
        issue.code === "invalid_type" && issue.input === undefined ? ("missing_field" as const) : ("invalid" as const),
      message: issue.message,
    })),
  );
}

/** Returns the requested page of a list, with the Link header for the other pages. */
export function paginate<T>(request: ApiRequest, items: readonly T[]): { body: T[]; headers: Record<string, string> } {
  const perPage = Math.min(positiveOr(request.url.searchParams.get("per_page"), 30), 100);
  const page = positiveOr(request.url.searchParams.get("page"), 1);
  const last = Math.max(1, Math.ceil(items.length / perPage));
  const link = (rel: string, to: number) => {
    const url = new URL(request.url);
    url.searchParams.set("page", String(to));
    return `<${url}>; rel="${rel}"`;
  };
  const links = [
    ...(page > 1 ? [link("prev", page - 1), link("first", 1)] : []),
    ...(page < last ? [link("next", page + 1), link("last", last)] : []),
  ];
  const body = items.slice((page - 1) * perPage, page * perPage);
  return { body, headers: links.length > 0 ? { Link: links.join(", ") } : {} };
}

/** Responds with the requested page of a list, whose items are shown one by one. */
export function respondWithPage<T, Shown>(request: ApiRequest, items: readonly T[], show: (item: T) => Shown) {
  const { body, headers } = paginate(request, items);
  return { status: 200 as const, headers, body: body.map(show) };
}

function positiveOr(text: string | null, fallback: number): number {
  const number = Number(text);
  return Number.isInteger(number) && number > 0 ? number : fallback;
}

/** Parses a number in the path, such as an issue's. Throws a 404 for anything else. */
export function numberIn(request: ApiRequest, name: string): number {
  const text = request.params[name] ?? "";
  if (!/^\d{1,15}$/.test(text)) throw notFound();
  return Number(text);
}

/** The optional fields of a body: a client may leave one out or send null. */
export const optionalText = z
  .string()
  .nullish()
  .transform((text) => text ?? undefined);
