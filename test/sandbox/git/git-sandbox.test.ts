import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pushAll, type SandboxWorld, startSandboxWorld, textOf } from "../../support/sandbox-world.ts";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld();
});
afterAll(() => world.close());

const minutes = (count: number) => new Date(1_700_000_000_000 + count * 60_000);

test("the log lists commits older than the fetched one, newest first", async () => {
  const repository = await world.repositoryWith({});
  for (let index = 0; index < 8; index++) {
    await repository.commit({ files: { a: `${index}` }, message: `Change ${index}\n\nWhy.`, at: minutes(index) });
  }
  const sandbox = await world.open(repository);

  const { commits: entries } = await sandbox.log({ limit: 5 });

  expect(entries.map(({ commit }) => commit)).toEqual(
    (await repository.git("log", "-5", "--format=%H", "main")).trim().split("\n"),
  );
  expect(entries[0]).toMatchObject({
    message: "Change 7\n\nWhy.",
    author: "Ada",
    email: "ada@example.com",
    date: minutes(7),
    parents: [entries[1]?.commit],
  });
  expect((await sandbox.log({ limit: 100 })).commits).toHaveLength(8);
});

test("a later page of the log has the commits of a branch that is longer than the history that was fetched", async () => {
  const repository = await world.repositoryWith({});
  const commit = (branch: string, index: number, from = "") =>
    `commit refs/heads/${branch}\ncommitter Ada <ada@example.com> ${1_700_000_000 + index} +0000\ndata 1\nx\n${from}\n`;
  const sides = ["old", "new"].flatMap((side, sideIndex) =>
    Array.from({ length: 60 }, (_, at) => commit(side, sideIndex * 100 + at)),
  );
  const merge = commit("main", 300, "from refs/heads/new\nmerge refs/heads/old\n");
  await repository.feed([...sides, merge].join(""), "fast-import", "--quiet", "--force");
  const sandbox = await world.open(repository);
  await sandbox.log({ limit: 10 });

  const { commits } = await sandbox.log({ limit: 30, skip: 40 });

  const native = (await repository.git("log", "--format=%H", "--skip=40", "-30", "main")).trim().split("\n");
  expect(commits.map(({ commit }) => commit)).toEqual(native);
});

test("the log of a path lists the same commits as git log", async () => {
  const repository = await world.repositoryWith({});
  const commit = (
    index: number,
    files: Record<string, string | null>,
    more: { branch?: string; parent?: string } = {},
  ) => repository.commit({ files, message: `${index}`, at: minutes(index), ...more });
  await commit(0, { "src/a": "1", b: "1" });
  const fork = await commit(1, { b: "2" });
  await commit(2, { "src/a": "2" });
  // The merged branch made the same change, so it did not contribute to src/a.
  const side = await commit(3, { "src/a": "2" }, { branch: "side", parent: fork });
  const who = ["-c", "user.name=Bo", "-c", "user.email=bo@example.com"];
  const merge = await repository.git(...who, "commit-tree", "main^{tree}", "-p", "main", "-p", side, "-m", "Merge");
  await repository.git("update-ref", "refs/heads/main", merge.trim());
  await commit(4, { "src/c": "1" });
  await commit(5, { "src/a": null });
  await commit(6, { b: "3" });
  const sandbox = await world.open(repository);

  const ours = async (path: string, exclude?: string) =>
    (await sandbox.log({ limit: 10, path, ...(exclude && { exclude }) })).commits.map(({ commit }) => commit);
  const native = async (path: string, range = "main") =>
    (await repository.git("log", "--format=%H", range, "--", path)).split("\n").filter(Boolean);

  expect(await ours("src/a")).toEqual(await native("src/a"));
  expect(await ours("src/a")).toHaveLength(3);
  expect(await ours("/src")).toEqual(await native("src"));
  expect(await ours("src/a", fork)).toEqual(await native("src/a", `${fork}..main`));
  expect(await ours("src/a", side)).toEqual(await native("src/a", `${side}..main`));
  expect(await ours("nowhere")).toEqual([]);
});

