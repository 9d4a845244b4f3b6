import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { isManualTool } from "#domain/tool.ts";
import { readGitCommit } from "#playground/github/git/git-repository.ts";
import { openSandbox } from "#sandbox/open-sandbox.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { gitToolset, pullRequestToolset, searchToolset } from "#toolsets/registry.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { type GitRepository, type GitServer, startGitServer } from "../../support/git-server.ts";
import { GitHubWorld, sums } from "../../support/github-world.ts";
import { toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

let server: GitServer;
let github: GitHubWorld;
let repository: GitRepository;
let count = 0;

beforeAll(async () => {
  server = await startGitServer();
  github = await GitHubWorld.start();
});
afterAll(async () => {
  await server.close();
  await github.close();
});

async function world(toolset: Toolset = gitToolset, options: WorldOptions = {}) {
  repository = await server.repository(`octo/r${++count}`);
  await repository.commit({
    files: { "a.txt": "1\n2\n3\n4\n5\n", "b.txt": "b\n", "src/c.ts": "c\n" },
    message: "First",
  });
  const sandbox = await openSandbox({
    source: { tenant: `1:octo/r${count}`, url: repository.url, token: async () => undefined },
    at: { branch: "main" },
    changes: [],
  });
  return toolsetWorld(toolset, { sandbox, ...options, services: { github: github.github, ...options.services } });
}

test("a person can push only to the run's own branch and never with force", async () => {
  const { call, sandbox, tool } = await world();
  await sandbox.write("b.txt", "B\n");

  const { llmContent } = await call("git_push", { message: "Use B" });

  expect(llmContent).toMatch(/^Pushed [0-9a-f]{7} to golem\/7-run-1\.$/);
  expect(await repository.git("show", "golem/7-run-1:b.txt")).toContain("B");
  expect(await repository.git("show", "main:b.txt")).toContain("b");
  await expect(call("git_push", { branch: "main" })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  await expect(call("git_push", { force: true })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  expect(isManualTool(tool("git_push"))).toBe(true);
  expect(tool("git_push").manualExecution).toEqual({ mode: "manual", label: "Push to Remote", category: "Git" });
});

test("only staged files are pushed", async () => {
  const { call, sandbox } = await world();
  await sandbox.write("a.txt", "A\n");
  await sandbox.write("src/c.ts", "C\n");

  const { llmContent } = await call("git_stage", { paths: ["src"] });
  await call("git_push", {});

  expect(llmContent).toBe("Staged 1 file.\nstaged   src/c.ts\nunstaged a.txt");
  expect((await call("git_status", {})).llmContent).toContain("M src/c.ts (staged)");
  expect(await repository.git("diff", "--name-only", "main", "golem/7-run-1")).toBe("src/c.ts\n");
  expect((await call("git_stage", { paths: ["src/c.ts"], unstage: true })).llmContent).toContain("Unstaged 1 file.");
  await expect(call("git_stage", { paths: ["b.txt"] })).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
});

test("git_discard needs approval, previews the lost changes and restores the base", async () => {
  const { call, sandbox, asks, preview } = await world();
  await sandbox.write("b.txt", "B\n");

  expect(await asks("git_discard", { paths: ["b.txt"] })).toBe(true);
  expect(await preview("git_discard", { paths: ["b.txt"] })).toContain("-B\n+b");
  await call("git_discard", { paths: ["b.txt"] });

  expect(await sandbox.changes()).toEqual([]);
});

test("branches are listed and the run's base is marked", async () => {
  const { call } = await world();
  await repository.commit({ branch: "topic", files: { "t.txt": "t" } });

  const { llmContent } = await call("git_branches", {});

  expect(llmContent).toMatch(/^2 branches:\nmain [0-9a-f]{7} \(this run's base\)\ntopic [0-9a-f]{7}$/);
});

test("git_pull merges new commits of the base and keeps the run's changes", async () => {
  const { call, sandbox, asks } = await world();
  await sandbox.write("a.txt", "1\n2\n3\n4\nfive\n");
  await repository.commit({ files: { "a.txt": "one\n2\n3\n4\n5\n" } });

  const { llmContent } = await call("git_pull", {});

  expect(llmContent).toContain("Merged main: 1 file changed.");
  expect(Buffer.from(await sandbox.readBytes("a.txt")).toString()).toBe("one\n2\n3\n4\nfive\n");
  expect(await asks("git_pull", {})).toBe(false);
});

test("a merge with conflicts changes nothing unless markers are requested, and git_check_conflicts finds them", async () => {
  const { call, sandbox, asks, preview } = await world();
  await sandbox.write("a.txt", "mine\n2\n3\n4\n5\n");
  const parent = sandbox.base.commit;
  await repository.commit({ branch: "topic", parent, files: { "a.txt": "theirs\n2\n3\n4\n5\n" } });

  await expect(preview("git_merge", { branch: "topik" })).rejects.toThrow(
    /has no branch "topik"\. Did you mean topic\?$/,
  );
  await expect(call("git_merge", { branch: "release" })).rejects.toThrow(
    /has no branch "release"\. Its branches: main, topic\.$/,
  );
  expect(await asks("git_merge", { branch: "topic" })).toBe(true);
  expect((await call("git_merge", { branch: "topic" })).llmContent).toContain("Nothing was changed.");
  expect((await call("git_check_conflicts", {})).llmContent).toBe("No conflict markers.");
  await call("git_merge", { branch: "topic", with_conflicts: true });

  expect((await call("git_check_conflicts", {})).llmContent).toBe("1 conflict left.\na.txt:1");
  expect((await call("git_check_conflicts", { path: "b.txt" })).llmContent).toBe("No conflict markers.");
});

test("git_check_conflicts takes linear time for a file of markers, so that it blocks no other run", async () => {
  const { call, sandbox } = await world();
  await sandbox.write("a.txt", `${"<<<<<<<\n".repeat(40_000)}=======\n`);
  const before = process.cpuUsage();

  const { llmContent } = await call("git_check_conflicts", {});

  const { user, system } = process.cpuUsage(before);
  expect(llmContent).toBe("No conflict markers.");
  expect((user + system) / 1_000).toBeLessThan(5_000);
});

test("a push is refused before anyone is asked while a merged file has conflict markers, but not for those of other files", async () => {
  const { call, sandbox, preview } = await world();
  await sandbox.write("a.txt", "mine\n2\n3\n4\n5\n");
  await sandbox.write("b.txt", "<<<<<<< HEAD\nb\n=======\nB\n>>>>>>> topic\n");
  const parent = sandbox.base.commit;
  await repository.commit({ branch: "topic", parent, files: { "a.txt": "theirs\n2\n3\n4\n5\n" } });
  await call("git_merge", { branch: "topic", with_conflicts: true });

  await expect(preview("git_push", {})).rejects.toThrow("A merge has left conflict markers in these files: a.txt.");
  await expect(call("git_push", {})).rejects.toMatchObject({ code: "CONFLICT" });

  await sandbox.write("a.txt", "both\n2\n3\n4\n5\n");
  expect(await preview("git_push", {})).toContain("both");
});

test("git_log shows the history of the repository, and names the nearest path if there is none", async () => {
  const { call, sandbox } = await world();
  await sandbox.write("src/new.ts", "");

  expect((await call("git_log", {})).llmContent).toMatch(/[0-9a-f]{7} \d{4}-\d\d-\d\d .*: First/);
  expect((await call("git_log", { path: "src/d.ts" })).llmContent).toBe(
    "No commits: src/d.ts is neither in this history nor among the files. Did you mean src/c.ts?",
  );
  expect((await call("git_log", { path: "src/new.ts" })).llmContent).toBe("No commits.");
  expect((await call("git_log", { path: "src/c.ts", skip: 1 })).llmContent).toBe("No commits.");
});

test("git_log of a file that rarely changes shows its newest commits first, and how to see older ones", async () => {
  const { call } = await world();
  const first = (await repository.git("rev-parse", "main")).trim();
  const commits = Array.from({ length: 520 }, (_, at) => {
    const file = at === 1 || at === 515 ? "src/c.ts" : "b.txt";
    const who = `Ada <ada@example.com> ${1_700_000_000 + at} +0000`;
    const from = at === 0 ? `from ${first}\n` : "";
    return `commit refs/heads/long\ncommitter ${who}\ndata <<E\nCommit ${at}\nE\n${from}M 644 inline ${file}\ndata <<E\n${at}\nE\n\n`;
  });
  await repository.feed(commits.join(""), "fast-import", "--quiet");

  const { llmContent } = await call("git_log", { path: "src/c.ts", range: "long" });

  expect(llmContent).toContain("Commit 515");
  expect(llmContent).not.toContain("Commit 1\n");
  expect(llmContent).toContain("Only the newest 500 commits were searched. skip 1 searches older ones.");
  const older = await call("git_log", { path: "src/c.ts", range: "long", skip: 1 });
  expect(older.llmContent).toMatch(/Commit 1\n.*: First\n<\/untrusted/);
});

test("git_log lists the commits of a branch that are not in another", async () => {
  const { call } = await world();
  await repository.commit({
    branch: "ahead",
    parent: (await repository.git("rev-parse", "main")).trim(),
    files: { "x.txt": "1" },
    message: "Ahead",
  });

  expect((await call("git_log", { range: "main..ahead" })).value).toMatchObject({
    summary: "1 commit",
    data: { commits: [{ message: "Ahead" }] },
  });
  expect((await call("git_log", { range: "ahead", limit: 1, skip: 1 })).llmContent).not.toContain("Ahead");
  await expect(call("git_log", { range: "main..nope" })).rejects.toThrow("has no branch");
});

test("file tools, including undo, work on a real repository", async () => {
  const { call, sandbox } = await world(filesystemToolset);
  await call("read_file", { path: "a.txt" });
  await call("edit_file", { path: "a.txt", old_text: "3", new_text: "three" }, {});

  expect(Buffer.from(await sandbox.readBytes("a.txt")).toString()).toBe("1\n2\nthree\n4\n5\n");
  await call("undo", {});
  expect(await sandbox.changes()).toEqual([]);
  await expect(call("read_file", { path: ".git/config" })).rejects.toMatchObject({ code: "INVALID_PATH" });
  await expect(call("write_file", { path: "../x", content: "" })).rejects.toMatchObject({ code: "INVALID_PATH" });
});

test("git_diff shows modes, links and submodules, and undo refuses those that a merge changed", async () => {
  const { call, sandbox, history } = await world();
  const [link, submodule] = [{ link: "b.txt" }, { submodule: "1".repeat(40) }];
  await repository.commit({ files: { link, submodule, "a.txt": "theirs\n" } });
  await sandbox.write("b.txt", "b\n", { executable: true });
  await call("git_pull", {});
  const files = await toolsetWorld(filesystemToolset, { sandbox, services: { history: () => history } });

  const { llmContent } = await call("git_diff", {});

  expect(llmContent).toContain("diff --git a/b.txt b/b.txt\nold mode 100644\nnew mode 100755\n");
  expect(llmContent).toContain("new file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1,1 @@\n+b.txt\n");
  expect(llmContent).toContain(`new file mode 160000\n--- /dev/null\n+++ b/submodule\n@@ -0,0 +1,1 @@\n+Subproject`);
  for (const path of [undefined, "link", "submodule"]) {
    await expect(files.call("undo", { path })).rejects.toThrow("which undo cannot restore");
  }
  await files.call("undo", { path: "a.txt" });
  expect(Buffer.from(await sandbox.readBytes("a.txt")).toString()).toBe("1\n2\n3\n4\n5\n");
});

test("search skips symbolic links and submodules", async () => {
  const { call, sandbox } = await world(searchToolset);
  await repository.commit({
    branch: "links",
    files: { out: { link: "../../etc/passwd" }, dead: { link: "nowhere" }, sub: { submodule: "1".repeat(40) } },
  });
  const linked = await openSandbox({
    source: { tenant: "1:octo/links", url: repository.url, token: async () => undefined },
    at: { branch: "links" },
    changes: [],
  });
  const opened = await toolsetWorld(searchToolset, { sandbox: linked });

  expect((await opened.call("grep", { pattern: "." })).error).toBeUndefined();
  expect((await call("glob", { pattern: "**/*.ts" })).llmContent).toContain("src/c.ts");
  expect(await sandbox.paths()).toContain("b.txt");
});

test("a pull request is pushed to a real remote, and repeating the call creates the same commit", async () => {
  const { hub } = github;
  const sandbox = await openSandbox({
    source: {
      tenant: "1:octo/sums",
      url: `${hub.url}/octo/sums.git`,
      token: () => github.github.createGitToken("write"),
    },
    at: { branch: "main" },
    changes: [],
  });
  const { call, history } = await world(pullRequestToolset, { sandbox });
  const tip = () => readGitCommit(hub.repository().gitDirectory, String(hub.repository().knownBranches.get(branch)));
  const branch = "refs/heads/golem/7-run-1";
  await sandbox.write("README.md", "# Better sums\n");
  await call("open_pull_request", { title: "Use B", body: "Because." });
  const first = await tip();
  history.length = 0;

  await call("open_pull_request", { title: "Use B", body: "Because." });

  expect(await tip()).toEqual(first);
  expect(first.author).toMatchObject({
    name: "golem-forge[bot]",
    email: "golem-forge[bot]@users.noreply.github.com",
  });
  expect(first.message).toContain("Use B\n\nBecause.");
});

test("GitHub signs the commits of a repository that requires it, and an earlier attempt is found again", async () => {
  const signed = await GitHubWorld.start({ repository: { ...sums, requiresSignedCommits: true } });
  onTestFinished(() => signed.close());
  let isEnabled = false;
  const sandbox = await openSandbox({
    source: {
      tenant: "1:octo/signed",
      url: `${signed.hub.url}/octo/sums.git`,
      token: () => signed.github.createGitToken("write"),
      createCommit: async (commit) => (isEnabled ? signed.github.createCommit(commit) : undefined),
    },
    at: { branch: "main" },
    changes: [
      {
        step: "a merge",
        changes: [
          { path: "assets/link", content: Buffer.from("../LICENSE"), mode: "120000" },
          { path: "vendor/module", content: Buffer.from("1".repeat(40)), mode: "160000" },
        ],
      },
    ],
  });
  const { call, history } = await toolsetWorld(pullRequestToolset, { sandbox, services: { github: signed.github } });
  const binary = Uint8Array.from({ length: 512 }, (_, index) => index % 256);
  await sandbox.write("assets/deep/logo.png", binary);
  await sandbox.write("run.sh", "#!/bin/sh\r\necho ü\n", { executable: true });
  await sandbox.write("large.txt", "0123456789\n".repeat(20_000));
  await sandbox.remove("README.md");
  const { tree } = await sandbox.planPush({ tip: undefined, merged: [] });
  const open = () => call("open_pull_request", { title: "Add a logo", body: "Because." });

  await expect(open()).rejects.toThrow(/must have verified signatures\.[\s\S]*Set `verified_commits: true`/);

  isEnabled = true;
  await open();
  const branch = "golem/7-run-1";
  const first = (await signed.git("rev-parse", branch)).trim();
  const commit = await readGitCommit(signed.hub.repository().gitDirectory, first);
  expect(commit).toMatchObject({ tree, parent: [sandbox.base.commit], gpgsig: expect.stringContaining("SIGNATURE") });
  expect(commit.message).toContain("Add a logo\n\nBecause.");

  // As if the process had been killed before it stored the result.
  history.length = 0;
  await open();
  expect((await signed.git("rev-parse", branch)).trim()).toBe(first);

  await sandbox.write("next.txt", "next\n");
  await call("update_pull_request", { message: "Add more" });
  expect(await signed.git("log", "--format=%s", `main..${branch}`)).toBe("Add more\nAdd a logo\n");
});
