import { OutageError, UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type Base, hasContents, readBase } from "./base.ts";
import { createBaseCache } from "./base-cache.ts";
import { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";
import type { BaseCommit, OpenSandbox, SandboxSource } from "./sandbox.ts";

const cacheBytes = 512 * 1024 ** 2;
const cache = createBaseCache(cacheBytes);
const depths = [50, 500, 5_000];
/** A store that holds this many times the contents of a base is not used for the next base. */
const maxStoreGrowth = 2;
const minStoreBytes = 64 * 1024 ** 2;

export interface OpenedBase {
  base: Base;
  at: BaseCommit;
  /** The branch that HEAD of the repository points to. */
  defaultBranch: string | undefined;
}

/**
 * Opens the requested base, from the cache if possible. Its tree is complete; its contents may be missing, see
 * `fetchContents`. Always asks the remote first with the run's own credentials, so that a cached base is not available
 * to someone who cannot read the repository.
 */
export async function openBase(
  remote: Remote,
  source: SandboxSource,
  asked: OpenSandbox["at"],
  signal: AbortSignal | undefined,
): Promise<OpenedBase> {
  const refs = await remote.refs(asked.branch === undefined ? ["HEAD"] : [`refs/heads/${asked.branch}`, "HEAD"]);
  const head = refs.find(({ name }) => name === "HEAD");
  const defaultBranch = head?.target?.replace(/^refs\/heads\//, "");
  const branch = asked.branch ?? defaultBranch;
  const tip = asked.branch === undefined ? head?.oid : refs.find(({ name }) => name === `refs/heads/${branch}`)?.oid;
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

/** Fetches the contents of a base whose tree was fetched without them. */
export async function fetchContents(remote: Remote, { commit, store, entries }: Base): Promise<void> {
  const result = await remote.fetch({ wants: [commit], depth: 1 });
  if (result.kind === "refused") {
    throw new UserError(`${remote.name} did not send the files of ${commit.slice(0, 10)}: ${result.reason}.`);
  }
  await store.addPack(result.pack);
  if (!hasContents(store, entries)) throw new Error(`The git server of ${remote.name} did not send all files.`);
}

interface LoadOptions {
  at: BaseCommit;
  tip: string | undefined;
  previous: Base | undefined;
  signal: AbortSignal;
}

async function loadBase(remote: Remote, { at, tip, previous, signal }: LoadOptions): Promise<Base> {
  const advanced = previous && canAdvance(previous) ? await advance(remote, previous, at, signal) : undefined;
  if (advanced) return advanced;

  const store = new ObjectStore();
  const direct = await remote.fetch({ wants: [at.commit], depth: 1, without: "blobs" }, signal);
  if (direct.kind === "pack") {
    await store.addPack(direct.pack, signal);
    return readBase(store, at.commit);
  }
  // A server that sends only the tips of branches may still have the commit in the history of one.
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

/** True when another base may add its objects to the store of this one. */
function canAdvance({ contents, entries, store }: Base): boolean {
  if (!contents.isLoaded) return false;
  const needed = [...entries.values()].reduce((sum, { size }) => sum + size, 0);
  return store.bytes() < Math.max(minStoreBytes, maxStoreGrowth * needed);
}

/** Fetches only what differs from a previous base of the repository; undefined when that is not possible. */
async function advance(
  remote: Remote,
  { store, commit }: Base,
  at: BaseCommit,
  signal: AbortSignal,
): Promise<Base | undefined> {
  const result = await remote.fetch({ wants: [at.commit], haves: [commit], depth: 1 }, signal);
  if (result.kind === "refused") return undefined;
  try {
    await store.addPack(result.pack, signal);
    return await readBase(store, at.commit);
  } catch (error) {
    // The server did not know what the previous base has, so it is asked for everything.
    if (signal.aborted || error instanceof UserError || error instanceof OutageError) throw error;
    return undefined;
  }
}

async function missingBranchError(remote: Remote, branch: string | undefined): Promise<UserError> {
  const branches = (await remote.refs(["refs/heads/"])).map(({ name }) => name.replace("refs/heads/", ""));
  if (branches.length === 0) {
    return new UserError(`The repository ${remote.name} is empty: push a first commit to it, then try again.`);
  }
  if (branch === undefined) return new UserError(`The default branch of ${remote.name} does not exist.`);
  const near = closestMatch(branch, branches);
  return new UserError(`There is no branch ${branch} in ${remote.name}${near ? `, did you mean ${near}` : ""}.`);
}
