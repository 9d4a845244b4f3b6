import { afterAll, beforeAll, expect, test } from "vitest";
import { findRenames } from "#sandbox/find-renames.ts";
import { hashObject } from "#sandbox/git-objects.ts";
import { type SandboxWorld, startSandboxWorld, textOf } from "../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterAll(() => world.close());

/** Thirty lines of a file, some of them changed. */
function lines(name: string, changed: readonly number[] = [], word = "changed"): string {
  return Array.from({ length: 30 }, (_, at) => `${changed.includes(at) ? word : name} line ${at}\n`).join("");
}

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
  const contents = new Map<string, Buffer>();
  const candidates = (files: Record<string, string>) =>
    Object.entries(files).map(([path, text]) => {
      const data = Buffer.from(text);
      const oid = hashObject({ type: "blob", data });
      contents.set(oid, data);
      return { path, oid };
    });

  const renames = await findRenames({
    deleted: candidates(before),
    added: candidates(after),
    relevant: new Set(Object.keys(before)),
    read: (oid) => contents.get(oid),
  });

  const theirs = found.map((line) => line.split("\t").slice(1).join(" to "));
  expect([...renames].map(([from, to]) => `${from} to ${to}`).toSorted()).toEqual(theirs.toSorted());
  expect(renames.size).toBeGreaterThan(15);
  expect(renames.size).toBeLessThan(40);
});

type Files = Record<string, string | null>;

/** Merges two sides with git and with our own merge. Renames of our side are not committed. */
async function mergeBoth(base: Files, ours: Files, theirs: Files) {
  const repository = await world.repositoryWith(base as Record<string, string>);
  const parent = (await repository.git("rev-parse", "main")).trim();
  await repository.commit({ branch: "theirs", parent, files: theirs });
  await repository.commit({ branch: "ours", parent, files: ours });
  const tree = await repository.git("merge-tree", "--write-tree", "ours", "theirs").catch(() => undefined);
  const sandbox = await world.open(repository);
  for (const [path, content] of Object.entries(ours)) {
    if (content === null) await sandbox.remove(path);
    else await sandbox.write(path, content);
  }

  const { conflicts, applied } = await sandbox.mergeBranch("theirs");

  expect(applied).toBe(tree !== undefined);
  if (tree === undefined) return { conflicts: conflicts.map(({ path, kind }) => `${kind} ${path}`) };
  const names = (await repository.git("ls-tree", "-r", "--name-only", tree.trim())).trim().split("\n");
  expect(await sandbox.paths()).toEqual(names);
  for (const name of names) {
    expect(textOf(await sandbox.readBytes(name))).toBe(await repository.git("show", `${tree.trim()}:${name}`));
  }
  return { names };
}

const base = { "a.txt": lines("a"), "src/b.txt": lines("b"), "c.txt": "c" };

test("a change follows the file that the other side renamed, with the result of git's merge", async () => {
  expect(
    await mergeBoth(base, { "a.txt": lines("a", [3]) }, { "a.txt": null, "new/a.txt": lines("a", [20], "theirs") }),
  ).toEqual({ names: ["c.txt", "new/a.txt", "src/b.txt"] });
  expect(
    await mergeBoth(base, { "src/b.txt": null, "lib/other.txt": lines("b", [1]) }, { "src/b.txt": lines("b", [9]) }),
  ).toEqual({ names: ["a.txt", "c.txt", "lib/other.txt"] });
  expect(
    await mergeBoth(
      base,
      { "a.txt": null, "d.txt": lines("a", [2], "ours") },
      { "a.txt": null, "d.txt": lines("a", [25], "theirs") },
    ),
  ).toEqual({ names: ["c.txt", "d.txt", "src/b.txt"] });
});

test("renames that contradict the other side are conflicts, as in git", async () => {
  expect(await mergeBoth(base, { "a.txt": null }, { "a.txt": null, "new.txt": lines("a", [4]) })).toEqual({
    conflicts: ["deleted new.txt"],
  });
  expect(await mergeBoth(base, { "a.txt": null, "new.txt": lines("a", [4]) }, { "a.txt": null })).toEqual({
    conflicts: ["deleted new.txt"],
  });
  expect(
    await mergeBoth(base, { "a.txt": null, "one.txt": lines("a") }, { "a.txt": null, "two.txt": lines("a") }),
  ).toEqual({ conflicts: ["other two.txt"] });
  expect(
    await mergeBoth(
      base,
      { "a.txt": lines("a", [3]) },
      { "a.txt": null, "new.txt": lines("a", [3], "something else") },
    ),
  ).toEqual({ conflicts: ["content new.txt"] });
});
