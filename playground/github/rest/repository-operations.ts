import { posix } from "node:path";
import {
  branches,
  findEntry,
  listFolder,
  readBlob,
  resolveCommit,
  type TreeEntry,
} from "#playground/github/git/git-repository.ts";
import { showCommit } from "#playground/github/shapes/pull-request.ts";
import { apiUrl, fullName, pageUrl, showFullRepository } from "#playground/github/shapes/repository.ts";
import { showUser } from "#playground/github/shapes/user.ts";
import { nameKey, permissionIn, type Repository, type World } from "#playground/github/world.ts";
import { ApiError, orNotFound } from "./api-error.ts";
import { type RestOperation, repositoryOperation } from "./operation.ts";

const repo = "/repos/{owner}/{repo}";

export const repositoryOperations: RestOperation[] = [
  repositoryOperation("get", repo, { metadata: "read" }, ({ world, repository }) => {
    return { status: 200, body: showFullRepository(world, repository) };
  }),

  repositoryOperation("get", `${repo}/collaborators/{username}/permission`, { metadata: "read" }, (request) => {
    const { world, repository, params } = request;
    const user = world.users.get(nameKey(params.username ?? ""));
    if (!user) throw new ApiError(404, `${params.username} is not a user`);

    const role = user === world.app.bot ? "none" : permissionIn(repository, user.login);
    // The older field has four values; role_name has all.
    const permission = role === "maintain" ? "write" : role === "triage" ? "read" : role;
    return { status: 200, body: { permission, role_name: role, user: { ...showUser(world, user), role_name: role } } };
  }),

  repositoryOperation("get", `${repo}/contents/{path}`, { contents: "read" }, async (request) => {
    const { world, repository, params, url } = request;
    const path = (params.path ?? "").replace(/^\/+|\/+$/g, "");
    const ref = url.searchParams.get("ref") ?? repository.defaultBranch;
    const commit = await resolveCommit(repository.gitDirectory, ref);
    if (!commit)
      throw new ApiError(
        404,
        url.searchParams.has("ref") ? `No commit found for the ref ${ref}` : "This repository is empty.",
      );

    const entry = orNotFound(await findEntry(repository.gitDirectory, commit, path));
    if (entry.type === "tree") {
      const entries = await listFolder(repository.gitDirectory, commit, path);
      return {
        status: 200,
        body: entries.slice(0, maxListedEntries).map((child) => showEntry(world, repository, ref, child)),
      };
    }
    const target = await followLink(repository, commit, entry);
    return { status: 200, body: await showContent(world, repository, ref, target ? { ...target, path } : entry) };
  }),

  repositoryOperation("get", `${repo}/branches/{branch}`, { contents: "read" }, async (request) => {
    const { world, repository, params } = request;
    const name = params.branch ?? "";
    const sha = (await branches(repository.gitDirectory)).get(`refs/heads/${name}`);
    if (!sha) throw new ApiError(404, "Branch not found");
    const contexts = requiredChecks(repository, name);
    const self = `${apiUrl(world, repository)}/branches/${name}`;
    const required_status_checks = {
      enforcement_level: contexts.length > 0 ? "non_admins" : "off",
      contexts: [...contexts],
      checks: contexts.map((context) => ({ context, app_id: null })),
    };
    return {
      status: 200,
      body: {
        name,
        commit: await showCommit(world, repository, sha),
        _links: { self, html: `${pageUrl(world, repository)}/tree/${name}` },
        protected: contexts.length > 0,
        protection: { enabled: contexts.length > 0, required_status_checks },
        protection_url: `${self}/protection`,
      },
    };
  }),

  repositoryOperation("get", `${repo}/rules/branches/{branch}`, { metadata: "read" }, (request) => {
    const { repository, params } = request;
    const contexts = requiredChecks(repository, params.branch ?? "");
    const required_status_checks = contexts.map((context) => ({ context }));
    const parameters = { required_status_checks, strict_required_status_checks_policy: false };
    const rule = {
      type: "required_status_checks" as const,
      ruleset_source_type: "Repository" as const,
      ruleset_source: fullName(repository),
      ruleset_id: 1,
      parameters,
    };
    return { status: 200, body: contexts.length > 0 ? [rule] : [] };
  }),
];

function requiredChecks(repository: Repository, branch: string): readonly string[] {
  return branch === repository.defaultBranch ? repository.requiredChecks : [];
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

/** GitHub's limit for the entries of a folder. */
const maxListedEntries = 1_000;

/** Returns the target file of a symbolic link, which GitHub returns in place of the link. */
async function followLink({ gitDirectory }: Repository, commit: string, { mode, path, sha }: TreeEntry) {
  if (mode !== "120000") return undefined;
  const target = posix.join(posix.dirname(path), (await readBlob(gitDirectory, sha)).toString("utf8"));
  const found = await findEntry(gitDirectory, commit, target);
  return found?.type === "blob" && found.mode !== "120000" ? found : undefined;
}

/** GitHub lists a submodule as a file, for compatibility with its first version. */
function entryType({ type, mode }: TreeEntry): "dir" | "file" | "symlink" {
  if (type === "tree") return "dir";
  return mode === "120000" ? "symlink" : "file";
}

async function showContent(world: World, repository: Repository, ref: string, entry: TreeEntry) {
  const shown = showEntry(world, repository, ref, entry);
  if (entry.type === "commit") {
    return { ...shown, type: "submodule" as const, submodule_git_url: "" };
  }
  const bytes = await readBlob(repository.gitDirectory, entry.sha);
  if (entry.mode === "120000") return { ...shown, type: "symlink" as const, target: bytes.toString("utf8") };

  // Above a megabyte GitHub omits the content and sets the encoding to "none".
  const small = bytes.length <= 1024 * 1024;
  const lines = bytes.toString("base64").replace(/.{60}/g, "$&\n");
  return {
    ...shown,
    type: "file" as const,
    encoding: small ? "base64" : "none",
    content: small ? `${lines}\n` : "",
  };
}