test("git can apply the diff to the base", async () => {
  const repository = await world.repositoryWith({
    "edit.txt": Array.from({ length: 30 }, (_, index) => `line ${index}\n`).join(""),
    "no-newline.txt": "end",
    "gone.txt": "bye\n",
    "run.sh": "#!/bin/sh\n",
    "logo.png": Uint8Array.from([0, 1, 2, 255]),
  });
  const sandbox = await world.open(repository);
  await sandbox.write(
    "edit.txt",
    `${textOf(await sandbox.readBytes("edit.txt"))?.replace("line 20\n", "line twenty\n")}more`,
  );
  await sandbox.write("no-newline.txt", "the end");
  await sandbox.remove("gone.txt");
  await sandbox.write("run.sh", "#!/bin/sh\n", { executable: true });
  await sandbox.write("new/file.txt", "new\n");

  const diff = await sandbox.diffAgainstBase();

  const work = mkdtempSync(join(tmpdir(), "golem-diff-"));
  execFileSync("git", ["clone", "-q", repository.path, work]);
  execFileSync("git", ["-C", work, "apply", "--index", "-"], { input: diff });
  const tree = execFileSync("git", ["-C", work, "write-tree"], { encoding: "utf8" }).trim();
  rmSync(work, { recursive: true });
  const commit = await pushAll(sandbox, "golem/1");
  expect((await repository.git("rev-parse", `${commit}^{tree}`)).trim()).toBe(tree);

  await sandbox.write("logo.png", Uint8Array.from([0, 9]));
  expect(await sandbox.diffAgainstBase("logo.png")).toBe(
    "diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n",
  );
  expect(await sandbox.diffAgainstBase("new")).toContain("+++ b/new/file.txt\n@@ -0,0 +1 @@\n+new\n");
});

test("a push contains only staged files, also after a restart", async () => {
  const repository = await world.repositoryWith({ a: "1", b: "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("a", "2");
  await sandbox.write("b", "2");
  await sandbox.write("dir/c", "1");
  await sandbox.write("dir/d", "1");

  expect(await sandbox.stage(["a", "dir"])).toEqual(["a", "dir/c", "dir/d"]);
  expect(await sandbox.unstage(["dir/d"])).toEqual(["dir/d"]);
  expect(await sandbox.staged()).toEqual({ staged: ["a", "dir/c"], unstaged: ["b", "dir/d"] });

  const stored = sandbox.pendingChanges("call-1");
  const restarted = await world.open(repository, { at: sandbox.base, changes: stored ? [stored] : [] });
  const commit = await pushAll(restarted, "golem/1");

  expect(await restarted.staged()).toEqual({ staged: ["a", "dir/c"], unstaged: ["b", "dir/d"] });
  expect(await repository.git("diff", "--name-only", "main", commit)).toBe("a\ndir/c\n");
  expect((await restarted.history()).flatMap(({ after }) => after.map(({ path }) => path))).toEqual([
    "a",
    "b",
    "dir/c",
    "dir/d",
  ]);
  expect(await restarted.paths()).toEqual(["a", "b", "dir/c", "dir/d"]);
  await expect(sandbox.stage(["unchanged"])).rejects.toThrow("There are no changes at unchanged.");
});

test("discarding changes restores the base", async () => {
  const repository = await world.repositoryWith({ a: "1", b: "1", "dir/c": "1" });
  const sandbox = await world.open(repository);
  await sandbox.write("a", "2");
  await sandbox.remove("dir", { recursive: true });
  await sandbox.write("dir", "a file now");
  await sandbox.write("b", "2");

  expect(await sandbox.discard(["a", "dir"])).toEqual(["a", "dir", "dir/c"]);

  expect(await sandbox.changes()).toEqual([{ path: "b", status: "modified" }]);
  expect(textOf(await sandbox.readBytes("dir/c"))).toBe("1");
});

test("names of branches that differ in white space or in how a letter is composed are different", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const names = ["caf\u00e9", "cafe\u0301", "main\u00a0", "main\u2028x"];
  const commits = [];
  for (const branch of names) commits.push(await repository.commit({ branch, files: { a: branch } }));
  const tag = await repository.commit({ branch: "tagged", files: { a: "tag" } });
  await repository.git("update-ref", "refs/tags/release", tag);
  const sandbox = await world.open(repository);

  const found = [];
  for (const name of names) found.push((await sandbox.log({ from: name, limit: 1 })).commits[0]?.commit);

  expect(found).toEqual(commits);
  expect((await sandbox.branches()).map(({ name }) => name).sort()).toEqual([...names, "main", "tagged"].sort());
  expect((await sandbox.log({ from: "release", limit: 1 })).commits[0]?.commit).toBe(tag);
  await expect(sandbox.previewMerge("release")).rejects.toThrow("has no branch");
  for (const other of ["refs/tags/release", "main\u2028", "mai", "-", "--all", "main\nref-prefix refs/"]) {
    await expect(sandbox.log({ from: other, limit: 1 }), other).rejects.toThrow("has no branch");
  }
});

test("branches are listed with their commits", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const topic = await repository.commit({ branch: "topic/x", files: { a: "2" } });
  const sandbox = await world.open(repository);

  expect(await sandbox.branches()).toEqual([
    { name: "main", commit: sandbox.base.commit },
    { name: "topic/x", commit: topic },
  ]);
});

