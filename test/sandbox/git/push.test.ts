import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { pushAll, type SandboxWorld, startSandboxWorld } from "../../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterAll(() => world.close());

test("native git sees exactly the commit that was requested", async () => {
  const repository = await world.repositoryWith({
    "README.md": "hello\n",
    "run.sh": { content: "#!/bin/sh\n", executable: true },
    link: { link: "README.md" },
    module: { submodule: "1".repeat(40) },
    "src/keep.ts": "keep\n",
    "src/drop/only.ts": "drop\n",
  });
  const sandbox = await world.open(repository);
  const binary = Uint8Array.from({ length: 3_000 }, (_, index) => (index * 31) % 256);

  await sandbox.write("README.md", "hello world\n");
  await sandbox.write("run.sh", "#!/bin/sh\necho hi\n");
  await sandbox.write("assets/deep/logo.png", binary);
  await sandbox.write("tool", "#!/bin/sh\n", { executable: true });
  await sandbox.remove("src/drop/only.ts");
  const author = { name: " A <Golem>\n", email: "golem@exam>ple.com" };
  const pushed = await pushAll(sandbox, "golem/1", { message: "Say hello\n\nFully.", author });

  const show = (await repository.git("show", "--raw", "--format=%P%n%an <%ae> %at%n%cn %ct%n%B", pushed)).trim();
  expect(show.split("\n").map((line) => line.replace(/ [0-9a-f]{7,} [0-9a-f]{7,} /, " "))).toEqual([
    sandbox.base.commit,
    "A  Golem <golem@exam ple.com> 1750000000",
    "A  Golem 1750000000",
    "Say hello",
    "",
    "Fully.",
    "",
    "",
    ":100644 100644 M\tREADME.md",
    ":000000 100644 A\tassets/deep/logo.png",
    ":100755 100755 M\trun.sh",
    ":100644 000000 D\tsrc/drop/only.ts",
    ":000000 100755 A\ttool",
  ]);
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(pushed);
  expect(await repository.git("ls-tree", "--name-only", "-r", "golem/1")).toContain("module");
  expect((await repository.git("fsck", "--strict", "--no-dangling")).trim()).toBe("");
  const blob = (await repository.git("rev-parse", "golem/1:assets/deep/logo.png")).trim();
  expect(await repository.git("cat-file", "-s", blob)).toBe("3000\n");
});

test("pushing the same changes again gives the same commit", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  const first = await pushAll(sandbox, "golem/1");
  const changes = sandbox.pendingChanges("call-1");

  const restarted = await world.open(repository, { at: sandbox.base, changes: changes ? [changes] : [] });
  const second = await pushAll(restarted, "golem/1");

  expect(second).toBe(first);
});

test("a later push continues from the first with all changes", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  const first = await pushAll(sandbox, "golem/1");

  await sandbox.write("c", "3");
  await sandbox.write("a", "one");
  const author = { name: "<>", email: "" };
  const second = await pushAll(sandbox, "golem/1", { expectedTip: first, author });

  expect(await repository.git("log", "-1", "--format=%an <%ae>", "golem/1")).toBe("Golem Forge <>\n");
  expect((await repository.git("rev-list", "golem/1")).trim().split("\n")).toEqual([
    second,
    first,
    sandbox.base.commit,
  ]);
  expect(await repository.git("ls-tree", "-r", "--name-only", "golem/1")).toBe("a\nb\nc\n");
});

test("a push to the base or the default branch is refused", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  await repository.commit({ branch: "topic", files: { b: "2" } });
  const sandbox = await world.open(repository, { at: { branch: "topic" } });
  await sandbox.write("c", "3");

  for (const branch of ["main", "topic"]) {
    await expect(pushAll(sandbox, branch)).rejects.toThrow(`A run can only push to its own branch, not to ${branch}.`);
  }
});

test("an existing branch, or one that someone else moved, is not changed", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const taken = await repository.commit({ branch: "golem/1", files: { other: "work" } });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");

  await expect(pushAll(sandbox, "golem/1")).rejects.toThrow(/The branch golem\/1 already exists/);
  await expect(pushAll(sandbox, "golem/1", { expectedTip: sandbox.base.commit })).rejects.toThrow(/moved to/);
  await expect(pushAll(sandbox, "golem/2", { expectedTip: taken })).rejects.toThrow(/was deleted from/);
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(taken);
});

test("a rejected push reports the remote's message", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const hook = join(repository.path, "hooks", "pre-receive");
  await writeFile(hook, "#!/bin/sh\necho 'GH006: Protected branch update failed'\nexit 1\n");
  await chmod(hook, 0o755);
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");

  const error = await pushAll(sandbox, "golem/1").catch((thrown) => thrown);

  expect(error).toBeInstanceOf(UserError);
  expect(error.message).toMatch(/refused the push to golem\/1: pre-receive hook declined/);
  expect(error.message).toContain("GH006: Protected branch update failed");
});

