import { isUtf8 } from "node:buffer";
import { findMergeBase } from "isomorphic-git";
import { UserError } from "#domain/errors.ts";
import type { FileMode } from "#domain/preview.ts";
import { type Base, TreeBudget } from "./base.ts";
import { type FileVersion, submoduleVersion } from "./diff-file.ts";
import { EventLoopYielder, runInTurns } from "./event-loop.ts";
import { findRenames } from "./find-renames.ts";
import { isFolder, parseCommitLinks, parseTree } from "./git-objects.ts";
import { mergeFile } from "./merge-file.ts";
import { createGitFs, gitdir, ObjectStore } from "./object-store.ts";
import { type Layer, modeOfEntry } from "./overlay.ts";
import { foldersAbove } from "./paths.ts";
import type { FileVersions } from "./preview-files.ts";
import type { Remote } from "./remote.ts";
import type { MergeConflict, MergeOptions } from "./sandbox.ts";

/** The effect of a merge on one path: the new content, or undefined to delete it. */
interface MergeEdit {
  path: string;
  /** The bytes of a file, the target of a link, or the commit of a submodule. */
  content: Buffer | undefined;
  mode: FileMode;
}

export interface MergePlan {
  mergeBase: string;
  edits: MergeEdit[];
  conflicts: (MergeConflict & { executable: boolean })[];
}

const depths = [100, 1_000, 10_000];

/** Fetches a commit with its files into the base's store. */
export async function fetchCommit(base: Base, remote: Remote, commit: string): Promise<void> {
  if (await hasFiles(base.store, commit)) return;
  const result = await remote.fetch({ wants: [commit], haves: [base.commit], depth: 1 });
  if (result.kind === "refused")
    throw new UserError(`${remote.name} did not send the commit ${commit.slice(0, 10)}: ${result.reason}.`);
  await base.store.addPack(result.pack);
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
  const mergeBase = since ?? (await findCommonCommit(base, remote, { name, commit, heads }));
  await fetchCommit(base, remote, commit);
  await fetchCommit(base, remote, mergeBase);
  return mergeInto(base, layer, { name, commit, mergeBase });
}

