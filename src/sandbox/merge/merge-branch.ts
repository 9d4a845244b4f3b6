import { isUtf8 } from "node:buffer";
import { EventLoopYielder, runInTurns } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import type { FileMode } from "#domain/preview.ts";
import type { Base } from "#sandbox/git/base.ts";
import {
  compareTrees,
  contentOf,
  type EntryVersion,
  isSameEntry,
  type TreeDifference,
  treeOf,
} from "#sandbox/git/compare-trees.ts";
import { PathVersions } from "#sandbox/git/history.ts";
import type { ObjectStore } from "#sandbox/git/object-store.ts";
import { buildTree } from "#sandbox/git/push-changes.ts";
import { readBase } from "#sandbox/git/read-base.ts";
import type { Remote } from "#sandbox/git/remote.ts";
import { type Layer, modeOfEntry } from "#sandbox/layer.ts";
import { createOverlay } from "#sandbox/overlay.ts";
import { folderOf, foldersAbove } from "#sandbox/paths.ts";
import type { MergeConflict, MergeOptions } from "#sandbox/sandbox.ts";
import { findRenamedFolders, findRenames } from "./find-renames.ts";
import { addCommitOver, createMergeHistory, type MergeHistory } from "./merge-base.ts";
import { type MergeLabels, mergeFile } from "./merge-file.ts";

/** The effect of a merge on one path: the new content, or undefined to delete it. */
interface MergeEdit {
  path: string;
  /** The bytes of a file, the target of a link, or the commit of a submodule. */
  content: Buffer | undefined;
  mode: FileMode;
}

export interface MergePlan {
  /** The common commits from which the changes are counted: several if the branches were merged into each other. */
  mergeBases: readonly string[];
  edits: MergeEdit[];
  conflicts: Conflict[];
}

interface Conflict extends MergeConflict {
  executable: boolean;
  /** The path in the merge base. */
  before?: EntryVersion | undefined;
  /** The version to keep: theirs of a file that this run deleted, or ours of one that they renamed. */
  kept?: MergeEdit | undefined;
}

/** Returns what a merge writes: the merged files, the conflicting ones with markers, and those of which one version is kept. */
export function mergeWrites({ edits, conflicts }: Pick<MergePlan, "edits" | "conflicts">): MergeEdit[] {
  const unresolved = conflicts.flatMap(({ path, content, executable, kept }): MergeEdit[] => {
    if (content === undefined) return kept ? [kept] : [];
    return [{ path, content: Buffer.from(content), mode: modeOfEntry({ type: "file", executable }) }];
  });
  return [...edits, ...unresolved];
}

/** The name of the working files in conflict markers. */
const ownLabel = "this run";
const ownMarker = new RegExp(`^<{7} ${ownLabel}\r?$`, "m");

/** True for a file in which a merge into the working files has left a conflict. */
export function hasConflict(content: Uint8Array): boolean {
  return ownMarker.test(Buffer.from(content).toString("latin1"));
}

/** Computes the result of merging a branch into the working files, without applying it. */
export async function planMerge(
  base: Base,
  layer: Layer,
  remote: Remote,
  {
    name,
    commit,
    heads = [base.commit],
    since,
  }: Pick<MergeOptions, "heads" | "since"> & { name: string; commit: string },
): Promise<MergePlan> {
  const history = createMergeHistory(base, remote, [...heads, commit]);
  const ours = addCommitOver(history.store, heads, base.tree);
  const mergeBases = since === undefined ? await history.basesOf(ours, commit) : [since];
  if (mergeBases.length === 0) {
    throw new UserError(
      `The branch ${name} has no common history with the base commit of this run, so it cannot be merged.`,
    );
  }
  await history.fetchFiles(commit);
  const mergeBase = await combineBases(history, mergeBases);
  const labels = { ours: ownLabel, theirs: name };
  const plan = await mergeInto({ ...base, store: history.store }, layer, { labels, commit, mergeBase });
  return { ...plan, mergeBases };
}

