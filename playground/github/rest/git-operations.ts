import fs from "node:fs";
import git from "isomorphic-git";
import { z } from "zod";
import { type FileContent, writeTree } from "#playground/github/git/commit-files.ts";
import { listTree, readBlob, readGitCommit, resolveCommit } from "#playground/github/git/git-repository.ts";
import { writeCommit } from "#playground/github/git/merge-commits.ts";
import { nodeId } from "#playground/github/shapes/node-id.ts";
import { showVerification } from "#playground/github/shapes/pull-request.ts";
import { apiUrl, pageUrl } from "#playground/github/shapes/repository.ts";
import type { Repository, World } from "#playground/github/world.ts";
import { ApiError, orNotFound } from "./api-error.ts";
import { parseBody, type RestOperation, repositoryOperation } from "./operation.ts";

const commitHash = z.string().regex(/^[0-9a-f]{40}$/);
const NewBlob = z.object({ content: z.string(), encoding: z.enum(["utf-8", "base64"]).default("utf-8") });
const NewTree = z.object({
  base_tree: commitHash.optional(),
  tree: z.array(
    z.object({
      path: z.string().min(1),
      mode: z.enum(["100644", "100755", "120000", "160000"]),
      type: z.enum(["blob", "commit"]),
      content: z.string().optional(),
      sha: commitHash.nullable().optional(),
    }),
  ),
});
const NewCommit = z.object({
  message: z.string(),
  tree: commitHash,
  parents: z.array(commitHash).default([]),
  author: z.object({}).optional(),
  committer: z.object({}).optional(),
});

const repo = "/repos/{owner}/{repo}";

export const gitOperations: RestOperation[] = [
  repositoryOperation("get", `${repo}/git/blobs/{file_sha}`, { contents: "read" }, async (request) => {
    const { world, repository, params } = request;
    const sha = params.file_sha ?? "";
    if (!commitHash.safeParse(sha).success) throw new ApiError(422, "The sha parameter must be exactly 40 characters.");

    const bytes = orNotFound(await readBlob(repository.gitDirectory, sha).catch(() => undefined));
    const url = `${apiUrl(world, repository)}/git/blobs/${sha}`;
    const content = bytes.toString("base64");
    const body = { sha, node_id: nodeId(sha, repository.id), size: bytes.length, url, content, encoding: "base64" };
    return { status: 200, body };
  }),

  repositoryOperation("get", `${repo}/git/trees/{tree_sha}`, { contents: "read" }, async (request) => {
    const { world, repository, params } = request;
    const name = params.tree_sha ?? "";
    const sha = commitHash.safeParse(name).success ? name : await treeOf(repository, name);
    const entries = orNotFound(await listTree(repository.gitDirectory, sha).catch(() => undefined));
    const url = `${apiUrl(world, repository)}/git`;
    const tree = entries.map(({ mode, type, sha: oid, size, path }) => ({
      path,
      mode,
      type,
      sha: oid,
      ...(type === "blob" && { size }),
      url: `${url}/${type}s/${oid}`,
    }));
    return { status: 200, body: { sha, url: `${url}/trees/${sha}`, tree, truncated: false } };
  }),

  repositoryOperation("post", `${repo}/git/blobs`, { contents: "write" }, async (request) => {
    const { content, encoding } = parseBody(request, "Blob", NewBlob);
    const blob = Buffer.from(content, encoding);
    const sha = await git.writeBlob({ fs, gitdir: request.repository.gitDirectory, blob });
    return { status: 201, body: { sha, url: `${apiUrl(request.world, request.repository)}/git/blobs/${sha}` } };
  }),

  repositoryOperation("post", `${repo}/git/trees`, { contents: "write" }, async (request) => {
    const { world, repository } = request;
    const { base_tree: base, tree: entries } = parseBody(request, "Tree", NewTree);
    const gitdir = repository.gitDirectory;
    const changes = new Map<string, FileContent | undefined>();
    for (const { path, mode, type, content, sha } of entries) {
      const oid = content === undefined ? sha : await git.writeBlob({ fs, gitdir, blob: Buffer.from(content) });
      changes.set(path, oid ? { mode, type, oid } : undefined);
    }
    const sha = await writeTree(gitdir, base, changes);
    if (!sha) throw new ApiError(422, "Tree SHA is not valid");
    return {
      status: 201,
      body: { sha, url: `${apiUrl(world, repository)}/git/trees/${sha}`, tree: [], truncated: false },
    };
  }),

  repositoryOperation("post", `${repo}/git/commits`, { contents: "write" }, async (request) => {
    const { repository, world } = request;
    const { message, tree, parents, author, committer } = parseBody(request, "Commit", NewCommit);
    const login = world.app.bot.login;
    const isSigned = !author && !committer;
    const sha = await writeCommit(repository.gitDirectory, { tree, parents, message, login, isSigned });
    return { status: 201, body: await showGitCommit(world, repository, sha) };
  }),
];

/** Returns the tree of a branch or tag, or of the default branch for `HEAD`. */
async function treeOf({ gitDirectory, defaultBranch }: Repository, name: string): Promise<string> {
  const commit = orNotFound(await resolveCommit(gitDirectory, name === "HEAD" ? defaultBranch : name));
  return (await readGitCommit(gitDirectory, commit)).tree;
}

async function showGitCommit(world: World, repository: Repository, sha: string) {
  const { message, tree, parent, author, committer, gpgsig } = await readGitCommit(repository.gitDirectory, sha);
  const person = ({ name, email, timestamp }: typeof author) => {
    return { name, email, date: new Date(timestamp * 1000).toISOString() };
  };
  const url = `${apiUrl(world, repository)}/git`;
  return {
    sha,
    node_id: nodeId("Commit", repository.id),
    url: `${url}/commits/${sha}`,
    html_url: `${pageUrl(world, repository)}/commit/${sha}`,
    author: person(author),
    committer: person(committer),
    message: message.replace(/\n$/, ""),
    tree: { sha: tree, url: `${url}/trees/${tree}` },
    parents: parent.map((one) => ({
      sha: one,
      url: `${url}/commits/${one}`,
      html_url: `${pageUrl(world, repository)}/commit/${one}`,
    })),
    verification: showVerification(gpgsig),
  };
}