/** Computes the result of merging a commit into the working files. All commits must have been fetched with their files. */
export async function mergeInto(
  base: Base,
  layer: Layer,
  { name, commit, mergeBase }: { name: string; commit: string; mergeBase: string },
): Promise<MergePlan> {
  const { store } = base;
  const plan: MergePlan = { mergeBase, edits: [], conflicts: [] };
  const trees = { before: treeOf(store, mergeBase), after: treeOf(store, commit) };
  const differences = await compareTrees(store, { ...trees, name: `The branch ${name}` });
  const own = await ownDifferences(base, layer, { before: trees.before, name });
  const kept = new Set(own.filter(({ after }) => after).map(({ path }) => path));
  const gone = differences.filter(({ path, after }) => !after && !kept.has(path));
  const removed = new Set(gone.map(({ path }) => path));
  const merge: Merge = { plan, store, layer, name, removed, done: new Set() };
  const yielder = new EventLoopYielder();
  await mergeRenames(merge, differences, own);
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

async function hasFiles(store: ObjectStore, commit: string): Promise<boolean> {
  const object = store.read(commit);
  return object?.type === "commit" && hasTree(store, parseCommitLinks(object.data).tree);
}

async function findCommonCommit(
  base: Base,
  remote: Remote,
  { name, commit, heads }: { name: string; commit: string; heads: readonly string[] },
): Promise<string> {
  for (const depth of depths) {
    const result = await remote.fetch({ wants: [...new Set([...heads, commit])], depth, without: "trees" });
    if (result.kind === "refused") break;

    await base.store.addPack(result.pack);
    const store = new ObjectStore({ below: base.store });
    const fs = createGitFs(store, result.shallow);
    const ours = commitOver(store, heads, treeOf(store, commit));
    const [common] = (await findMergeBase({ fs, gitdir, oids: [ours, commit] })) as string[];
    if (common) return common;
    if (result.shallow.length === 0) break;
  }
  throw new UserError(
    `The branch ${name} has no common history with the base commit of this run, so it cannot be merged.`,
  );
}

/** Creates a commit with these parents, like the commit that the working files will become. */
function commitOver(store: ObjectStore, heads: readonly string[], tree: string): string {
  const person = "Golem Forge <> 0 +0000";
  const parents = heads.map((head) => `parent ${head}\n`).join("");
  const text = `tree ${tree}\n${parents}author ${person}\ncommitter ${person}\n\n`;
  return store.add({ type: "commit", data: Buffer.from(text) });
}

/** Lists the files that differ between two fetched trees, with their contents. */
export async function compareFiles(store: ObjectStore, before: string, after: string): Promise<FileVersions[]> {
  const differences = await compareTrees(store, { before, after, name: "The commit" });
  return differences.map((difference) => versionsOf(store, difference));
}

/**
 * Lists the files of a tree that differ from the tip and from each of the other trees, compared with the tip: the
 * changes that a merge commit adds to its parents.
 */
export async function compareWithAll(
  store: ObjectStore,
  { tip, others, tree }: { tip: string; others: readonly string[]; tree: string },
): Promise<FileVersions[]> {
  let differences = await compareTrees(store, { before: tip, after: tree, name: "The commit" });
  for (const other of others) {
    const fromOther = await compareTrees(store, { before: other, after: tree, name: "The commit" });
    const paths = new Set(fromOther.map(({ path }) => path));
    differences = differences.filter(({ path }) => paths.has(path));
  }
  return differences.map((difference) => versionsOf(store, difference));
}

/** Returns the first path that a merged commit changed and whose change is missing from the tree. */
export async function findDropped(
  store: ObjectStore,
  { from, commit, tree }: { from: string; commit: string; tree: string },
): Promise<string | undefined> {
  const name = "The merged commit";
  const merged = await compareTrees(store, { before: treeOf(store, from), after: treeOf(store, commit), name });
  const missing = await compareTrees(store, { before: treeOf(store, commit), after: tree, name });
  const now = new Map(missing.map(({ path, after }) => [path, after]));
  const dropped = merged.find(({ path, before }) => {
    const file = now.get(path);
    return now.has(path) && isSameEntry(file, before);
  });
  return dropped?.path;
}

function versionsOf(store: ObjectStore, { path, before, after }: TreeDifference): FileVersions {
  const version = (file: TreeFile | undefined) => file && versionOf(contentOf(store, file), file.mode);
  return { path, before: version(before), after: version(after) };
}

/** Returns a version of a file, a link or a submodule, whose content is its commit. */
export function versionOf(content: Buffer, mode: string): FileVersion {
  if (mode === "160000") return submoduleVersion(content.toString());
  return { content, executable: mode === "100755", ...(mode === "120000" && { isLink: true }) };
}

/** Returns the tree of a fetched commit. */
export function treeOf(store: ObjectStore, commit: string): string {
  const object = store.read(commit);
  if (object?.type !== "commit") throw new Error(`The commit ${commit} was not fetched.`);
  return parseCommitLinks(object.data).tree;
}

interface Merge {
  plan: MergePlan;
  store: ObjectStore;
  layer: Layer;
  /** The name of the merged branch. */
  name: string;
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
): Promise<void> {
  const [theirsByPath, ownByPath] = [byPath(theirs), byPath(own)];
  const theirRenames = await renamesIn(merge, theirs, ownByPath);
  const ownRenames = await renamesIn(merge, own, theirsByPath);
  for (const [from, to] of theirRenames) {
    const change = ownByPath.get(from);
    if (!change) continue;

    const ownTo = ownRenames.get(from);
    const [before, after] = [theirsByPath.get(from)?.before, theirsByPath.get(to)?.after];
    if (change.after && !ownByPath.has(to)) {
      merge.removed.add(from);
      await mergeOne(merge, { path: to, before, theirs: after, ours: from });
      merge.plan.edits.push({ path: from, content: undefined, mode: "100644" });
    } else if (ownTo === to) await mergeOne(merge, { path: to, before, theirs: after, ours: to });
    else addConflict(merge, { path: to, kind: change.after || ownTo ? "other" : "deleted" });
    for (const path of [from, to, ownTo ?? to]) merge.done.add(path);
  }
  for (const [from, to] of ownRenames) {
    const change = theirsByPath.get(from);
    if (!change || merge.done.has(from)) continue;

    const { before, after } = change;
    const isChanged = after && isPlain(after) && !theirsByPath.has(to);
    if (isChanged) await mergeOne(merge, { path: to, before, theirs: after, ours: to });
    else addConflict(merge, { path: to, kind: after ? "other" : "deleted" });
    for (const path of [from, to]) merge.done.add(path);
  }
}

function byPath(differences: readonly TreeDifference[]): Map<string, TreeDifference> {
  return new Map(differences.map((difference) => [difference.path, difference]));
}

function renamesIn(
  { store, layer }: Merge,
  differences: readonly TreeDifference[],
  relevant: ReadonlyMap<string, unknown>,
): Promise<Map<string, string>> {
  const written = new Map<string, string>();
  const candidate = (path: string, file: TreeFile | undefined) =>
    file && isPlain(file) ? [{ path, oid: file.oid }] : [];
  const deleted = differences.flatMap(({ path, before, after }) => (after ? [] : candidate(path, before)));
  const added = differences.flatMap(({ path, before, after }) => (before ? [] : candidate(path, after)));
  for (const { path, oid } of added) written.set(oid, path);
  const read = (oid: string) => store.read(oid)?.data ?? layer.read(written.get(oid) ?? "");
  return findRenames({ deleted, added, relevant, read });
}

interface PathToMerge {
  path: string;
  before: TreeFile | undefined;
  theirs: TreeFile | undefined;
  /** The path of the working file, which differs from `path` if the other side renamed it. */
  ours: string;
}

async function mergeOne(merge: Merge, { path, before, theirs: after, ours: ownPath }: PathToMerge): Promise<void> {
  const { plan, store, layer, name } = merge;
  const node = layer.node(ownPath);
  if (!isPlain(before) || !isPlain(after) || (node && node.type !== "file") || (after && isInTheWay(merge, path))) {
    mergeWhole(merge, { path, before, after });
    return;
  }
  const ours = node && layer.read(ownPath);
  const base = before && contentOf(store, before);
  const theirs = after && contentOf(store, after);
  const executable = mergeMode(before, after, node?.executable);
  const mode = modeOfEntry({ type: "file", executable });
  const isRenamed = ownPath !== path;
  if (same(ours, theirs) && (!node || node.executable === executable) && !isRenamed) return;
  // A file whose mode we changed is not removed with their version.
  const isUnchanged = same(ours, base) && (theirs || executable === (before?.mode === "100755"));
  if (isUnchanged || same(ours, theirs)) {
    plan.edits.push({ path, content: theirs, mode });
    return;
  }
  if (same(base, theirs) && ours) {
    plan.edits.push({ path, content: ours, mode });
    return;
  }
  if (!ours || !theirs) {
    addConflict(merge, { path, kind: "deleted", executable });
    return;
  }
  const sides = { ours, base: base ?? Buffer.alloc(0), theirs };
  const merged = await runInTurns(mergeFile(sides, { ours: "this run", theirs: name }));
  if (merged?.clean) plan.edits.push({ path, content: Buffer.from(merged.content), mode });
  else if (merged) addConflict(merge, { path, kind: "content", content: merged.content, executable });
  else addConflict(merge, { path, kind: "other", executable });
}

/** Merges a path where something else than a file is or was. Two changes of it conflict, unless they are the same. */
function mergeWhole(merge: Merge, { path, before, after }: TreeDifference): void {
  const { plan, store, layer } = merge;
  const ours = layer.treeEntry(path);
  if (isSameEntry(ours, after)) return;
  if (!isSameEntry(ours, before) || (after && isInTheWay(merge, path))) {
    addConflict(merge, { path, kind: "other" });
    return;
  }
  const mode = after?.mode.startsWith("12") ? "120000" : after?.mode.startsWith("16") ? "160000" : undefined;
  const executable = after?.mode === "100755";
  const content = after && contentOf(store, after);
  plan.edits.push({ path, content, mode: mode ?? modeOfEntry({ type: "file", executable }) });
}

/** True if our side has a file where the path needs a folder, or a folder with files at the path, after the merge. */
function isInTheWay({ layer, removed }: Merge, path: string): boolean {
  if (foldersAbove(path).some((folder) => layer.treeEntry(folder) && !removed.has(folder))) return true;
  return hasOthersBelow(layer, path, removed);
}

/** True if something is below a path that is not removed, be it a file, a link or a submodule. */
function hasOthersBelow(layer: Layer, path: string, removed: ReadonlySet<string>): boolean {
  if (layer.node(path)?.type !== "directory") return false;
  return layer.namesIn(path).some((name) => {
    const below = `${path}/${name}`;
    return layer.treeEntry(below) ? !removed.has(below) : hasOthersBelow(layer, below, removed);
  });
}

function addConflict({ plan }: Merge, conflict: MergeConflict & { executable?: boolean }): void {
  plan.conflicts.push({ executable: false, ...conflict });
}

function isPlain(file: TreeFile | undefined): boolean {
  return !file || file.mode.startsWith("100");
}

function isSameEntry(a: TreeFile | undefined, b: TreeFile | undefined): boolean {
  return a?.oid === b?.oid && a?.mode === b?.mode;
}

/** Returns the bytes of a file, the target of a link, or the commit of a submodule. */
function contentOf(store: ObjectStore, { mode, oid }: TreeFile): Buffer {
  if (mode === "160000") return Buffer.from(oid);
  const object = store.read(oid);
  if (!object) throw new Error(`The file ${oid} was not fetched.`);
  return object.data;
}

/** Returns the executable bit of the side that changed it. */
function mergeMode(before: TreeFile | undefined, after: TreeFile | undefined, ours: boolean | undefined): boolean {
  const [was, is] = [before?.mode === "100755", after?.mode === "100755"];
  return was === is || !after ? (ours ?? is) : is;
}

function same(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}

/** A file, link or submodule in a tree. */
interface TreeFile {
  mode: string;
  oid: string;
}

interface TreeDifference {
  path: string;
  before: TreeFile | undefined;
  after: TreeFile | undefined;
}

/**
 * Lists the paths that differ between two trees. Does not read equal folders. Rejects with a UserError that begins with
 * `name` when there are too many.
 */
export async function compareTrees(
  store: ObjectStore,
  { before, after, name }: { before: string; after: string; name: string },
): Promise<TreeDifference[]> {
  const budget = new TreeBudget(name);
  const yielder = new EventLoopYielder();
  const differences: TreeDifference[] = [];
  const stack: { before: string | undefined; after: string | undefined; folder: string; depth: number }[] = [
    { before, after, folder: "", depth: 0 },
  ];
  for (let next = stack.pop(); next; next = stack.pop()) {
    if (next.before === next.after) continue;
    if (yielder.isDue) await yielder.turn();

    const [old, now] = [itemsOf(store, next.before), itemsOf(store, next.after)];
    for (const itemName of new Set([...old.keys(), ...now.keys()])) {
      const [was, is] = [old.get(itemName), now.get(itemName)];
      const path = next.folder ? `${next.folder}/${itemName}` : itemName;
      budget.spend(path, next.depth);
      if (isSameEntry(was, is)) continue;

      const [oldFolder, newFolder] = [folderOid(was), folderOid(is)];
      if (oldFolder || newFolder)
        stack.push({ before: oldFolder, after: newFolder, folder: path, depth: next.depth + 1 });
      const files = { path, before: oldFolder ? undefined : was, after: newFolder ? undefined : is };
      if (files.before || files.after) differences.push(files);
    }
  }
  return differences.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** True if the store has a tree and everything in it. Reads each tree once, however often it occurs. */
export async function hasTree(store: ObjectStore, root: string): Promise<boolean> {
  const yielder = new EventLoopYielder();
  const trees = new Set([root]);
  for (const oid of trees) {
    if (yielder.isDue) await yielder.turn();

    const tree = store.read(oid);
    if (!tree) return false;
    for (const item of parseTree(tree.data)) {
      if (isFolder(item)) trees.add(item.oid);
      else if (!item.mode.startsWith("16") && !store.has(item.oid)) return false;
    }
  }
  return true;
}

function folderOid(item: TreeFile | undefined): string | undefined {
  return item && isFolder(item) ? item.oid : undefined;
}

function itemsOf(store: ObjectStore, tree: string | undefined): Map<string, TreeFile> {
  if (tree === undefined) return new Map();
  const object = store.read(tree);
  if (!object) throw new Error(`The tree ${tree} was not fetched.`);
  return new Map(parseTree(object.data).map(({ name, mode, oid }) => [nameOf(name), { mode, oid }]));
}

/** Returns a name as text. Bytes that are not UTF-8 are escaped as git prints them: such a name is never written to. */
function nameOf(name: Buffer): string {
  if (isUtf8(name)) return name.toString("utf8");
  return name.toString("latin1").replace(/[\x80-\xff]/g, (byte) => `\\${byte.charCodeAt(0).toString(8)}`);
}
