import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { hashObject } from "#sandbox/git/git-objects.ts";
import { findRenamedFolders, findRenames } from "#sandbox/merge/find-renames.ts";
import { type SandboxWorld, startSandboxWorld } from "../../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterAll(() => world.close());

/** Thirty lines of a file, some of them changed. */
function lines(name: string, changed: readonly number[] = [], word = "changed"): string {
  return Array.from({ length: 30 }, (_, at) => `${changed.includes(at) ? word : name} line ${at}\n`).join("");
}

/** Finds renames between two folders. */
async function renamesOf(
  before: Record<string, string>,
  after: Record<string, string>,
  relevant: Iterable<string> = Object.keys(before),
): Promise<Map<string, string>> {
  const contents = new Map<string, Buffer>();
  const candidates = (files: Record<string, string>) =>
    Object.entries(files).map(([path, text]) => {
      const data = Buffer.from(text);
      const oid = hashObject({ type: "blob", data });
      contents.set(oid, data);
      return { path, mode: "100644", oid };
    });
  return findRenames({
    deleted: candidates(before),
    added: candidates(after),
    relevant: new Set(relevant),
    read: (oid) => contents.get(oid),
  });
}

/** Changes this many of the 30 lines. */
const edited = (count: number) =>
  lines(
    "file",
    Array.from({ length: count }, (_, at) => at),
    "word",
  );
const whole = edited(0);

test.each<[string, Record<string, string>, Record<string, string>, Record<string, string>]>([
  ["has the same content, even if it is short", { a: "1" }, { b: "1" }, { a: "b" }],
  ["has the same content and the same name", { "a/x": "1", "a/y": "1" }, { "b/y": "1" }, { "a/y": "b/y" }],
  ["comes first of those with the same content", { "a/x": "1", "a/y": "1" }, { "b/z": "1" }, { "a/x": "b/z" }],
  ["has the content of only one that was deleted", { a: "1" }, { b: "1", c: "1" }, { a: "b" }],
  ["is one of two with the same content each", { a: "1", b: "1" }, { c: "1", d: "1" }, { a: "c", b: "d" }],
  ["is not empty", { a: "" }, { b: "" }, {}],
  [
    "has the same name and most of the content",
    { "a/x": whole },
    { "b/x": edited(7), "b/y": edited(5) },
    { "a/x": "b/x" },
  ],
  [
    "is the most similar one if less is the same",
    { "a/x": whole },
    { "b/x": edited(9), "b/y": edited(5) },
    { "a/x": "b/y" },
  ],
  [
    "is the most similar one if two have the name",
    { "a/x": whole },
    { "b/x": edited(5), "c/x": edited(4) },
    { "a/x": "c/x" },
  ],
  ["has the same name if it is as similar", { "a/x": whole }, { "b/y": edited(9), "b/x": edited(9) }, { "a/x": "b/x" }],
  ["is half the same", { a: whole }, { b: edited(14) }, { a: "b" }],
  ["is not less than half the same", { a: whole }, { b: edited(18) }, {}],
  ["is not more than twice as long", { a: whole }, { b: `${whole}${"x\n".repeat(900)}` }, {}],
  [
    "has the name of several that were deleted",
    { "a/x": whole, "b/x": edited(3) },
    { "c/x": edited(4) },
    { "b/x": "c/x" },
  ],
  ["has other ends of lines", { a: whole.replaceAll("\n", "\r\n") }, { b: whole }, { a: "b" }],
  ["is no binary with other ends of lines", { a: `\0${whole.replaceAll("\n", "\r\n")}` }, { b: `\0${whole}` }, {}],
  ["is not larger than 8 MiB", { a: "x".repeat(2 ** 23 + 1) }, { b: "x".repeat(2 ** 23 + 2) }, {}],
  ["is similar to only one that was deleted", { a: whole, b: edited(1) }, { c: edited(2) }, { b: "c" }],
])("the new path of a renamed file is one that %s", async (_, before, after, renames) => {
  expect(Object.fromEntries(await renamesOf(before, after))).toEqual(renames);
});

test("only files for which it matters are found by similar contents, and none among too many", async () => {
  const many = Array.from({ length: 450 }, (_, at) => ({ path: `${at}`, mode: "100644", oid: `${at}` }));
  const added = many.map(({ path, mode, oid }) => ({ path: `new ${path}`, mode, oid: `new ${oid}` }));
  const read = vi.fn(() => Buffer.from(whole));

  expect(await renamesOf({ a: whole, b: "1" }, { c: edited(1), d: "1" }, [])).toEqual(new Map([["b", "d"]]));
  expect(await findRenames({ deleted: many, added, relevant: { has: () => true }, read })).toEqual(new Map());
  expect(read).not.toHaveBeenCalled();
});

test.each<[string, Record<string, string>, Record<string, string>]>([
  ["to where most of its files moved", { "a/1": "b/1", "a/2": "b/2", "a/3": "c/3" }, { a: "b" }],
  ["to where most of its files moved, whichever moved first", { "a/1": "c/1", "a/2": "b/2", "a/3": "b/3" }, { a: "b" }],
  ["nowhere if as many files moved to another one", { "a/1": "b/1", "a/2": "c/2" }, {}],
  ["with the folder that it is in", { "a/x/1": "b/x/1" }, { "a/x": "b/x", a: "b" }],
  ["without the folder that it is in, if it has another name there", { "a/x/1": "b/y/1" }, { "a/x": "b/y" }],
  ["to the top", { "a/1": "1" }, { a: "" }],
  ["nowhere if it is still there", { "kept/1": "b/1" }, {}],
  ["nowhere if its files only have other names", { "a/1": "a/2" }, {}],
])("a folder that is gone was renamed %s", (_, renames, folders) => {
  const isGone = (folder: string) => folder !== "kept" && folder !== "";

  expect(Object.fromEntries(findRenamedFolders(new Map(Object.entries(renames)), isGone))).toEqual(folders);
});

test("renames are the ones that git finds, by equal contents, by name and by similarity around one half", async () => {
  const before: Record<string, string> = {};
  const after: Record<string, string> = {};
  for (let index = 0; index < 40; index++) {
    const count = 8 + (index % 15);
    const name = `old/${index % 4 === 0 ? "same" : "other"}-${index}.txt`;
    before[name] = lines(`file ${index}`).replaceAll("line 3\n", "line 3\r\n");
    after[name.replace("old", "new").replace("other", `moved-${(index * 7) % 11}`)] = lines(
      `file ${index}`,
      Array.from({ length: index % 9 === 0 ? 0 : count }, (_, at) => (at * 7) % 30),
      `word ${index}`,
    );
  }
  before["old/empty.txt"] = "";
  after["new/empty.txt"] = "";
  const repository = await world.repositoryWith(before);
  const gone = Object.fromEntries(Object.keys(before).map((path) => [path, null]));
  await repository.commit({ files: { ...gone, ...after } });
  const options = ["--name-status", "-M50%", "--diff-filter=R", "--no-rename-empty", "main~1", "main"];
  const found = (await repository.git("diff", ...options)).trim().split("\n");
  const renames = await renamesOf(before, after);

  const theirs = found.map((line) => line.split("\t").slice(1).join(" to "));
  expect([...renames].map(([from, to]) => `${from} to ${to}`).toSorted()).toEqual(theirs.toSorted());
  expect(renames.size).toBeGreaterThan(15);
  expect(renames.size).toBeLessThan(40);
});
