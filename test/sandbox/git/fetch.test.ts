import { createHash } from "node:crypto";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openSandbox } from "#sandbox/open-sandbox.ts";
import type { GitRepository } from "../../support/git-server.ts";
import { pushAll, type SandboxWorld, startSandboxWorld, textOf } from "../../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterEach(() => {
  world.server.options.intercept = undefined;
});
afterAll(() => world.close());

/** Opens without waiting for the contents. */
const open = (repository: GitRepository) =>
  openSandbox({
    source: { tenant: repository.url, url: repository.url, token: async () => undefined },
    at: { branch: "main" },
    changes: [],
  });

/** Records the body of each fetch, and answers it by `answer` when that returns a status. */
function interceptFetches(answer: (body: string) => number | undefined = () => undefined): string[] {
  const bodies: string[] = [];
  world.server.options.intercept = ({ method, url }, response, body) => {
    if (method !== "POST" || !url?.endsWith("/git-upload-pack") || !body.includes("command=fetch")) return false;
    bodies.push(body.toString("latin1"));
    const status = answer(body.toString("latin1"));
    if (status !== undefined) response.writeHead(status).end();
    return status !== undefined;
  };
  return bodies;
}

const manyFiles = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => {
      const noise = createHash("sha512").update(String(index)).digest("hex").repeat(8);
      return [`src/area-${index % 7}/file-${index}.txt`, `${noise}\n`];
    }),
  );

test("the list of files is available before their contents", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1", "src/b.txt": "2" });

  const bodies = interceptFetches();

  const sandbox = await open(repository);
  const paths = await sandbox.paths();
  const listing = sandbox.list("src");

  expect(paths).toEqual(["a.txt", "src/b.txt"]);
  expect(await listing).toMatchObject([{ path: "src/b.txt", size: 1 }]);
  expect(bodies.filter((body) => !body.includes("filter"))).toHaveLength(1);
});

test("single files are read before all contents have arrived, several of them in one request", async () => {
  const repository = await world.repositoryWith({
    "AGENTS.md": "Guidance",
    "CLAUDE.md": { link: "AGENTS.md" },
    docs: { link: "src" },
    "src/b.txt": "2",
  });
  const bodies: string[] = [];
  world.server.options.intercept = ({ method, url }, _response, body) => {
    if (method !== "POST" || !url?.endsWith("/git-upload-pack") || !body.includes("command=fetch")) return false;
    bodies.push(body.toString("latin1"));
    // The contents of all files never arrive.
    return body.includes(`want ${commit}`) && !body.includes("filter");
  };
  const commit = (await repository.git("rev-parse", "main")).trim();

  const sandbox = await open(repository);

  expect(await sandbox.exists("missing.txt")).toBe(false);
  expect(await sandbox.exists("src")).toBe(true);
  const texts = await Promise.all(["AGENTS.md", "src/b.txt", "CLAUDE.md"].map(sandbox.read));
  expect(texts).toEqual(["Guidance", "2", "Guidance"]);
  expect(textOf(await sandbox.readBase("src/b.txt"))).toBe("2");
  expect(await sandbox.read("docs/b.txt")).toBe("2");
  expect(bodies.map((body) => body.match(/want /g)?.length)).toEqual([1, 1, 3, 1]);
});

test("contents that could not be fetched are fetched again when they are needed", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  let isAvailable = false;
  interceptFetches((body) => (isAvailable || body.includes("filter") ? undefined : 503));

  const sandbox = await open(repository);

  await expect(sandbox.readBytes("a.txt")).rejects.toThrow(/answered 503/);
  await expect(sandbox.write("a.txt", "2")).rejects.toThrow(/answered 503/);
  isAvailable = true;
  expect(textOf(await sandbox.readBytes("a.txt"))).toBe("1");
  await sandbox.write("a.txt", "2");
});

test("a server without filters sends everything at once", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  await repository.git("config", "uploadpack.allowFilter", "false");
  const bodies = interceptFetches();

  const sandbox = await open(repository);

  expect(textOf(await sandbox.readBytes("a.txt"))).toBe("1");
  expect(bodies).toHaveLength(1);
});

test("a branch that moved is opened by what differs from the base before", async () => {
  const files = manyFiles(300);
  const repository = await world.repositoryWith(files);
  const first = await world.open(repository);
  let packBytes = 0;
  for (let index = 0; index < 5; index++) {
    await repository.commit({
      files: { [`src/area-1/file-${1 + 7 * index}.txt`]: `changed ${index}\n`, "new.txt": "n" },
    });
  }
  await repository.commit({ files: { "src/area-2/file-2.txt": null } });
  const bodies = interceptFetches();
  const { read } = countBytes();

  const second = await world.open(repository);
  packBytes = read();

  expect(bodies.map((body) => body.includes("filter blob:none"))).toEqual([true, false]);
  for (const body of bodies) expect(body).toContain(`have ${first.base.commit}`);
  expect(packBytes).toBeLessThan(10_000);
  expect(textOf(await second.readBytes("src/area-1/file-8.txt"))).toBe("changed 1\n");
  expect(textOf(await second.readBytes("src/area-3/file-3.txt"))).toBe(files["src/area-3/file-3.txt"]);
  expect(await second.exists("src/area-2/file-2.txt")).toBe(false);
  expect(textOf(await first.readBytes("src/area-1/file-8.txt"))).toBe(files["src/area-1/file-8.txt"]);
  expect((await second.paths()).length).toBe(300);
});