/** Merges all merge bases into one commit, oldest first, as git does. Their conflicts stay in the files. */
export async function combineBases(history: MergeHistory, bases: readonly string[], level = 1): Promise<string> {
  for (const commit of bases) await history.fetchFiles(commit);
  const { store } = history;
  const [first, ...rest] = bases;
  let combined = first ?? addCommitOver(store, [], store.add({ type: "tree", data: Buffer.alloc(0) }));
  for (const next of rest) {
    const mergeBase = await combineBases(history, await history.basesOf(combined, next), level + 1);
    const tree = await mergeBaseTrees(store, { ours: combined, theirs: next, mergeBase, level });
    combined = addCommitOver(store, [combined, next], tree);
  }
  return combined;
}

/** Merges two merge bases into a tree. What cannot be merged line by line is as in their own merge base. */
async function mergeBaseTrees(
  store: ObjectStore,
  { ours, theirs, mergeBase, level }: Record<"ours" | "theirs" | "mergeBase", string> & { level: number },
): Promise<string> {
  const base = await readBase(store, ours);
  const { repository } = createOverlay(base, () => false).layers;
  const labels = { ours: "Temporary merge branch 1", theirs: "Temporary merge branch 2", level };
  const { edits, conflicts } = await mergeInto(base, repository, { labels, commit: theirs, mergeBase });
  const resolved = conflicts.flatMap(({ path, content, executable, before }): MergeEdit[] => {
    if (content === undefined) return before ? [{ path, content: contentOf(store, before), mode: modeOf(before) }] : [];
    return [{ path, content: Buffer.from(content), mode: modeOfEntry({ type: "file", executable }) }];
  });
  const all = [...edits, ...resolved];
  for (const { path, content } of all) if (!content) repository.remove(path);
  for (const { path, content, mode } of all) if (content) repository.write(path, content, { mode });
  const paths = all.map(({ path }) => path);
  const built = await buildTree(base, repository, paths);
  for (const oid of built.added) {
    const object = built.store.read(oid);
    if (object) store.add(object);
  }
  return built.tree;
}

/** Computes the result of merging a commit into the working files. All commits must have been fetched with their files. */
export async function mergeInto(
  base: Base,
  layer: Layer,
  { labels, commit, mergeBase }: { labels: MergeLabels; commit: string; mergeBase: string },
): Promise<MergePlan> {
  const { store } = base;
  const plan: MergePlan = { mergeBases: [mergeBase], edits: [], conflicts: [] };
  const trees = { before: treeOf(store, mergeBase), after: treeOf(store, commit) };
  const differences = await compareTrees(store, { ...trees, name: `The branch ${labels.theirs}` });
  const own = await ownDifferences(base, layer, { before: trees.before, name: labels.theirs });
  const kept = new Set(own.filter(({ after }) => after).map(({ path }) => path));
  const gone = differences.filter(({ path, after }) => !after && !kept.has(path));
  const removed = new Set(gone.map(({ path }) => path));
  const merge: Merge = { plan, store, layer, labels, removed, done: new Set() };
  const yielder = new EventLoopYielder();
  const renames = await mergeRenames(merge, differences, own);
  if (!labels.level) moveIntoRenamedFolders(merge, { theirs: differences, own, tree: trees.after }, renames);
  for (const { path, before, after } of differences) {
    if (merge.done.has(path)) continue;
    await mergeOne(merge, { path, before, theirs: after, ours: path });
    if (yielder.isDue) await yielder.turn();
  }
  return plan;
}

