import { ToolError } from "#domain/errors.ts";
import { compareLines, splitWithEndings } from "./diff-file.ts";
import { EventLoopYielder, runInTurns } from "./event-loop.ts";
import type { CommitLinks } from "./git-objects.ts";
import {
  CommitQueue,
  deepen,
  historyCacheOf,
  PathVersions,
  pathDepths,
  readCommit,
  releaseHistory,
  toLogEntry,
} from "./history.ts";
import type { ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";
import type { BlamedRange, BlameOptions } from "./sandbox.ts";

interface BlameRequest extends BlameOptions {
  /** The base commit. */
  from: string;
  /** The current file, with the run's changes. */
  content: Uint8Array;
}

/** Larger files, and versions beyond these limits, are not compared. Their lines may be older than the reported commit. */
const maxFileBytes = 1024 ** 2;
const maxVersions = 500;

/** A requested line: its index in the current file, and in the version being searched. */
interface TracedLine {
  asked: number;
  at: number;
}

type BlamedLine = Pick<BlamedRange, "commit" | "mayBeOlder">;

interface Search {
  store: ObjectStore;
  /** The versions of the file. */
  file: PathVersions;
  blamed: Map<number, BlamedLine>;
  compared: number;
  yielder: EventLoopYielder;
}

/**
 * Blames lines as `git blame` does, without following renames: each line is passed on to a parent that contains it, and
 * belongs to the commit where none does. Fetches history and versions of the file in steps, only as far as needed.
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
  let ranges = await searchHistory(store, request);
  for (const depth of pathDepths) {
    if (ranges.every(({ mayBeOlder }) => !mayBeOlder)) break;
    const result = await deepen(cache, connectRemote(), [from], { depth, path });
    await fetchVersions(store, connectRemote(), request);
    ranges = await searchHistory(store, request);
    if (result === "complete") break;
  }
  releaseHistory(baseStore);
  return ranges;
}

/** Fetches the contents that the file had in the known commits, newest first. */
async function fetchVersions(store: ObjectStore, remote: Remote, { from, path }: BlameRequest): Promise<void> {
  const yielder = new EventLoopYielder();
  const file = new PathVersions(store, path);
  const versions = new Set<string>();
  const queue = new CommitQueue();
  queue.add({ oid: from, commit: readCommit(store, from) });
  for (let next = queue.take(); next?.commit && versions.size < maxVersions; next = queue.take()) {
    const oid = versionIn(file, next.commit);
    if (oid) versions.add(oid);
    for (const parent of next.commit.parents) queue.add({ oid: parent, commit: readCommit(store, parent) });
    if (yielder.isDue) await yielder.turn();
  }
  const missing = [...versions].filter((oid) => !store.has(oid));
  if (missing.length === 0) return;
  const result = await remote.fetch({ wants: missing, depth: 1 });
  if (result.kind === "pack") await store.addPack(result.pack);
}

/** Blames the lines using the known commits and contents. */
async function searchHistory(
  store: ObjectStore,
  { from, path, content, start, end }: BlameRequest,
): Promise<BlamedRange[]> {
  const search: Search = {
    store,
    file: new PathVersions(store, path),
    blamed: new Map(),
    compared: 0,
    yielder: new EventLoopYielder(),
  };
  const now = await linesOf(content, search.yielder);
  const asked = now.slice(start - 1, end).map((_, index) => ({ asked: start - 1 + index, at: start - 1 + index }));
  const base = readCommit(store, from);
  const before = base && (await readVersion(search, base));
  const committed = before === undefined ? [] : (await passLines(asked, now, before, search.yielder)).passed;

  const suspects = new Map<string, TracedLine[]>([[from, committed]]);
  const queue = new CommitQueue();
  queue.add({ oid: from, commit: base });
  for (let next = queue.take(); next?.commit; next = queue.take()) {
    const lines = suspects.get(next.oid) ?? [];
    suspects.delete(next.oid);
    for (const [parent, passed] of await passToParents(search, next.oid, next.commit, lines)) {
      suspects.set(parent, [...(suspects.get(parent) ?? []), ...passed]);
      queue.add({ oid: parent, commit: readCommit(store, parent) });
    }
    if (search.yielder.isDue) await search.yielder.turn();
  }
  return toRanges(asked, search.blamed);
}

/** Returns the lines that each parent contains. Records the others as changed by this commit. */
async function passToParents(
  search: Search,
  oid: string,
  commit: CommitLinks,
  lines: readonly TracedLine[],
): Promise<Map<string, TracedLine[]>> {
  const own = versionIn(search.file, commit);
  const parents = commit.parents.map((parent) => {
    const known = readCommit(search.store, parent);
    return { oid: parent, commit: known, version: known && versionIn(search.file, known) };
  });
  const same = parents.find(({ version }) => version && version === own);
  if (same) return new Map([[same.oid, [...lines]]]);

  const passed = new Map<string, TracedLine[]>();
  const text = await readVersion(search, commit);
  let [rest, mayBeOlder] = [[...lines], false];
  for (const parent of parents) {
    if (rest.length === 0) break;
    if (parent.version === "") continue;
    const before =
      parent.commit && search.compared < maxVersions ? await readVersion(search, parent.commit) : undefined;
    if (text === undefined || before === undefined) {
      mayBeOlder = true;
      continue;
    }
    search.compared += 1;
    const result = await passLines(rest, text, before, search.yielder);
    if (result.passed.length > 0) passed.set(parent.oid, result.passed);
    rest = result.kept;
  }
  for (const { asked } of rest) search.blamed.set(asked, { commit: toLogEntry(search.store, oid), mayBeOlder });
  return passed;
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

/** Returns the object id of the file in a commit; `""` if it does not exist there, undefined if a tree is missing. */
function versionIn(file: PathVersions, { tree }: CommitLinks): string | undefined {
  return file.in(tree)?.replace(/^\d+ /, "");
}

async function readVersion(search: Search, commit: CommitLinks): Promise<string[] | undefined> {
  const oid = versionIn(search.file, commit);
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
