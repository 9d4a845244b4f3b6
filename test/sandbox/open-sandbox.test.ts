import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { type SandboxWorld, startSandboxWorld, textOf } from "../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterEach(() => {
  world.server.options.intercept = undefined;
});
afterAll(() => world.close());

const posts = () => world.server.requests.filter((line) => line.startsWith("POST")).length;

test("a branch opens at its tip", async () => {
  const repository = await world.repositoryWith({ "README.md": "hello\n", "src/a/b.ts": "export {}\n" });

  const sandbox = await world.open(repository);

  expect(sandbox.base).toEqual({ branch: "main", commit: (await repository.git("rev-parse", "main")).trim() });
  expect(await sandbox.paths()).toEqual(["README.md", "src/a/b.ts"]);
  expect(textOf(await sandbox.readBytes("/src/a/b.ts"))).toBe("export {}\n");
});

test("a run that started from the default branch finds it by its new name", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const { base } = await world.open(repository);
  await repository.git("branch", "-m", "main", "trunk");
  await repository.git("symbolic-ref", "HEAD", "refs/heads/trunk");
  const merged = await repository.commit({ branch: "trunk", files: { b: "2" } });

  const sandbox = await world.open(repository, { at: base, followsDefaultBranch: true });
  const other = await world.open(repository, { at: base });

  expect(sandbox.base).toEqual({ branch: "trunk", commit: base.commit });
  expect(await sandbox.mergeBranch(sandbox.base.branch)).toMatchObject({ commit: merged, applied: true });
  expect(other).toMatchObject({ base, isOnDefaultBranch: false });
});

test("three hundred files have the content, modes and sizes that git reports", async () => {
  const files = Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [
      `src/part-${index % 17}/file-${index}.ts`,
      { content: `export const n${index % 40} = ${"x".repeat(index)};\n`.repeat(3), executable: index % 5 === 0 },
    ]),
  );
  const repository = await world.repositoryWith(files);
  await repository.commit({ files: { "src/part-1/file-1.ts": "changed\n" } });
  await repository.git("repack", "-adfq", "--depth=50");

  const sandbox = await world.open(repository);

  const listed = (await repository.git("ls-tree", "-r", "-l", "main")).trim().split("\n");
  const entries = (await sandbox.list("", { recursive: true })).filter((entry) => entry.type === "file");
  expect(entries.map((entry) => `${entry.executable ? "100755" : "100644"} ${entry.size} ${entry.path}`)).toEqual(
    listed.map((line) => line.replace(/^(\d+) blob \w+ +(\d+)\t(.*)$/, "$1 $2 $3")),
  );
  for (const { path } of entries.filter((_, index) => index % 29 === 0)) {
    expect(textOf(await sandbox.readBytes(path))).toBe(await repository.git("show", `main:${path}`));
  }
});

test("a binary file is read byte for byte", async () => {
  const bytes = Uint8Array.from({ length: 5_000 }, (_, index) => (index * 7919) % 256);
  const repository = await world.repositoryWith({ "logo.png": bytes });

  const sandbox = await world.open(repository);

  expect(Buffer.from(await sandbox.readBytes("logo.png")).equals(bytes)).toBe(true);
});

test("opening an empty repository says that it is empty", async () => {
  const repository = await world.repositoryWith({});

  await expect(world.open(repository)).rejects.toThrow(/^The repository octo\/demo-\d+ is empty: push a first commit/);
});

test("the error for a missing branch suggests a similar name", async () => {
  const repository = await world.repositoryWith({ a: "1" });

  await expect(world.open(repository, { at: { branch: "mian" } })).rejects.toThrow(
    /^Branch mian not found in octo\/demo-\d+\. Did you mean main\?$/,
  );
});

test("a base reopens at its commit after the branch has moved", async () => {
  const repository = await world.repositoryWith({ "a.txt": "old" });
  const { base } = await world.open(repository);
  await repository.commit({ files: { "a.txt": "new" } });

  const again = await world.open(repository, { at: base, source: another(repository.url) });

  expect(again.base).toEqual(base);
  expect(textOf(await again.readBytes("a.txt"))).toBe("old");
});

test("a base reopens at its commit after a force push", async () => {
  const repository = await world.repositoryWith({ "a.txt": "old" });
  const { base } = await world.open(repository);
  await repository.commit({ files: { "b.txt": "rewritten" }, orphan: true });

  const again = await world.open(repository, { at: base, source: another(repository.url) });

  expect(await again.paths()).toEqual(["a.txt"]);
});

