import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import type { FileMode } from "#domain/preview.ts";
import { submoduleVersion } from "#sandbox/diff-file.ts";
import { compareFiles } from "#sandbox/git/compare-trees.ts";
import { encodePack, encodeTree, hashObject } from "#sandbox/git/git-objects.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { buildTree } from "#sandbox/git/push-changes.ts";
import { readBaseSync } from "#sandbox/git/read-base.ts";
import { findMergeBases } from "#sandbox/merge/merge-base.ts";
import { combineBases, mergeInto, mergeWrites } from "#sandbox/merge/merge-branch.ts";
import { createOverlay } from "#sandbox/overlay.ts";
import { foldersAbove } from "#sandbox/paths.ts";
import type { GitFile } from "../../support/git-server.ts";
import { propertyRuns } from "../../support/property-runs.ts";

/** What a commit contains at a path. The content of a submodule is its commit. */
interface Item {
  mode: FileMode;
  content: Buffer;
}
type Items = ReadonlyMap<string, Item>;
type Changes = Record<string, GitFile | null>;

/** Two sides that each changed some files of a common commit. */
interface Sides {
  base: Record<string, GitFile>;
  /** Two changes of the common commit, each of which both sides merged before their own change. */
  crossed?: [Changes, Changes] | undefined;
  ours: Changes;
  theirs: Changes;
}

/** The objects of the commits that were fetched. */
let store = new ObjectStore();

function itemOf(file: GitFile): Item {
  if (typeof file === "string" || file instanceof Uint8Array) {
    return { mode: "100644", content: Buffer.from(file as string) };
  }
  if ("link" in file) return { mode: "120000", content: Buffer.from(file.link) };
  if ("submodule" in file) return { mode: "160000", content: Buffer.from(file.submodule) };
  return { mode: file.executable ? "100755" : "100644", content: Buffer.from(file.content as string) };
}

/** Applies changes. A file replaces a folder, and a folder a file. */
function change(items: Items, changes: Changes): Items {
  const changed = new Map(items);
  for (const [path, file] of Object.entries(changes)) {
    changed.delete(path);
    if (!file) continue;
    for (const other of changed.keys()) {
      if (other.startsWith(`${path}/`) || path.startsWith(`${other}/`)) changed.delete(other);
    }
    changed.set(path, itemOf(file));
  }
  return changed;
}

function addTree(items: readonly (readonly [path: string, item: Item])[]): string {
  const lines = [...Map.groupBy(items, ([path]) => path.replace(/\/.*/s, ""))].map(([text, inside]) => {
    const name = Buffer.from(text);
    const item = inside.find(([path]) => path === text)?.[1];
    if (!item) {
      const below = inside.map(([path, lower]) => [path.slice(text.length + 1), lower] as const);
      return { mode: "40000", name, oid: addTree(below) };
    }
    const oid = item.mode === "160000" ? `${item.content}` : store.add({ type: "blob", data: item.content });
    return { mode: item.mode, name, oid };
  });
  return store.add({ type: "tree", data: encodeTree(lines) });
}

let seconds = 1_700_000_000;

function addCommit(items: Items, ...parents: string[]): string {
  seconds++;
  const person = `Ada <ada@example.com> ${seconds} +0000`;
  const lines = [`tree ${addTree([...items])}`, ...parents.map((parent) => `parent ${parent}`)];
  const text = `${lines.join("\n")}\nauthor ${person}\ncommitter ${person}\n\nA commit\n`;
  return store.add({ type: "commit", data: Buffer.from(text) });
}

/** The files from which both sides begin. */
function startOf({ base, crossed = [{}, {}] }: Sides): Items {
  return crossed.reduce(change, change(new Map(), base));
}

function addCommits(sides: Sides) {
  const items = change(new Map(), sides.base);
  const first = addCommit(items);
  const [left, right] = (sides.crossed ?? []).map((changes) => addCommit(change(items, changes), first));
  const start = startOf(sides);
  const commitOf = (changes: Changes, ...parents: string[]) => addCommit(change(start, changes), ...parents);
  if (left === undefined || right === undefined)
    return { start: first, ours: commitOf(sides.ours, first), theirs: commitOf(sides.theirs, first) };
  return {
    start: commitOf({}, left, right),
    ours: commitOf(sides.ours, left, right),
    theirs: commitOf(sides.theirs, right, left),
  };
}

