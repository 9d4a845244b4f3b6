import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { Base } from "#sandbox/git/base.ts";
import { encodeTree, type TreeItem } from "#sandbox/git/git-objects.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { readBase } from "#sandbox/git/read-base.ts";
import { propertyRuns } from "../../support/property-runs.ts";

/** A tree to store: a folder lists its items, anything else has a mode and a content. */
type Item = { name: Buffer } & ({ items: Item[] } | { mode: string; content: string });

const names = ["a", "a.b", "b", "A", "é", ".git", "git~1", "..", "\xff"].map((name) =>
  name === "\xff" ? Buffer.from([0xff]) : Buffer.from(name),
);
const modes = ["100644", "100755", "100664", "120000", "160000"];

const { items } = fc.letrec<{ items: Item[]; item: Item }>((tie) => ({
  items: fc.uniqueArray(tie("item"), { maxLength: 5, selector: ({ name }) => `${name}` }),
  item: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.record({
      name: fc.constantFrom(...names),
      mode: fc.constantFrom(...modes),
      content: fc.constantFrom("one", "two", "three"),
    }),
    fc.record({ name: fc.constantFrom(...names), items: tie("items") }),
  ),
}));

/** Replaces and removes some items of a tree, at any depth. */
function edited(before: Item[], other: Item[], choose: (choices: number) => number): Item[] {
  const byName = new Map(before.map((item) => [`${item.name}`, item]));
  for (const item of other) {
    const known = byName.get(`${item.name}`);
    const choice = choose(4);
    if (choice === 0) byName.delete(`${item.name}`);
    else if (choice === 1) byName.set(`${item.name}`, item);
    else if (known && "items" in known && "items" in item) {
      byName.set(`${item.name}`, { name: item.name, items: edited(known.items, item.items, choose) });
    }
  }
  return [...byName.values()];
}

function addTree(store: ObjectStore, items: readonly Item[]): string {
  const lines = items.map((item): TreeItem => {
    if ("items" in item) return { mode: "40000", name: item.name, oid: addTree(store, item.items) };
    const blob = { type: "blob", data: Buffer.from(item.content) } as const;
    return { mode: item.mode, name: item.name, oid: store.add(blob) };
  });
  return store.add({ type: "tree", data: encodeTree(lines) });
}

function addCommit(store: ObjectStore, tree: string): string {
  const data = Buffer.from(`tree ${tree}\ncommitter Ada <ada@example.com> 1700000000 +0000\n\nA commit\n`);
  return store.add({ type: "commit", data });
}

/** Everything about a base that does not depend on how it was read. */
function contentOf(base: Base) {
  const sorted = <Value>(map: ReadonlyMap<string, Value>) => [...map].sort(([one], [other]) => (one < other ? -1 : 1));
  return {
    commit: base.commit,
    tree: base.tree,
    entries: sorted(base.entries).map(([path, { type, oid, executable, size }]) => ({
      path,
      type,
      oid,
      executable,
      size,
    })),
    files: base.files,
    folders: sorted(base.folders),
    counts: sorted(base.counts),
    isLoaded: base.contents.isLoaded,
  };
}

test("a base that is derived from another one equals a base that is read as a whole", async () => {
  const edit = fc.tuple(items, fc.infiniteStream(fc.nat()));
  const property = fc.asyncProperty(items, fc.array(edit, { minLength: 1, maxLength: 3 }), async (first, edits) => {
    const store = new ObjectStore();
    let tree = first;
    let base = await readBase(store, addCommit(store, addTree(store, tree)));
    for (const [other, numbers] of edits) {
      tree = edited(tree, other, (choices) => (numbers.next().value as number) % choices);
      const commit = addCommit(store, addTree(store, tree));
      base = await readBase(store, commit, { from: base });
      expect(contentOf(base)).toEqual(contentOf(await readBase(store, commit)));
    }
  });
  await fc.assert(property, { numRuns: propertyRuns(300) });
});

test("a derived base reads only the folders that changed", async () => {
  const file = (content: string): Item => ({ name: Buffer.from("file"), mode: "100644", content });
  const folder = (name: string, items: Item[]): Item => ({ name: Buffer.from(name), items });
  const store = new ObjectStore();
  const before = [folder("changed", [file("one")]), folder("same", [file("one")])];
  const base = await readBase(store, addCommit(store, addTree(store, before)));
  const after = [folder("changed", [file("two")]), folder("same", [file("one")])];
  const commit = addCommit(store, addTree(store, after));
  const read = vi.spyOn(store, "read");

  const derived = await readBase(store, commit, { from: base });

  // The commit, and the root and the folder before and after.
  expect(read).toHaveBeenCalledTimes(5);
  expect(derived.entries.get("same/file")).toBe(base.entries.get("same/file"));
  expect(derived.files).toBe(base.files);
});

test("a damaged tree with a name twice is read as a whole", async () => {
  const store = new ObjectStore();
  const twice = ["one", "two"].map((content): Item => ({ name: Buffer.from("a"), mode: "100644", content }));
  const other: Item = { name: Buffer.from("b"), mode: "100644", content: "three" };
  const base = await readBase(store, addCommit(store, addTree(store, [...twice, other])));
  const commit = addCommit(store, addTree(store, twice));

  const derived = await readBase(store, commit, { from: base });

  expect(contentOf(derived)).toEqual(contentOf(await readBase(store, commit)));
});