test("a push whose response was lost is recognized on the branch", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  world.server.options.intercept = (request, response) => {
    if (request.method === "POST" && request.url?.endsWith("git-receive-pack")) {
      // The backend does its work, but its response never arrives.
      response.writeHead = () => response;
      response.write = () => true;
      response.end = () => response.destroy();
    }
    return false;
  };

  const pushed = await pushAll(sandbox, "golem/1");

  world.server.options.intercept = undefined;
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(pushed);
});

test("the refs are read first where the server refuses a push without that", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  let hasReadRefs = false;
  world.server.options.intercept = ({ url }, response) => {
    if (url?.endsWith("info/refs?service=git-receive-pack")) hasReadRefs = true;
    if (hasReadRefs || !url?.endsWith("/git-receive-pack")) return false;
    response.writeHead(400, { "content-type": "text/plain" }).end("Read the refs first.\n");
    return true;
  };
  const before = world.server.requests.length;

  const first = await pushAll(sandbox, "golem/1");
  await sandbox.write("c", "3");
  const second = await pushAll(sandbox, "golem/1", { expectedTip: first });

  world.server.options.intercept = undefined;
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(second);
  const asked = world.server.requests.slice(before).map((line) => line.replace(/\/.*\//, ""));
  expect(asked).toEqual([
    "POST git-receive-pack",
    "GET refs?service=git-receive-pack",
    "POST git-receive-pack",
    "GET refs?service=git-receive-pack",
    "POST git-receive-pack",
  ]);
});

test("a push is retried while the server is down", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  const faults = ["git-receive-pack", "git-upload-pack"];
  world.server.options.intercept = ({ url }, response) => {
    if (!url?.endsWith(`/${faults[0]}`)) return false;
    if (faults.shift() === "git-receive-pack") response.destroy();
    else response.writeHead(503).end();
    return true;
  };
  const before = world.server.requests.length;

  const pushed = await pushAll(sandbox, "golem/1");

  world.server.options.intercept = undefined;
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(pushed);
  const asked = world.server.requests.slice(before).map((line) => line.replace(/.*\//, ""));
  expect(asked).toEqual(["git-receive-pack", "git-upload-pack", "git-receive-pack"]);
});

test("a branch that someone moves during an outage is not changed", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  let theirs: Promise<string> | undefined;
  world.server.options.intercept = ({ url }, response) => {
    if (!url?.endsWith("/git-receive-pack")) return false;
    theirs = repository.commit({ branch: "golem/1", files: { theirs: "1" } });
    void theirs.then(() => response.writeHead(502).end());
    return true;
  };

  await expect(pushAll(sandbox, "golem/1")).rejects.toThrow(/The branch golem\/1 already exists/);

  world.server.options.intercept = undefined;
  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(await theirs);
});

test("stopping the run does not wait for a failing server", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("b", "2");
  const controller = new AbortController();
  world.server.options.intercept = (_, response) => {
    response.writeHead(503).end(() => controller.abort(new Error("stopped")));
    return true;
  };

  await expect(pushAll(sandbox, "golem/1", { signal: controller.signal })).rejects.toThrow("stopped");

  world.server.options.intercept = undefined;
});

test("a push without changes is refused", async () => {
  const sandbox = await world.open(await world.repositoryWith({ a: "1" }));

  await expect(pushAll(sandbox, "golem/1")).rejects.toThrow("There is nothing to push");
});

test("a file can become a folder and a folder a file", async () => {
  const repository = await world.repositoryWith({ thing: "file", "dir/a": "1", "dir/b": "2", other: "x" });
  const blob = (await repository.git("rev-parse", "main:other")).trim();
  const sandbox = await world.open(repository);

  await sandbox.remove("thing");
  await sandbox.write("thing/inside", "now a folder");
  await sandbox.remove("dir", { recursive: true });
  await sandbox.write("dir", "now a file");
  const commit = await pushAll(sandbox, "golem/1");

  expect(await repository.git("ls-tree", "-r", "--name-only", commit)).toBe("dir\nother\nthing/inside\n");
  expect((await repository.git("rev-parse", `${commit}:other`)).trim()).toBe(blob);
});

test("names that are not UTF-8, unusual modes and names like .git are kept unchanged in the tree", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const blob = (await repository.git("rev-parse", "main:a")).trim();
  const odd = Buffer.from(
    ["100664 a", "100644 caf\u00e9", "100644 git~1"]
      .map((line) => `${line.replace(" ", ` blob ${blob}\t`)}\x00`)
      .join(""),
    "latin1",
  );
  const tree = (await repository.feed(odd, "mktree", "-z")).trim();
  const commit = (await repository.feed("odd", "-c", "user.name=a", "-c", "user.email=b", "commit-tree", tree)).trim();
  await repository.git("update-ref", "refs/heads/odd", commit);
  await repository.git("config", "receive.fsckObjects", "false");
  const sandbox = await world.open(repository, { at: { branch: "odd" } });

  await sandbox.write("b", "2");
  const pushed = await pushAll(sandbox, "golem/1");

  expect(await sandbox.paths()).toEqual(["a", "b"]);
  const before = await repository.git("ls-tree", commit);
  expect(await repository.git("diff-tree", "-r", "--name-status", commit, pushed)).toBe("A\tb\n");
  expect(before.split("\n").every((line) => line === "" || /^100(644|664)/.test(line))).toBe(true);
});
