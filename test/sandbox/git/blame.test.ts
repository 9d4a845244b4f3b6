import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openCheckout } from "#sandbox/checkout/open-checkout.ts";
import type { BlamedRange } from "#sandbox/sandbox.ts";
import { gitToolset } from "#toolsets/registry.ts";
import type { GitRepository } from "../../support/git-server.ts";
import { type SandboxWorld, startSandboxWorld } from "../../support/sandbox-world.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

let world: SandboxWorld;
let folder: string;
beforeAll(async () => {
  world = await startSandboxWorld();
  folder = mkdtempSync(join(tmpdir(), "golem-blame-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await world.close();
});

const minutes = (count: number) => new Date(1_700_000_000_000 + count * 60_000);
const numbered = (count: number, change: (line: number) => string = (line) => `line ${line}`) =>
  Array.from({ length: count }, (_, line) => `${change(line)}\n`).join("");

/** A history with edits, insertions, deletions, and a merge of two branches that changed the same file. */
async function repositoryWithHistory(): Promise<GitRepository> {
  const repository = await world.repositoryWith({});
  const commit = (index: number, text: string, more: { branch?: string; parent?: string } = {}) =>
    repository.commit({
      files: { "src/a.txt": text, other: `${index}` },
      message: `${index}`,
      at: minutes(index),
      ...more,
    });
  await commit(0, numbered(40));
  const fork = await commit(
    1,
    numbered(40, (line) => (line % 9 === 2 ? `one ${line}` : `line ${line}`)),
  );
  const ours = numbered(40, (line) => (line % 9 === 2 ? `one ${line}` : line < 5 ? `ours ${line}` : `line ${line}`));
  const main = await commit(2, ours);
  const theirs = numbered(45, (line) =>
    line % 9 === 2 ? `one ${line}` : line > 30 ? `theirs ${line}` : `line ${line}`,
  );
  const topic = await commit(3, theirs, { branch: "topic", parent: fork });
  const merged = [...ours.split("\n").slice(0, 31), ...theirs.split("\n").slice(31)].join("\n");
  await repository.commit({ files: { "src/a.txt": merged }, branch: "tree", parent: main, at: minutes(4) });
  const tree = (await repository.git("rev-parse", "tree^{tree}")).trim();
  const who = ["-c", "user.name=Bo", "-c", "user.email=bo@example.com"];
  const merge = await repository.git(...who, "commit-tree", tree, "-p", main, "-p", topic, "-m", "Merge");
  await repository.git("update-ref", "refs/heads/main", merge.trim());
  const last = merged.split("\n").filter((_, line) => line % 11 !== 5);
  await repository.commit({ files: { "src/a.txt": ["first", ...last].join("\n") }, message: "5", at: new Date() });
  return repository;
}

/** The commit of each line, as native git names it. */
async function nativeBlame(repository: GitRepository, path: string): Promise<string[]> {
  const output = await repository.git("blame", "--line-porcelain", "main", "--", path);
  return [...output.matchAll(/^([0-9a-f]{40}) \d+ \d+/gm)].map(([, oid = ""]) => oid);
}

const perLine = (ranges: readonly BlamedRange[]) =>
  ranges.flatMap(({ start, end, commit }) => Array<string | undefined>(end - start + 1).fill(commit?.commit));

test("blame names the commits that git blame names, in a sandbox and in a checkout", async () => {
  const repository = await repositoryWithHistory();
  const native = await nativeBlame(repository, "src/a.txt");
  const sandbox = await world.open(repository);
  const clone = join(folder, "clone");
  execFileSync("git", ["clone", "--quiet", repository.path, clone]);
  const { tree } = await openCheckout(clone);
  const lines = { path: "src/a.txt", start: 1, end: native.length };

  const ranges = await sandbox.blame(lines);

  expect(new Set(native).size).toBeGreaterThan(4);
  expect(perLine(ranges)).toEqual(native);
  expect(ranges.some(({ mayBeOlder }) => mayBeOlder)).toBe(false);
  expect(perLine(await tree.blame(lines))).toEqual(native);
  expect(perLine(await sandbox.blame({ ...lines, start: 7, end: 12 }))).toEqual(native.slice(6, 12));
});

test("lines that the run or a person has changed are not committed yet", async () => {
  const repository = await world.repositoryWith({ "a.txt": numbered(5) });
  const commit = (await repository.git("rev-parse", "main")).trim();
  const sandbox = await world.open(repository);
  await sandbox.write("a.txt", `new\n${numbered(5)}`);
  const clone = join(folder, "changed");
  execFileSync("git", ["clone", "--quiet", repository.path, clone]);
  writeFileSync(join(clone, "a.txt"), `new\n${numbered(5)}`);
  const { tree } = await openCheckout(clone);

  for (const files of [sandbox, tree]) {
    const ranges = await files.blame({ path: "a.txt", start: 1, end: 6 });
    expect(ranges.map(({ start, end, commit: found }) => [start, end, found?.commit])).toEqual([
      [1, 1, undefined],
      [2, 6, commit],
    ]);
  }
});

test("blame deepens the history in steps until it has the commits of all lines", async () => {
  const repository = await world.repositoryWith({ "a.txt": "old\n0\n" });
  const history = Array.from({ length: 130 }, (_, index) => ({
    files: { "a.txt": `old\n${index + 1}\n` },
    message: `${index + 1}`,
    at: minutes(index + 1),
  }));
  await repository.commit(...history);
  const sandbox = await world.open(repository);

  const ranges = await sandbox.blame({ path: "a.txt", start: 1, end: 2 });

  expect(perLine(ranges)).toEqual(await nativeBlame(repository, "a.txt"));
});

test("blame follows renames as git does", async () => {
  const other = numbered(30, (line) => `other ${line}`);
  const repository = await world.repositoryWith({ "lib/a.txt": numbered(30), "lib/other.txt": other });
  const edited = (text: string, ...lines: number[]) =>
    numbered(30, (line) => (lines.includes(line) ? `${text} ${line}` : `line ${line}`));
  const commit = (index: number, files: Record<string, string | null>) =>
    repository.commit({ files, message: `${index}`, at: minutes(index) });
  await commit(1, { "lib/a.txt": edited("first", 3) });
  await commit(2, { "lib/a.txt": null, "lib/other.txt": null, "src/b.txt": edited("first", 3), "src/c.txt": other });
  await commit(3, { "src/b.txt": edited("first", 3, 9) });
  await commit(4, { "src/b.txt": null, "src/d.txt": edited("first", 3, 9, 20), unrelated: "x" });
  const sandbox = await world.open(repository);

  const ranges = await sandbox.blame({ path: "src/d.txt", start: 1, end: 30 });

  const native = await nativeBlame(repository, "src/d.txt");
  expect(new Set(native).size).toBe(4);
  expect(perLine(ranges)).toEqual(native);
  expect(ranges.some(({ mayBeOlder }) => mayBeOlder)).toBe(false);
});

test("a commit with a date before that of its parent keeps the lines that come from the parent", async () => {
  const repository = await world.repositoryWith({});
  const commit = (index: number, changed: readonly number[], more: { branch?: string; parent?: string } = {}) =>
    repository.commit({
      files: { a: numbered(20, (line) => (changed.includes(line) ? `changed ${line}` : `line ${line}`)) },
      at: minutes(index),
      ...more,
    });
  await commit(1, []);
  const fork = await commit(8, [2, 7]);
  const early = await commit(3, [2, 5, 7], { branch: "early", parent: fork });
  const late = await commit(10, [2, 15], { branch: "late", parent: fork });
  await commit(11, [2, 5, 7, 15], { branch: "tree" });
  const who = ["-c", "user.name=Bo", "-c", "user.email=bo@example.com"];
  const merge = await repository.git(...who, "commit-tree", "tree^{tree}", "-p", late, "-p", early, "-m", "Merge");
  await repository.git("update-ref", "refs/heads/main", merge.trim());
  const sandbox = await world.open(repository);

  const ranges = await sandbox.blame({ path: "a", start: 1, end: 20 });

  expect(perLine(ranges)).toEqual(await nativeBlame(repository, "a"));
});

test("git_blame lists ranges of lines with their commits, marked as untrusted", async () => {
  const repository = await repositoryWithHistory();
  const { call } = await toolsetWorld(gitToolset, { sandbox: await world.open(repository) });

  const { llmContent, value } = await call("git_blame", { path: "src/a.txt", start_line: 1, end_line: 9_999 });

  expect(llmContent).toMatch(/<untrusted[\s\S]*\n1: [0-9a-f]{7} \d{4}-\d\d-\d\d Ada: 5\n2-3: /);
  expect(value).toMatchObject({
    kind: "git.blame",
    data: {
      path: "src/a.txt",
      ranges: expect.arrayContaining([expect.objectContaining({ start: 1, end: 1, message: "5" })]),
    },
  });
  await expect(call("git_blame", { path: "src/a.txt", start_line: 900, end_line: 901 })).rejects.toThrow(
    /has \d+ lines, and not 900 to 901/,
  );
});

test("git_blame says when a shallow checkout has no older history", async () => {
  const repository = await repositoryWithHistory();
  const clone = join(folder, "shallow");
  execFileSync("git", ["clone", "--quiet", "--depth=1", `file://${repository.path}`, clone]);
  const { tree } = await openCheckout(clone);

  const ranges = await tree.blame({ path: "src/a.txt", start: 1, end: 5 });
  const { isComplete } = await tree.log({ limit: 10 });

  expect(ranges.every(({ mayBeOlder }) => mayBeOlder)).toBe(true);
  expect(isComplete).toBe(false);
});

test("git_log says when older history was not read", async () => {
  const { call } = await toolsetWorld(gitToolset, { isLogComplete: false });

  expect((await call("git_log", { path: "a.txt" })).llmContent).toContain("Only the latest 5,000 commits were read");
});