test("after a branch has moved, files that did not change are read before the others have arrived", async () => {
  const repository = await world.repositoryWith({ "changed.txt": "1", "src/same.txt": "same" });
  await world.open(repository);
  await repository.commit({ files: { "changed.txt": "2" } });
  let isAvailable = false;
  interceptFetches((body) => (isAvailable || body.includes("filter") ? undefined : 503));

  const sandbox = await open(repository);

  expect(await sandbox.paths()).toEqual(["changed.txt", "src/same.txt"]);
  expect(textOf(await sandbox.readBytes("src/same.txt"))).toBe("same");
  expect(await sandbox.stat("src/same.txt")).toMatchObject({ size: 4 });
  await expect(sandbox.readBytes("changed.txt")).rejects.toThrow(/answered 503/);

  isAvailable = true;
  await repository.commit({ files: { "another.txt": "3" } });
  const bodies = interceptFetches();
  const later = await open(repository);

  expect(textOf(await later.readBytes("changed.txt"))).toBe("2");
  expect(textOf(await later.readBytes("another.txt"))).toBe("3");
  const ofCommit = bodies.filter((body) => body.includes(`want ${later.base.commit}`));
  expect(ofCommit.map((body) => body.includes("have "))).toEqual([true, true]);
});

test("after a branch has moved, the contents are requested without waiting for the folders", async () => {
  const repository = await world.repositoryWith({ "changed.txt": "1" });
  await world.open(repository);
  await repository.commit({ files: { "changed.txt": "2" } });
  const { promise: areRequested, resolve: requested } = Promise.withResolvers<void>();
  world.server.options.intercept = (_request, response, body) => {
    if (!body.includes("command=fetch")) return false;
    if (body.includes("filter")) void areRequested.then(() => response.writeHead(503).end());
    else requested();
    return body.includes("filter");
  };

  await expect(open(repository)).rejects.toThrow(/answered 503/);
});

test("a branch that was replaced by an unrelated history opens all the same", async () => {
  const repository = await world.repositoryWith(manyFiles(20));
  await world.open(repository);
  await repository.commit({ files: { "other.txt": "other\n" }, orphan: true });
  await repository.git("reflog", "expire", "--expire=now", "--all");
  await repository.git("gc", "--quiet", "--prune=now");

  const sandbox = await world.open(repository);

  expect(await sandbox.paths()).toEqual(["other.txt"]);
  expect(textOf(await sandbox.readBytes("other.txt"))).toBe("other\n");
});

test("a commit and its push take one request", async () => {
  const repository = await world.repositoryWith(manyFiles(10));
  const sandbox = await world.open(repository);
  await sandbox.write("src/area-1/file-1.txt", "changed\n");
  const before = world.server.requests.length;

  const commit = await pushAll(sandbox, "golem/1");

  expect(world.server.requests.slice(before).map((line) => line.replace(/octo\/[^/]+/, "octo/demo"))).toEqual([
    "POST /octo/demo/git-receive-pack",
  ]);
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(commit);
});

test("the log fetches commits without trees, for a path the folders above it, and deeper only what it lacks", async () => {
  const repository = await world.repositoryWith({ "big.txt": "x".repeat(100), "a/b/c.txt": "0" });
  const history = Array.from({ length: 130 }, (_, index) => ({
    files: { "big.txt": `${index}`.repeat(200) },
    at: new Date(1_700_000_100_000 + index * 1_000),
  }));
  await repository.commit(...history);
  const sandbox = await world.open(repository);
  const bodies = interceptFetches();

  const { commits: page } = await sandbox.log({ limit: 10 });
  const { commits: next } = await sandbox.log({ limit: 10, skip: 10 });
  const { commits: ofPath } = await sandbox.log({ limit: 5, path: "a/b/c.txt" });

  const all = (await repository.git("log", "--format=%H", "main")).trim().split("\n");
  expect(page.map(({ commit }) => commit)).toEqual(all.slice(0, 10));
  expect(next.map(({ commit }) => commit)).toEqual(all.slice(10, 20));
  expect(ofPath.map(({ commit }) => commit)).toEqual([all.at(-1)]);
  expect(bodies.map((body) => /filter \S+/.exec(body)?.[0])).toEqual(Array(3).fill("filter tree:0"));
  expect(bodies[1]).toContain("have ");
  // The root folder differs in each commit; the folders `a` and `a/b` are those of the base.
  const roots = (await repository.git("log", "--format=%T", "main")).trim().split("\n");
  expect([...(bodies[2] ?? "").matchAll(/want (\S+)/g)].map(([, oid]) => oid)).toEqual(roots.slice(1));
});

test("the log lists what a branch has and another has not", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  await repository.commit({ files: { "a.txt": "2" } });
  const parent = (await repository.git("rev-parse", "main")).trim();
  const one = await repository.commit({ branch: "topic", parent, files: { "b.txt": "1" }, message: "One" });
  const two = await repository.commit({ branch: "topic", files: { "b.txt": "2" }, message: "Two" });
  await repository.commit({ files: { "a.txt": "3" } });
  const sandbox = await world.open(repository);

  const { commits: range } = await sandbox.log({ limit: 10, from: "topic", exclude: "main" });
  const { commits: reverse } = await sandbox.log({ limit: 10, from: "main", exclude: "topic" });

  expect(range.map(({ commit }) => commit)).toEqual([two, one]);
  expect(reverse).toHaveLength(1);
  await expect(sandbox.log({ limit: 1, from: "nope" })).rejects.toThrow("has no branch");
});

/** Counts the bytes of packs that are read from here on. */
function countBytes() {
  const original = world.server.options.intercept;
  let bytes = 0;
  world.server.options.intercept = (request, response, body) => {
    const write = response.write.bind(response);
    response.write = ((chunk: Buffer) => {
      if (body.includes("command=fetch")) bytes += chunk.length;
      return write(chunk);
    }) as typeof response.write;
    return original?.(request, response, body) ?? false;
  };
  return { read: () => bytes };
}
