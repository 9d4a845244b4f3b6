import { EventLoopYielder } from "#domain/async-work.ts";
import type { History, LogEntry, LogOptions } from "#sandbox/sandbox.ts";
import { type CommitLinks, findInTree, isFolder, parseCommit, parseCommitLinks } from "./git-objects.ts";
import { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";

/** The options with commits only: no branches. */
export type HistoryRequest = LogOptions & { from: string };

interface FetchedHistory {
  depth: number;
  /** The commits whose parents are missing. */
  shallow: string[];
}

const minDepth = 50;
/** The depths at which the history of a path is fetched, in order. */
export const pathDepths = [500, 5_000];
const maxDepth = 5_000;
/** The number of trees that one request asks for. */
const maxWantedTrees = 2_500;
/** Larger histories are dropped after use, and fetched again when needed. */
const maxKeptBytes = 32 * 1024 ** 2;

export interface HistoryCache {
  store: ObjectStore;
  fetched: Map<string, FetchedHistory>;
  /** The commits whose folders are all known. */
  withFolders: Set<string>;
}

const caches = new WeakMap<ObjectStore, HistoryCache>();

/**
 * Lists commits, newest first. Fetches missing commits without trees and contents, and for a path the folders above it.
 * The history of a path is fetched in steps, each of which transfers only what the previous ones did not.
 */
export async function readHistory(
  baseStore: ObjectStore,
  connectRemote: () => Remote,
  request: HistoryRequest,
): Promise<History> {
  const { from, exclude, path, skip = 0 } = request;
  const limit = skip + request.limit;
  if (request.limit < 1) return { commits: [], isComplete: true };

  const cache = historyCacheOf(baseStore);
  const wanted = { ...request, limit };
  let found = await walkHistory(cache.store, wanted);
  let partDepth: number | undefined;
  // A commit without trees takes a few hundred bytes, so one request is enough.
  const depths = path === undefined ? [Math.min(Math.max(limit, minDepth), maxDepth), maxDepth] : pathDepths;
  const starts = exclude === undefined ? [from] : [from, exclude];
  for (const depth of depths) {
    if (found.isComplete) break;
    const result = await deepen(cache, connectRemote(), starts, { depth, path });
    found = await walkHistory(cache.store, wanted);
    if (result === "complete") break;
    const isPage = request.newestPartFirst && exclude === undefined && found.entries.length > skip;
    if (isPage && !found.isComplete && depth < maxDepth) {
      partDepth = depth;
      break;
    }
  }
  releaseHistory(baseStore);
  return { commits: found.entries.slice(skip), isComplete: found.isComplete, ...(partDepth && { partDepth }) };
}

/** Returns the history that was fetched so far for the bases of a store. Call `releaseHistory` after use. */
export function historyCacheOf(baseStore: ObjectStore): HistoryCache {
  return caches.getOrInsertComputed(baseStore, (below) => ({
    store: new ObjectStore({ below }),
    fetched: new Map(),
    withFolders: new Set(),
  }));
}

/** Drops the history of a store if it has become too large. */
export function releaseHistory(baseStore: ObjectStore): void {
  if ((caches.get(baseStore)?.store.bytes() ?? 0) > maxKeptBytes) caches.delete(baseStore);
}

/** Fetches commits down to a depth, and the folders above `path` in all of them, unless that was done before. */
export async function deepen(
  cache: HistoryCache,
  remote: Remote,
  starts: readonly string[],
  { depth, path }: { depth: number; path: string | undefined },
): Promise<"deepened" | "complete"> {
  const result = await fetchCommits(cache, remote, starts, depth);
  if (path !== undefined) await fetchFoldersAbove(cache.store, remote, starts, path);
  return result;
}

async function fetchCommits(
  { store, fetched }: HistoryCache,
  remote: Remote,
  starts: readonly string[],
  depth: number,
): Promise<"deepened" | "complete"> {
  const key = starts.join(" ");
  const before = fetched.get(key);
  if (before?.shallow.length === 0) return "complete";
  if (before && before.depth >= depth) return "deepened";

  const result = await remote.fetch({
    wants: starts,
    ...(before && { haves: starts, shallow: before.shallow }),
    depth,
    without: "trees",
  });
  if (result.kind === "refused") return "complete";
  await store.addPack(result.pack);
  fetched.set(key, { depth, shallow: result.shallow });
  return "deepened";
}

/** Fetches the folders above a path, level by level: whole trees would be twenty times as many bytes. */
async function fetchFoldersAbove(
  store: ObjectStore,
  remote: Remote,
  starts: readonly string[],
  path: string,
): Promise<void> {
  const yielder = new EventLoopYielder();
  const oids = new Set(starts);
  let folders = new Set<string>();
  for (const oid of oids) {
    const commit = readCommit(store, oid);
    if (commit) folders.add(commit.tree);
    for (const parent of commit?.parents ?? []) oids.add(parent);
    if (yielder.isDue) await yielder.turn();
  }
  for (const name of namesIn(path)) {
    const missing = [...folders].filter((oid) => !store.has(oid));
    for (let at = 0; at < missing.length; at += maxWantedTrees) {
      const wants = missing.slice(at, at + maxWantedTrees);
      const result = await remote.fetch({ wants, depth: 1, without: "trees" });
      if (result.kind === "refused") return;
      await store.addPack(result.pack);
    }
    const inside = new Set<string>();
    for (const oid of folders) {
      const tree = store.read(oid);
      const item = tree?.type === "tree" ? findInTree(tree.data, name) : undefined;
      if (item && isFolder(item)) inside.add(item.oid);
      if (yielder.isDue) await yielder.turn();
    }
    folders = inside;
  }
}

interface Found {
  entries: LogEntry[];
  /** False when a commit or tree was missing before the limit was reached. */
  isComplete: boolean;
}

/** Lists commits that the store contains. */
async function walkHistory(store: ObjectStore, { from, exclude, path, limit }: HistoryRequest): Promise<Found> {
  const entries: LogEntry[] = [];
  const yielder = new EventLoopYielder();
  const excluded = exclude === undefined ? undefined : await ancestorsOf(store, exclude);
  const versions = path === undefined ? undefined : new PathVersions(store, path);
  const isRelevant = (oid: string) => oid === exclude || !excluded?.commits.has(oid);
  const queue = new CommitQueue();
  queue.add({ oid: from, commit: readCommit(store, from) });
  let isComplete = excluded?.isComplete ?? true;
  while (entries.length < limit) {
    const next = queue.take();
    if (!next) return { entries, isComplete };
    if (excluded?.commits.has(next.oid)) continue;
    if (!next.commit) {
      isComplete = false;
      continue;
    }
    const { oid, commit } = next;
    const step = versions ? followPath(store, { commit, versions, isRelevant }) : { ...commit, isListed: true };
    if (step === undefined) isComplete = false;
    if (step?.isListed) entries.push(toLogEntry(store, oid));
    for (const parent of step?.parents ?? commit.parents)
      queue.add({ oid: parent, commit: readCommit(store, parent), child: commit });
    if (yielder.isDue) await yielder.turn();
  }
  return { entries, isComplete };
}

async function ancestorsOf(store: ObjectStore, start: string): Promise<{ commits: Set<string>; isComplete: boolean }> {
  const yielder = new EventLoopYielder();
  const commits = new Set([start]);
  let isComplete = true;
  for (const oid of commits) {
    const commit = readCommit(store, oid);
    if (!commit) isComplete = false;
    for (const parent of commit?.parents ?? []) commits.add(parent);
    if (yielder.isDue) await yielder.turn();
  }
  return { commits, isComplete };
}

export interface QueuedCommit {
  oid: string;
  commit: CommitLinks | undefined;
  /** A commit whose parent it is. A missing commit is queued as if it were as old as this one; without it, it comes last. */
  child?: CommitLinks;
}

/** A queue of distinct commits by time, newest first. */
export class CommitQueue {
  readonly #queue: QueuedCommit[] = [];
  readonly #seen = new Set<string>();

  add(next: QueuedCommit): void {
    if (this.#seen.has(next.oid)) return;
    this.#seen.add(next.oid);
    const time = ({ commit, child }: QueuedCommit) =>
      (commit ?? child)?.committed.getTime() ?? Number.NEGATIVE_INFINITY;
    const at = this.#queue.findIndex((queued) => time(queued) < time(next));
    this.#queue.splice(at === -1 ? this.#queue.length : at, 0, next);
  }

  /** Adds a commit that may have been taken before. */
  addAgain(next: QueuedCommit): void {
    if (this.#queue.some(({ oid }) => oid === next.oid)) return;
    this.#seen.delete(next.oid);
    this.add(next);
  }

  take(): QueuedCommit | undefined {
    return this.#queue.shift();
  }
}

/**
 * Decides as `git log` does for a path: the commit is listed if it changed the path, and only the first parent with the
 * same version is followed, which leaves out branches that did not contribute to it. Undefined if a commit or tree is missing.
 */
function followPath(
  store: ObjectStore,
  { commit, versions, isRelevant }: { commit: CommitLinks; versions: PathVersions; isRelevant(oid: string): boolean },
): { isListed: boolean; parents: readonly string[] } | undefined {
  const own = versions.in(commit.tree);
  if (own === undefined) return undefined;
  if (commit.parents.length === 0) return { isListed: own !== "", parents: [] };

  const differs = new Map<string, boolean>();
  for (const oid of commit.parents) {
    const parent = readCommit(store, oid);
    const before = parent && versions.in(parent.tree);
    if (before === undefined) return undefined;
    if (before === own && isRelevant(oid)) return { isListed: false, parents: [oid] };
    differs.set(oid, before !== own);
  }
  // An excluded parent decides only if all of them are excluded.
  const relevant = commit.parents.filter(isRelevant);
  const isListed = (relevant.length > 0 ? relevant : commit.parents).some((oid) => differs.get(oid));
  return { isListed, parents: commit.parents };
}

/** Looks up one path in many trees. Remembers the result of each tree, since most commits do not change the path's folders. */
export class PathVersions {
  readonly #store: ObjectStore;
  readonly #names: readonly string[];
  readonly #found = new Map<string, string | undefined>();

  constructor(store: ObjectStore, path: string) {
    this.#store = store;
    this.#names = namesIn(path);
  }

  /** Returns the mode and object id of the path in a tree; `""` if it does not exist, undefined if a tree is missing. */
  in(tree: string): string | undefined {
    return this.#lookUp({ mode: "40000", oid: tree }, 0);
  }

  #lookUp(item: { mode: string; oid: string }, depth: number): string | undefined {
    const name = this.#names[depth];
    if (name === undefined) return `${item.mode} ${item.oid}`;
    if (!isFolder(item)) return "";

    const key = `${depth} ${item.oid}`;
    if (!this.#found.has(key)) this.#found.set(key, this.#lookIn(item.oid, name, depth));
    return this.#found.get(key);
  }

  #lookIn(oid: string, name: string, depth: number): string | undefined {
    const tree = this.#store.read(oid);
    if (tree?.type !== "tree") return undefined;
    const item = findInTree(tree.data, name);
    return item ? this.#lookUp(item, depth + 1) : "";
  }
}

function namesIn(path: string): string[] {
  return path.split("/").filter((name) => name !== "");
}

export function readCommit(store: ObjectStore, oid: string): CommitLinks | undefined {
  const object = store.read(oid);
  return object?.type === "commit" ? parseCommitLinks(object.data) : undefined;
}

export function toLogEntry(store: ObjectStore, oid: string): LogEntry {
  const object = store.read(oid);
  if (object?.type !== "commit") throw new Error(`The commit ${oid} was not fetched.`);

  const { message, author, email, authored, parents } = parseCommit(object.data);
  return { commit: oid, message: message.trimEnd(), author, email, date: authored, parents };
}

/** Fetches the contents that the store lacks. Those that the server does not send are still missing then. */
export async function fetchContents(store: ObjectStore, remote: Remote, oids: Iterable<string>): Promise<void> {
  const wants = [...new Set(oids)].filter((oid) => !store.has(oid));
  if (wants.length === 0) return;
  const result = await remote.fetch({ wants, depth: 1 });
  if (result.kind === "pack") await store.addPack(result.pack);
}
