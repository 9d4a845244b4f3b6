import { setImmediate as nextTurn } from "node:timers/promises";
import { EventLoopYielder, unlessAborted } from "#domain/async-work.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import type { BaseCommit, OpenSandbox, SandboxSource } from "#sandbox/sandbox.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type Base, hasContents } from "./base.ts";
import { ObjectStore } from "./object-store.ts";
import { readBase } from "./read-base.ts";
import type { FetchRequest, FetchResult, Remote } from "./remote.ts";

const cacheBytes = 512 * 1024 ** 2;
const cache = createBaseCache(cacheBytes);
const depths = [50, 500, 5_000];
/** The next base does not reuse a store that holds more than this multiple of the current base's contents. */
const maxStoreGrowth = 2;
const minStoreBytes = 64 * 1024 ** 2;

export interface OpenedBase {
  base: Base;
  at: BaseCommit;
  /** The branch that HEAD of the repository points to. */
  defaultBranch: string | undefined;
}

/**
 * Opens the requested base, from the cache if possible. Its tree is complete, but its contents may be missing (see
 * `fetchContents`). Always asks the remote first with the run's own credentials, so that a cached base is not available
 * to someone who cannot read the repository.
 */
export async function openBase(
  remote: Remote,
  source: SandboxSource,
  asked: OpenSandbox["at"] & Pick<OpenSandbox, "followsDefaultBranch">,
  signal: AbortSignal | undefined,
): Promise<OpenedBase> {
  // The head of a fork's pull request is given as a full ref name.
  const wanted = asked.branch?.startsWith("refs/pull/") ? asked.branch : `refs/heads/${asked.branch}`;
  const refs = await remote.refs(asked.branch === undefined ? ["HEAD"] : [wanted, "HEAD"]);
  const head = refs.find(({ name }) => name === "HEAD");
  const defaultBranch = head?.target?.replace(/^refs\/heads\//, "");
  const found = refs.find(({ name }) => name === wanted);
  const isDefault = asked.branch === undefined || (asked.followsDefaultBranch && !found);
  const branch = isDefault ? defaultBranch : asked.branch;
  const tip = isDefault ? head?.oid : found?.oid;
  const commit = "commit" in asked ? asked.commit : tip;
  if (!commit || branch === undefined) throw await missingBranchError(remote, branch);

  const at = { commit, branch };
  const base = await cache.get({
    repository: JSON.stringify([source.tenant, source.url]),
    commit,
    signal,
    load: (stop, previous) => loadBase(remote, { at, tip, previous, signal: stop }),
  });
  return { base, at, defaultBranch };
}

/**
 * Creates the functions with which a sandbox loads the contents of its base. A single content does not wait for all of
 * them: those that are read in the same turn of the event loop are fetched in one request.
 */
export function createContentLoader(base: Base, connectRemote: () => Remote) {
  let wanted = new Set<string>();
  let fetching: Promise<unknown> | undefined;
  const loadContents = () => base.contents.load(() => fetchContents(connectRemote(), base));
  const fetchWanted = async () => {
    await nextTurn();
    const wants = [...wanted];
    wanted = new Set();
    fetching = undefined;
    const result = await connectRemote().fetch({ wants, depth: 1 });
    if (result.kind === "pack") await base.store.addPack(result.pack);
  };
  return {
    loadContents,
    loadContent: async (oid: string) => {
      wanted.add(oid);
      fetching ??= fetchWanted().catch(() => {});
      await fetching;
      if (!base.store.has(oid)) await loadContents();
    },
  };
}

interface ContentsRequest {
  /** The difference from the previous base, if it was already requested. */
  requested?: Promise<FetchResult>;
  signal?: AbortSignal;
}

/** Fetches the contents of a base whose tree was fetched without them. */
async function fetchContents(remote: Remote, base: Base, { requested, signal }: ContentsRequest = {}): Promise<void> {
  const { commit, store, contents } = base;
  if (contents.previous !== undefined) {
    await addDifferences(store, requested ?? remote.fetch(differences(commit, contents.previous), signal), signal);
    if (await hasContents(base)) return;
  }
  const result = await remote.fetch({ wants: [commit], depth: 1 }, signal);
  if (result.kind === "refused") {
    throw new UserError(`${remote.name} did not send the files of ${commit.slice(0, 10)}: ${result.reason}.`);
  }
  await store.addPack(result.pack);
  if (!(await hasContents(base))) throw new Error(`The git server of ${remote.name} did not send all files.`);
}

interface LoadOptions {
  at: BaseCommit;
  tip: string | undefined;
  previous: Base | undefined;
  signal: AbortSignal;
}

async function loadBase(remote: Remote, { at, tip, previous, signal }: LoadOptions): Promise<Base> {
  const advanced = previous && (await advance(remote, previous, at, signal));
  if (advanced) return advanced;

  const store = new ObjectStore();
  const direct = await remote.fetch({ wants: [at.commit], depth: 1, without: "blobs" }, signal);
  if (direct.kind === "pack") {
    await store.addPack(direct.pack, signal);
    return readBase(store, at.commit);
  }
  // A server that only sends branch tips may still have the commit in the history of a branch.
  for (const depth of tip ? depths : []) {
    const deeper = await remote.fetch({ wants: [tip as string], depth }, signal);
    if (deeper.kind === "refused") break;

    const attempt = new ObjectStore();
    await attempt.addPack(deeper.pack, signal);
    if (attempt.has(at.commit)) return readBase(attempt, at.commit);
    if (deeper.shallow.length === 0) break;
  }
  throw new UserError(
    `The base commit ${at.commit.slice(0, 10)} of this run no longer exists in ${remote.name}: the branch ${at.branch} was rewritten. Start a new run.`,
  );
}

/** The commit whose contents the base's store has; undefined if the next base must not add its objects to that store. */
async function commitToAdvanceFrom(base: Base): Promise<string | undefined> {
  const { commit, contents, store } = base;
  if (store.bytes() >= minStoreBytes && store.bytes() >= maxStoreGrowth * (await sizeOfFiles(base))) return undefined;
  return contents.isLoaded ? commit : contents.previous;
}

async function sizeOfFiles({ entries }: Base): Promise<number> {
  const loop = new EventLoopYielder();
  let sum = 0;
  for (const { size } of entries.values()) {
    sum += size;
    if (loop.isDue) await loop.turn();
  }
  return sum;
}

/**
 * Fetches only the folders that differ from a previous base of the repository, and lets the contents follow; undefined if
 * that is not possible.
 */
async function advance(remote: Remote, base: Base, at: BaseCommit, signal: AbortSignal): Promise<Base | undefined> {
  const { store } = base;
  const previous = await commitToAdvanceFrom(base);
  if (previous === undefined) return undefined;

  const request = differences(at.commit, previous);
  const folders = remote.fetch({ ...request, without: "blobs" }, signal);
  // Requested meanwhile, since the server takes longer to prepare them. Read later: what both have belongs to the folders.
  const stop = new AbortController();
  const requested = remote.fetch(request, AbortSignal.any([signal, stop.signal]));
  requested.catch(() => {});
  let areNeeded = false;
  try {
    if (!(await addDifferences(store, folders, signal)) || !store.has(at.commit)) return undefined;
    const next = await readBase(store, at.commit, { from: base, previous });
    areNeeded = !next.contents.isLoaded;
    next.contents.load(() => fetchContents(remote, next, { requested, signal })).catch(() => {});
    return next;
  } finally {
    if (!areNeeded) stop.abort();
  }
}

function differences(commit: string, previous: string): FetchRequest {
  return { wants: [commit], haves: [previous], depth: 1 };
}

/** Adds what differs from commits that the store has; false if the server does not know these. */
async function addDifferences(
  store: ObjectStore,
  fetched: Promise<FetchResult>,
  signal?: AbortSignal,
): Promise<boolean> {
  const result = await fetched;
  if (result.kind === "refused") return false;
  try {
    await store.addPack(result.pack, signal);
    return true;
  } catch (error) {
    if (signal?.aborted || error instanceof UserError || error instanceof OutageError) throw error;
    return false;
  }
}

async function missingBranchError(remote: Remote, branch: string | undefined): Promise<UserError> {
  const branches = (await remote.refs(["refs/heads/"])).map(({ name }) => name.replace("refs/heads/", ""));
  if (branches.length === 0) {
    return new UserError(`The repository ${remote.name} is empty: push a first commit to it, then try again.`);
  }
  if (branch === undefined) return new UserError(`The default branch of ${remote.name} does not exist.`);
  const near = closestMatch(branch, branches);
  return new UserError(`Branch ${branch} not found in ${remote.name}${near ? `. Did you mean ${near}?` : "."}`);
}

export interface BaseRequest {
  /** The tenant and the address of the repository. */
  repository: string;
  commit: string;
  /** `previous` is the most recently used base of the same repository. */
  load(signal: AbortSignal, previous: Base | undefined): Promise<Base>;
  signal?: AbortSignal | undefined;
}

interface Loading {
  base: Promise<Base>;
  waiting: number;
  abort: AbortController;
}

/**
 * The bases of this process. Evicts the least recently used ones when the total exceeds `maxBytes`. A base that a
 * sandbox still uses can be found even after that, since it is in memory anyway.
 */
export function createBaseCache(maxBytes: number) {
  // The least recently used base comes first.
  const kept = new Map<string, { repository: string; base: Base }>();
  const alive = new Map<string, WeakRef<Base>>();
  const loading = new Map<string, Loading>();
  const registry = new FinalizationRegistry<string>((key) => {
    if (!alive.get(key)?.deref()) alive.delete(key);
  });

  function keep(key: string, repository: string, base: Base): Base {
    kept.delete(key);
    kept.set(key, { repository, base });
    for (const oldest of kept.keys()) {
      if (sizeOf(kept.values()) <= maxBytes) break;
      kept.delete(oldest);
    }
    return base;
  }

  function start(key: string, { repository, load }: BaseRequest): Loading {
    const abort = new AbortController();
    const previous = [...kept.values()].reverse().find((candidate) => candidate.repository === repository)?.base;
    const base = load(abort.signal, previous)
      .then((loaded) => {
        alive.set(key, new WeakRef(loaded));
        registry.register(loaded, key);
        return loaded;
      })
      .finally(() => {
        if (loading.get(key)?.abort === abort) loading.delete(key);
      });
    const started = { base, waiting: 0, abort };
    loading.set(key, started);
    return started;
  }

  return {
    /** Returns the bytes it keeps in memory. */
    bytes: () => sizeOf(kept.values()),
    /**
     * Returns a base, and loads it if it is not cached. Concurrent loads of the same base share one load, which is
     * aborted when all callers abort. The caller has checked that its own credentials can read the repository.
     */
    get: async (request: BaseRequest): Promise<Base> => {
      const { repository, commit, signal } = request;
      const key = JSON.stringify([repository, commit]);
      signal?.throwIfAborted();
      const known = kept.get(key)?.base ?? alive.get(key)?.deref();
      if (known) return keep(key, repository, known);

      const current = loading.get(key) ?? start(key, request);
      current.waiting++;
      try {
        return keep(key, repository, await unlessAborted(current.base, signal));
      } finally {
        current.waiting--;
        if (current.waiting === 0 && signal?.aborted) {
          if (loading.get(key) === current) loading.delete(key);
          current.abort.abort(signal.reason);
        }
      }
    },
  };
}

/** Returns the memory of bases, some of which may share a store. */
function sizeOf(kept: Iterable<{ base: Base }>): number {
  const stores = new Set<ObjectStore>();
  let bytes = 0;
  for (const { base } of kept) {
    bytes += base.bytes();
    stores.add(base.store);
  }
  for (const store of stores) bytes += store.bytes();
  return bytes;
}
