import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { SandboxPolicy } from "#domain/worker.ts";
import { createMemoryExecutor } from "#executors/memory/memory-executor.ts";
import { type CheckoutTree, openCheckout } from "#sandbox/checkout/open-checkout.ts";
import { modeOf } from "#sandbox/diff-file.ts";
import { hashObject } from "#sandbox/git/git-objects.ts";
import type { CommittedFile, GitSandbox } from "#sandbox/sandbox.ts";
import { gitToolset } from "#toolsets/registry.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import type { GitRepository } from "../../support/git-server.ts";
import { type SandboxWorld, startSandboxWorld, textOf } from "../../support/sandbox-world.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

let world: SandboxWorld;
let folder: string;
beforeAll(async () => {
  world = await startSandboxWorld();
  folder = mkdtempSync(join(tmpdir(), "golem-show-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await world.close();
});

const numbered = (count: number, change: (line: number) => string = (line) => `line ${line}`) =>
  Array.from({ length: count }, (_, line) => `${change(line)}\n`).join("");

/** A history with renames, changed modes, links, submodules, binary files, a merge, a tag and a second root. */
async function repositoryWithHistory(): Promise<GitRepository> {
  const repository = await world.repositoryWith({
    "src/a.txt": numbered(30),
    "src/deep/b.txt": "b\n",
    same: "same\n",
    run: "#!/bin/sh\n",
  });
  const fork = await repository.commit({
    files: { "src/a.txt": null, "lib/a.txt": numbered(30, (line) => (line === 3 ? "three" : `line ${line}`)) },
    message: "Move a\n\nIt is a library.",
  });
  await repository.commit({
    files: {
      run: { content: "#!/bin/sh\n", executable: true },
      link: { link: "lib/a.txt" },
      "data.bin": new Uint8Array([0, 255, 1]),
      vendor: { submodule: "a".repeat(40) },
    },
  });
  const main = await repository.commit({ files: { same: null, "src/deep/b.txt": null, "src/deep/c/same": "same\n" } });
  const topic = await repository.commit({ branch: "topic", parent: fork, files: { "topic.txt": "topic\n" } });
  await repository.git("tag", "v1", main);
  await repository.git("-c", "user.name=Bo", "-c", "user.email=bo@example.com", "tag", "-a", "-m", "One", "v2", main);
  await repository.commit({ branch: "tree", parent: main, files: { "topic.txt": "topic\n" } });
  const who = ["-c", "user.name=Bo", "-c", "user.email=bo@example.com"];
  const merge = await repository.git(...who, "commit-tree", "tree^{tree}", "-p", main, "-p", topic, "-m", "Merge");
  await repository.git("update-ref", "refs/heads/main", merge.trim());
  return repository;
}

async function checkoutOf(repository: GitRepository, name: string, policy?: SandboxPolicy): Promise<CheckoutTree> {
  const clone = join(folder, name);
  execFileSync("git", ["clone", "--quiet", repository.path, clone]);
  return (await openCheckout(clone, { policy })).tree;
}

/** The changes as the raw format of git has them: modes, object ids and paths. */
function rawOf({ path, oldPath, before, after }: CommittedFile): string {
  const ids = [before, after].map((one) => (one ? `${modeOf(one)} ${one.oid ?? blobId(one.content)}` : "none"));
  return [...ids, ...(oldPath === undefined ? [] : [oldPath]), path].join(" ");
}
const blobId = (data: Uint8Array) => hashObject({ type: "blob", data });

/** What `git show` says of a commit against its first parent. */
async function nativeShow(repository: GitRepository, commit: string): Promise<string[]> {
  const options = ["--diff-merges=first-parent", "--raw", "--no-abbrev", "-z", "-M", "--format="];
  const fields = (await repository.git("show", ...options, commit)).split("\0");
  const found: string[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [oldMode, mode, oldOid, oid, status = ""] = (fields[at] ?? "").replace(/^\n?:/, "").split(" ");
    const before = status === "A" ? "none" : `${oldMode} ${oldOid}`;
    const after = status === "D" ? "none" : `${mode} ${oid}`;
    const paths = status.startsWith("R") ? `${fields[++at]} ${fields[at + 1]}` : fields[at + 1];
    found.push(`${before} ${after} ${paths}`);
  }
  return found.sort();
}

test("the changes of commits are those of git show, in a sandbox and in a checkout", async () => {
  const repository = await repositoryWithHistory();
  const sandbox = await world.open(repository);
  const checkout = await checkoutOf(repository, "all");
  const commits = (await repository.git("rev-list", "main")).trim().split("\n");

  expect(commits).toHaveLength(6);
  for (const commit of commits) {
    const native = await nativeShow(repository, commit);
    const [shown, local] = [await sandbox.show(commit), await checkout.show(commit)];
    expect(native).not.toEqual([]);
    expect(shown.files.map(rawOf).sort()).toEqual(native);
    expect(local).toEqual(shown);
    expect(shown.message).toBe((await repository.git("show", "-s", "--format=%B", commit)).trimEnd());
  }
});

test("a revision is a branch, a tag, an abbreviation, or a commit before one of these", async () => {
  const repository = await repositoryWithHistory();
  const checkout = await checkoutOf(repository, "revisions");
  await repository.git("branch", "old", "main~3");
  const first = (await repository.git("rev-parse", "main~4")).trim();
  const names = [
    "HEAD",
    "",
    "main",
    "v1",
    "v2",
    "HEAD~1",
    "HEAD^2",
    "main^2~1",
    "HEAD^^",
    "HEAD~2^0",
    first.slice(0, 7),
  ];

  for (const name of names) {
    const native = (await repository.git("rev-parse", `${name || "HEAD"}^{commit}`)).trim();
    const sandbox = await world.open(repository);
    expect([name, (await sandbox.show(name)).commit]).toEqual([name, native]);
    expect([name, (await checkout.show(name)).commit]).toEqual([name, native]);
  }
  const sandbox = await world.open(repository);
  for (const name of ["HEAD~9", "HEAD^3", "beef000", "f".repeat(40)]) {
    await expect(sandbox.show(name)).rejects.toThrow();
    await expect(checkout.show(name)).rejects.toThrow();
  }
  await expect(sandbox.show("odl")).rejects.toThrow('has no branch "odl". Did you mean old?');
  await expect(checkout.show("--output=x")).rejects.toThrow("is no commit, branch or tag");
  expect((await sandbox.log({ limit: 9, from: "v2", exclude: "HEAD~2" })).commits).toHaveLength(1);
});

test("a file is read as it was in a commit", async () => {
  const repository = await repositoryWithHistory();
  for (const files of [await world.open(repository), await checkoutOf(repository, "files")]) {
    expect(textOf((await files.readAt("HEAD~3", "src/deep/b.txt")).content)).toBe("b\n");
    expect(textOf((await files.readAt("HEAD", "link")).content)).toBe("lib/a.txt");
    await expect(files.readAt("HEAD", "src/a.txt")).rejects.toThrow("src/a.txt does not exist in the commit");
    await expect(files.readAt("HEAD", "lib")).rejects.toThrow("lib is not a file in the commit");
  }
});

test("a worker sees only the changes of its part of the repository", async () => {
  const repository = await repositoryWithHistory();
  const sandbox = await world.open(repository, { policy: { restrict: "lib" } });
  const tree = await checkoutOf(repository, "part", { restrict: "lib" });

  for (const files of [sandbox, tree]) {
    const shown = await files.show("HEAD~2");
    expect(shown.files).toEqual([]);
    const moved = await files.show("HEAD~3");
    expect(moved.files.map(({ path, oldPath, before }) => [path, oldPath, before])).toEqual([
      ["lib/a.txt", undefined, undefined],
    ]);
    await expect(files.readAt("HEAD~3", "same")).rejects.toThrow("outside the part of the tree");
  }
});

test("only the folders and contents that a commit changed are fetched", async () => {
  const repository = await world.repositoryWith({ "big.txt": "x".repeat(1_000), "a.txt": "1\n" });
  await repository.commit({ files: { "big.txt": "y".repeat(1_000) } }, { files: { "a.txt": "2\n" } });
  await repository.commit({ files: { "a.txt": "3\n" } });
  const sandbox = await world.open(repository);
  const before = world.server.requests.length;

  const { files } = await sandbox.show("HEAD");

  expect(files.map(({ path }) => path)).toEqual(["a.txt"]);
  expect(world.server.requests.slice(before).filter((line) => line.startsWith("POST"))).toHaveLength(2);
});

test("a commit that was shown before is shown again without a request", async () => {
  const repository = await repositoryWithHistory();
  const sandbox = await world.open(repository);
  const first = await sandbox.show("HEAD~3");
  const before = world.server.requests.length;

  const second = await sandbox.show("HEAD~3");
  const file = await sandbox.readAt("HEAD~3", "lib/a.txt");

  expect(second).toEqual(first);
  expect(file.content.toString()).toContain("three\n");
  expect(world.server.requests.slice(before)).toEqual([]);
});

test("git_show lists the files of a commit with its diff, marked as untrusted, and limits it to a path", async () => {
  const repository = await repositoryWithHistory();
  const { call } = await toolsetWorld(gitToolset, { sandbox: await world.open(repository) });

  const { llmContent, value } = await call("git_show", { revision: "HEAD~3" });

  expect(llmContent).toMatch(
    /<untrusted[\s\S]*\ncommit [0-9a-f]{40}\nAuthor: Ada <[\s\S]*\nMove a\n\nIt is a library\.\n/,
  );
  expect(llmContent).toContain("1 file changed, +1 −1\nR src/a.txt → lib/a.txt +1 −1\n");
  expect(llmContent).toContain("-line 3\n+three\n");
  expect(value).toMatchObject({ kind: "git.show", data: { files: [{ path: "lib/a.txt", oldPath: "src/a.txt" }] } });
  expect((await call("git_show", { revision: "main" })).llmContent).toMatch(
    /\nMerge of [0-9a-f]{7} [0-9a-f]{7}\n[\s\S]*1 file changed, \+1 −0, against the first parent\nA topic\.txt \+1 −0\n/,
  );
  expect((await call("git_show", { revision: "main~2", path: "src" })).llmContent).toContain("No changes of src");
  expect((await call("git_show", { revision: "main~3:src/deep/b.txt" })).llmContent).toMatch(/>\nb\n\n?<\/untrusted/);
  await expect(call("git_show", { revision: "main:data.bin" })).rejects.toThrow("is a binary file of 3 bytes");
});

async function shellIn(sandbox: GitSandbox) {
  const executor = createMemoryExecutor({ spares: 0 });
  onTestFinished(() => executor.close());
  const session = await executor.open();
  return (script: string) =>
    session.exec(workspaceTree(sandbox, sandbox), {
      command: ["bash", "-c", script],
      timeoutMs: 60_000,
      outputBytes: 20_000,
    });
}

test("git show of the in-memory shell shows commits, statistics and files of any revision", async () => {
  const repository = await repositoryWithHistory();
  const sandbox = await world.open(repository);
  const sh = await shellIn(sandbox);

  const { stdout, stderr } = await sh(
    "git show HEAD~3; git show --stat HEAD~1; git show HEAD~3:src/deep/b.txt; git show -s v1; git show nope; git blame run",
  );

  expect(stdout).toContain(
    "    Move a\n    \n    It is a library.\n\ndiff --git a/src/a.txt b/lib/a.txt\n--- a/src/a.txt\n",
  );
  expect(stdout).toContain("-line 3\n+three\n");
  expect(stdout).toContain(" src/deep/b.txt | +0 -1\n");
  expect(stdout).toMatch(/\nb\ncommit [0-9a-f]{40}\nAuthor: [^\n]*\nDate: [^\n]*\n\n {4}A commit\n$/);
  expect(stderr).toContain('has no branch "nope"');
  expect(stderr).toContain('"blame" is not available here. Use the tool git_blame.');
});

test("git log of the in-memory shell lists the commits of a revision or a range, and says what it cannot do", async () => {
  const repository = await repositoryWithHistory();
  const sh = await shellIn(await world.open(repository));
  const list = async (...args: string[]) => (await repository.git("log", "--oneline", "--abbrev=7", ...args)).trim();

  const { stdout } = await sh(
    "git log --oneline HEAD~3; echo --; git log --oneline -n 2 v1..main; echo --; git log --oneline HEAD -- lib; echo --; cd lib && git log -1 --oneline a.txt",
  );
  const { stderr } = await sh(
    "git log --stat; git log HEAD nope; git log nope; git log main HEAD~1 HEAD~2; git log -n -5; git log -n",
  );

  expect(stdout.trim().split("\n--\n")).toEqual([
    await list("main~3"),
    await list("-n", "2", "v1..main"),
    await list("main", "--", "lib"),
    await list("-n", "1", "main", "--", "lib/a.txt"),
  ]);
  expect(stderr.split("\n")).toEqual([
    "git: log has no --stat here, only -n, --oneline, one revision or range, and one path.",
    expect.stringContaining('has no branch "nope"'),
    expect.stringContaining('has no branch "nope"'),
    "git: log has no second revision here, only -n, --oneline, one revision or range, and one path.",
    "git: -n needs a number",
    "git: -n needs a number",
    "",
  ]);
});

test("git_show leaves out diffs beyond its limit and says how to see them", async () => {
  const repository = await world.repositoryWith({ "a.txt": "1\n" });
  const large = numbered(3_000);
  await repository.commit({ files: { "a.txt": "2\n", "large.txt": large, "other.txt": large } });
  const { call } = await toolsetWorld(gitToolset, { sandbox: await world.open(repository) });

  const { llmContent } = await call("git_show", { revision: "HEAD" });

  expect(llmContent).toContain("3 files changed, +6001 −1\nM a.txt +1 −1\nA large.txt +3000 −0\n");
  expect(llmContent.length).toBeLessThan(35_000);
  expect(llmContent).toMatch(/The diffs of \d files? are left out: show them with `path`\.$/);
});
