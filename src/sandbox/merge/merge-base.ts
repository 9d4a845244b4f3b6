import { EventLoopYielder } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import type { Base } from "#sandbox/git/base.ts";
import { hasTree } from "#sandbox/git/compare-trees.ts";
import { type CommitLinks, parseCommitLinks } from "#sandbox/git/git-objects.ts";
import { readCommit } from "#sandbox/git/history.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import type { Remote } from "#sandbox/git/remote.ts";

/** Fetches a commit with its files into the base's store. */
export async function fetchCommit(base: Base, remote: Remote, commit: string): Promise<void> {
  if (await hasFiles(base.store, commit)) return;
  const result = await remote.fetch({ wants: [commit], haves: [base.commit], depth: 1 });
  if (result.kind === "refused")
    throw new UserError(`${remote.name} did not send the commit ${commit.slice(0, 10)}: ${result.reason}.`);
  await base.store.addPack(result.pack);
}

async function hasFiles(store: ObjectStore, commit: string): Promise<boolean> {
  const object = store.read(commit);
  return object?.type === "commit" && hasTree(store, parseCommitLinks(object.data).tree);
}

export interface MergeHistory {
  /** Takes commits and trees that only exist during the merge. */
  store: ObjectStore;
  /** Returns the best common ancestors of two commits, oldest first. */
  basesOf(ours: string, theirs: string): Promise<string[]>;
  /** Makes sure that the store has the files of a commit. */
  fetchFiles(commit: string): Promise<void>;
}

const depths = [100, 1_000, 10_000];

/** Fetches the history of commits as deep as a merge needs it. */
export function createMergeHistory(base: Base, remote: Remote, starts: readonly string[]): MergeHistory {
  const store = new ObjectStore({ below: base.store });
  const untried = [...depths];
  const deepen = async () => {
    const depth = untried.shift();
    if (depth === undefined) return false;
    const result = await remote.fetch({ wants: [...new Set(starts)], depth, without: "trees" });
    if (result.kind === "refused") return false;

    await base.store.addPack(result.pack);
    if (result.shallow.length === 0) untried.length = 0;
    return true;
  };
  return {
    store,
    basesOf: async (ours, theirs) => {
      for (;;) {
        const { bases, isCertain } = await findMergeBases(store, ours, theirs);
        if (isCertain || !(await deepen())) return bases;
      }
    },
    fetchFiles: (commit) => fetchCommit(base, remote, commit),
  };
}

/** Adds a commit that only exists during a merge, newer than all others. */
export function addCommitOver(store: ObjectStore, parents: readonly string[], tree: string): string {
  const person = "Golem Forge <> 9999999999 +0000";
  const lines = parents.map((parent) => `parent ${parent}\n`).join("");
  const text = `tree ${tree}\n${lines}author ${person}\ncommitter ${person}\n\n`;
  return store.add({ type: "commit", data: Buffer.from(text) });
}

/**
 * Finds the best common ancestors of two commits as `git merge-base --all`, oldest first. Not certain if the store lacks
 * parents of a commit that is not older than all of them: that way may lead to a better one. Written by hand because
 * isomorphic-git's `findMergeBase` does not tell, and takes 5 s for 18,000 commits.
 */
export async function findMergeBases(
  store: ObjectStore,
  ours: string,
  theirs: string,
): Promise<{ bases: string[]; isCertain: boolean }> {
  const [own, other] = [await ancestorsOf(store, ours), await ancestorsOf(store, theirs)];
  const shared = [...own.commits].filter(([oid]) => other.commits.has(oid));
  const ancestors = new Set(shared.flatMap(([, { parents }]) => parents));
  const best = new Map(
    shared
      .filter(([oid]) => !ancestors.has(oid))
      .sort(([, a], [, b]) => a.committed.getTime() - b.committed.getTime())
      .map(([oid, { committed }]) => [oid, committed]),
  );
  const [oldest] = best.values();
  const isCertain =
    oldest !== undefined &&
    [...own.incomplete, ...other.incomplete].every(([oid, { committed }]) => best.has(oid) || committed < oldest);
  return { bases: [...best.keys()], isCertain };
}

interface Ancestors {
  commits: Map<string, CommitLinks>;
  /** The commits of which the store lacks a parent. */
  incomplete: Map<string, CommitLinks>;
}

async function ancestorsOf(store: ObjectStore, start: string): Promise<Ancestors> {
  const yielder = new EventLoopYielder();
  const found: Ancestors = { commits: new Map(), incomplete: new Map() };
  const first = readCommit(store, start);
  if (first) found.commits.set(start, first);
  for (const [oid, commit] of found.commits) {
    for (const parent of commit.parents) {
      const links = found.commits.get(parent) ?? readCommit(store, parent);
      if (links) found.commits.set(parent, links);
      else found.incomplete.set(oid, commit);
    }
    if (yielder.isDue) await yielder.turn();
  }
  return found;
}
