import { createHash } from "node:crypto";
import fs from "node:fs";
import git from "isomorphic-git";
import { UserError } from "#domain/errors.ts";
import { signatureOf } from "./commit-files.ts";
import { isAncestor, readGitCommit } from "./git-repository.ts";
import { executeGit, gitEnvironment } from "./run-git.ts";

export type Merge = { kind: "clean"; tree: string } | { kind: "conflicts"; paths: string[] };

/** Merges two commits without a working tree and without moving a branch. */
export async function mergeCommits(directory: string, base: string, head: string): Promise<Merge> {
  if (await isAncestor(directory, base, head))
    return { kind: "clean", tree: (await readGitCommit(directory, head)).tree };

  const args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, head];
  const { code, output, messages } = await executeGit({
    args: ["--git-dir", directory, ...args],
    env: gitEnvironment(),
  });
  const [tree = "", ...paths] = output.toString().split("\0");
  if (code === 0) return { kind: "clean", tree };
  if (code === 1) return { kind: "conflicts", paths: paths.filter((path) => path !== "") };
  if (code === 129) throw new UserError("Merging needs git 2.38 or later.", { cause: new Error(messages) });
  throw new Error(`git merge-tree exited with code ${code}: ${messages}`);
}

/** Writes a commit of this tree and returns its hash. The signature is a digest: nothing here has keys to verify it with. */
export function writeCommit(
  directory: string,
  {
    tree,
    parents,
    message,
    login,
    isSigned = false,
  }: { tree: string; parents: string[]; message: string; login: string; isSigned?: boolean },
): Promise<string> {
  const person = signatureOf(login, new Date());
  const digest = createHash("sha256")
    .update(JSON.stringify([tree, parents, message, person]))
    .digest("base64");
  const gpgsig = `-----BEGIN PGP SIGNATURE-----\n\n${digest}\n-----END PGP SIGNATURE-----`;
  const commit = { tree, parent: parents, message, author: person, committer: person, ...(isSigned && { gpgsig }) };
  return git.writeCommit({ fs, gitdir: directory, commit });
}