/** Merges the sides of all stories with one git process. Returns the merged trees; undefined for a conflict. */
function mergeWithGit(stories: readonly Sides[]): (string | undefined)[] {
  const commits = stories.map(addCommits);
  const pack = encodePack(store.oids().flatMap((oid) => store.read(oid) ?? []));
  const folder = mkdtempSync(join(tmpdir(), "golem-merge-"));
  const git = (input: string | Buffer, ...args: string[]) =>
    spawnSync("git", args, { cwd: folder, input, maxBuffer: 10 ** 8 }).stdout.toString();
  try {
    git("", "init", "--quiet", "--bare");
    git(pack, "index-pack", "--stdin");
    const pairs = commits.map(({ ours, theirs }) => `${ours} ${theirs}\n`).join("");
    const options = ["--write-tree", "--stdin", "--name-only", "--no-messages"];
    const parts = git(pairs, "merge-tree", ...options).split("\0");
    return stories.map(() => {
      const [status, tree] = parts.splice(0, 2);
      parts.splice(0, parts.indexOf("") + 1);
      expect(tree).toMatch(/^[0-9a-f]{40}$/);
      return status === "1" ? tree : undefined;
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Merges into working files over our commit or, if our changes are not committed, over the common commit. */
async function merge(sides: Sides, isCommitted: boolean) {
  store = new ObjectStore();
  const { start, ours, theirs } = addCommits(sides);
  const [before, items] = [startOf(sides), change(startOf(sides), sides.ours)];
  const tip = isCommitted ? ours : start;
  const base = readBaseSync(store, tip);
  const overlay = createOverlay(base, () => false);
  if (!isCommitted) {
    for (const path of before.keys()) if (!items.has(path)) overlay.remove("repository", path);
    for (const [path, { content, mode }] of items) {
      const was = before.get(path);
      if (was?.mode !== mode || !was.content.equals(content)) overlay.write("repository", path, content, mode);
    }
  }
  const layer = overlay.layers.repository;
  const basesOf = async (one: string, other: string) => (await findMergeBases(store, one, other)).bases;
  const mergeBase = await combineBases({ store, basesOf, fetchFiles: async () => {} }, await basesOf(tip, theirs));
  const labels = { ours: "this run", theirs: "topic" };
  const { edits, conflicts } = await mergeInto(base, layer, { labels, commit: theirs, mergeBase });
  const isDone = ({ path, content, mode }: (typeof edits)[number]) => {
    const now = layer.treeEntry(path);
    if (!content || !now) return !content && !now;
    return (
      now.mode === mode && now.oid === (mode === "160000" ? `${content}` : hashObject({ type: "blob", data: content }))
    );
  };
  expect(edits.filter(isDone)).toEqual([]);
  for (const { path, content } of edits) if (!content) overlay.remove("repository", path);
  for (const { path, content, mode } of edits) if (content) overlay.write("repository", path, content, mode);
  // No file is also a folder, even if the rest of the merge conflicts.
  const broken = layer.changed().filter((path) => layer.treeEntry(path) && layer.namesIn(path).length > 0);
  const covered = layer
    .changed()
    .filter((path) => layer.treeEntry(path) && foldersAbove(path).some((folder) => layer.treeEntry(folder)));
  expect([...broken, ...covered]).toEqual([]);
  const { tree, files } = await buildTree(base, layer, layer.changed());
  // The listed files are what the tree changes.
  const listed = new Map(isCommitted ? items : before);
  for (const { path, mode, content } of files) {
    if (content) listed.set(path, { mode, content: Buffer.from(content) });
    else listed.delete(path);
  }
  expect(addTree([...listed])).toBe(tree);
  return {
    tree: conflicts.length === 0 ? tree : undefined,
    conflicts: conflicts.map(({ path, kind }) => `${kind} ${path}`).sort(),
    unresolved: mergeWrites({ edits: [], conflicts }).map(({ path, content }) => [path, `${content}`]),
  };
}

/** Thirty lines of a file, some of them changed. */
function lines(name: string, changed: readonly number[] = [], word = "changed"): string {
  return Array.from({ length: 30 }, (_, at) => `${changed.includes(at) ? word : name} line ${at}\n`).join("");
}

const [oneCommit, otherCommit] = ["1".repeat(40), "2".repeat(40)];
const script = (content: string) => ({ content, executable: true });
const renamed = { "a.txt": lines("a"), "src/b.txt": lines("b"), "c.txt": "c" };
const folder = { "old/a": lines("a"), "old/in/b": lines("b") };
const clean: Record<string, Sides> = {
  "files added to folders that the other side split or kept": {
    base: { ...folder, "kept/a": lines("c"), "kept/b": "b" },
    ours: {
      "old/a": null,
      "old/in/b": null,
      "new/a": lines("a"),
      "other/b": lines("b"),
      "kept/a": null,
      "moved/a": lines("c"),
    },
    theirs: { "kept/c": "c" },
  },
  "changes to other lines and files": {
    base: { text: lines("a"), only: "1", gone: "2", both: "3", same: "4" },
    ours: { text: lines("a", [5]), both: null, same: "5", mine: "6" },
    theirs: { text: lines("a", [15]), only: "7", gone: null, both: null, same: "5", "new/file": "8" },
  },
  "changes of content and of mode": {
    base: { "ours.sh": "1", "theirs.sh": "1", "both.sh": "1", "off.sh": script("1"), "kept.sh": script("1") },
    ours: { "ours.sh": script("1"), "theirs.sh": "2", "both.sh": script("1"), "kept.sh": script("2") },
    theirs: { "ours.sh": "2", "theirs.sh": script("1"), "both.sh": script("1"), "off.sh": "1", "new.sh": script("1") },
  },
  "links and submodules": {
    base: { link: { link: "a" }, gone: { link: "b" }, module: { submodule: oneCommit }, same: { link: "c" }, d: "1" },
    ours: { mine: "1", same: { link: "d" } },
    theirs: {
      link: { link: "z" },
      gone: "1",
      module: { submodule: otherCommit },
      same: { link: "d" },
      d: { link: "e" },
    },
  },
  "links and submodules that both sides removed": {
    base: { link: { link: "a" }, module: { submodule: oneCommit }, folder: { link: "b" }, a: "1" },
    ours: { link: null, module: null, "folder/ours": "1" },
    theirs: { link: null, module: null, "folder/theirs": "2" },
  },
  "a folder that becomes a file, and a file that becomes a folder": {
    base: { "folder/a": "1", "folder/b/c": "2", file: "3", other: "4" },
    ours: { other: "5" },
    theirs: { folder: "6", "file/in": "7" },
  },
  "a change of a file that they renamed": {
    base: renamed,
    ours: { "a.txt": lines("a", [3]) },
    theirs: { "a.txt": null, "new/a.txt": lines("a", [20], "theirs") },
  },
  "a change of a file that we renamed": {
    base: renamed,
    ours: { "src/b.txt": null, "lib/other.txt": lines("b", [1]) },
    theirs: { "src/b.txt": lines("b", [9]) },
  },
  "a change of a file that they moved into a folder of its name": {
    base: { page: lines("a") },
    ours: { page: lines("a", [3]) },
    theirs: { "page/index": lines("a", [20], "theirs") },
  },
  "a change of a link and of a submodule that they renamed": {
    base: { link: { link: "a" }, module: { submodule: oneCommit }, same: { link: "b" } },
    ours: { link: { link: "z" }, module: { submodule: otherCommit } },
    theirs: { link: null, "new/link": { link: "a" }, module: null, "new/module": { submodule: oneCommit } },
  },
  "a change of a link and of a submodule that we renamed": {
    base: { link: { link: "a" }, module: { submodule: oneCommit }, same: { link: "b" } },
    ours: { link: null, "new/link": { link: "a" }, module: null, "new/module": { submodule: oneCommit } },
    theirs: { link: { link: "z" }, module: { submodule: otherCommit } },
  },
  "a change of both sides to a file that both renamed": {
    base: renamed,
    ours: { "a.txt": null, "d.txt": lines("a", [2], "ours") },
    theirs: { "a.txt": null, "d.txt": lines("a", [25], "theirs") },
  },
};
const conflicting: Record<string, Sides & { conflicts: string[] }> = {
  "a line that both sides changed": {
    base: { text: "a\nb\nc\n" },
    ours: { text: "a\nours\nc\n" },
    theirs: { text: "a\ntheirs\nc\n" },
    conflicts: ["content text"],
  },
  "different new files": { base: {}, ours: { a: "1\n" }, theirs: { a: "2\n" }, conflicts: ["content a"] },
  "a changed file that the other side removed": {
    base: { a: "1", b: "1" },
    ours: { a: null, b: "2" },
    theirs: { a: "2", b: null },
    conflicts: ["deleted a", "deleted b"],
  },
  "a file whose mode changed and that the other side removed": {
    base: { a: "1", b: "1" },
    ours: { a: null, b: script("1") },
    theirs: { a: script("1"), b: null },
    conflicts: ["deleted a", "deleted b"],
  },
  "binary files": {
    base: { a: Uint8Array.from([0, 1]) },
    ours: { a: Uint8Array.from([0, 2]) },
    theirs: { a: Uint8Array.from([0, 3]) },
    conflicts: ["other a"],
  },
  "links that both sides changed": {
    base: { a: { link: "1" } },
    ours: { a: { link: "2" } },
    theirs: { a: { link: "3" } },
    conflicts: ["other a"],
  },
  "a link that we changed and they removed": {
    base: { a: { link: "1" } },
    ours: { a: { link: "2" } },
    theirs: { a: null },
    conflicts: ["other a"],
  },
  "a link that they renamed and we removed": {
    base: { a: { link: "1" } },
    ours: { a: null },
    theirs: { a: null, b: { link: "1" } },
    conflicts: ["deleted b"],
  },
  "a link that they renamed and we replaced by a file": {
    base: { a: { link: "1" } },
    ours: { a: "2" },
    theirs: { a: null, b: { link: "1" } },
    conflicts: ["other b"],
  },
  "a link that we changed and they replaced by a file elsewhere": {
    base: { a: { link: "target" } },
    ours: { a: { link: "2" } },
    theirs: { a: null, b: "target" },
    conflicts: ["other a"],
  },
  "a link that we removed and they changed": {
    base: { a: { link: "1" } },
    ours: { a: null },
    theirs: { a: { link: "2" } },
    conflicts: ["other a"],
  },
  "a submodule that both sides changed": {
    base: { a: { submodule: oneCommit } },
    ours: { a: { submodule: otherCommit } },
    theirs: { a: { submodule: "3".repeat(40) } },
    conflicts: ["other a"],
  },
  "a file where they have a folder": { base: {}, ours: { a: "1" }, theirs: { "a/b": "2" }, conflicts: ["other a/b"] },
  "a folder where they have a file": { base: {}, ours: { "a/b": "1" }, theirs: { a: "2" }, conflicts: ["other a"] },
  "a folder where they have a link": {
    base: {},
    ours: { "a/b": "1" },
    theirs: { a: { link: "c" } },
    conflicts: ["other a"],
  },
  "a folder with a link where they have a file": {
    base: {},
    ours: { "a/b": { link: "c" } },
    theirs: { a: "1" },
    conflicts: ["other a"],
  },
  "a folder with a submodule further below where they have a file": {
    base: { "a/x": "1" },
    ours: { "a/b/c": { submodule: oneCommit } },
    theirs: { a: "2" },
    conflicts: ["other a"],
  },
  "a link where they have a folder": {
    base: {},
    ours: { a: { link: "c" } },
    theirs: { "a/b/c": "1" },
    conflicts: ["other a/b/c"],
  },
  "a changed file that they replaced by a folder": {
    base: { a: lines("a") },
    ours: { a: lines("a", [3]) },
    theirs: { "a/b": "2" },
    conflicts: ["deleted a", "other a/b"],
  },
  "a file that they renamed and we removed": {
    base: renamed,
    ours: { "a.txt": null },
    theirs: { "a.txt": null, "new.txt": lines("a", [4]) },
    conflicts: ["deleted new.txt"],
  },
  "a file that they renamed to the name of our new one, and that we removed": {
    base: renamed,
    ours: { "a.txt": null, "new.txt": "ours\n" },
    theirs: { "a.txt": null, "new.txt": lines("a", [4]) },
    conflicts: ["other new.txt"],
  },
  "a file that we renamed and they removed": {
    base: renamed,
    ours: { "a.txt": null, "new.txt": lines("a", [4]) },
    theirs: { "a.txt": null },
    conflicts: ["deleted new.txt"],
  },
  "a file that both sides renamed, but not to the same path": {
    base: renamed,
    ours: { "a.txt": null, "one.txt": lines("a") },
    theirs: { "a.txt": null, "two.txt": lines("a") },
    conflicts: ["other two.txt"],
  },
  "a line of a renamed file that both sides changed": {
    base: renamed,
    ours: { "a.txt": lines("a", [3]) },
    theirs: { "a.txt": null, "new.txt": lines("a", [3], "something else") },
    conflicts: ["content new.txt"],
  },
  "a file that they renamed to a path of a new file of ours": {
    base: renamed,
    ours: { "a.txt": lines("a", [3]), "new.txt": "ours" },
    theirs: { "a.txt": null, "new.txt": lines("a", [4]) },
    conflicts: ["other new.txt"],
  },
  "a file that we renamed to a path of a new file of theirs": {
    base: renamed,
    ours: { "a.txt": null, "new.txt": lines("a", [4]) },
    theirs: { "a.txt": lines("a", [3]), "new.txt": "theirs" },
    conflicts: ["other new.txt"],
  },
  "a file that we renamed and they replaced by a link": {
    base: renamed,
    ours: { "a.txt": null, "new.txt": lines("a") },
    theirs: { "a.txt": { link: "c.txt" } },
    conflicts: ["other new.txt"],
  },
  "a file that they added to a folder that we renamed": {
    base: folder,
    ours: { "old/a": null, "old/in/b": null, "new/a": lines("a"), "new/in/b": lines("b", [3]) },
    theirs: { "old/in/added": "added" },
    conflicts: ["folder new/in/added"],
  },
  "a file that we added to a folder that they renamed": {
    base: folder,
    ours: { "old/in/added": "added" },
    theirs: { "old/a": null, "old/in/b": null, a: lines("a"), "in/b": lines("b") },
    conflicts: ["folder in/added"],
  },
  "a file that they added to a renamed folder, where we have another one": {
    base: folder,
    ours: { "old/a": null, "old/in/b": null, "new/a": lines("a"), "new/in/b": lines("b"), "new/c": "ours" },
    theirs: { "old/c": "theirs" },
    conflicts: ["folder new/c"],
  },
};

/**
 * Random sides. An executable file is never equal to another file, since git reports a conflict if both sides add it with
 * different modes.
 */
const paths = fc.constantFrom("a", "b", "d", "d/a", "d/b", "e/x/y", "e/z");
const text = fc
  .tuple(fc.constantFrom("one", "two", "three"), fc.array(fc.nat(11), { maxLength: 3 }), fc.constantFrom("x", "y"))
  .map(([name, changed, word]) => lines(name, changed, word));
const entry = fc.tuple(paths, text, fc.constantFrom("file", "file", "file", "script", "link", "module"), fc.nat(1));
const files = (maxLength: number) =>
  fc.array(entry, { maxLength }).map((entries) =>
    Object.fromEntries(
      entries.map(([path, content, kind, number]): [string, GitFile] => {
        if (kind === "link") return [path, { link: `target-${number}` }];
        if (kind === "module") return [path, { submodule: number === 0 ? oneCommit : otherCommit }];
        return [path, kind === "file" ? content : script(`#!\n${content}`)];
      }),
    ),
  );
const changes = fc
  .tuple(files(3), fc.array(paths, { maxLength: 2 }))
  .map(([added, removed]): Changes => ({ ...Object.fromEntries(removed.map((path) => [path, null])), ...added }));
const anySides: fc.Arbitrary<Sides> = fc.record({ base: files(5), ours: changes, theirs: changes });
/** Merge bases only change text files: for conflicts of other kinds between them, git invents names. */
const textFiles = fc.dictionary(fc.constantFrom("a", "b", "d/a", "e/x/y", "e/z"), text, { maxKeys: 3 });
const crossedSides: fc.Arbitrary<Sides> = fc.record({
  base: textFiles,
  crossed: fc.tuple(textFiles, textFiles),
  ours: changes,
  theirs: changes,
});
const random = [
  ...fc.sample(anySides, { numRuns: propertyRuns(3_000), seed: 1 }),
  ...fc.sample(crossedSides, { numRuns: propertyRuns(1_000), seed: 1 }),
];

const stories = [...Object.values(clean), ...Object.values(conflicting), ...random];
let trees: Map<Sides, string | undefined>;
beforeAll(() => {
  const merged = mergeWithGit(stories);
  trees = new Map(stories.map((sides, index) => [sides, merged[index]]));
});

describe.each([true, false])("with our changes committed: %s", (isCommitted) => {
  test.each(Object.entries(clean))("%s merge as in git", async (_, sides) => {
    const { tree, conflicts } = await merge(sides, isCommitted);

    expect(conflicts).toEqual([]);
    expect(tree).toBe(trees.get(sides));
  });

  test.each(Object.entries(conflicting))("%s: a conflict, as in git", async (_, { conflicts: expected, ...sides }) => {
    const { conflicts } = await merge(sides, isCommitted);

    expect(conflicts).toEqual(expected);
  });

  test("a file that one side deleted is kept as the other side changed it, as in git", async () => {
    const { "new.txt": moved, ...base } = {
      "ours.txt": "1",
      "theirs.txt": "1",
      "old.txt": lines("a"),
      "new.txt": lines("a", [3]),
    };
    const ours = { "ours.txt": null, "theirs.txt": "2", "old.txt": null };
    const theirs = { "ours.txt": "2", "theirs.txt": null, "old.txt": null, "new.txt": moved };

    const { conflicts, unresolved } = await merge({ base, ours, theirs }, isCommitted);

    expect(conflicts).toEqual(["deleted new.txt", "deleted ours.txt", "deleted theirs.txt"]);
    expect(unresolved).toEqual([
      ["new.txt", moved],
      ["ours.txt", "2"],
    ]);
  });

  test("our version of a binary file that they renamed and changed is kept at its new path, as in git", async () => {
    const binary = (...changed: number[]) => Buffer.from(`\0${lines("a", changed)}`);
    const ours = { a: binary(3) };
    const theirs = { a: null, b: binary(20) };

    const { conflicts, unresolved } = await merge({ base: { a: binary() }, ours, theirs }, isCommitted);

    expect(conflicts).toEqual(["other b"]);
    expect(unresolved).toEqual([["b", `${binary(3)}`]]);
  });

  test("random changes merge as in git", async () => {
    for (const sides of random) {
      const { tree } = await merge(sides, isCommitted);

      expect(tree, JSON.stringify(sides)).toBe(trees.get(sides));
    }
  });
});

test("git reports the same stories as conflicts", () => {
  expect(Object.entries(conflicting).filter(([, sides]) => trees.get(sides) !== undefined)).toEqual([]);
});

test("the files that differ between two trees are listed with both versions", async () => {
  const treeOf = (files: Record<string, GitFile>) => addTree([...change(new Map(), files)]);
  const before = treeOf({ a: "1", "d/same": "2", gone: "3", link: { link: "a" }, tool: script("4") });
  const after = treeOf({ a: "5", "d/same": "2", link: { link: "d" }, module: { submodule: oneCommit }, tool: "4" });
  const version = (text: string, more = {}) => ({ content: Buffer.from(text), executable: false, ...more });

  expect(await compareFiles(store, before, after)).toEqual([
    { path: "a", before: version("1"), after: version("5") },
    { path: "gone", before: version("3"), after: undefined },
    { path: "link", before: version("a", { isLink: true }), after: version("d", { isLink: true }) },
    { path: "module", before: undefined, after: submoduleVersion(oneCommit) },
    { path: "tool", before: version("4", { executable: true }), after: version("4") },
  ]);
});
