import { EventLoopYielder } from "./event-loop.ts";
import { isFolder, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";
import { TreeBudget } from "./tree-budget.ts";

/** A file, link or submodule in a tree. */
export interface TreeFile {
  mode: string;
  oid: string;
}

export interface TreeDifference {
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
      if (was?.oid === is?.oid && was?.mode === is?.mode) continue;

      const [oldFolder, newFolder] = [folderOid(was), folderOid(is)];
      if (oldFolder || newFolder)
        stack.push({ before: oldFolder, after: newFolder, folder: path, depth: next.depth + 1 });
      const files = { path, before: oldFolder ? undefined : was, after: newFolder ? undefined : is };
      if (files.before || files.after) differences.push(files);
    }
  }
  return differences.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Whether the store has a tree with everything in it. Reads each tree once, however often it occurs. */
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
  return new Map(parseTree(object.data).map(({ name, mode, oid }) => [name.toString("utf8"), { mode, oid }]));
}