/** Lists the paths at which the working files differ from a tree. */
async function ownDifferences(
  { tree, store, entries }: Base,
  layer: Layer,
  { before, name }: { before: string; name: string },
): Promise<TreeDifference[]> {
  const committed = await compareTrees(store, { before, after: tree, name: `The base of ${name}` });
  const byPath = new Map(committed.map((difference) => [difference.path, difference]));
  for (const path of layer.changed()) {
    const entry = entries.get(path);
    const unchanged = entry && { mode: modeOfEntry(entry), oid: entry.oid };
    const before = byPath.has(path) ? byPath.get(path)?.before : unchanged;
    byPath.set(path, { path, before, after: layer.treeEntry(path) });
  }
  return [...byPath.values()];
}

interface Merge {
  plan: MergePlan;
  store: ObjectStore;
  layer: Layer;
  labels: MergeLabels;
  /** The paths that the merge removes. */
  removed: Set<string>;
  /** The paths whose result is decided. */
  done: Set<string>;
}

/** Merges the files that one side renamed and the other one changed. */
async function mergeRenames(
  merge: Merge,
  theirs: readonly TreeDifference[],
  own: readonly TreeDifference[],
): Promise<Record<"theirRenames" | "ownRenames", Map<string, string>>> {
  const [theirsByPath, ownByPath] = [byPath(theirs), byPath(own)];
  const theirRenames = await renamesIn(merge, theirs, { relevant: ownByPath, others: own });
  const ownRenames = await renamesIn(merge, own, { relevant: theirsByPath, others: theirs });
  for (const [from, to] of theirRenames) {
    const change = ownByPath.get(from);
    if (!change) continue;

    const ownTo = ownRenames.get(from);
    const [before, after] = [theirsByPath.get(from)?.before, theirsByPath.get(to)?.after];
    const isChanged = change.after && !ownByPath.has(to) && isSameType(change.after, after);
    if (isChanged && isFreeAfter(merge, to, from)) {
      await mergeOne(merge, { path: to, before, theirs: after, ours: from });
      merge.plan.edits.push({ path: from, content: undefined, mode: "100644" });
    } else if (ownTo === to) await mergeOne(merge, { path: to, before, theirs: after, ours: to });
    else if (change.after || ownTo) addConflict(merge, { path: to, kind: "other" });
    else {
      const isFree = after && !ownByPath.has(to) && !isInTheWay(merge, to);
      const version = isFree ? { path: to, content: contentOf(merge.store, after), mode: modeOf(after) } : undefined;
      addConflict(merge, { path: to, kind: isFree ? "deleted" : "other", kept: version });
    }
    for (const path of [from, to, ownTo ?? to]) merge.done.add(path);
  }
  for (const [from, to] of ownRenames) {
    const change = theirsByPath.get(from);
    if (!change || merge.done.has(from)) continue;

    const { before, after } = change;
    const isChanged = after && isSameType(before, after) && !theirsByPath.has(to);
    if (isChanged) await mergeOne(merge, { path: to, before, theirs: after, ours: to });
    else addConflict(merge, { path: to, kind: after ? "other" : "deleted" });
    for (const path of [from, to]) merge.done.add(path);
  }
  return { theirRenames, ownRenames };
}

/** Moves files that one side added to a folder the other renamed. Each is a conflict, as in git. */
function moveIntoRenamedFolders(
  merge: Merge,
  { theirs, own, tree }: { theirs: readonly TreeDifference[]; own: readonly TreeDifference[]; tree: string },
  { theirRenames, ownRenames }: Record<"theirRenames" | "ownRenames", Map<string, string>>,
): void {
  const { plan, store, layer } = merge;
  const isTheirs = (path: string) => new PathVersions(store, path).in(tree) !== "";
  const isOurs = (path: string) => layer.node(path) !== undefined;
  const [theirsFilled, ownFilled] = [filledFolders(theirs, own), filledFolders(own, theirs)];
  const theirFolders = findRenamedFolders(theirRenames, (folder) => theirsFilled.has(folder) && !isTheirs(folder));
  const ownFolders = findRenamedFolders(ownRenames, (folder) => ownFilled.has(folder) && !isOurs(folder));
  const sides = [
    { differences: theirs, folders: ownFolders, others: theirFolders },
    { differences: own, folders: theirFolders, others: ownFolders },
  ];
  for (const { differences, folders, others } of sides) {
    for (const { path, before, after } of differences) {
      const folder = foldersAbove(path).findLast((level) => folders.has(level));
      if (before || !after || folder === undefined || merge.done.has(path) || others.has(folder)) continue;

      const target = [folders.get(folder), path.slice(folder.length + 1)].filter(Boolean).join("/");
      if (others.has(folderOf(target))) continue;
      merge.done.add(path);
      addConflict(merge, { path: target, kind: "folder" });
      if (isOurs(target) || isTheirs(target)) continue;
      if (differences === own) plan.edits.push({ path, content: undefined, mode: "100644" });
      const content = (differences === own ? layer.read(path) : undefined) ?? contentOf(store, after);
      plan.edits.push({ path: target, content, mode: modeOf(after) });
    }
  }
}

