import { createHash, randomBytes } from "node:crypto";
import { deflateSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { packLimits } from "#sandbox/git/index-pack.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { connect } from "#sandbox/git/remote.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { type SandboxWorld, startSandboxWorld } from "../../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterAll(() => world.close());

/** A pack with deltas in it, as a real server sends it, and the names of its objects. */
async function realPack() {
  const repository = await world.repositoryWith({});
  const body = Array.from({ length: 400 }, (_, index) => `line ${(index * 7919) % 1_000}\n`);
  for (let index = 0; index < 12; index++) {
    body[index * 20] = `changed ${index}\n`;
    await repository.commit({ files: { "big.txt": body.join(""), [`small-${index}`]: `${index}` } });
  }
  await repository.git("repack", "-adfq", "--depth=50", "--window=50");
  const tip = (await repository.git("rev-parse", "main")).trim();
  const answer = await connect({ tenant: "", url: repository.url, token: async () => undefined }, undefined).fetch({
    wants: [tip],
    depth: 100,
  });
  if (answer.kind === "refused") throw new Error(answer.reason);
  const listed = await repository.git(
    "cat-file",
    "--batch-all-objects",
    "--batch-check=%(objectname) %(objecttype) %(objectsize) %(deltabase)",
  );
  const pack = Buffer.concat(await Array.fromAsync(answer.pack));
  return { pack, listed: listed.trim().split("\n"), repository };
}

test("every object of a pack, including deltas, has the right type, size and content", async () => {
  const { pack, listed, repository } = await realPack();
  const store = new ObjectStore();

  await store.addPack([pack]);

  expect(listed.filter((line) => !line.endsWith("0".repeat(40))).length).toBeGreaterThan(5);
  for (const line of listed) {
    const [oid = "", type, size] = line.split(" ");
    const object = store.read(oid);
    expect([object?.type, store.sizeOf(oid)]).toEqual([type, Number(size)]);
    if (object?.type === "blob")
      expect(object.data.toString("utf8")).toBe(await repository.git("cat-file", "blob", oid));
  }
});

test("a pack that breaks off removes what only it had, not what another pack also has", async () => {
  const [shared, own] = ["in both packs\n", "in the broken pack\n"].map((text) => Buffer.from(text));
  const store = new ObjectStore();
  const breakOff = Promise.withResolvers<void>();
  const hasArrived = Promise.withResolvers<void>();
  async function* broken() {
    const pack = sealed(3, ...[shared, own].map((content) => blob(content ?? Buffer.alloc(0))));
    yield pack.subarray(0, -20);
    hasArrived.resolve();
    await breakOff.promise;
    throw new Error("the connection broke");
  }
  const first = store.addPack(broken());
  await hasArrived.promise;

  await store.addPack([sealed(1, blob(shared ?? Buffer.alloc(0)))]);
  breakOff.resolve();
  await expect(first).rejects.toThrow("the connection broke");

  const texts = store.oids().map((oid) => store.read(oid)?.data.toString());
  expect(texts).toEqual(["in both packs\n"]);
});

test("objects are read from a pack that arrives in pieces, however well they are compressed", async () => {
  const contents = [
    Buffer.from(Array.from({ length: 50_000 }, (_, at) => (at * at * 31 + (at >> 3)) % 251)),
    Buffer.alloc(300_000, "a"),
    Buffer.from("short\n"),
    randomBytes(2_200_000),
    Buffer.alloc(3_000_000, "compressed to less than a hundredth\n"),
  ];
  const pack = sealed(contents.length, ...contents.map((content) => blob(content)));

  for (const size of [1_000, 8_192, 65_516, pack.length]) {
    const store = new ObjectStore();
    const pieces = Array.from({ length: Math.ceil(pack.length / size) }, (_, at) =>
      pack.subarray(at * size, (at + 1) * size),
    );

    await store.addPack(pieces);

    for (const content of contents) {
      const oid = createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
      expect(store.read(oid)?.data.equals(content)).toBe(true);
    }
  }
});

test("a corrupt or truncated pack is rejected", async () => {
  const { pack } = await realPack();

  await fc.assert(
    fc.asyncProperty(fc.nat(pack.length - 1), fc.integer({ min: 1, max: 255 }), fc.boolean(), async (at, flip, cut) => {
      const damaged = cut ? pack.subarray(0, at) : Buffer.from(pack);
      if (!cut) damaged[at] = (damaged[at] ?? 0) ^ flip;

      await expect(new ObjectStore().addPack([damaged])).rejects.toThrow(/is damaged|too many files|too large/);
    }),
    { numRuns: propertyRuns(100) },
  );
});

test("a pack with a valid checksum and random contents is rejected, and adds no object", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 60 }), fc.integer({ min: 1, max: 3 }), async (bytes, count) => {
      const store = new ObjectStore();

      await expect(store.addPack([sealed(count, Buffer.from(bytes))])).rejects.toThrow(/damaged|too large/);
      expect(store.bytes()).toBe(0);
    }),
    { numRuns: propertyRuns(300) },
  );
});

test("a pack that says it has no objects is empty, or is rejected for what follows", async () => {
  const store = new ObjectStore();

  await store.addPack([sealed(0)]);
  await expect(store.addPack([sealed(0, Buffer.from("more"))])).rejects.toThrow(/damaged/);

  expect(store.bytes()).toBeLessThan(100);
});

test("an object that declares an excessive size is rejected before it is decompressed", async () => {
  const limits = { ...packLimits, object: 1_000, total: 5_000 };
  const load = (pack: Buffer) => new ObjectStore({ limits }).addPack([pack]);

  await expect(load(sealed(1, blob(Buffer.alloc(2_000))))).rejects.toThrow(UserError);
  await expect(load(sealed(6, ...Array.from({ length: 6 }, () => blob(Buffer.alloc(1_000)))))).rejects.toThrow(
    /^The repository is too large to work on/,
  );
  await expect(load(sealed(1, blob(Buffer.alloc(3_000), 10)))).rejects.toThrow(/damaged/);
});

function sealed(count: number, ...objects: Buffer[]): Buffer {
  const head = Buffer.alloc(12);
  head.write("PACK");
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(count, 8);
  const body = Buffer.concat([head, ...objects]);
  return Buffer.concat([body, createHash("sha1").update(body).digest()]);
}

function blob(data: Buffer, claimed = data.length): Buffer {
  const head = [(3 << 4) | (claimed & 15) | (claimed > 15 ? 128 : 0)];
  for (let rest = claimed >> 4; rest > 0; rest >>= 7) head.push((rest & 127) | (rest > 127 ? 128 : 0));
  return Buffer.concat([Buffer.from(head), deflateSync(data)]);
}
