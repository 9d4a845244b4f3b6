import type { IncomingMessage } from "node:http";
import { basename, dirname } from "node:path";
import { buffer } from "node:stream/consumers";
import { canWrite } from "#domain/github.ts";
import type { InstallationToken } from "#playground/github/credentials.ts";
import { recordPush } from "#playground/github/record-push.ts";
import type { ServerContext } from "#playground/github/rest/answer-rest.ts";
import { ApiError } from "#playground/github/rest/api-error.ts";
import { allows, covers, findVisibleRepository } from "#playground/github/rest/operation.ts";
import { fullName, pageUrl } from "#playground/github/shapes/repository.ts";
import { nameKey, permissionIn, type Repository, type User, type World } from "#playground/github/world.ts";
import { executeGit, gitEnvironment } from "./run-git.ts";

/** A request of git's smart HTTP protocol. */
export interface GitPath {
  repository: string;
  service: "info/refs" | "git-upload-pack" | "git-receive-pack";
}

const gitPath = /^\/([^/]+\/[^/]+?)(?:\.git)?\/(info\/refs|git-upload-pack|git-receive-pack)$/;

export function parseGitPath(pathname: string): GitPath | undefined {
  const [, repository, service] = gitPath.exec(pathname) ?? [];
  return repository ? { repository, service: service as GitPath["service"] } : undefined;
}

/** Answers a fetch or a push. Resolves to undefined if the connection is to be dropped. */
export async function answerGit(
  server: ServerContext,
  { request, url, path }: { request: IncomingMessage; url: URL; path: GitPath },
): Promise<GitResponse | undefined> {
  const { world, log } = server;
  const isPush = path.service === "git-receive-pack" || url.searchParams.get("service") === "git-receive-pack";
  const operation = path.service === "info/refs" ? `info/refs ${url.searchParams.get("service")}` : path.service;
  const method = request.method ?? "GET";
  const record = log.add({ method, path: `${url.pathname}${url.search}`, operation, body: undefined });
  const before = await log.before(record);
  if (before === "drop") return undefined;

  const { authorization } = request.headers;
  const access = before ? undefined : authorize(server, { authorization, path, isPush, search: url.search });
  const response = before
    ? { status: before.status, headers: before.headers ?? {}, body: Buffer.from(String(before.body)) }
    : access && "repository" in access
      ? await serve(world, { request, url, path, isPush }, access)
      : access;
  if (!before && path.service === "git-receive-pack" && (await log.after(record)) === "drop") return undefined;
  record.status = response?.status;
  return response;
}

/** A repository that the caller may fetch from or push to, as `actor`. */
interface Access {
  repository: Repository;
  actor: User;
}

async function serve(
  world: World,
  { request, url, path, isPush }: { request: IncomingMessage; url: URL; path: GitPath; isPush: boolean },
  { repository, actor }: Access,
): Promise<GitResponse> {
  const { service } = path;
  const target = { directory: repository.gitDirectory, service, url, user: isPush ? actor.login : undefined };
  const response = await runGitBackend(request, target);
  if (service === "git-receive-pack") await recordPush({ world, repository, actor });
  return response;
}

/** Returns the caller's access, or the response that redirects or refuses the caller. */
function authorize(
  { credentials, world }: ServerContext,
  {
    authorization,
    path,
    isPush,
    search,
  }: { authorization: string | undefined; path: GitPath; isPush: boolean; search: string },
): Access | GitResponse {
  const name = path.repository;
  const renamed = world.previousNames.get(nameKey(name));
  if (renamed) {
    const location = `${pageUrl(world, renamed)}.git/${path.service}${search}`;
    return { status: 301, headers: { Location: location }, body: Buffer.from("") };
  }
  const repository = world.repositories.get(nameKey(name));
  if (!authorization) {
    return !isPush && repository && !repository.private ? { repository, actor: repository.owner } : challenge();
  }
  try {
    const caller = credentials.identify(authorization);
    switch (caller.kind) {
      case "app":
      case "client":
        return challenge();
      case "installation":
        return authorizeToken(world, { name, token: caller.token, isPush });
      case "user":
        return authorizeUser(repository, caller.user, isPush);
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.status === 401 ? challenge() : refuse(404, "Repository not found.");
  }
}

function authorizeToken(
  world: World,
  { name, token, isPush }: { name: string; token: InstallationToken; isPush: boolean },
): Access | GitResponse {
  const repository = findVisibleRepository(world, name, token);
  const isPublicRead = !isPush && !repository.private;
  const isAllowed = covers(token, repository) && allows(token, { contents: isPush ? "write" : "read" });
  return isAllowed || isPublicRead
    ? { repository, actor: world.app.bot }
    : refuse(403, "Write access to repository not granted.");
}

function authorizeUser(repository: Repository | undefined, actor: User, isPush: boolean): Access | GitResponse {
  const permission = repository ? permissionIn(repository, actor.login) : "none";
  if (!repository || permission === "none") return refuse(404, "Repository not found.");
  const isAllowed = !isPush || canWrite(permission);
  return isAllowed
    ? { repository, actor }
    : refuse(403, `Permission to ${fullName(repository)}.git denied to ${actor.login}.`);
}

function challenge(): GitResponse {
  const reply = refuse(401, "Authentication required.");
  return { ...reply, headers: { ...reply.headers, "WWW-Authenticate": 'Basic realm="GitHub"' } };
}

function refuse(status: number, message: string): GitResponse {
  return { status, headers: { "Content-Type": "text/plain" }, body: Buffer.from(`remote: ${message}\n`) };
}

interface GitResponse {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/** Answers a request for one bare repository with `git http-backend`. Pushing requires a `user`. */
async function runGitBackend(
  request: IncomingMessage,
  { directory, service, url, user }: { directory: string; service: string; url: URL; user: string | undefined },
): Promise<GitResponse> {
  const header = (name: string) => String(request.headers[name] ?? "");
  const body = await buffer(request);
  const { output } = await executeGit({
    args: ["http-backend"],
    env: {
      ...gitEnvironment(),
      GIT_PROJECT_ROOT: dirname(directory),
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: `/${basename(directory)}/${service}`,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? "GET",
      CONTENT_TYPE: header("content-type"),
      CONTENT_LENGTH: String(body.length),
      // http-backend unpacks gzip itself, given this header.
      HTTP_CONTENT_ENCODING: header("content-encoding"),
      GIT_PROTOCOL: header("git-protocol"),
      REMOTE_ADDR: "127.0.0.1",
      ...(user && { REMOTE_USER: user }),
    },
    input: body,
  });
  return parseCgi(output);
}

/** Turns the output of a CGI program into a response. */
export function parseCgi(output: Buffer): GitResponse {
  const end = output.indexOf("\r\n\r\n");
  if (end < 0) return { status: 500, headers: {}, body: Buffer.from("git http-backend did not answer\n") };

  const lines = output.subarray(0, end).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  );
  const { Status: status = "200 OK", ...rest } = headers;
  return { status: Number.parseInt(status, 10), headers: rest, body: output.subarray(end + 4) };
}
