import { type Commit, isFolder, parseCommit, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";
import type { LogEntry } from "./sandbox.ts";

export interface HistoryRequest {
  /** The commit to start at. */
  from: string;
  /** Leaves out this commit and its ancestors. */
  exclude?: string | undefined;
  /** Only commits that changed this path. */
  path?: string | undefined;
  /** How many commits to leave out before the first. */
  skip?: number | undefined;
  limit: number;
}

/** How much of the history of a commit was fetched. */
interface FetchedHistory {
  depth: number;
  /** The commits whose parents are missing. */
  shallow: string[];
}

const minDepth = 50;
const pathDepths = [100, 500, 2_500, 5_000];
const maxDepth = 5_000;
const fetched = new WeakMap<ObjectStore, Map<string, FetchedHistory>>();

/**
 * Lists commits, newest first. Fetches what the store lacks without the contents of files, and for a path in steps, of
 * which each sends only what the one before did not.
 */
export async function readHistory(
  store: ObjectStore,
  connectRemote: () => Remote,
  request: HistoryRequest,
): Promise<LogEntry[]> {
  const { from, exclude, path, skip = 0 } = request;
  const limit = skip + request.limit;
  if (request.limit < 1) return [];

  const wanted = { ...request, limit };
  let found = walkHistory(store, wanted);
  // Without trees a commit has a few hundred bytes, so one request is enough.
  const depths = path === undefined ? [Math.min(Math.max(limit, minDepth), maxDepth), maxDepth] : pathDepths;
  for (const depth of depths) {
    if (found.isComplete) break;
    const starts = exclude === undefined ? [from] : [from, exclude];
    const isFetched = await deepen(store, connectRemote(), starts, { depth, needsTrees: path !== undefined });
    if (!isFetched) break;
    found = walkHistory(store, wanted);
  }
  return found.entries.slice(skip);
}

/** Fetches history down to a depth; false when there is nothing more to fetch. */
async function deepen(
  store: ObjectStore,
  remote: Remote,
  starts: readonly string[],
  { depth, needsTrees }: { depth: number; needsTrees: boolean },
): Promise<boolean> {
  const known = fetched.get(store) ?? new Map<string, FetchedHistory>();
  fetched.set(store, known);
  const key = [needsTrees, ...starts].join(" ");
  const before = known.get(key);
  if (before && (before.depth >= depth || before.shallow.length === 0)) return before.depth < depth;

  const result = await remote.fetch({
    wants: starts,
    ...(before && { haves: starts, shallow: before.shallow }),
    depth,
    without: needsTrees ? "blobs" : "trees",
  });
  if (result.kind === "refused") return false;
  await store.addPack(result.pack);
  known.set(key, { depth, shallow: result.shallow });
  return true;
}

interface Found {
  entries: LogEntry[];
  /** False when a commit or tree was missing before the limit was reached. */
  isComplete: boolean;
}

/** Lists the commits that the store has. */
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

interface QueuedCommit {
  oid: string;
  commit: Commit | undefined;
}

/** Commits by time, the newest first, and each only once. Commits that are missing come last. */
class CommitQueue {
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

/** Whether a commit changed a path compared with each of its parents; undefined when a commit or tree is missing. */
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

/** The mode and oid of a path; `""` when it does not exist, undefined when a tree is missing. */
function lookUp(store: ObjectStore, tree: string, path: string): string | undefined {
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

function readCommit(store: ObjectStore, oid: string): Commit | undefined {
  const object = store.read(oid);
  return object?.type === "commit" ? parseCommit(object.data) : undefined;
}

function toLogEntry(oid: string, { message, author, email, authored, parents }: Commit): LogEntry {
  return { commit: oid, message: message.trimEnd(), author, email, date: authored, parents };
}
