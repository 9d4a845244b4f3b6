import { execFile } from "node:child_process";
import fs from "node:fs";
import git from "isomorphic-git";
import { UserError } from "#domain/errors.ts";
import { gitEnvironment, isAncestor, readGitCommit } from "./git-repository.ts";

/** The tree of a merge, or the paths that conflict. */
export type Merge = { kind: "clean"; tree: string } | { kind: "conflicts"; paths: string[] };

/** Merges two commits without a working tree and without moving a branch. */
export async function mergeCommits(directory: string, base: string, head: string): Promise<Merge> {
  if (await isAncestor(directory, base, head))
    return { kind: "clean", tree: (await readGitCommit(directory, head)).tree };

  const args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, head];
  return new Promise((resolve, reject) => {
    execFile("git", ["--git-dir", directory, ...args], { env: gitEnvironment() }, (error, output) => {
      const [tree = "", ...paths] = output.split("\0");
      if (!error) return resolve({ kind: "clean", tree });
      if (error.code === 1) return resolve({ kind: "conflicts", paths: paths.filter((path) => path !== "") });
      if (error.code === 129) return reject(new UserError("Merging needs git 2.38 or later.", { cause: error }));
      reject(error);
    });
  });
}

/** Writes a commit of this tree and returns its hash. */
export function writeCommit(
  directory: string,
  { tree, parents, message, login }: { tree: string; parents: string[]; message: string; login: string },
): Promise<string> {
  const person = {
    name: login,
    email: `${login}@users.noreply.github.invalid`,
    timestamp: Math.floor(Date.now() / 1000),
    timezoneOffset: 0,
  };
  const commit = { tree, parent: parents, message, author: person, committer: person };
  return git.writeCommit({ fs, gitdir: directory, commit });
}