function byPath(differences: readonly TreeDifference[]): Map<string, TreeDifference> {
  return new Map(differences.map((difference) => [difference.path, difference]));
}

function renamesIn(
  { store, layer }: Merge,
  differences: readonly TreeDifference[],
  { relevant, others }: { relevant: ReadonlyMap<string, unknown>; others: readonly TreeDifference[] },
): Promise<Map<string, string>> {
  const filled = filledFolders(differences, others);
  const isRelevant = (path: string) => relevant.has(path) || foldersAbove(path).some((folder) => filled.has(folder));
  const written = new Map<string, string>();
  const candidate = (path: string, file: EntryVersion | undefined) => (file ? [{ path, ...file }] : []);
  const deleted = differences.flatMap(({ path, before, after }) => (after ? [] : candidate(path, before)));
  const added = differences.flatMap(({ path, before, after }) => (before ? [] : candidate(path, after)));
  for (const { path, oid } of added) written.set(oid, path);
  const read = (oid: string) => store.read(oid)?.data ?? layer.read(written.get(oid) ?? "");
  return findRenames({ deleted, added, relevant: { has: isRelevant }, read });
}

/** Lists the folders from which one side removed files, and to which the other side added some, with those above. */
function filledFolders(differences: readonly TreeDifference[], others: readonly TreeDifference[]): Set<string> {
  const emptied = new Set(differences.flatMap(({ path, after }) => (after ? [] : foldersAbove(path))));
  const added = others.filter(({ path, before }) => !before && emptied.has(folderOf(path)));
  return new Set(added.flatMap(({ path }) => foldersAbove(path)));
}

interface PathToMerge {
  path: string;
  before: EntryVersion | undefined;
  theirs: EntryVersion | undefined;
  /** The path of the working file, which differs from `path` if the other side renamed it. */
  ours: string;
}

async function mergeOne(merge: Merge, { path, before, theirs: after, ours: ownPath }: PathToMerge): Promise<void> {
  const { plan, store, layer, labels } = merge;
  const node = layer.node(ownPath);
  if (!isPlain(before) || !isPlain(after) || (node && node.type !== "file") || (after && isInTheWay(merge, path))) {
    mergeWhole(merge, { path, before, theirs: after, ours: ownPath });
    return;
  }
  const ours = node && layer.read(ownPath);
  const base = before && contentOf(store, before);
  const theirs = after && contentOf(store, after);
  const executable = mergeMode(before, after, node?.executable);
  const mode = modeOfEntry({ type: "file", executable });
  const hasMode = node?.executable === executable && ownPath === path;
  const put = (content: Buffer | undefined) => {
    if (!same(ours, content) || (node && !hasMode)) plan.edits.push({ path, content, mode });
  };
  // A file whose mode we changed is not removed with their version.
  const isUnchanged = same(ours, base) && (theirs || executable === (before?.mode === "100755"));
  if (isUnchanged || same(ours, theirs)) return put(theirs);
  if (same(base, theirs) && ours) return put(ours);
  if (!ours || !theirs) {
    const kept = theirs && { path, content: theirs, mode };
    addConflict(merge, { path, kind: "deleted", executable, before, kept });
    return;
  }
  const sides = { ours, base: base ?? Buffer.alloc(0), theirs };
  const merged = await runInTurns(mergeFile(sides, labels));
  if (merged?.clean) put(merged.content);
  else if (merged && isUtf8(merged.content))
    addConflict(merge, { path, kind: "content", content: merged.content.toString("utf8"), executable });
  else {
    const kept = ownPath === path ? undefined : { path, content: ours, mode };
    addConflict(merge, { path, kind: "other", executable, before, kept });
  }
}

