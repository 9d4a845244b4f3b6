import { z } from "zod";
import {
  changeBase,
  changedFiles,
  findPull,
  openPullRequest,
  requestReviewers,
} from "#playground/github/pull-request-actions.ts";
import { showFile, showPull, showPullInList } from "#playground/github/shapes/pull-request.ts";
import { updateThread } from "#playground/github/user-actions.ts";
import {
  type AppPermissions,
  isPull,
  nameKey,
  type PullThread,
  type Repository,
  type User,
} from "#playground/github/world.ts";
import { ApiError, notFound } from "./api-error.ts";
import {
  numberIn,
  optionalText,
  paginate,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
} from "./operation.ts";

const read: AppPermissions = { pull_requests: "read" };
const write: AppPermissions = { pull_requests: "write" };

const NewPull = z.object({
  title: z.string(),
  head: z.string(),
  base: z.string(),
  body: optionalText,
  draft: z.boolean().optional(),
});
const PullChange = z.object({
  title: z.string().optional(),
  body: z.string().nullish(),
  state: z.enum(["open", "closed"]).optional(),
  base: z.string().optional(),
});
const Reviewers = z.object({ reviewers: z.array(z.string()).default([]) });

const pulls = "/repos/{owner}/{repo}/pulls";
const pull = `${pulls}/{pull_number}` as const;

export const pullOperations: RestOperation[] = [
  repositoryOperation("get", pulls, read, (request) => {
    const { world, repository, url } = request;
    const { body, headers } = paginate(request, choosePulls(repository, url.searchParams));
    return { status: 200, headers, body: body.map((thread) => showPullInList(world, repository, thread)) };
  }),

  repositoryOperation("post", pulls, write, async (request) => {
    const { body = "", draft = false, ...fields } = parseBody(request, "PullRequest", NewPull);
    if (request.world.app.slug === "github-actions" && !request.repository.actionsOpenPullRequests) {
      throw new ApiError(403, "GitHub Actions is not permitted to create or approve pull requests.");
    }
    const thread = await openPullRequest(request.context, { ...fields, body, draft });
    return { status: 201, body: await showPull(request.world, request.repository, thread) };
  }),

  repositoryOperation("get", pull, read, async (request) => {
    return { status: 200, body: await showPull(request.world, request.repository, requirePull(request)) };
  }),

  repositoryOperation("patch", pull, write, async (request) => {
    const thread = requirePull(request);
    const { title, body, state, base } = parseBody(request, "PullRequest", PullChange);
    updateThread(request.context, thread, { title, body: body === null ? "" : body, state });
    if (base !== undefined) await changeBase(request.context, thread, base);
    return { status: 200, body: await showPull(request.world, request.repository, thread) };
  }),

  repositoryOperation("get", `${pull}/files`, read, async (request) => {
    const { world, repository } = request;
    const thread = requirePull(request);
    const { body, headers } = paginate(request, await changedFiles(repository, thread));
    const commit = thread.pull.head.commit;
    return { status: 200, headers, body: body.map((file) => showFile(world, repository, commit, file)) };
  }),

  repositoryOperation("post", `${pull}/requested_reviewers`, write, (request) => {
    const thread = requirePull(request);
    requestReviewers(request.context, thread, usersNamed(request));
    return { status: 201, body: showPullInList(request.world, request.repository, thread) };
  }),
];

export function requirePull(request: RepositoryRequest): PullThread {
  const thread = findPull(request.repository, numberIn(request, "pull_number"));
  if (!thread) throw notFound();
  return thread;
}

function usersNamed(request: RepositoryRequest): User[] {
  const { reviewers } = parseBody(request, "PullRequest", Reviewers);
  return reviewers.map((login) => {
    const user = request.world.users.get(nameKey(login));
    if (!user) throw new ApiError(422, `Could not resolve to a User with the login of '${login}'.`);
    return user;
  });
}

function choosePulls(repository: Repository, query: URLSearchParams): PullThread[] {
  const state = query.get("state") ?? "open";
  const head = query.get("head")?.toLowerCase();
  const base = query.get("base");
  const by = query.get("sort") === "updated" ? "updatedAt" : "createdAt";
  const direction = query.get("direction") === "asc" ? 1 : -1;
  return [...repository.threads.values()]
    .filter(isPull)
    .filter(
      ({ state: actual, pull: { head: from, base: to } }) =>
        (state === "all" || actual === state) &&
        (!base || to.branch === base) &&
        // GitHub ignores a head filter that does not name the owner.
        (!head?.includes(":") || `${from.repository.owner.login}:${from.branch}`.toLowerCase() === head),
    )
    .sort((a, b) => direction * (a[by].getTime() - b[by].getTime() || a.number - b.number));
}
