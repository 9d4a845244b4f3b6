import { z } from "zod";
import {
  commitsBetween,
  commitsTouching,
  diffFiles,
  mergeBase,
  resolveCommit,
} from "#playground/github/git/git-repository.ts";
import { nodeId } from "#playground/github/shapes/node-id.ts";
import { showCommit, showFile } from "#playground/github/shapes/pull-request.ts";
import { apiUrl, pageUrl } from "#playground/github/shapes/repository.ts";
import type { Schemas } from "#playground/github/shapes/schemas.ts";
import { showAssociation } from "#playground/github/shapes/thread.ts";
import { showUser } from "#playground/github/shapes/user.ts";
import type { Repository, StoredCommitComment, World } from "#playground/github/world.ts";
import { ApiError, notFound, orNotFound } from "./api-error.ts";
import {
  paginate,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
  respondWithPage,
} from "./operation.ts";

const repo = "/repos/{owner}/{repo}";
const NewCommitComment = z.object({ body: z.string().min(1) });

export const commitOperations: RestOperation[] = [
  repositoryOperation("get", `${repo}/commits`, { contents: "read" }, async (request) => {
    const { world, repository, url } = request;
    const ref = url.searchParams.get("sha") ?? repository.defaultBranch;
    const commit = orNotFound(await resolveCommit(repository.gitDirectory, ref));
    const path = url.searchParams.get("path") ?? "";
    const { body, headers } = paginate(request, await commitsTouching(repository.gitDirectory, commit, path));
    const shown = await Promise.all(body.map((sha) => showCommit(world, repository, sha)));
    return { status: 200, headers, body: shown };
  }),

  repositoryOperation("get", `${repo}/commits/{ref}`, { contents: "read" }, async (request) => {
    const { world, repository, params } = request;
    const sha = await resolveCommit(repository.gitDirectory, params.ref ?? "");
    if (!sha) throw new ApiError(422, `No commit found for SHA: ${params.ref}`);
    return { status: 200, body: await showCommit(world, repository, sha) };
  }),

  repositoryOperation("get", `${repo}/compare/{basehead}`, { contents: "read" }, async (request) => {
    const { world, repository, params } = request;
    const { gitDirectory } = repository;
    const ends = (params.basehead ?? "").split("...");
    const [base, head] = await Promise.all(ends.map((end) => resolveCommit(gitDirectory, end)));
    if (!base || !head || ends.length !== 2) throw notFound();
    const [ahead, behind] = [
      await commitsBetween(gitDirectory, base, head),
      await commitsBetween(gitDirectory, head, base),
    ];
    const files = await diffFiles(gitDirectory, base, head);
    const url = `${apiUrl(world, repository)}/compare/${params.basehead}`;
    const page = `${pageUrl(world, repository)}/compare/${params.basehead}`;
    const show = (sha: string) => showCommit(world, repository, sha);
    return {
      status: 200,
      body: {
        url,
        html_url: page,
        permalink_url: page,
        diff_url: `${page}.diff`,
        patch_url: `${page}.patch`,
        base_commit: await show(base),
        merge_base_commit: await show(await mergeBase(gitDirectory, base, head)),
        status: compareStatus(ahead.length, behind.length),
        ahead_by: ahead.length,
        behind_by: behind.length,
        total_commits: ahead.length,
        commits: await Promise.all(ahead.map(show)),
        files: files.map((file) => showFile(world, repository, head, file)),
      },
    };
  }),

  repositoryOperation("get", `${repo}/commits/{commit_sha}/comments`, { contents: "read" }, async (request) => {
    const { world, repository } = request;
    const commit = await findCommit(request);
    const found = repository.commitComments.filter((comment) => comment.commit === commit);
    return respondWithPage(request, found, (comment) => showCommitComment(world, repository, comment));
  }),

  repositoryOperation("post", `${repo}/commits/{commit_sha}/comments`, { contents: "read" }, async (request) => {
    const { world, repository, context } = request;
    const { body } = parseBody(request, "CommitComment", NewCommitComment);
    const commit = await findCommit(request);
    const comment = { id: world.nextId(), commit, body, author: context.actor, createdAt: new Date() };
    repository.commitComments.push(comment);
    world.notify();
    return { status: 201, body: showCommitComment(world, repository, comment) };
  }),
];

async function findCommit({ repository, params }: RepositoryRequest): Promise<string> {
  return orNotFound(await resolveCommit(repository.gitDirectory, params.commit_sha ?? ""));
}

function showCommitComment(
  world: World,
  repository: Repository,
  { id, commit, body, author, createdAt }: StoredCommitComment,
): Schemas["commit-comment"] {
  const at = createdAt.toISOString();
  return {
    id,
    node_id: nodeId("CommitComment", id),
    url: `${apiUrl(world, repository)}/comments/${id}`,
    html_url: `${pageUrl(world, repository)}/commit/${commit}#commitcomment-${id}`,
    body,
    path: null,
    position: null,
    line: null,
    commit_id: commit,
    user: showUser(world, author),
    created_at: at,
    updated_at: at,
    author_association: showAssociation(repository, author),
  };
}

function compareStatus(ahead: number, behind: number): "identical" | "ahead" | "behind" | "diverged" {
  if (ahead > 0 && behind > 0) return "diverged";
  if (ahead > 0) return "ahead";
  return behind > 0 ? "behind" : "identical";
}
