import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { compareTrees, hasTree } from "#sandbox/git/compare-trees.ts";
import { encodeTree } from "#sandbox/git/git-objects.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { readBase } from "#sandbox/git/read-base.ts";
import { longestTurnMs } from "../support/longest-turn.ts";
import { type SandboxWorld, startSandboxWorld } from "../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterAll(() => world.close());

/** A few trees that refer to each other: ten folders in each of ten levels, so ten billion files. */
function addBomb(store: ObjectStore, levels = 10): string {
  let oid = store.add({ type: "blob", data: Buffer.from("boom\n") });
  for (let level = 0; level < levels; level++) {
    const mode = level === 0 ? "100644" : "40000";
    const items = Array.from({ length: 10 }, (_, index) => ({ mode, name: Buffer.from(`f${index}`), oid }));
    oid = store.add({ type: "tree", data: encodeTree(items) });
  }
  return oid;
}

test("a base whose few trees make billions of files is refused, and the process stays responsive", async () => {
  const store = new ObjectStore();
  const tree = addBomb(store);
  const commit = store.add({
    type: "commit",
    data: Buffer.from(`tree ${tree}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nx\n`),
  });

  const blockedMs = await longestTurnMs(() =>
    expect(readBase(store, commit)).rejects.toThrow(/^The repository has too many files to work on/),
  );

  expect(blockedMs).toBeLessThan(1_000);
});

test("a comparison with such trees is refused, and they are recognized as complete at once", async () => {
  const store = new ObjectStore();
  const bomb = addBomb(store);
  const empty = store.add({ type: "tree", data: Buffer.alloc(0) });

  const compared = compareTrees(store, { before: empty, after: bomb, name: "The branch boom" });
  await expect(compared).rejects.toThrow(UserError);
  await expect(compared).rejects.toThrow(/^The branch boom has too many files to work on/);
  expect(await hasTree(store, bomb)).toBe(true);
});

test("folders nested too deeply are refused", async () => {
  const store = new ObjectStore();
  let oid = store.add({ type: "blob", data: Buffer.from("x") });
  for (let level = 0; level < 5_000; level++) {
    oid = store.add({
      type: "tree",
      data: encodeTree([{ mode: level ? "40000" : "100644", name: Buffer.from("d"), oid }]),
    });
  }
  const empty = store.add({ type: "tree", data: Buffer.alloc(0) });

  await expect(compareTrees(store, { before: empty, after: oid, name: "It" })).rejects.toThrow(/nested too deeply/);
});

test("merging a branch with such trees is refused with its name", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1\n" });
  const parent = (await repository.git("rev-parse", "main")).trim();
  const store = new ObjectStore();
  const tree = addBomb(store);
  const objects = [...store.oids()].map((oid) => store.read(oid)).filter((object) => object !== undefined);
  await repository.feed(packOf(objects), "unpack-objects", "-q");
  const commit = (
    await repository.git("-c", "user.name=A", "-c", "user.email=a@b", "commit-tree", tree, "-p", parent, "-m", "x")
  ).trim();
  await repository.git("update-ref", "refs/heads/boom", commit);
  const sandbox = await world.open(repository);

  const blockedMs = await longestTurnMs(() =>
    expect(sandbox.mergeBranch("boom")).rejects.toThrow(/^The branch boom has too many files to work on/),
  );

  expect(blockedMs).toBeLessThan(1_000);
  expect(await sandbox.changes()).toEqual([]);
});

function packOf(objects: readonly { type: string; data: Buffer }[]): Buffer {
  const codes: Record<string, number> = { commit: 1, tree: 2, blob: 3 };
  const head = Buffer.from(`PACK\0\0\0\x02\0\0\0${String.fromCharCode(objects.length)}`, "latin1");
  const body = objects.flatMap(({ type, data }) => {
    const size = [((codes[type] ?? 3) << 4) | (data.length & 15) | (data.length > 15 ? 128 : 0)];
    for (let rest = data.length >> 4; rest > 0; rest >>= 7) size.push((rest & 127) | (rest > 127 ? 128 : 0));
    return [Buffer.from(size), deflateSync(data)];
  });
  const pack = Buffer.concat([head, ...body]);
  return Buffer.concat([pack, createHash("sha1").update(pack).digest()]);
}
