import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type Base, createBase } from "./base.ts";
import { createBaseCache } from "./base-cache.ts";
import { createObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";
import type { BaseCommit, OpenSandbox, SandboxSource } from "./sandbox.ts";

const cacheBytes = 512 * 1024 ** 2;
const cache = createBaseCache(cacheBytes);
const depths = [50, 500, 5_000];

export interface OpenedBase {
  base: Base;
  at: BaseCommit;
  /** The branch that HEAD of the repository points at. */
  defaultBranch: string | undefined;
}

/**
 * The base that was asked for, from the cache when it is there. The remote is asked with the run's own credentials
 * first, every time, so that a warm cache opens nothing to someone who may not read it.
 */
export async function openBase(
  remote: Remote,
  source: SandboxSource,
  asked: OpenSandbox["at"],
  signal: AbortSignal | undefined,
): Promise<OpenedBase> {
  const ref = `refs/heads/${asked.branch}`;
  const refs = await remote.refs([ref, "HEAD"]);
  const tip = refs.find(({ name }) => name === ref)?.oid;
  const commit = "commit" in asked ? asked.commit : tip;
  if (!commit) throw await explainMissing(remote, asked.branch);

  const key = JSON.stringify([source.tenant, source.url, commit]);
  const base = await cache.get(key, (stop) => loadBase(remote, { commit, branch: asked.branch }, tip, stop), signal);
  const head = refs.find(({ name }) => name === "HEAD")?.target;
  return { base, at: { commit, branch: asked.branch }, defaultBranch: head?.replace(/^refs\/heads\//, "") };
}

async function loadBase(remote: Remote, at: BaseCommit, tip: string | undefined, signal: AbortSignal): Promise<Base> {
  const store = createObjectStore();
  const direct = await remote.fetch({ wants: [at.commit], depth: 1 }, signal);
  if (direct.kind === "pack") {
    await store.addPack(direct.pack, signal);
    return createBase(store, at.commit);
  }
  // A server that only hands out the tips of branches may still have the commit below one.
  for (const depth of tip ? depths : []) {
    const deeper = await remote.fetch({ wants: [tip as string], depth }, signal);
    if (deeper.kind === "refused") break;

    const attempt = createObjectStore();
    await attempt.addPack(deeper.pack, signal);
    if (attempt.has(at.commit)) return createBase(attempt, at.commit);
    if (deeper.shallow.length === 0) break;
  }
  throw new UserError(
    `The commit ${at.commit.slice(0, 10)} that this run stands on is gone from ${remote.name}: the branch ${at.branch} was rewritten. Start a new run.`,
  );
}

async function explainMissing(remote: Remote, branch: string): Promise<UserError> {
  const branches = (await remote.refs(["refs/heads/"])).map(({ name }) => name.replace("refs/heads/", ""));
  if (branches.length === 0) {
    return new UserError(`The repository ${remote.name} is empty: push a first commit to it, then try again.`);
  }
  const near = closestMatch(branch, branches);
  return new UserError(`There is no branch ${branch} in ${remote.name}${near ? `, did you mean ${near}` : ""}.`);
}
