import { afterAll, beforeAll, expect, test } from "vitest";
import { hashObject } from "#sandbox/git/git-objects.ts";
import { findRenames } from "#sandbox/merge/find-renames.ts";
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
