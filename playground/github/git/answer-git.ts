import type { IncomingMessage } from "node:http";
import type { Token } from "#playground/github/credentials.ts";
import type { Desk } from "#playground/github/rest/answer-rest.ts";
import { ApiError } from "#playground/github/rest/api-error.ts";
import { allows, findRepository } from "#playground/github/rest/operation.ts";
import { pageUrl } from "#playground/github/shapes/repository.ts";
import { noticePush } from "#playground/github/user-actions.ts";
import { nameKey, type Repository } from "#playground/github/world.ts";
import { askGitBackend, type GitReply } from "./git-http.ts";
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
  desk: Desk,
  { request, url, path }: { request: IncomingMessage; url: URL; path: GitPath },
): Promise<GitReply | undefined> {
  const pushing = path.service === "git-receive-pack" || url.searchParams.get("service") === "git-receive-pack";
  const name = path.service === "info/refs" ? `info/refs ${url.searchParams.get("service")}` : path.service;
  const record = desk.log.add({
    method: request.method ?? "GET",
    path: `${url.pathname}${url.search}`,
    operation: name,
    body: undefined,
  });
  const early = await desk.log.before(record);
  if (early === "drop") return undefined;
  if (early) return { status: early.status, headers: early.headers ?? {}, body: Buffer.from(String(early.body ?? "")) };

  const left = desk.world.formerNames.get(nameKey(path.repository));
  if (left) {
    record.status = 301;
    return {
      status: 301,
      headers: { Location: `${pageUrl(desk.world, left)}.git/${path.service}${url.search}` },
      body: Buffer.from(""),
    };
  }
  const permitted = permit(desk, { authorization: request.headers.authorization, name: path.repository, pushing });
  if (!("repository" in permitted)) {
    record.status = permitted.status;
    return permitted;
  }
  const { repository } = permitted;
  const before = await branches(repository.gitDirectory);
  const target = { directory: repository.gitDirectory, service: path.service, url, mayPush: pushing };
  const reply = await askGitBackend(request, target);
  if (path.service === "git-receive-pack") {
    const scene = { world: desk.world, repository, by: desk.world.app.bot };
    noticePush(scene, before, await branches(repository.gitDirectory));
    if ((await desk.log.after(record)) === "drop") return undefined;
  }
  record.status = reply.status;
  return reply;
}

function permit(
  { credentials, world }: Desk,
  { authorization, name, pushing }: { authorization: string | undefined; name: string; pushing: boolean },
): { repository: Repository } | GitReply {
  const known = world.repositories.get(nameKey(name));
  if (!authorization) return !pushing && known && !known.private ? { repository: known } : challenge();

  try {
    const caller = credentials.identify(authorization);
    if (caller.kind !== "installation") return challenge();
    const repository = findRepository(world, name, caller.token);
    return mayDo(caller.token, pushing) ? { repository } : refuse(403, "Write access to repository not granted.");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.status === 401 ? challenge() : refuse(404, "Repository not found.");
  }
}

function mayDo(token: Token, pushing: boolean): boolean {
  return allows(token, { contents: pushing ? "write" : "read" });
}

function challenge(): GitReply {
  const reply = refuse(401, "Authentication required.");
  return { ...reply, headers: { ...reply.headers, "WWW-Authenticate": 'Basic realm="GitHub"' } };
}

function refuse(status: number, message: string): GitReply {
  return { status, headers: { "Content-Type": "text/plain" }, body: Buffer.from(`remote: ${message}\n`) };
}
