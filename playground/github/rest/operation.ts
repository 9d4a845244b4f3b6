import type { paths } from "@octokit/openapi-types";
import type { z } from "zod";
import type { Caller, Credentials, InstallationToken } from "#playground/github/credentials.ts";
import type { ActionContext } from "#playground/github/user-actions.ts";
import type { Webhooks } from "#playground/github/webhooks.ts";
import { type AppPermissions, nameKey, type Repository, type User, type World } from "#playground/github/world.ts";
import { ApiError, notFound, validationFailed } from "./api-error.ts";

type Method = "get" | "post" | "patch" | "put" | "delete";
type Success = 200 | 201 | 202 | 204;
type Responses<P extends keyof paths, M extends Method> =
  paths[P] extends Record<M, { responses: infer R }> ? R : never;
type JsonOf<R> = R extends { content: { "application/json": infer Body } } ? Body : undefined;

/** A successful answer of an operation, as GitHub publishes it. */
type Reply<P extends keyof paths, M extends Method> = {
  [S in keyof Responses<P, M> & Success]: {
    status: S;
    body: JsonOf<Responses<P, M>[S]>;
    headers?: Record<string, string>;
  };
}[keyof Responses<P, M> & Success];

export interface RestResponse {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

/** One request of a known operation. */
export interface RestRequest {
  world: World;
  method: string;
  credentials: Credentials;
  webhooks: Webhooks;
  caller: Caller;
  /** The decoded parts of the path, by the names in the operation's template. */
  params: Readonly<Record<string, string>>;
  url: URL;
  body: unknown;
}

/** A call about one repository, by a token that may do it. */
export interface RepositoryRequest extends RestRequest {
  repository: Repository;
  token: InstallationToken;
  /** What happens here is done by the app's bot. */
  context: ActionContext;
}

export interface RestOperation {
  method: string;
  /** GitHub's own template, such as `/repos/{owner}/{repo}`. */
  path: string;
  handle(call: RestRequest): RestResponse | Promise<RestResponse>;
}

type Handle<C, P extends keyof paths, M extends Method> = (call: C) => Reply<P, M> | Promise<Reply<P, M>>;

/** An operation the app calls with its own signature. */
export function appOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<RestRequest, P, M>,
): RestOperation {
  return {
    method,
    path,
    handle: (call) => {
      if (call.caller.kind !== "app") throw new ApiError(401, "A JSON web token could not be decoded");
      return handle(call);
    },
  };
}

/** An operation a person calls, by the token the app was given when they signed in. */
export function userOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<RestRequest & { user: User }, P, M>,
): RestOperation {
  return {
    method,
    path,
    handle: (call) => {
      if (call.caller.kind !== "user") throw new ApiError(401, "Requires authentication");
      return handle({ ...call, user: call.caller.user });
    },
  };
}

/** An operation of the app's OAuth client about itself. */
export function clientOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<RestRequest, P, M>,
): RestOperation {
  return {
    method,
    path,
    handle: (call) => {
      const { caller, params } = call;
      if (caller.kind !== "client" || caller.clientId !== params.client_id) throw notFound();
      return handle(call);
    },
  };
}

/** An operation any installation token may call. */
export function installationOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  handle: Handle<RestRequest & { token: InstallationToken }, P, M>,
): RestOperation {
  return { method, path, handle: (call) => handle({ ...call, token: requireToken(call.caller) }) };
}

/** An operation on a repository; `needs` lists sets of permissions, of which one must be granted. */
export function repositoryOperation<M extends Method, P extends keyof paths>(
  method: M,
  path: P,
  needs: AppPermissions | AppPermissions[],
  handle: Handle<RepositoryRequest, P, M>,
): RestOperation {
  return {
    method,
    path,
    handle: (call) => {
      const token = requireToken(call.caller);
      const repository = findVisibleRepository(call.world, `${call.params.owner}/${call.params.repo}`, token);
      if (![needs].flat().some((permissions) => allows(token, permissions))) {
        throw new ApiError(403, "Resource not accessible by integration");
      }
      return handle({
        ...call,
        token,
        repository,
        context: { world: call.world, repository, actor: call.world.app.bot },
      });
    },
  };
}

function requireToken(caller: Caller): InstallationToken {
  if (caller.kind === "installation") return caller.token;
  throw new ApiError(401, "Requires authentication with an installation access token");
}

/** The repository, if this token may see it; a 404 otherwise, so that nobody learns what exists. */
export function findVisibleRepository(world: World, name: string, token: InstallationToken | undefined): Repository {
  const repository = world.repositories.get(nameKey(name));
  const visible =
    repository?.installation &&
    (!token || token.installation === repository.installation) &&
    (token?.repositories?.has(repository.id) ?? true);
  if (!repository || !visible) throw notFound();
  return repository;
}

/** True when the token permissions all of these permissions; `write` includes `read`, and everybody reads metadata. */
export function allows(token: InstallationToken, needed: AppPermissions): boolean {
  const granted: AppPermissions = { metadata: "read", ...token.permissions };
  return Object.entries(needed).every(([name, level]) => granted[name] === "write" || granted[name] === level);
}

/** The request's body in this shape, or the 422 that names what is missing or wrong. */
export function readBody<T>(call: RestRequest, resource: string, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(call.body ?? {});
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

/** The page of a list that was asked for, with the Link header that leads to the others. */
export function paginate<T>(call: RestRequest, items: readonly T[]): { body: T[]; headers: Record<string, string> } {
  const perPage = Math.min(numberOr(call.url.searchParams.get("per_page"), 30), 100);
  const page = numberOr(call.url.searchParams.get("page"), 1);
  const last = Math.max(1, Math.ceil(items.length / perPage));
  const link = (rel: string, to: number) => {
    const url = new URL(call.url);
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

function numberOr(text: string | null, otherwise: number): number {
  const number = Number(text);
  return Number.isInteger(number) && number > 0 ? number : otherwise;
}

/** A number in the path, such as an issue's; a 404 when it is none. */
export function numberIn(call: RestRequest, name: string): number {
  const text = call.params[name] ?? "";
  if (!/^\d{1,15}$/.test(text)) throw notFound();
  return Number(text);
}
