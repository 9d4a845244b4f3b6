import { LRUCache } from "lru-cache";
import type { RepositoryRef } from "#domain/github.ts";
import { undefinedIfMissing } from "./refusals.ts";
import type { RepositoryApi } from "./repository-api.ts";

type EntryKind = "file" | "folder" | "other";
type Folder = ReadonlyMap<string, { kind: EntryKind; sha: string }>;

interface Listing {
  readAt: number;
  folder: Promise<Folder>;
}

interface ReadOptions {
  api: RepositoryApi;
  repository: RepositoryRef;
  path: string;
  maxAgeMs: number;
}

const maxObjectBytes = 32 * 1024 ** 2;

/**
 * Reads files below `.github` on the default branch. Each read asks for the listing of that folder, which costs nothing of
 * the primary rate limit while it is unchanged; everything below it is known by its hash and requested once.
 */
export class DotGitHubReader {
  readonly #listings = new LRUCache<string, Listing>({ max: 10_000 });
  readonly #folders = new LRUCache<string, Folder>({ max: 1_000 });
  readonly #texts = new LRUCache<string, string>({
    maxSize: maxObjectBytes,
    sizeCalculation: (text) => text.length + 1,
  });

  /** Resolves to undefined for what does not exist, and to `"unknown"` for what is not an ordinary file. */
  async readFile(options: ReadOptions): Promise<{ text: string } | undefined | "unknown"> {
    const { api, repository, path } = options;
    const names = path.split("/").slice(1);
    const folder = await this.#folderAt(options, names.slice(0, -1));
    const entry = folder?.get(names.at(-1) ?? "");
    if (entry?.kind !== "file") return entry && "unknown";

    const key = `${keyOf(repository)} ${entry.sha}`;
    const text = this.#texts.get(key) ?? (await readBlob(api, entry.sha));
    this.#texts.set(key, text);
    return { text };
  }

  /** The names of the files in a folder; empty where there is no such folder. */
  async listFiles(options: ReadOptions): Promise<string[]> {
    const folder = await this.#folderAt(options, options.path.split("/").slice(1));
    return [...(folder ?? [])].filter(([, { kind }]) => kind === "file").map(([name]) => name);
  }

  async #folderAt(options: ReadOptions, names: readonly string[]): Promise<Folder | undefined> {
    const { api, repository } = options;
    let folder = await this.#list(options);
    for (const name of names) {
      const entry = folder.get(name);
      if (entry?.kind !== "folder") return undefined;
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
  if (!Array.isArray(data)) return new Map();
  const kinds: Partial<Record<string, EntryKind>> = { file: "file", dir: "folder" };
  return new Map(data.map(({ name, type, sha }) => [name, { kind: kinds[type] ?? "other", sha }]));
}

async function readTree(api: RepositoryApi, sha: string): Promise<Folder> {
  const { tree } = await api.call("GET /repos/{owner}/{repo}/git/trees/{tree_sha}", { tree_sha: sha });
  const kindOf = ({ type, mode }: { type?: string; mode?: string }): EntryKind => {
    if (type === "tree") return "folder";
    return type === "blob" && mode !== "120000" ? "file" : "other";
  };
  return new Map(tree.map((entry) => [entry.path ?? "", { kind: kindOf(entry), sha: entry.sha ?? "" }]));
}

async function readBlob(api: RepositoryApi, sha: string): Promise<string> {
  const { content, encoding } = await api.call("GET /repos/{owner}/{repo}/git/blobs/{file_sha}", { file_sha: sha });
  return Buffer.from(content, encoding === "base64" ? "base64" : "utf8").toString("utf8");
}
