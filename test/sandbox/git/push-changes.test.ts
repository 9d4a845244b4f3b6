import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import type { FileMode } from "#domain/preview.ts";
import { encodeTree, hashObject, type TreeItem } from "#sandbox/git/git-objects.ts";
import { indexPack, packLimits } from "#sandbox/git/index-pack.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { assertPushableBranch, buildTree, createCommit, isSameCommit } from "#sandbox/git/push-changes.ts";
import { readBase } from "#sandbox/git/read-base.ts";
import { Layer } from "#sandbox/layer.ts";
import { propertyRuns } from "../../support/property-runs.ts";

test.each([
  ...[
    "main",
    "MAIN",
    "trunk",
    "",
    "HEAD",
    "-f",
    "a".repeat(201),
    "a\u0007",
    "a b",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[b",
  ],
  ...["a\\b", "a..b", "a@{1}", "a//b", "/a", "a/", ".a", "a/.b", "a.", "a./b", "a.lock", "a.lock/b"],
])("no run pushes to %j", (branch) => {
  expect(() => assertPushableBranch(branch, { base: "main", default: "trunk" })).toThrow(UserError);
});

test.each(["golem/1", "main/2", "HEAD/1", "a-f", "a.b/c@d", "x.locked", "\u00fc", "a".repeat(200)])(
  "a run may push to %j",
  (branch) => {
    assertPushableBranch(branch, { base: "main", default: undefined });
    assertPushableBranch(branch, { base: undefined, default: "main" });
  },
);

type File = [path: string, file: { mode: FileMode; content: string }];

/** Adds the tree of these files to a store, each folder anew. */
function addTree(store: ObjectStore, files: readonly File[]): string {
  const byName = Map.groupBy(files, ([path]) => path.split("/", 1)[0] ?? "");
  const items = [...byName].map(([name, below]): TreeItem => {
    const [[path, { mode, content }] = ["", { mode: "100644", content: "" }]] = below;
    if (path === name) {
      const oid = mode === "160000" ? content : store.add({ type: "blob", data: Buffer.from(content) });
      return { mode, name: Buffer.from(name), oid };
    }
    const inside = below.map(([at, file]): File => [at.slice(name.length + 1), file]);
    return { mode: "40000", name: Buffer.from(name), oid: addTree(store, inside) };
  });
  return store.add({ type: "tree", data: encodeTree(items) });
}

/** A base with these files, and its store. */
async function baseWith(files: readonly File[]) {
  const store = new ObjectStore();
  const tree = addTree(store, files);
  const data = Buffer.from(`tree ${tree}\ncommitter Ada <ada@example.com> 1700000000 +0000\n\nA commit\n`);
  return { store, base: await readBase(store, store.add({ type: "commit", data })) };
}

const hello: File = ["docs/hello", { mode: "100644", content: "hello" }];

test("the tree of a push is that of all files, whatever was changed, and only what is new is sent", async () => {
  const paths = ["a", "a/b", "a/b/c", "a/d", "a.e", "b", "b/a", "\u00e9/a"];
  const fileWith = (modes: FileMode[], contents: string[]) =>
    fc.record({ mode: fc.constantFrom(...modes), content: fc.constantFrom(...contents) });
  // The layer takes the bytes of a link for the link.
  const file = fc.oneof(
    fileWith(["100644", "100755"], ["one", "two"]),
    fileWith(["120000"], ["three", "four"]),
    fileWith(["160000"], ["1".repeat(40), "2".repeat(40)]),
  );
  const files = fc
    .dictionary(fc.constantFrom(...paths), file)
    .map((all) => Object.entries(all).filter(([path]) => !Object.keys(all).some((one) => path.startsWith(`${one}/`))));
  const property = fc.asyncProperty(files, files, async (before, after) => {
    const { base } = await baseWith(before);
    const layer = new Layer(base);
    const kept = new Map(after);
    for (const [path] of before) if (!kept.has(path)) layer.remove(path);
    for (const [path, { mode, content }] of after) layer.write(path, Buffer.from(content), { mode });
    const whole = new ObjectStore();

    const built = await buildTree(base, layer, layer.changed());

    expect(built.tree).toBe(addTree(whole, after));
    expect(built.baseTree).toBe(base.tree);
    expect(built.added.filter((oid) => !whole.read(oid))).toEqual([]);
    expect(built.files.map(({ path }) => path)).toEqual(layer.changed());
    if (layer.changed().length === 0) expect(built.tree).toBe(base.tree);
  });
  await fc.assert(property, { numRuns: propertyRuns(300) });
});

test("a folder whose tree is missing is not rewritten: the commit would delete its files", async () => {
  const { store, base } = await baseWith([hello]);
  const layer = new Layer(base);
  layer.write("docs/new", Buffer.from("new"));
  const docs = addTree(new ObjectStore(), [["hello", hello[1]]]);
  const damaged = new ObjectStore();
  damaged.add({ type: "tree", data: store.read(base.tree)?.data ?? Buffer.alloc(0) });

  await expect(buildTree({ ...base, store: damaged }, layer, layer.changed())).rejects.toThrow(
    `The tree ${docs} of the base is missing.`,
  );
});

const person = { name: " A <Golem>\n", email: "golem@exam>ple.com" };
const request = {
  parents: ["1".repeat(40), "2".repeat(40)],
  message: "Say hello\n",
  author: person,
  at: new Date(1_750_000_000_999),
};

async function builtTree() {
  const { base } = await baseWith([]);
  const layer = new Layer(base);
  layer.write("docs/hello", Buffer.from("hello"));
  return buildTree(base, layer, layer.changed());
}

test("a commit and the objects that are new are packed, and nothing in its header ends a line or an address", async () => {
  const built = await builtTree();

  const { commit, pack } = await createCommit({}, built, request);

  const store = new ObjectStore();
  await indexPack([pack], {
    limits: packLimits,
    signal: undefined,
    read: (oid) => store.read(oid),
    add: (object) => store.add(object),
  });
  const header = "A  Golem <golem@exam ple.com> 1750000000 +0000";
  const expected = [
    `tree ${built.tree}`,
    ...request.parents.map((parent) => `parent ${parent}`),
    `author ${header}`,
    `committer ${header}`,
    "",
    "Say hello\n",
  ].join("\n");
  expect(store.read(commit)?.data.toString()).toBe(expected);
  expect(pack.readUInt32BE(8)).toBe(4);
  expect(store.read(built.tree)).toBeDefined();
  expect(store.read(hashObject({ type: "blob", data: Buffer.from("hello") }))).toBeDefined();
});

test("a commit whose author has no usable name is by Golem Forge", async () => {
  const built = await builtTree();

  const unnamed = await createCommit({}, built, { ...request, author: { name: "<>", email: "a" } });
  const named = await createCommit({}, built, { ...request, author: { name: "Golem Forge", email: "a" } });

  expect(unnamed.commit).toBe(named.commit);
});

test("a commit that the remote creates gets all changed files, and its pack is empty", async () => {
  const built = await builtTree();
  const asked: unknown[] = [];

  const { commit, pack } = await createCommit(
    {
      createCommit: async (given) => {
        asked.push(given);
        return "c".repeat(40);
      },
    },
    built,
    request,
  );

  const { message, parents } = request;
  const { tree, baseTree, files } = built;
  expect(asked).toEqual([{ message, parents, tree, baseTree, files }]);
  expect(commit).toBe("c".repeat(40));
  const header = pack.subarray(0, -20);
  expect(header.toString("latin1")).toBe("PACK\0\0\0\x02\0\0\0\0");
  expect(pack.subarray(-20)).toEqual(createHash("sha1").update(header).digest());
});

test("a commit is the same if its tree, its parents in their order and its message are, whoever wrote it", async () => {
  const built = await builtTree();
  const { tree } = built;
  const data = Buffer.from(
    `tree ${tree}\nparent ${"1".repeat(40)}\nparent ${"2".repeat(40)}\nauthor B <b> 1 +0000\ncommitter B <b> 1 +0000\n\nSay hello\n\n`,
  );
  const isSame = (change: object) => isSameCommit(data, { ...request, tree, ...change });

  expect([isSame({}), isSame({ message: "Say hello" })]).toEqual([true, true]);
  expect(isSame({ tree: "3".repeat(40) })).toBe(false);
  expect(isSame({ parents: request.parents.toReversed() })).toBe(false);
  expect(isSame({ parents: request.parents.slice(1) })).toBe(false);
  expect(isSame({ message: " Say hello" })).toBe(false);
});