const numbered = (change: Record<number, string> = {}) =>
  Array.from({ length: 20 }, (_, index) => change[index] ?? `line ${index}\n`).join("");

test("a branch with changes to other lines and files merges cleanly", async () => {
  const repository = await world.repositoryWith({ text: numbered(), only: "1", gone: "1", "run.sh": "x" });
  const start = (await repository.git("rev-parse", "main")).trim();
  await repository.commit({ files: { unrelated: "main went on" }, at: minutes(1) });
  await repository.commit({
    branch: "topic",
    parent: start,
    files: {
      text: numbered({ 2: "theirs\n" }),
      only: "2",
      gone: null,
      "new/file": "n",
      "run.sh": { content: "x", executable: true },
    },
    at: minutes(2),
  });
  const sandbox = await world.open(repository);
  await sandbox.write("text", numbered({ 15: "ours\n" }));

  const result = await sandbox.mergeBranch("topic");
  const asked = world.server.requests.length;
  await sandbox.mergeBranch("topic");

  // Only the branch is asked for again. Its history and files are there.
  expect(world.server.requests.slice(asked)).toHaveLength(1);
  expect(result).toMatchObject({ mergeBases: [start], conflicts: [], applied: true });
  expect(result.merged.toSorted()).toEqual(["gone", "new/file", "only", "run.sh", "text"]);
  expect(textOf(await sandbox.readBytes("text"))).toBe(numbered({ 2: "theirs\n", 15: "ours\n" }));
  expect(await sandbox.exists("gone")).toBe(false);
  expect((await sandbox.stat("run.sh")).executable).toBe(true);
  expect(textOf(await sandbox.readBytes("unrelated"))).toBe("main went on");
  expect(sandbox.pendingChanges("call-1")?.changes.map(({ path }) => path)).toEqual([
    "gone",
    "new/file",
    "only",
    "run.sh",
    "text",
  ]);
});

test("conflicts leave the files unchanged unless markers are requested", async () => {
  const repository = await world.repositoryWith({
    text: numbered(),
    both: "1",
    image: Uint8Array.from([0, 1]),
    fine: "1",
  });
  await repository.commit({
    branch: "topic",
    files: { text: numbered({ 3: "theirs\n" }), both: null, image: Uint8Array.from([0, 2]), fine: "2" },
    parent: (await repository.git("rev-parse", "main")).trim(),
  });
  const sandbox = await world.open(repository);
  await sandbox.write("text", numbered({ 3: "ours\n" }));
  await sandbox.write("both", "2");
  await sandbox.write("image", Uint8Array.from([0, 3]));

  const refused = await sandbox.mergeBranch("topic");

  expect(refused.applied).toBe(false);
  expect(refused.merged).toEqual(["fine"]);
  expect(refused.conflicts.map(({ path, kind }) => [path, kind]).toSorted()).toEqual([
    ["both", "deleted"],
    ["image", "other"],
    ["text", "content"],
  ]);
  expect(textOf(await sandbox.readBytes("fine"))).toBe("1");

  await sandbox.mergeBranch("topic", { withConflicts: true });

  const marked = "<<<<<<< this run\nours\n=======\ntheirs\n>>>>>>> topic\n";
  expect(textOf(await sandbox.readBytes("text"))).toBe(numbered({ 3: marked }));
  expect(textOf(await sandbox.readBytes("both"))).toBe("2");
  expect(textOf(await sandbox.readBytes("fine"))).toBe("2");
});

test("a merge that would change a read-only file changes nothing", async () => {
  const repository = await world.repositoryWith({ a: "1", "docs/b": "1" });
  const parent = (await repository.git("rev-parse", "main")).trim();
  await repository.commit({ branch: "topic", files: { a: "2", "docs/b": "2" }, parent });
  const sandbox = await world.open(repository, { policy: { zones: [{ name: "docs", mode: "ro" }] } });

  await expect(sandbox.mergeBranch("topic")).rejects.toThrow("docs/b would change, and it is read-only");

  expect(await sandbox.changes()).toEqual([]);
});

