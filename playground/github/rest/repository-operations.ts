import { z } from "zod";
import {
  branches,
  findEntry,
  isAncestor,
  listFolder,
  moveBranch,
  readBlob,
  resolveCommit,
  type TreeEntry,
} from "#playground/github/git/git-repository.ts";
import { showApp } from "#playground/github/shapes/app.ts";
import { nodeId } from "#playground/github/shapes/node-id.ts";
import { apiUrl, pageUrl, showFullRepository } from "#playground/github/shapes/repository.ts";
import { showUser } from "#playground/github/shapes/user.ts";
import { recordPush } from "#playground/github/user-actions.ts";
import { type CheckRun, nameKey, permissionIn, type Repository, type World } from "#playground/github/world.ts";
import { ApiError, notFound, validationFailed } from "./api-error.ts";
import { paginate, type RepositoryRequest, type RestOperation, readBody, repositoryOperation } from "./operation.ts";

const commitHash = z.string().regex(/^[0-9a-f]{40}$/);
const NewRef = z.object({ ref: z.string().regex(/^refs\/heads\/.+/), sha: commitHash });
const RefChange = z.object({ sha: commitHash, force: z.boolean().default(false) });

const repo = "/repos/{owner}/{repo}";

export const repositoryOperations: RestOperation[] = [
  repositoryOperation("get", repo, { metadata: "read" }, ({ world, repository }) => {
    return { status: 200, body: showFullRepository(world, repository) };
  }),

  repositoryOperation("get", `${repo}/collaborators/{username}/permission`, { metadata: "read" }, (call) => {
    const { world, repository, params } = call;
    const user = world.users.get(nameKey(params.username ?? ""));
    if (!user) throw new ApiError(404, `${params.username} is not a user`);

    const role = user === world.app.bot ? "none" : permissionIn(repository, user.login);
    // The old field knows four words only; role_name tells them all.
    const permission = role === "maintain" ? "write" : role === "triage" ? "read" : role;
    return { status: 200, body: { permission, role_name: role, user: { ...showUser(world, user), role_name: role } } };
  }),

  repositoryOperation("get", `${repo}/contents/{path}`, { contents: "read" }, async (call) => {
    const { world, repository, params, url } = call;
    const path = (params.path ?? "").replace(/^\/+|\/+$/g, "");
    const ref = url.searchParams.get("ref") ?? repository.defaultBranch;
    const commit = await resolveCommit(repository.gitDirectory, ref);
    if (!commit)
      throw new ApiError(
        404,
        url.searchParams.has("ref") ? `No commit found for the ref ${ref}` : "This repository is empty.",
      );

    const entry = await findEntry(repository.gitDirectory, commit, path);
    if (!entry) throw notFound();
    if (entry.type === "tree") {
      const entries = await listFolder(repository.gitDirectory, commit, path);
      return { status: 200, body: entries.map((child) => showEntry(world, repository, ref, child)) };
    }
    return { status: 200, body: await showContent(world, repository, ref, entry) };
  }),

  repositoryOperation("get", `${repo}/git/blobs/{file_sha}`, { contents: "read" }, async (call) => {
    const { world, repository, params } = call;
    const sha = params.file_sha ?? "";
    if (!commitHash.safeParse(sha).success) throw new ApiError(422, "The sha parameter must be exactly 40 characters.");

    const bytes = await readBlob(repository.gitDirectory, sha).catch(() => undefined);
    if (!bytes) throw notFound();
    const url = `${apiUrl(world, repository)}/git/blobs/${sha}`;
    const content = bytes.toString("base64");
    const body = { sha, node_id: nodeId(sha, repository.id), size: bytes.length, url, content, encoding: "base64" };
    return { status: 200, body };
  }),

  repositoryOperation("get", `${repo}/branches`, { contents: "read" }, async (call) => {
    const { world, repository } = call;
    const all = [...(await branches(repository.gitDirectory))];
    const { body, headers } = paginate(call, all);
    return { status: 200, headers, body: body.map(([ref, sha]) => showShortBranch(world, repository, ref, sha)) };
  }),

  repositoryOperation("get", `${repo}/git/ref/{ref}`, { contents: "read" }, async ({ world, repository, params }) => {
    const ref = `refs/${params.ref}`;
    const sha = (await branches(repository.gitDirectory)).get(ref);
    if (!sha) throw notFound();
    return { status: 200, body: showRef(world, repository, ref, sha) };
  }),

  repositoryOperation("get", `${repo}/git/matching-refs/{ref}`, { contents: "read" }, async (call) => {
    const { world, repository, params } = call;
    const matching = [...(await branches(repository.gitDirectory))].filter(([ref]) =>
      ref.startsWith(`refs/${params.ref}`),
    );
    return { status: 200, body: matching.map(([ref, sha]) => showRef(world, repository, ref, sha)) };
  }),

  repositoryOperation("post", `${repo}/git/refs`, { contents: "write" }, async (call) => {
    const { ref, sha } = readBody(call, "Reference", NewRef);
    if (!(await resolveCommit(call.repository.gitDirectory, sha))) throw new ApiError(422, "Object does not exist");

    await moveRef(call, ref, { from: undefined, to: sha }, "Reference already exists");
    return { status: 201, body: showRef(call.world, call.repository, ref, sha) };
  }),

  repositoryOperation("patch", `${repo}/git/refs/{ref}`, { contents: "write" }, async (call) => {
    const { repository, world } = call;
    const ref = `refs/${call.params.ref}`;
    const { sha, force } = readBody(call, "Reference", RefChange);
    const from = (await branches(repository.gitDirectory)).get(ref);
    if (!from) throw new ApiError(422, "Reference does not exist");
    if (!(await resolveCommit(repository.gitDirectory, sha))) throw new ApiError(422, "Object does not exist");
    if (!force && !(await isAncestor(repository.gitDirectory, from, sha))) {
      throw new ApiError(422, "Update is not a fast forward");
    }

    await moveRef(call, ref, { from, to: sha }, "Reference cannot be updated");
    return { status: 200, body: showRef(world, repository, ref, sha) };
  }),

  repositoryOperation("delete", `${repo}/git/refs/{ref}`, { contents: "write" }, async (call) => {
    const ref = `refs/${call.params.ref}`;
    const from = (await branches(call.repository.gitDirectory)).get(ref);
    if (!from) throw new ApiError(422, "Reference does not exist");

    await moveRef(call, ref, { from, to: undefined }, "Reference cannot be deleted");
    return { status: 204, body: undefined };
  }),

  repositoryOperation("get", `${repo}/commits/{ref}/check-runs`, { checks: "read" }, async (call) => {
    const { world, repository, params } = call;
    const commit = await resolveCommit(repository.gitDirectory, params.ref ?? "");
    if (!commit) throw validationFailed({ resource: "Commit", code: "invalid", field: "ref" });

    const checks = repository.checks.filter((check) => check.commit === commit);
    const { body, headers } = paginate(call, checks);
    return {
      status: 200,
      headers,
      body: { total_count: checks.length, check_runs: body.map((check) => showCheck(world, repository, check)) },
    };
  }),
];

