import { z } from "zod";
import { commitsBetween } from "#playground/github/git/git-repository.ts";
import { mergePullRequest, updateBranch } from "#playground/github/merge-actions.ts";
import {
  changeBase,
  changedFiles,
  findPull,
  openPullRequest,
  removeReviewRequests,
  requestReviewers,
} from "#playground/github/pull-request-actions.ts";
import { showCommit, showFile, showPull, showPullInList } from "#playground/github/shapes/pull-request.ts";
import { showUser } from "#playground/github/shapes/user.ts";
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
const MergeRequest = z.object({
  commit_title: z.string().optional(),
  commit_message: z.string().optional(),
  sha: z.string().optional(),
  merge_method: z.enum(["merge", "squash", "rebase"]).default("merge"),
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

  repositoryOperation("get", `${pull}/commits`, read, async (request) => {
    const { world, repository } = request;
    const { base, head } = requirePull(request).pull;
    const commits = await commitsBetween(repository.gitDirectory, base.commit, head.commit);
    const { body, headers } = paginate(request, commits);
    return { status: 200, headers, body: await Promise.all(body.map((one) => showCommit(world, repository, one))) };
  }),

  repositoryOperation("get", `${pull}/merge`, read, (request) => {
    if (!requirePull(request).pull.merged) throw notFound();
    return { status: 204, body: undefined };
  }),

  repositoryOperation("put", `${pull}/merge`, { contents: "write" }, async (request) => {
    const { commit_title, commit_message, sha, merge_method } = parseBody(request, "PullRequest", MergeRequest);
    const options = { method: merge_method, sha, title: commit_title, message: commit_message };
    const commit = await mergePullRequest(request.context, requirePull(request), options);
    return { status: 200, body: { sha: commit, merged: true, message: "Pull Request successfully merged" } };
  }),

  repositoryOperation("put", `${pull}/update-branch`, write, async (request) => {
    const Body = z.object({ expected_head_sha: z.string().optional() });
    const { expected_head_sha } = parseBody(request, "PullRequest", Body);
    await updateBranch(request.context, requirePull(request), expected_head_sha);
    return { status: 202, body: { message: "Updating pull request branch.", url: request.url.href } };
  }),

  repositoryOperation("get", `${pull}/requested_reviewers`, read, (request) => {
    const users = requirePull(request).pull.requestedReviewers.map((user) => showUser(request.world, user));
    return { status: 200, body: { users, teams: [] } };
  }),

  repositoryOperation("post", `${pull}/requested_reviewers`, write, (request) => {
    const thread = requirePull(request);
    requestReviewers(request.context, thread, usersNamed(request));
    return { status: 201, body: showPullInList(request.world, request.repository, thread) };
  }),

  repositoryOperation("delete", `${pull}/requested_reviewers`, write, (request) => {
    const thread = requirePull(request);
    removeReviewRequests(request.context, thread, usersNamed(request));
    return { status: 200, body: showPullInList(request.world, request.repository, thread) };
  }),
];

/** The pull request in the path. */
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
