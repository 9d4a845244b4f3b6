import { ToolError } from "#domain/errors.ts";
import { findRenames } from "#sandbox/merge/find-renames.ts";
import { isWithin } from "#sandbox/paths.ts";
import type { CommittedFile, FileAt, ShownCommit, ShowOptions } from "#sandbox/sandbox.ts";
import type { Base } from "./base.ts";
import {
  compareTrees,
  contentOf,
  type EntryVersion,
  type TreeDifference,
  toFileVersion,
  treeOf,
} from "./compare-trees.ts";
import { hashObject } from "./git-objects.ts";
import {
  deepen,
  fetchContents,
  historyCacheOf,
  PathVersions,
  readCommit,
  releaseHistory,
  toLogEntry,
} from "./history.ts";
import type { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";

type ShownBase = Pick<Base, "commit" | "store">;

export interface CommitRequest extends Pick<ShowOptions, "path"> {
  commit: string;
  canSee(path: string): boolean;
}

/** A changed path of a commit. A renamed file has its earlier path. */
export interface ChangedPath extends TreeDifference {
  oldPath?: string;
}

/** The number of files of a commit whose contents are read. */
export const maxShownFiles = 300;
export const emptyTree = hashObject({ type: "tree", data: Buffer.alloc(0) });

/** Returns a commit with its changes against the first parent. Fetches its folders and the contents of the changed files. */
export async function showCommit(
  base: ShownBase,
  remote: Remote,
  { commit, path = "", canSee }: CommitRequest,
): Promise<ShownCommit> {
  const cache = historyCacheOf(base.store);
  const { store } = cache;
  if (!readCommit(store, commit)) await deepen(cache, remote, [commit], { depth: 1, path: undefined });
  if (!readCommit(store, commit)) throw unknownRevision(commit, remote);
  const entry = toLogEntry(store, commit);
  const [parent] = entry.parents;
  await fetchFolders(base, remote, parent === undefined ? [commit] : [commit, parent]);
  if (parent === undefined) store.add({ type: "tree", data: Buffer.alloc(0) });
  const before = parent === undefined ? emptyTree : treeOf(store, parent);
  const differences = await compareTrees(store, { before, after: treeOf(store, commit), name: "The commit" });
  const changed = differences.filter((file) => isWithin(file.path, path) && canSee(file.path));
  await fetchContents(store, remote, contentIds(changed.slice(0, maxShownFiles)));
  const files = await withRenames(store, changed);
  const shown = shownFiles(files, (version) => contentOf(store, version));
  releaseHistory(base.store);
  return { ...entry, ...shown };
}

/** Returns the contents of as many files as are shown, and the paths of the others. */
export function shownFiles(
  files: readonly ChangedPath[],
  contentOf: (version: EntryVersion) => Uint8Array,
): Pick<ShownCommit, "files" | "omitted"> {
  const version = (one: EntryVersion | undefined) => one && toFileVersion(contentOf(one), one.mode);
  const shown = files.slice(0, maxShownFiles).map(({ before, after, ...paths }): CommittedFile => {
    return { ...paths, before: version(before), after: version(after) };
  });
  return { files: shown, omitted: files.slice(maxShownFiles).map(({ path }) => path) };
}

/** Returns a file as it was in a commit. Throws a ToolError if it was no file there. */
export async function readFileAt(base: ShownBase, remote: Remote, commit: string, path: string): Promise<FileAt> {
  const { store } = historyCacheOf(base.store);
  await fetchFolders(base, remote, [commit]);
  const [, mode = "", oid = ""] =
    /^(\d+) (\w+)$/.exec(new PathVersions(store, path).in(treeOf(store, commit)) ?? "") ?? [];
  if (!isFileMode(mode)) throw notAFile(path, commit, mode);
  await fetchContents(store, remote, [oid]);
  const { content } = toFileVersion(contentOf(store, { mode, oid }), mode);
  releaseHistory(base.store);
  return { commit, content };
}

export function isFileMode(mode: string): boolean {
  return mode.startsWith("10") || mode === "120000";
}

export function notAFile(path: string, commit: string, mode: string): ToolError {
  const problem = mode === "" ? "does not exist" : "is not a file";
  return new ToolError(`${path || "The root folder"} ${problem} in the commit ${commit.slice(0, 10)}.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "git_log with the path lists the commits that changed it.",
  });
}

/** Fetches the folders of commits, apart from those that the base has, unless that was done before. */
async function fetchFolders({ commit, store }: ShownBase, remote: Remote, commits: readonly string[]): Promise<void> {
  const cache = historyCacheOf(store);
  if (commits.every((one) => cache.withFolders.has(one))) return;
  const result = await remote.fetch({ wants: commits, haves: [commit], depth: 1, without: "blobs" });
  if (result.kind === "refused") {
    throw new ToolError(`${remote.name} did not send the commit ${commits[0]?.slice(0, 10)}: ${result.reason}.`, {
      code: "FILE_NOT_FOUND",
    });
  }
  await cache.store.addPack(result.pack);
  for (const one of commits) cache.withFolders.add(one);
}

export function contentIds(files: readonly ChangedPath[]): string[] {
  const versions = files.flatMap(({ before, after }) => [before, after]).filter((version) => version !== undefined);
  return versions.flatMap(({ mode, oid }) => (isFileMode(mode) ? [oid] : []));
}

/** Joins the two paths of each renamed file, as `git show` does. */
async function withRenames(store: ObjectStore, files: readonly ChangedPath[]): Promise<ChangedPath[]> {
  const deleted = files.flatMap(({ path, before, after }) => (before && !after ? [{ path, ...before }] : []));
  const added = files.flatMap(({ path, before, after }) => (after && !before ? [{ path, ...after }] : []));
  const read = (oid: string) => store.read(oid)?.data;
  const renames = await findRenames({ deleted, added, relevant: { has: () => true }, read });
  const oldPaths = new Map([...renames].map(([from, to]) => [to, from]));
  const before = new Map(files.map((file) => [file.path, file.before]));
  return files.flatMap((file) => {
    if (renames.has(file.path) && !file.after) return [];
    const oldPath = oldPaths.get(file.path);
    return oldPath === undefined ? [file] : [{ ...file, oldPath, before: before.get(oldPath) }];
  });
}

/** Resolves a commit, branch or tag, with `~2` and `^` after it, as `git rev-parse` does. */
export async function resolveRevision(
  base: ShownBase,
  remote: Remote,
  revision: string,
  tipOf: (name: string) => Promise<string>,
): Promise<string> {
  const [, name = "", steps = ""] = /^(.*?)((?:[~^]\d*)*)$/s.exec(revision) ?? [];
  const cache = historyCacheOf(base.store);
  const parentsOf = async (oid: string, depth: number) => {
    if (!readCommit(cache.store, oid)?.parents.every((parent) => readCommit(cache.store, parent)))
      await deepen(cache, remote, [oid], { depth, path: undefined });
    return readCommit(cache.store, oid)?.parents ?? [];
  };
  let oid = await resolveName(base, remote, name, tipOf);
  for (const [, sign, digits = ""] of steps.matchAll(/([~^])(\d*)/g)) {
    const count = digits === "" ? 1 : Number(digits);
    for (let step = sign === "~" ? count : Math.min(count, 1); step > 0; step--) {
      const parents = await parentsOf(oid, Math.min(step + 1, maxSteps));
      const parent = parents[sign === "~" ? 0 : count - 1];
      if (parent === undefined) throw unknownRevision(revision, remote);
      oid = parent;
    }
  }
  return oid;
}

const maxSteps = 5_000;
/** The depths to which history is read to find the commit of an abbreviation. */
const searchDepths = [500, 5_000];

async function resolveName(
  base: ShownBase,
  remote: Remote,
  name: string,
  tipOf: (name: string) => Promise<string>,
): Promise<string> {
  if (["", "HEAD", "@"].includes(name)) return base.commit;
  if (/^[0-9a-f]{40}$/.test(name)) return name;
  const known = findAbbreviated(base.store, name);
  if (known !== undefined) return known;

  const refs = await remote.refs([`refs/heads/${name}`, `refs/tags/${name}`]);
  const oidOf = (ref: string) => refs.find((found) => found.name === ref)?.oid;
  const branch = oidOf(`refs/heads/${name}`);
  if (branch !== undefined) return branch;
  const cache = historyCacheOf(base.store);
  const tag = oidOf(`refs/tags/${name}`);
  if (tag !== undefined) {
    await deepen(cache, remote, [tag], { depth: 1, path: undefined });
    const object = cache.store.read(tag);
    return (object?.type === "tag" && /^object ([0-9a-f]{40})$/m.exec(object.data.toString("latin1"))?.[1]) || tag;
  }
  if (!/^[0-9a-f]{4,39}$/.test(name)) return tipOf(name);
  for (const depth of searchDepths) {
    const result = await deepen(cache, remote, [base.commit], { depth, path: undefined });
    const found = findAbbreviated(base.store, name);
    if (found !== undefined) return found;
    if (result === "complete") break;
  }
  throw unknownRevision(name, remote);
}

/** Returns the known commit whose id starts with some digits. Throws a ToolError if there are several. */
function findAbbreviated(baseStore: ObjectStore, start: string): string | undefined {
  if (!/^[0-9a-f]{4,39}$/.test(start)) return undefined;
  const { store } = historyCacheOf(baseStore);
  const oids = new Set([...store.oids(), ...baseStore.oids()]);
  const found = [...oids].filter((oid) => oid.startsWith(start) && readCommit(store, oid));
  if (found.length <= 1) return found[0];
  throw new ToolError(`${start} is the start of several commits: ${found.join(", ")}.`, { code: "INVALID_ARGUMENTS" });
}

function unknownRevision(revision: string, { name }: Remote): ToolError {
  return new ToolError(`${JSON.stringify(revision)} is no commit, branch or tag of ${name} that this run knows.`, {
    code: "FILE_NOT_FOUND",
    suggestion: "git_log lists commits, with `range` those of another branch.",
  });
}
