import { isUtf8 } from "node:buffer";
import { EventLoopYielder } from "#domain/async-work.ts";
import { type FileVersion, submoduleVersion } from "#sandbox/diff-file.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import { TreeBudget } from "./base.ts";
import { isFolder, parseCommitLinks, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";

/** A file, link or submodule in a tree. */
export interface EntryVersion {
  mode: string;
  oid: string;
}

export interface TreeDifference {
  path: string;
  before: EntryVersion | undefined;
  after: EntryVersion | undefined;
}

/** Lists the paths that differ, without reading equal folders. Throws a UserError with `name` if there are too many. */
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

/** Lists the files that differ between two fetched trees, with their contents. */
export async function compareFiles(store: ObjectStore, before: string, after: string): Promise<FileVersions[]> {
  const differences = await compareTrees(store, { before, after, name: "The commit" });
  return differences.map((difference) => versionsOf(store, difference));
}

/** Lists the files that differ from the tip and from each other tree: what a merge commit adds to its parents. */
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

/** Returns the first path that a merged commit changed since all of its merge bases, and whose change is missing from the tree. */
export async function findDropped(
  store: ObjectStore,
  { from, commit, tree }: { from: readonly string[]; commit: string; tree: string },
): Promise<string | undefined> {
  const name = "The merged commit";
  const missing = await compareTrees(store, { before: treeOf(store, commit), after: tree, name });
  const now = new Map(missing.map(({ path, after }) => [path, after]));
  let dropped = [...now.keys()];
  for (const mergeBase of from) {
    const merged = await compareTrees(store, { before: treeOf(store, mergeBase), after: treeOf(store, commit), name });
    const before = new Map(merged.map((difference) => [difference.path, difference.before]));
    dropped = dropped.filter((path) => before.has(path) && isSameEntry(now.get(path), before.get(path)));
  }
  return dropped[0];
}

function versionsOf(store: ObjectStore, { path, before, after }: TreeDifference): FileVersions {
  const version = (file: EntryVersion | undefined) => file && toFileVersion(contentOf(store, file), file.mode);
  return { path, before: version(before), after: version(after) };
}

/** Returns a version of a file, a link or a submodule, whose content is its commit. */
export function toFileVersion(content: Uint8Array, mode: string): FileVersion {
  if (mode === "160000") return submoduleVersion(Buffer.from(content).toString());
  return { content, executable: mode === "100755", ...(mode === "120000" && { isLink: true }) };
}

export function treeOf(store: ObjectStore, commit: string): string {
  const object = store.read(commit);
  if (object?.type !== "commit") throw new Error(`The commit ${commit} was not fetched.`);
  return parseCommitLinks(object.data).tree;
}

export function isSameEntry(a: EntryVersion | undefined, b: EntryVersion | undefined): boolean {
  return a?.oid === b?.oid && a?.mode === b?.mode;
}

/** Returns the bytes of a file, the target of a link, or the commit of a submodule. */
export function contentOf(store: ObjectStore, { mode, oid }: EntryVersion): Buffer {
  if (mode === "160000") return Buffer.from(oid);
  const object = store.read(oid);
  if (!object) throw new Error(`The file ${oid} was not fetched.`);
  return object.data;
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

function folderOid(item: EntryVersion | undefined): string | undefined {
  return item && isFolder(item) ? item.oid : undefined;
}

function itemsOf(store: ObjectStore, tree: string | undefined): Map<string, EntryVersion> {
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
