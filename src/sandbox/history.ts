import type { Base } from "./base.ts";
import { type Commit, isFolder, parseCommit, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";
import type { LogEntry } from "./sandbox.ts";

const maxDepth = 5_000;

/** The commits of the base's history, newest first, of one path when it is given. Fetches what it lacks. */
export async function readHistory(
  base: Base,
  remote: () => Remote,
  { limit, path }: { limit: number; path?: string },
): Promise<LogEntry[]> {
  if (limit < 1) return [];

  const known = walk(base, limit, path);
  if (known.complete) return known.entries;

  // Without trees a commit costs a few hundred bytes, so a plain log asks once for enough.
  const without = path === undefined ? ("trees" as const) : ("blobs" as const);
  const depths = path === undefined ? [Math.max(limit, 50)] : [100, 1_000, maxDepth];
  for (const depth of depths) {
    const answer = await remote().fetch({ wants: [base.commit], depth: Math.min(depth, maxDepth), without });
    if (answer.kind === "refused") break;

    await base.store.addPack(answer.pack);
    if (walk(base, limit, path).complete) break;
  }
  return walk(base, limit, path).entries;
}

interface Walk {
  entries: LogEntry[];
  /** False when a commit or tree was missing before the end. */
  complete: boolean;
}

function walk(base: Base, limit: number, path: string | undefined): Walk {
  const { store } = base;
  const entries: LogEntry[] = [];
  const queue = [{ oid: base.commit, commit: readCommit(store, base.commit) }];
  const seen = new Set([base.commit]);
  let complete = true;
  while (entries.length < limit) {
    const next = queue.shift();
    if (!next) return { entries, complete };
    if (!next.commit) {
      complete = false;
      continue;
    }
    const { oid, commit } = next;
    const touched = path === undefined || touches(store, commit, path);
    if (touched === undefined) complete = false;
    if (touched) entries.push(toLogEntry(oid, commit));
    for (const parent of commit.parents) {
      if (seen.has(parent)) continue;
      seen.add(parent);
      insert(queue, { oid: parent, commit: readCommit(store, parent) });
    }
  }
  return { entries, complete };
}

type Queued = { oid: string; commit: Commit | undefined };

/** Keeps the queue newest first; what is not known yet goes last. */
function insert(queue: Queued[], next: Queued): void {
  const time = ({ commit }: Queued) => commit?.committed.getTime() ?? Number.NEGATIVE_INFINITY;
  const at = queue.findIndex((queued) => time(queued) < time(next));
  queue.splice(at === -1 ? queue.length : at, 0, next);
}

/** Whether a commit changed a path against each of its parents; undefined when that cannot be known yet. */
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

/** The mode and oid of a path, `""` where there is none, undefined when a tree on the way is not here. */
function lookUp(store: ObjectStore, tree: string, path: string): string | undefined {
  let current = { mode: "40000", oid: tree };
  for (const name of path.split("/").filter((part) => part !== "")) {
    if (!isFolder(current)) return "";
    const object = store.read(current.oid);
    if (object?.type !== "tree") return undefined;
    const line = parseTree(object.data).find((entry) => entry.name.toString("utf8") === name);
    if (!line) return "";
    current = line;
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
