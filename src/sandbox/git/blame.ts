import { EventLoopYielder, runInTurns } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import { compareLines, splitWithEndings } from "#sandbox/diff-file.ts";
import { findRenames } from "#sandbox/merge/find-renames.ts";
import type { BlamedRange, BlameOptions } from "#sandbox/sandbox.ts";
import { compareTrees, treeOf } from "./compare-trees.ts";
import type { CommitLinks } from "./git-objects.ts";
import {
  CommitQueue,
  deepen,
  fetchContents,
  historyCacheOf,
  PathVersions,
  pathDepths,
  readCommit,
  releaseHistory,
  toLogEntry,
} from "./history.ts";
import type { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";

interface BlameRequest extends BlameOptions {
  /** The base commit. */
  from: string;
  /** The current file, with the run's changes. */
  content: Uint8Array;
}

/** Larger files, and versions beyond these limits, are not compared. Their lines may be older than the reported commit. */
const maxFileBytes = 1024 ** 2;
const maxVersions = 500;
/** The number of renames that are followed, and of deleted files whose contents are compared to find one. */
const maxRenames = 10;
const maxRenameSources = 500;

/** A requested line: its index in the current file, and in the version being searched. */
interface TracedLine {
  asked: number;
  at: number;
}

type BlamedLine = Pick<BlamedRange, "commit" | "mayBeOlder">;

/** A commit that added a file, which may have had another path in the parent. */
interface PossibleRename {
  commit: string;
  parent: string;
  path: string;
}

interface Search {
  store: ObjectStore;
  /** The versions of the file, by the path it had. */
  files: Map<string, PathVersions>;
  /** The earlier path by commit and path; `""` for a file that was not renamed there. */
  renames: ReadonlyMap<string, string>;
  unknownRenames: Map<string, PossibleRename>;
  blamed: Map<number, BlamedLine>;
  compared: number;
  yielder: EventLoopYielder;
}

/**
 * Blames lines as `git blame` does: each line is passed on to a parent that contains it, under its earlier path if the
 * file was renamed, and belongs to the commit where none does. Fetches history and versions of the file in steps, only
 * as far as needed.
 */
export async function readBlame(
  baseStore: ObjectStore,
  connectRemote: () => Remote,
  request: BlameRequest,
): Promise<BlamedRange[]> {
  const { from, path } = request;
  const cache = historyCacheOf(baseStore);
  const { store } = cache;
  const tip = readCommit(store, from);
  if (!tip || !new PathVersions(store, path).in(tip.tree)) {
    throw new ToolError(`${path} is not in the base commit: this run created it.`, { code: "FILE_NOT_FOUND" });
  }
  const renames = new Map<string, string>();
  let { ranges, unknownRenames } = await searchHistory(store, request, renames);
  for (const depth of pathDepths) {
    if (ranges.every(({ mayBeOlder }) => !mayBeOlder)) break;
    let result: Awaited<ReturnType<typeof deepen>> = "deepened";
    for (const known of new Set([path, ...renames.values()])) {
      if (known === "") continue;
      result = await deepen(cache, connectRemote(), [from], { depth, path: known });
      await fetchVersions(store, connectRemote(), { from, path: known });
    }
    ({ ranges, unknownRenames } = await searchHistory(store, request, renames));
    while (unknownRenames.size > 0 && renames.size < maxRenames) {
      for (const [key, rename] of unknownRenames) {
        const source = (await findSource(store, connectRemote(), rename)) ?? "";
        renames.set(key, source);
        if (source === "") continue;
        await deepen(cache, connectRemote(), [from], { depth, path: source });
        await fetchVersions(store, connectRemote(), { from, path: source });
      }
      ({ ranges, unknownRenames } = await searchHistory(store, request, renames));
    }
    if (result === "complete") break;
  }
  releaseHistory(baseStore);
  return ranges;
}

/** Returns the path that a file had before a commit renamed it; undefined if the commit created the file. */
async function findSource(
  store: ObjectStore,
  remote: Remote,
  { commit, parent, path }: PossibleRename,
): Promise<string | undefined> {
  const trees = await remote.fetch({ wants: [commit, parent], depth: 1, without: "blobs" });
  if (trees.kind === "refused") return undefined;
  await store.addPack(trees.pack);
  const compared = { before: treeOf(store, parent), after: treeOf(store, commit), name: "The history" };
  const differences = await compareTrees(store, compared);
  const added = differences.flatMap(({ path, before, after }) => (!before && after ? [{ path, ...after }] : []));
  const own = added.find((file) => file.path === path);
  if (!own) return undefined;

  const others = new Set(added.filter((file) => file !== own).map(({ oid }) => oid));
  const deleted = differences.flatMap(({ path, before, after }) =>
    before?.mode.startsWith("100") && !after ? [{ path, ...before }] : [],
  );
  // A file with the content of another added one was renamed to that one.
  const sources = deleted.filter(({ oid }) => oid === own.oid || !others.has(oid));
  const isSame = sources.some(({ oid }) => oid === own.oid);
  if (!isSame && sources.length <= maxRenameSources) {
    await fetchContents(
      store,
      remote,
      [own, ...sources].map(({ oid }) => oid),
    );
  }
  const read = (oid: string) => store.read(oid)?.data;
  const renames = await findRenames({ deleted: sources, added: [own], relevant: { has: () => true }, read });
  return renames.keys().next().value;
}

/** Fetches the contents that the file had in the known commits, newest first. */
async function fetchVersions(
  store: ObjectStore,
  remote: Remote,
  { from, path }: Pick<BlameRequest, "from" | "path">,
): Promise<void> {
  const yielder = new EventLoopYielder();
  const files = new Map<string, PathVersions>();
  const versions = new Set<string>();
  const queue = new CommitQueue();
  queue.add({ oid: from, commit: readCommit(store, from) });
  for (let next = queue.take(); next?.commit && versions.size < maxVersions; next = queue.take()) {
    const oid = versionIn({ store, files }, path, next.commit);
    if (oid) versions.add(oid);
    for (const parent of next.commit.parents) queue.add({ oid: parent, commit: readCommit(store, parent) });
    if (yielder.isDue) await yielder.turn();
  }
  await fetchContents(store, remote, versions);
}

/** Blames the lines using the known commits, contents and renames. */
async function searchHistory(
  store: ObjectStore,
  { from, path, content, start, end }: BlameRequest,
  renames: ReadonlyMap<string, string>,
): Promise<{ ranges: BlamedRange[]; unknownRenames: Map<string, PossibleRename> }> {
  const search: Search = {
    store,
    files: new Map(),
    renames,
    unknownRenames: new Map(),
    blamed: new Map(),
    compared: 0,
    yielder: new EventLoopYielder(),
  };
  const now = await linesOf(content, search.yielder);
  const asked = now.slice(start - 1, end).map((_, index) => ({ asked: start - 1 + index, at: start - 1 + index }));
  const base = readCommit(store, from);
  const before = base && (await readVersion(search, path, base));
  const committed = before === undefined ? [] : (await passLines(asked, now, before, search.yielder)).passed;

  const suspects = new Map([[from, new Map([[path, committed]])]]);
  const queue = new CommitQueue();
  queue.add({ oid: from, commit: base });
  for (let next = queue.take(); next?.commit; next = queue.take()) {
    const files = suspects.get(next.oid);
    suspects.delete(next.oid);
    for (const [file, lines] of files ?? []) {
      for (const { parent, path, passed } of await passToParents(search, next.oid, next.commit, file, lines)) {
        const waiting = suspects.getOrInsertComputed(parent, () => new Map<string, TracedLine[]>());
        waiting.set(path, [...(waiting.get(path) ?? []), ...passed]);
        // A parent whose date is wrong may have been searched before.
        queue.addAgain({ oid: parent, commit: readCommit(store, parent) });
      }
    }
    if (search.yielder.isDue) await search.yielder.turn();
  }
  return { ranges: toRanges(asked, search.blamed), unknownRenames: search.unknownRenames };
}

/** Lines that a parent contains, and the path of the file there. */
interface PassedLines {
  parent: string;
  path: string;
  passed: TracedLine[];
}

/** Returns the lines that each parent contains. Records the others as changed by this commit. */
async function passToParents(
  search: Search,
  oid: string,
  commit: CommitLinks,
  path: string,
  lines: readonly TracedLine[],
): Promise<PassedLines[]> {
  const own = versionIn(search, path, commit);
  const { parents, isUnknown } = parentVersions(search, oid, commit, path);
  const same = parents.find(({ version }) => version && version === own);
  if (same) return [{ parent: same.oid, path: same.path, passed: [...lines] }];

  const found: PassedLines[] = [];
  const text = await readVersion(search, path, commit);
  let [rest, mayBeOlder] = [[...lines], isUnknown];
  for (const parent of parents) {
    if (rest.length === 0) break;
    if (parent.version === "") continue;
    const before =
      parent.commit && search.compared < maxVersions
        ? await readVersion(search, parent.path, parent.commit)
        : undefined;
    if (text === undefined || before === undefined) {
      mayBeOlder = true;
      continue;
    }
    search.compared += 1;
    const result = await passLines(rest, text, before, search.yielder);
    if (result.passed.length > 0) found.push({ parent: parent.oid, path: parent.path, passed: result.passed });
    rest = result.kept;
  }
  for (const { asked } of rest) search.blamed.set(asked, { commit: toLogEntry(search.store, oid), mayBeOlder });
  return found;
}

/** Returns the version of the file in each parent. If none has the file, it may have another path in the first one. */
function parentVersions(search: Search, oid: string, { parents }: CommitLinks, path: string) {
  const versionAt = (parent: string, file: string) => {
    const commit = readCommit(search.store, parent);
    return { oid: parent, commit, path: file, version: commit && versionIn(search, file, commit) };
  };
  const versions = parents.map((parent) => versionAt(parent, path));
  const [first] = parents;
  if (first === undefined || versions.some(({ version }) => version !== "")) {
    return { parents: versions, isUnknown: false };
  }
  const key = `${oid} ${path}`;
  const source = search.renames.get(key);
  if (source === undefined) search.unknownRenames.set(key, { commit: oid, parent: first, path });
  return { parents: source ? [versionAt(first, source)] : [], isUnknown: source === undefined };
}

/** Separates the lines that an older version contains from the others. */
async function passLines(
  lines: readonly TracedLine[],
  now: readonly string[],
  before: readonly string[],
  loop: EventLoopYielder,
): Promise<{ passed: TracedLine[]; kept: TracedLine[] }> {
  const positions = new Map<number, number>();
  let [oldAt, newAt] = [0, 0];
  for (const { common, deleted, added } of await runInTurns(compareLines(before, now), loop)) {
    for (let index = 0; index < common; index++) positions.set(newAt + index, oldAt + index);
    oldAt += common + deleted;
    newAt += common + added;
  }
  const [passed, kept]: [TracedLine[], TracedLine[]] = [[], []];
  for (const line of lines) {
    const at = positions.get(line.at);
    if (at === undefined) kept.push(line);
    else passed.push({ asked: line.asked, at });
  }
  return { passed, kept };
}

/** Returns the object id of a file in a commit; `""` if it does not exist there, undefined if a tree is missing. */
function versionIn({ store, files }: Pick<Search, "store" | "files">, path: string, { tree }: CommitLinks) {
  const file = files.getOrInsertComputed(path, () => new PathVersions(store, path));
  return file.in(tree)?.replace(/^\d+ /, "");
}

async function readVersion(search: Search, path: string, commit: CommitLinks): Promise<string[] | undefined> {
  const oid = versionIn(search, path, commit);
  const object = oid ? search.store.read(oid) : undefined;
  return object?.type === "blob" && object.data.length <= maxFileBytes
    ? linesOf(object.data, search.yielder)
    : undefined;
}

/** Splits content into lines. Content that is not UTF-8 is compared byte by byte. */
function linesOf(content: Uint8Array, loop: EventLoopYielder): Promise<string[]> {
  return runInTurns(splitWithEndings(Buffer.from(content).toString("latin1")), loop);
}

function toRanges(asked: readonly TracedLine[], blamed: ReadonlyMap<number, BlamedLine>): BlamedRange[] {
  const ranges: BlamedRange[] = [];
  for (const line of asked) {
    const { commit, mayBeOlder } = blamed.get(line.asked) ?? { commit: undefined, mayBeOlder: false };
    const number = line.asked + 1;
    const last = ranges.at(-1);
    if (last && last.commit?.commit === commit?.commit && last.mayBeOlder === mayBeOlder) last.end = number;
    else ranges.push({ start: number, end: number, commit, mayBeOlder });
  }
  return ranges;
}