test("a file whose name is not UTF-8 is kept, and a merge that would change it changes nothing", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const who = "Ada <ada@example.com> 1700000060 +0000";
  const change = (branch: string, from: string, line: string) =>
    repository.feed(
      `commit refs/heads/${branch}\ncommitter ${who}\ndata 1\nx\nfrom ${from}\n${line}\n`,
      "fast-import",
      "--quiet",
    );
  await change("main", "refs/heads/main^0", 'M 644 inline "caf\\351"\ndata 1\n1\n');
  await change("renames", "main", "R a b");
  await change("edits", "main", 'M 644 inline "caf\\351"\ndata 1\n2\n');
  await change("adds", "main", 'M 644 inline "caf\\350"\ndata 1\n2\n');
  const sandbox = await world.open(repository);

  await expect(sandbox.mergeBranch("adds")).rejects.toThrow("caf\\\\350");
  expect(await sandbox.mergeBranch("edits")).toMatchObject({ applied: false, conflicts: [{ path: "caf\\351" }] });
  expect(await sandbox.changes()).toEqual([]);
  await sandbox.mergeBranch("renames");
  await pushAll(sandbox, "golem/kept");
  expect(await repository.git("rev-parse", "golem/kept^{tree}")).toBe(
    await repository.git("rev-parse", "renames^{tree}"),
  );
});

test("a branch without common history is not merged", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  await repository.commit({ branch: "other", files: { b: "1" }, orphan: true });
  const sandbox = await world.open(repository);

  const asked = world.server.requests.length;
  await expect(sandbox.mergeBranch("other")).rejects.toThrow(/no common history/);
  expect(world.server.requests.slice(asked)).toHaveLength(2);
  const unknown = "0123456789".repeat(4);
  await expect(sandbox.mergeBranch("main", { heads: [unknown] })).rejects.toThrow(/no common history/);
  await expect(sandbox.mergeBranch("main", { since: unknown })).rejects.toThrow(
    /^octo\/demo-\d+ did not send the commit 0123456789: .*not our ref/,
  );
});

test("branches whose common commit is far back are merged", async () => {
  const repository = await world.repositoryWith({ text: numbered(), other: "1" });
  const start = (await repository.git("rev-parse", "main")).trim();
  const commits = Array.from({ length: 120 }, (_, index) =>
    [
      ...["commit refs/heads/topic", `committer A <a@example.com> ${1_750_000_000 + index} +0000`, "data 1", "x"],
      ...(index === 0 ? [`from ${start}`] : []),
      ...["M 100644 inline other", "data 3", String(index).padStart(3, "0"), ""],
    ].join("\n"),
  );
  await repository.feed(commits.join(""), "fast-import", "--quiet");
  await repository.commit({ files: { text: numbered({ 2: "main\n" }) }, at: minutes(1) });
  const sandbox = await world.open(repository);

  expect(await sandbox.mergeBranch("topic")).toMatchObject({ mergeBases: [start], merged: ["other"], conflicts: [] });
});

/** Creates commits with fast-import, oldest first. Without `from`, a commit continues its branch. */
async function importCommits(
  repository: Awaited<ReturnType<typeof world.repositoryWith>>,
  commits: readonly { branch: string; from?: string; merge?: string; files: Record<string, string> }[],
): Promise<void> {
  const texts = commits.map(({ branch, from, merge, files }, index) =>
    [
      ...[`commit refs/heads/${branch}`, `committer A <a@example.com> ${1_750_000_000 + index} +0000`, "data 1", "x"],
      ...(from ? [`from ${from}`] : []),
      ...(merge ? [`merge refs/heads/${merge}`] : []),
      ...Object.entries(files).flatMap(([path, text]) => [`M 100644 inline ${path}`, `data ${text.length}`, text]),
      "",
    ].join("\n"),
  );
  await repository.feed(texts.join(""), "fast-import", "--quiet", "--force");
}

test("an old common commit is not taken for the merge base because the way to it is short", async () => {
  const repository = await world.repositoryWith({ text: "0", other: "0" });
  const start = (await repository.git("rev-parse", "main")).trim();
  await importCommits(repository, [
    { branch: "early", from: start, files: { early: "1" } },
    { branch: "late", from: start, files: { late: "1" } },
    { branch: "main", from: start, merge: "early", files: { text: "1", early: "1" } },
    { branch: "topic", from: "refs/heads/main", files: { text: "0" } },
    ...Array.from({ length: 120 }, (_, index) => ({ branch: "topic", files: { other: `${index}` } })),
    { branch: "topic", merge: "late", files: { late: "1" } },
  ]);
  const sandbox = await world.open(repository);

  const result = await sandbox.mergeBranch("topic");

  expect(result).toMatchObject({ mergeBases: [sandbox.base.commit], merged: ["late", "other", "text"], conflicts: [] });
  expect(textOf(await sandbox.readBytes("text"))).toBe("0");
});