/** Moves a branch and tells of it, as a push does. */
async function moveRef(
  { repository, context }: RepositoryRequest,
  ref: string,
  move: { from: string | undefined; to: string | undefined },
  refusal: string,
): Promise<void> {
  const before = await branches(repository.gitDirectory);
  const branch = ref.replace(/^refs\/heads\//, "");
  if (branch === ref || !(await moveBranch(repository.gitDirectory, branch, move))) throw new ApiError(422, refusal);
  recordPush(context, before, await branches(repository.gitDirectory));
}

function showRef(world: World, repository: Repository, ref: string, sha: string) {
  return {
    ref,
    node_id: nodeId(ref, repository.id),
    url: `${apiUrl(world, repository)}/git/${ref}`,
    object: { type: "commit", sha, url: `${apiUrl(world, repository)}/git/commits/${sha}` },
  };
}

function showShortBranch(world: World, repository: Repository, ref: string, sha: string) {
  return {
    name: ref.replace(/^refs\/heads\//, ""),
    commit: { sha, url: `${apiUrl(world, repository)}/commits/${sha}` },
    protected: false,
  };
}

function showEntry(world: World, repository: Repository, ref: string, entry: TreeEntry) {
  const path = entry.path.split("/").map(encodeURIComponent).join("/");
  const query = `?ref=${encodeURIComponent(ref)}`;
  const self = `${apiUrl(world, repository)}/contents/${path}${query}`;
  const kind = entry.type === "tree" ? "trees" : "blobs";
  const git = entry.type === "commit" ? null : `${apiUrl(world, repository)}/git/${kind}/${entry.sha}`;
  const html = `${pageUrl(world, repository)}/${entry.type === "tree" ? "tree" : "blob"}/${ref}/${path}`;
  return {
    type: entryType(entry),
    size: entry.size,
    name: entry.path.split("/").at(-1) ?? "",
    path: entry.path,
    sha: entry.sha,
    url: self,
    git_url: git,
    html_url: html,
    download_url: entry.type === "blob" ? `${pageUrl(world, repository)}/raw/${ref}/${path}` : null,
    _links: { self, git, html },
  };
}

function entryType({ type, mode }: TreeEntry): "dir" | "file" | "submodule" | "symlink" {
  if (type === "tree") return "dir";
  if (type === "commit") return "submodule";
  return mode === "120000" ? "symlink" : "file";
}

async function showContent(world: World, repository: Repository, ref: string, entry: TreeEntry) {
  const shown = showEntry(world, repository, ref, entry);
  if (entry.type === "commit") {
    return { ...shown, type: "submodule" as const, submodule_git_url: "" };
  }
  const bytes = await readBlob(repository.gitDirectory, entry.sha);
  if (entry.mode === "120000") return { ...shown, type: "symlink" as const, target: bytes.toString("utf8") };

  // GitHub leaves the content out above a megabyte and says so with its encoding.
  const small = bytes.length <= 1024 * 1024;
  const lines = bytes.toString("base64").replace(/.{60}/g, "$&\n");
  return {
    ...shown,
    type: "file" as const,
    encoding: small ? "base64" : "none",
    content: small ? `${lines}\n` : "",
  };
}

function showCheck(world: World, repository: Repository, check: CheckRun) {
  const url = `${apiUrl(world, repository)}/check-runs/${check.id}`;
  return {
    id: check.id,
    head_sha: check.commit,
    node_id: nodeId("CheckRun", check.id),
    external_id: "",
    url,
    html_url: `${pageUrl(world, repository)}/runs/${check.id}`,
    details_url: null,
    status: check.conclusion ? ("completed" as const) : ("in_progress" as const),
    conclusion: check.conclusion ?? null,
    started_at: check.startedAt.toISOString(),
    completed_at: check.conclusion ? check.startedAt.toISOString() : null,
    output: {
      title: check.summary ? check.name : null,
      summary: check.summary ?? null,
      text: null,
      annotations_count: 0,
      annotations_url: `${url}/annotations`,
    },
    name: check.name,
    check_suite: null,
    app: showApp(world),
    pull_requests: [],
  };
}
