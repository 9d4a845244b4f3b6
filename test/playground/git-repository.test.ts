import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commitFiles } from "#playground/github/git/commit-files.ts";
import { branches, initialize, moveBranch, resolveCommit } from "#playground/github/git/git-repository.ts";

test("branches are read as git lists them, whether their refs are loose or packed", async () => {
  const directory = await mkdtemp(join(tmpdir(), "golem-playground-git-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const git = (...args: string[]) =>
    execFileSync("git", ["--git-dir", directory, ...args], { encoding: "utf8" }).trim();
  const asGit = () => git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads").split("\n");
  const asRead = async () => [...(await branches(directory))].map((pair) => pair.join(" "));
  await initialize(directory, "main");
  const commit = (branch: string, message: string) => ({
    branch,
    message,
    author: "ada",
    at: new Date(0),
    files: { "a.txt": message },
  });
  await commitFiles(directory, [commit("main", "one"), commit("golem/1-run", "two"), commit("golem/deep/er", "three")]);
  expect(await asRead()).toEqual(asGit());

  git("pack-refs", "--all");
  expect(await asRead()).toEqual(asGit());

  const [from, to] = [git("rev-parse", "main"), git("rev-parse", "golem/1-run")];
  expect(await moveBranch(directory, "main", { from, to })).toBe(true);
  expect(await moveBranch(directory, "golem/deep/er", { from: git("rev-parse", "golem/deep/er"), to: undefined })).toBe(
    true,
  );
  expect(await asRead()).toEqual(asGit());
  expect(await resolveCommit(directory, "main")).toBe(to);
  expect(await resolveCommit(directory, "golem/deep/er")).toBeUndefined();
});