test("a base that was garbage-collected on the server is reported", async () => {
  const repository = await world.repositoryWith({ "a.txt": "old" });
  const { base } = await world.open(repository);
  await repository.commit({ files: { "b.txt": "rewritten" }, orphan: true });
  await repository.git("reflog", "expire", "--expire=now", "--all");
  await repository.git("gc", "--quiet", "--prune=now");

  const again = world.open(repository, { at: base, source: another(repository.url) });

  await expect(again).rejects.toThrow(
    /no longer exists in octo\/demo-\d+: the branch main was rewritten\. Start a new run\./,
  );
});

test("a server that serves only branch tips is asked for more history until the base is included", async () => {
  const repository = await world.repositoryWith({ "a.txt": "old" });
  const { base } = await world.open(repository);
  for (let index = 0; index < 3; index++) await repository.commit({ files: { "a.txt": `new ${index}` } });
  world.server.options.intercept = refuseWant(base.commit);

  const again = await world.open(repository, { at: base, source: another(repository.url) });

  expect(textOf(await again.readBytes("a.txt"))).toBe("old");
});

test("a second sandbox on the same base fetches no objects", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  await world.open(repository);
  const before = posts();

  await world.open(repository);

  expect(posts() - before).toBe(1);
});

test("two sandboxes opened at the same time share one fetch, and aborting one does not stop the other", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  const before = posts();
  const stop = new AbortController();

  const first = world.open(repository, { signal: stop.signal });
  const second = world.open(repository);
  const third = world.open(repository);
  stop.abort(new Error("a person stopped it"));

  await expect(first).rejects.toThrow("a person stopped it");
  expect(textOf(await (await second).readBytes("a.txt"))).toBe("1");
  expect(textOf(await (await third).readBytes("a.txt"))).toBe("1");
  expect(posts() - before).toBeLessThanOrEqual(4);
});

test("aborting during a fetch ends the request", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  const stop = new AbortController();
  const { promise: hungUp, resolve } = Promise.withResolvers<void>();
  let fetches = 0;
  world.server.options.intercept = (request, response) => {
    if (request.method !== "POST" || fetches++ === 0) return false;
    response.on("close", resolve);
    response.writeHead(200, { "content-type": "application/x-git-upload-pack-result" });
    response.write("000dpackfile\n");
    stop.abort(new Error("a person stopped it"));
    return true;
  };

  await expect(world.open(repository, { signal: stop.signal })).rejects.toThrow("a person stopped it");

  await hungUp;
});

test("redirects are not followed", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  world.server.options.intercept = (_request, response) => {
    response.writeHead(301, { location: "http://127.0.0.1:1/" }).end();
    return true;
  };

  await expect(world.open(repository)).rejects.toThrow(/has moved/);
});

test("a server outage is not reported as a UserError", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  world.server.options.intercept = (_request, response) => {
    response.writeHead(503, { "content-type": "text/plain" }).end("be right back");
    return true;
  };

  const error = await world.open(repository).catch((thrown) => thrown);

  expect(error).not.toBeInstanceOf(UserError);
  expect(error.message).toMatch(/answered 503\. It says: be right back$/);
});

test.each([
  ["in seconds", { "retry-after": "60" }, "slow down", 60_000],
  ["with a date", { "retry-after": new Date(Date.now() + 600_000).toUTCString() }, "slow down", 600_000],
  ["for a century", { "retry-after": "3153600000" }, "slow down", 3_600_000],
  ["in words", {}, "You have exceeded a secondary rate limit.", undefined],
])("a 403 of the server that asks to wait %s is an outage", async (_, headers, text, waitMs) => {
  const repository = await world.repositoryWith({ "a.txt": "1" });
  world.server.options.intercept = (_request, response) => {
    response.writeHead(403, { "content-type": "text/plain", ...headers }).end(text);
    return true;
  };

  const error: unknown = await world.open(repository).catch((reason: unknown) => reason);

  expect(error).toBeInstanceOf(OutageError);
  const { retryAt } = error as OutageError;
  if (waitMs === undefined) expect(retryAt).toBeUndefined();
  else expect(Math.abs(Number(retryAt) - Date.now() - waitMs)).toBeLessThan(30_000);
});

/** The same repository for another tenant, so that nothing of it is in the cache. */
function another(url: string) {
  return { tenant: `${url} again`, url, token: async () => undefined };
}

function refuseWant(commit: string): NonNullable<SandboxWorld["server"]["options"]["intercept"]> {
  return (_request, response, body) => {
    if (!body.includes(`want ${commit}`)) return false;

    const words = `ERR upload-pack: not our ref ${commit}`;
    response.writeHead(200, { "content-type": "application/x-git-upload-pack-result" });
    response.end((words.length + 4).toString(16).padStart(4, "0") + words);
    return true;
  };
}