test("of two branches that were merged into each other, later changes of both are kept, and can be pushed", async () => {
  const repository = await world.repositoryWith({ theirs: "0", ours: "0" });
  const start = (await repository.git("rev-parse", "main")).trim();
  await importCommits(repository, [
    { branch: "left", from: start, files: { theirs: "1" } },
    { branch: "right", from: start, files: { ours: "1" } },
    { branch: "main", from: "refs/heads/left", merge: "right", files: { ours: "0" } },
    { branch: "topic", from: "refs/heads/right", merge: "left", files: { theirs: "0" } },
  ]);
  const mergeBases = (await repository.git("rev-parse", "left", "right")).trim().split("\n");
  const commit = (await repository.git("rev-parse", "topic")).trim();
  const sandbox = await world.open(repository);

  const result = await sandbox.mergeBranch("topic");
  const merged = [{ commit, since: result.mergeBases, isBase: true }];
  const plan = await sandbox.planPush({ tip: undefined, merged });

  expect(result).toMatchObject({ mergeBases, merged: ["theirs"], conflicts: [] });
  expect(textOf(await sandbox.readBytes("theirs"))).toBe("0");
  expect(plan.files).toEqual([]);
});

test("a second merge starts at what was merged first, and the next push lists only the run's own changes", async () => {
  const repository = await world.repositoryWith({ text: numbered(), other: "1" });
  const start = (await repository.git("rev-parse", "main")).trim();
  const sandbox = await world.open(repository);
  await sandbox.write("text", numbered({ 15: "ours\n" }));
  const first = await repository.commit({ files: { text: numbered({ 2: "theirs\n" }), added: "1" }, at: minutes(1) });
  await sandbox.mergeBranch("main");
  await sandbox.write("added", "ours");
  const second = await repository.commit({ files: { other: "2" }, at: minutes(2) });

  const result = await sandbox.mergeBranch("main", { heads: [start, first] });
  const merged = [first, second].map((commit) => ({ commit, isBase: true }));
  const plan = await sandbox.planPush({ tip: start, merged });

  expect(result).toMatchObject({ mergeBases: [first], conflicts: [], merged: ["other"], applied: true });
  expect(textOf(await sandbox.readBytes("added"))).toBe("ours");
  expect(plan.files.map(({ path }) => path)).toEqual(["added", "text"]);
});

const [moduleBefore, moduleAfter] = ["1".repeat(40), "2".repeat(40)];

test("links and submodules of the other branch are merged, stored and pushed as git merges them", async () => {
  const repository = await world.repositoryWith({
    a: "1",
    b: "2",
    link: { link: "a" },
    "gone-link": { link: "a" },
    "link-to-file": { link: "a" },
    "folder/in": "1",
    module: { submodule: moduleBefore },
    "gone-module": { submodule: moduleBefore },
  });
  const parent = (await repository.git("rev-parse", "main")).trim();
  const commit = await repository.commit({
    branch: "topic",
    files: {
      link: { link: "b" },
      "gone-link": null,
      "link-to-file": "now a file",
      "new/link": { link: "../a" },
      "folder/in": null,
      folder: { link: "new" },
      module: { submodule: moduleAfter },
      "gone-module": null,
      "new/module": { submodule: moduleBefore },
    },
    parent,
  });
  await repository.commit({ files: { c: "main went on" } });
  const merging = await world.open(repository);

  const result = await merging.mergeBranch("topic");
  const stored = merging.pendingChanges("call-1");
  const sandbox = await world.open(repository, { changes: stored ? [stored] : [] });
  const merged = [{ commit, since: [parent] }];
  const plan = await sandbox.planPush({ tip: undefined, merged });
  await pushAll(sandbox, "golem/merged", { merged, tree: plan.tree });

  expect(result).toMatchObject({ conflicts: [], applied: true });
  expect(textOf(await sandbox.readBytes("new/link"))).toBe("1");
  expect(textOf(await sandbox.readBytes("link"))).toBe("2");
  expect((await sandbox.stat("new/module")).type).toBe("submodule");
  expect(await sandbox.paths()).toEqual(["a", "b", "c", "link-to-file"]);
  await expect(sandbox.write("new/link", "x")).rejects.toThrow("symbolic link");
  expect(await repository.git("rev-parse", "golem/merged^{tree}")).toBe(
    await repository.git("merge-tree", "--write-tree", "main", "topic"),
  );
  expect(await sandbox.diffAgainstBase("module")).toContain(
    `-Subproject commit ${moduleBefore}\n+Subproject commit ${moduleAfter}\n`,
  );
});
