import type { IncomingMessage } from "node:http";
import type { InstallationToken } from "#playground/github/credentials.ts";
import type { ServerContext } from "#playground/github/rest/answer-rest.ts";
import { ApiError } from "#playground/github/rest/api-error.ts";
import { allows, findVisibleRepository } from "#playground/github/rest/operation.ts";
import { pageUrl } from "#playground/github/shapes/repository.ts";
import { recordPush } from "#playground/github/user-actions.ts";
import { nameKey, type Repository } from "#playground/github/world.ts";
import { type GitResponse, runGitBackend } from "./git-http.ts";
import { branches } from "./git-repository.ts";

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

/** Answers a fetch or a push. Undefined means the connection is to be dropped. */
export async function answerGit(
  server: ServerContext,
  { request, url, path }: { request: IncomingMessage; url: URL; path: GitPath },
): Promise<GitResponse | undefined> {
  const pushing = path.service === "git-receive-pack" || url.searchParams.get("service") === "git-receive-pack";
  const name = path.service === "info/refs" ? `info/refs ${url.searchParams.get("service")}` : path.service;
  const record = server.log.add({
    method: request.method ?? "GET",
    path: `${url.pathname}${url.search}`,
    operation: name,
    body: undefined,
  });
  const early = await server.log.before(record);
  if (early === "drop") return undefined;
  if (early) return { status: early.status, headers: early.headers ?? {}, body: Buffer.from(String(early.body ?? "")) };

  const left = server.world.previousNames.get(nameKey(path.repository));
  if (left) {
    record.status = 301;
    return {
      status: 301,
      headers: { Location: `${pageUrl(server.world, left)}.git/${path.service}${url.search}` },
      body: Buffer.from(""),
    };
  }
  const permitted = permit(server, { authorization: request.headers.authorization, name: path.repository, pushing });
  if (!("repository" in permitted)) {
    record.status = permitted.status;
    return permitted;
  }
  const { repository } = permitted;
  const before = await branches(repository.gitDirectory);
  const target = { directory: repository.gitDirectory, service: path.service, url, mayPush: pushing };
  const reply = await runGitBackend(request, target);
  if (path.service === "git-receive-pack") {
    const context = { world: server.world, repository, actor: server.world.app.bot };
    recordPush(context, before, await branches(repository.gitDirectory));
    if ((await server.log.after(record)) === "drop") return undefined;
  }
  record.status = reply.status;
  return reply;
}

function permit(
  { credentials, world }: ServerContext,
  { authorization, name, pushing }: { authorization: string | undefined; name: string; pushing: boolean },
): { repository: Repository } | GitResponse {
  const known = world.repositories.get(nameKey(name));
  if (!authorization) return !pushing && known && !known.private ? { repository: known } : challenge();

  try {
    const caller = credentials.identify(authorization);
    if (caller.kind !== "installation") return challenge();
    const repository = findVisibleRepository(world, name, caller.token);
    return mayDo(caller.token, pushing) ? { repository } : refuse(403, "Write access to repository not granted.");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.status === 401 ? challenge() : refuse(404, "Repository not found.");
  }
}

function mayDo(token: InstallationToken, pushing: boolean): boolean {
  return allows(token, { contents: pushing ? "write" : "read" });
}

function challenge(): GitResponse {
  const reply = refuse(401, "Authentication required.");
  return { ...reply, headers: { ...reply.headers, "WWW-Authenticate": 'Basic realm="GitHub"' } };
}

function refuse(status: number, message: string): GitResponse {
  return { status, headers: { "Content-Type": "text/plain" }, body: Buffer.from(`remote: ${message}\n`) };
}
