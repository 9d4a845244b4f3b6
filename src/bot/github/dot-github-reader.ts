import { LRUCache } from "lru-cache";
import { createBoundedCache } from "#domain/bounded-cache.ts";
import { UserError } from "#domain/errors.ts";
import type { RepositoryRef } from "#domain/github.ts";
import { undefinedIfMissing } from "./refusals.ts";
import type { RepositoryApi } from "./repository-api.ts";

/** `link` is a symbolic link. */
type EntryKind = "file" | "folder" | "link" | "submodule";
type Folder = ReadonlyMap<string, { kind: EntryKind; sha: string; size: number }>;

interface ReadOptions {
  api: RepositoryApi;
  repository: RepositoryRef;
  path: string;
  maxAgeMs: number;
}

/** GitHub ignores a larger CODEOWNERS. No other file that is read from a repository is nearly as large. */
const maxFileBytes = 3_000_000;

/** Throws a UserError for a file whose download and parsing would keep everyone else waiting. */
export function assertReadableSize(path: string, size: number): void {
  if (size <= maxFileBytes) return;
  throw new UserError(`${path} on the default branch is larger than 3 MB, so it cannot be read.`);
}

const maxObjectBytes = 32 * 1024 ** 2;

/** The maximum number of entries of a folder that GitHub lists. */
const maxListedEntries = 1_000;

/**
 * Reads files below `.github` on the default branch. Each read asks for the listing of that folder, which costs nothing of
 * the primary rate limit while it is unchanged; everything below it is known by its hash and requested once.
 *
 * Only ordinary files in ordinary folders are read. Throws a UserError for a link, a folder or a submodule in their place:
 * settings that restrict a repository must not disappear with them.
 */
export class DotGitHubReader {
  readonly #listings = createBoundedCache<string, { readAt: number; folder: Promise<Folder> }>(10_000);
  readonly #folders = new LRUCache<string, Folder>({ max: 1_000 });
  readonly #texts = new LRUCache<string, string>({
    maxSize: maxObjectBytes,
    sizeCalculation: (text) => text.length + 1,
  });

  /** Resolves to undefined for a file that does not exist. */
  async readFile(options: ReadOptions): Promise<string | undefined> {
    const { api, repository, path } = options;
    const folder = await this.#folderAt(options, path.slice(0, path.lastIndexOf("/")));
    const entry = folder?.get(path.slice(path.lastIndexOf("/") + 1));
    if (!entry) return undefined;
    if (entry.kind !== "file") throw notA("file", path, entry.kind);
    assertReadableSize(path, entry.size);

    const key = `${keyOf(repository)} ${entry.sha}`;
    const text = this.#texts.get(key) ?? (await readBlob(api, entry.sha));
    this.#texts.set(key, text);
    return text;
  }

  /** The names of everything in a folder; empty where there is no such folder. */
  async listNames(options: ReadOptions): Promise<string[]> {
    return [...((await this.#folderAt(options, options.path))?.keys() ?? [])];
  }

  async #folderAt(options: ReadOptions, path: string): Promise<Folder | undefined> {
    const { api, repository } = options;
    let folder = await this.#list(options);
    for (const name of path.split("/").slice(1)) {
      const entry = folder.get(name);
      if (!entry) return undefined;
      if (entry.kind !== "folder") throw notA("folder", path, entry.kind);
      const key = `${keyOf(repository)} ${entry.sha}`;
      folder = this.#folders.get(key) ?? (await readTree(api, entry.sha));
      this.#folders.set(key, folder);
    }
    return folder;
  }

  async #list({ api, repository, maxAgeMs }: ReadOptions): Promise<Folder> {
    const key = keyOf(repository);
    const known = this.#listings.get(key);
    if (known && Date.now() - known.readAt <= maxAgeMs) return known.folder;

    const listing = { readAt: Date.now(), folder: listFolder(api) };
    this.#listings.set(key, listing);
    listing.folder.catch(() => {
      if (this.#listings.get(key) === listing) this.#listings.delete(key);
    });
    return listing.folder;
  }
}

function keyOf({ installationId, repositoryId, owner, repo }: RepositoryRef): string {
  return `${installationId} ${repositoryId ?? `${owner}/${repo}`.toLowerCase()}`;
}

async function listFolder(api: RepositoryApi): Promise<Folder> {
  const data = await undefinedIfMissing(api.readContents(".github"));
  if (data === undefined) return new Map();
  if (!Array.isArray(data)) throw notA("folder", ".github", data.type === "symlink" ? "link" : "file");
  if (data.length < maxListedEntries) return new Map(data.map((entry) => [entry.name, toEntry(entry)]));

  const root = await readTree(api, "HEAD");
  return readTree(api, root.get(".github")?.sha ?? "");
}

// GitHub lists a submodule as a file, without an address to download it from.
function toEntry(found: { type: string; sha: string; size: number; download_url: string | null }) {
  const { type, sha, size, download_url } = found;
  const kinds: Partial<Record<string, EntryKind>> = { dir: "folder", symlink: "link", submodule: "submodule" };
  return { kind: kinds[type] ?? (download_url === null ? "submodule" : "file"), sha, size };
}

async function readTree(api: RepositoryApi, sha: string): Promise<Folder> {
  const endpoint = "GET /repos/{owner}/{repo}/git/trees/{tree_sha}";
  const { tree, truncated } = await api.call(endpoint, { tree_sha: sha });
  if (truncated) throw new UserError("A folder of the default branch has too many files to be read.");
  const kindOf = ({ type, mode }: { type?: string; mode?: string }): EntryKind => {
    if (type === "tree") return "folder";
    if (type === "commit") return "submodule";
    return mode === "120000" ? "link" : "file";
  };
  return new Map(
    tree.map((entry) => [entry.path ?? "", { kind: kindOf(entry), sha: entry.sha ?? "", size: entry.size ?? 0 }]),
  );
}

function notA(expected: "file" | "folder", path: string, kind: EntryKind): UserError {
  const names = { file: "a file", folder: "a folder", link: "a symbolic link", submodule: "a submodule" };
  return new UserError(
    `${path} on the default branch must be ${names[expected]}, but is ${names[kind]}, so it cannot be read.`,
  );
}

async function readBlob(api: RepositoryApi, sha: string): Promise<string> {
  const { content, encoding } = await api.call("GET /repos/{owner}/{repo}/git/blobs/{file_sha}", { file_sha: sha });
  return Buffer.from(content, encoding === "base64" ? "base64" : "utf8").toString("utf8");
}
