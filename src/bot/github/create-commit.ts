import { isUtf8 } from "node:buffer";
import { UserError } from "#domain/errors.ts";
import type { NewCommit } from "#domain/github.ts";
import type { RepositoryApi } from "./repository-api.ts";

/** Repeating these requests has no effect: they create objects that nothing refers to. */
const options = { maxRetries: 3 };

/** Texts up to this size, in bytes, are sent with the tree; each larger file takes a request. */
const maxTextBytes = 200_000;

/** JSON and GitHub's handling of text keep everything else as it is. */
const unsafeText = /[^\P{Cc}\t\n\r]|\ufeff/u;

/** Creates a commit without an author, committer or signature, which GitHub then signs as the App: verified. */
export async function createSignedCommit(
  api: RepositoryApi,
  { message, parents, tree, baseTree, files }: NewCommit,
): Promise<string> {
  if (files.length > 0) {
    const entries = await Array.fromAsync(files, (file) => treeEntry(api, file));
    const parameters = { base_tree: baseTree, tree: entries };
    const created = await api.call("POST /repos/{owner}/{repo}/git/trees", parameters, options);
    if (created.sha !== tree) {
      throw new UserError("GitHub created a commit with different files than this push. Nothing was pushed.");
    }
  }
  const parameters = { message, tree, parents: [...parents] };
  return (await api.call("POST /repos/{owner}/{repo}/git/commits", parameters, options)).sha;
}

async function treeEntry(api: RepositoryApi, { path, content, mode }: NewCommit["files"][number]) {
  const entry = { path, mode, type: mode === "160000" ? ("commit" as const) : ("blob" as const) };
  if (!content) return { ...entry, sha: null };

  const bytes = Buffer.from(content);
  if (mode === "160000") return { ...entry, sha: bytes.toString() };
  const text = bytes.length <= maxTextBytes && isUtf8(bytes) ? bytes.toString("utf8") : undefined;
  if (text !== undefined && !unsafeText.test(text)) return { ...entry, content: text };
  const blob = { content: bytes.toString("base64"), encoding: "base64" };
  return { ...entry, sha: (await api.call("POST /repos/{owner}/{repo}/git/blobs", blob, options)).sha };
}