/** Merges a path where something else than a file is or was. Two changes of it conflict, unless they are the same. */
function mergeWhole(merge: Merge, { path, before, theirs: after, ours: ownPath }: PathToMerge): void {
  const { plan, store, layer } = merge;
  const ours = layer.treeEntry(ownPath);
  if (ownPath === path && isSameEntry(ours, after)) return;
  const isOnlyRenamed = isSameEntry(before, after) && isSameType(ours, after);
  if (!(isOnlyRenamed || isSameEntry(ours, before)) || (after && isInTheWay(merge, path))) {
    addConflict(merge, { path, kind: "other", before });
    return;
  }
  const result = isOnlyRenamed ? ours : after;
  const content = isOnlyRenamed ? layer.read(ownPath) : undefined;
  plan.edits.push({
    path,
    content: content ?? (result && contentOf(store, result)),
    mode: result ? modeOf(result) : "100644",
  });
}

/** Returns the mode of an entry without the bits that git ignores. */
function modeOf({ mode }: EntryVersion): FileMode {
  const type = mode.startsWith("12") ? "symlink" : mode.startsWith("16") ? "submodule" : "file";
  return modeOfEntry({ type, executable: mode === "100755" });
}

/** True if our side has a file where the path needs a folder, or a folder with files at the path, after the merge. */
function isInTheWay({ layer, removed }: Merge, path: string): boolean {
  if (foldersAbove(path).some((folder) => layer.treeEntry(folder) && !removed.has(folder))) return true;
  return hasOthersBelow(layer, path, removed);
}

/** Counts a path as removed if that makes room for a file at another path, and returns true if it does. */
function isFreeAfter(merge: Merge, path: string, removed: string): boolean {
  merge.removed.add(removed);
  const isFree = !isInTheWay(merge, path);
  if (!isFree) merge.removed.delete(removed);
  return isFree;
}

/** True if something is below a path that is not removed, be it a file, a link or a submodule. */
function hasOthersBelow(layer: Layer, path: string, removed: ReadonlySet<string>): boolean {
  if (layer.node(path)?.type !== "directory") return false;
  return layer.namesIn(path).some((name) => {
    const below = `${path}/${name}`;
    return layer.treeEntry(below) ? !removed.has(below) : hasOthersBelow(layer, below, removed);
  });
}

function addConflict({ plan }: Merge, conflict: Omit<Conflict, "executable"> & { executable?: boolean }): void {
  plan.conflicts.push({ executable: false, ...conflict });
}

function isPlain(file: EntryVersion | undefined): boolean {
  return !file || file.mode.startsWith("100");
}

/** True if both are files, whatever their executable bits, or both are links or submodules. */
function isSameType(one: EntryVersion | undefined, other: EntryVersion | undefined): boolean {
  return one?.mode.slice(0, 3) === other?.mode.slice(0, 3);
}

/** Returns the executable bit of the side that changed it. */
function mergeMode(
  before: EntryVersion | undefined,
  after: EntryVersion | undefined,
  ours: boolean | undefined,
): boolean {
  const [was, is] = [before?.mode === "100755", after?.mode === "100755"];
  return was === is || !after ? (ours ?? is) : is;
}

function same(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}
