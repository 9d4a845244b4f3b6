import { type Commit, isFolder, parseCommit, parseTree } from "./git-objects.ts";
import { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";
import type { History, LogEntry } from "./sandbox.ts";

export interface HistoryRequest {
  /** The commit to start at. */
  from: string;
  /** Leaves out this commit and its ancestors. */
  exclude?: string | undefined;
  /** Only commits that changed this path. */
  path?: string | undefined;
  /** The number of commits to skip. */
  skip?: number | undefined;
  limit: number;
}

/** The history of a commit that was fetched so far. */
interface FetchedHistory {
  depth: number;
  /** The commits whose parents are missing. */
  shallow: string[];
}

const minDepth = 50;
/** The depths at which the history of a path is fetched, one after the other. */
export const pathDepths = [100, 500, 2_500, 5_000];
const maxDepth = 5_000;
/** Larger histories are dropped after use, and fetched again when needed. */
const maxKeptBytes = 32 * 1024 ** 2;

/** The history that was fetched for the bases of a store. */
export interface HistoryCache {
  store: ObjectStore;
  fetched: Map<string, FetchedHistory>;
}

const caches = new WeakMap<ObjectStore, HistoryCache>();

/**
 * Lists commits, newest first. Fetches missing commits without the contents of files. The history of a path is fetched
 * in steps, each of which transfers only what the previous ones did not.
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
  let found = walkHistory(cache.store, wanted);
  // A commit without trees takes a few hundred bytes, so one request is enough.
  const depths = path === undefined ? [Math.min(Math.max(limit, minDepth), maxDepth), maxDepth] : pathDepths;
  for (const depth of depths) {
    if (found.isComplete) break;
    const starts = exclude === undefined ? [from] : [from, exclude];
    const result = await deepen(cache, connectRemote(), starts, { depth, needsTrees: path !== undefined });
    if (result === "complete") break;
    if (result === "deepened") found = walkHistory(cache.store, wanted);
  }
  releaseHistory(baseStore);
  return { commits: found.entries.slice(skip), isComplete: found.isComplete };
}

/** Returns the history that was fetched so far for the bases of a store. Call `releaseHistory` after use. */
export function historyCacheOf(baseStore: ObjectStore): HistoryCache {
  const cache = caches.get(baseStore) ?? { store: new ObjectStore({ below: baseStore }), fetched: new Map() };
  caches.set(baseStore, cache);
  return cache;
}

/** Drops the history of a store if it has become too large. */
export function releaseHistory(baseStore: ObjectStore): void {
  if ((caches.get(baseStore)?.store.bytes() ?? 0) > maxKeptBytes) caches.delete(baseStore);
}

/** Fetches history down to a depth, unless that was done before or the history ends earlier. */
export async function deepen(
  { store, fetched }: HistoryCache,
  remote: Remote,
  starts: readonly string[],
  { depth, needsTrees }: { depth: number; needsTrees: boolean },
): Promise<"deepened" | "known" | "complete"> {
  const key = [needsTrees, ...starts].join(" ");
  const before = fetched.get(key);
  if (before?.shallow.length === 0) return "complete";
  if (before && before.depth >= depth) return "known";

  const result = await remote.fetch({
    wants: starts,
    ...(before && { haves: starts, shallow: before.shallow }),
    depth,
    without: needsTrees ? "blobs" : "trees",
  });
  if (result.kind === "refused") return "complete";
  await store.addPack(result.pack);
  fetched.set(key, { depth, shallow: result.shallow });
  return "deepened";
}

interface Found {
  entries: LogEntry[];
  /** False when a commit or tree was missing before the limit was reached. */
  isComplete: boolean;
}

/** Lists commits that the store contains. */
function walkHistory(store: ObjectStore, { from, exclude, path, limit }: HistoryRequest): Found {
  const entries: LogEntry[] = [];
  const excluded = exclude === undefined ? undefined : ancestorsOf(store, exclude);
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
    const isTouched = path === undefined || touches(store, commit, path);
    if (isTouched === undefined) isComplete = false;
    if (isTouched) entries.push(toLogEntry(oid, commit));
    for (const parent of commit.parents) queue.add({ oid: parent, commit: readCommit(store, parent) });
  }
  return { entries, isComplete };
}

function ancestorsOf(store: ObjectStore, start: string): { commits: Set<string>; isComplete: boolean } {
  const commits = new Set([start]);
  let isComplete = true;
  for (const oid of commits) {
    const commit = readCommit(store, oid);
    if (!commit) isComplete = false;
    for (const parent of commit?.parents ?? []) commits.add(parent);
  }
  return { commits, isComplete };
}

export interface QueuedCommit {
  oid: string;
  commit: Commit | undefined;
}

/** A queue of distinct commits by time, newest first. Missing commits come last. */
export class CommitQueue {
  readonly #queue: QueuedCommit[] = [];
  readonly #seen = new Set<string>();

  add(next: QueuedCommit): void {
    if (this.#seen.has(next.oid)) return;
    this.#seen.add(next.oid);
    const time = ({ commit }: QueuedCommit) => commit?.committed.getTime() ?? Number.NEGATIVE_INFINITY;
    const at = this.#queue.findIndex((queued) => time(queued) < time(next));
    this.#queue.splice(at === -1 ? this.#queue.length : at, 0, next);
  }

  take(): QueuedCommit | undefined {
    return this.#queue.shift();
  }
}

/** True if a commit changed a path compared with each of its parents; undefined if a commit or tree is missing. */
function touches(store: ObjectStore, commit: Commit, path: string): boolean | undefined {
  const own = lookUp(store, commit.tree, path);
  if (own === undefined) return undefined;
  if (commit.parents.length === 0) return own !== "";

  for (const oid of commit.parents) {
    const parent = readCommit(store, oid);
    const before = parent && lookUp(store, parent.tree, path);
    if (before === undefined) return undefined;
    if (before === own) return false;
  }
  return true;
}

/** Returns the mode and object id of a path; `""` if it does not exist, undefined if a tree is missing. */
export function lookUp(store: ObjectStore, tree: string, path: string): string | undefined {
  let current = { mode: "40000", oid: tree };
  for (const name of path.split("/").filter((part) => part !== "")) {
    if (!isFolder(current)) return "";
    const object = store.read(current.oid);
    if (object?.type !== "tree") return undefined;
    const item = parseTree(object.data).find((entry) => entry.name.toString("utf8") === name);
    if (!item) return "";
    current = item;
  }
  return `${current.mode} ${current.oid}`;
}

export function readCommit(store: ObjectStore, oid: string): Commit | undefined {
  const object = store.read(oid);
  return object?.type === "commit" ? parseCommit(object.data) : undefined;
}

export function toLogEntry(oid: string, { message, author, email, authored, parents }: Commit): LogEntry {
  return { commit: oid, message: message.trimEnd(), author, email, date: authored, parents };
}
