import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { UserError } from "#domain/errors.ts";
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

const file = (name: string, mode = "100644", content = "one"): Item => ({ name: Buffer.from(name), mode, content });
const folder = (name: string, items: Item[]): Item => ({ name: Buffer.from(name), items });

/** Reads a tree as a whole, and derived from another one. */
async function readTwice(before: Item[], after: Item[]) {
  const store = new ObjectStore();
  const from = await readBase(store, addCommit(store, addTree(store, before)));
  const commit = addCommit(store, addTree(store, after));
  return { derived: await readBase(store, commit, { from }), whole: await readBase(store, commit) };
}

test("each entry has the type, size and permission of its mode", async () => {
  const modes = ["100644", "100664", "100755", "120000", "160000"];

  const { whole } = await readTwice(
    [],
    modes.map((mode) => file(mode, mode)),
  );

  expect([...whole.entries].map(([, { type, size, executable }]) => [type, size, executable])).toEqual([
    ["file", 3, false],
    ["file", 3, false],
    ["file", 3, true],
    ["symlink", 3, false],
    ["submodule", 0, false],
  ]);
  expect(whole.files).toEqual(["100644", "100664", "100755"]);
});

test("names that are git's own or no valid names are left out, and folders that have no others", async () => {
  const odd = [".git", "git~1", "..", ".", "a/b"].map((name) => file(name));
  const latin1: Item = { name: Buffer.from([0xff]), mode: "100644", content: "one" };

  const { whole, derived } = await readTwice(
    [file("a")],
    [file("a"), latin1, ...odd, folder("x", [folder("y", [file(".git")]), folder("z", [file("b"), file(".git")])])],
  );
  const { whole: empty } = await readTwice([], [folder("x", [folder("y", [file(".git")])])]);

  expect([...whole.entries.keys()].sort()).toEqual(["a", "x/z/b"]);
  expect([...whole.folders].sort()).toEqual([
    ["", ["a", "x"]],
    ["x", ["z"]],
    ["x/z", ["b"]],
  ]);
  expect([...empty.folders]).toEqual([["", []]]);
  expect(contentOf(derived)).toEqual(contentOf(whole));
});

test.each<[string, Item[], Item[]]>([
  ["another mode", [file("a"), file("b")], [file("a", "100755"), file("b")]],
  ["another type", [file("a"), file("b")], [file("a", "120000"), file("b")]],
  ["a folder in the place of a file", [file("a")], [folder("a", [file("b")])]],
  ["a folder that is gone", [folder("a", [folder("b", [file("c")])]), file("d")], [file("d")]],
  [
    "a file less, where a damaged tree has its name twice",
    [file("a"), folder("a", [file("b")])],
    [folder("a", [file("b")])],
  ],
])("a derived base equals one that is read as a whole: %s", async (_, before, after) => {
  const { derived, whole } = await readTwice(before, after);

  expect(contentOf(derived)).toEqual(contentOf(whole));
});

test("a derived base knows that a new content is missing", async () => {
  const store = new ObjectStore();
  const from = await readBase(store, addCommit(store, addTree(store, [file("a")])));
  const missing = { mode: "100644", name: Buffer.from("a"), oid: "1".repeat(40) };
  const commit = addCommit(store, store.add({ type: "tree", data: encodeTree([missing]) }));

  const derived = await readBase(store, commit, { from });

  expect([from.contents.isLoaded, derived.contents.isLoaded]).toEqual([true, false]);
});

test("a commit or tree that was not fetched is reported", async () => {
  const store = new ObjectStore();
  const missing = "1".repeat(40);

  await expect(readBase(store, missing)).rejects.toThrow(`The commit ${missing} is not in the pack`);
  await expect(readBase(store, addCommit(store, missing))).rejects.toThrow("A folder of the repository is missing");
});

test("a tree that is nested too deeply is refused, also if it is derived from another one", async () => {
  const nested = (levels: number): Item[] => (levels === 0 ? [file("a")] : [folder("a", nested(levels - 1))]);

  const { derived } = await readTwice(nested(1), nested(200));
  expect(derived.files).toHaveLength(1);
  await expect(readTwice([], nested(201))).rejects.toThrow(UserError);
});
