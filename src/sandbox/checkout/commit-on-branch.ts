import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { modeOf } from "#sandbox/diff-file.ts";
import type { Checkout, CheckoutChange } from "./open-checkout.ts";
import { runGit } from "./run-git.ts";

export interface BranchCommit {
  commit: string;
  /** The committed files that also contain uncommitted changes of the user. */
  withUncommitted: string[];
}

/**
 * Commits changes over HEAD on a new branch, without touching the working tree, the index or the current branch. Rejects
 * with a UserError when the branch already exists or git has no user name configured.
 */
export async function commitOnBranch(
  { root, head }: Pick<Checkout, "root" | "head">,
  { branch, changes, message }: { branch: string; changes: readonly CheckoutChange[]; message: string },
): Promise<BranchCommit> {
  const folder = await mkdtemp(join(tmpdir(), "golem-forge-index-"));
  // SHA-256 repositories have longer object names.
  const none = "0".repeat(head?.length ?? 40);
  const env = { GIT_INDEX_FILE: join(folder, "index") };
  const git = async (args: string[], stdin?: string | Uint8Array) =>
    (await runGit(args, { cwd: root, env, ...(stdin !== undefined && { stdin }) })).toString("utf8").trim();
  try {
    if (head) await git(["read-tree", head]);
    const lines: string[] = [];
    for (const { path, after } of changes) {
      // Applies the repository's filters, like git add.
      const filter = after?.isLink ? "--no-filters" : `--path=${path}`;
      const oid = after && (await git(["hash-object", "-w", filter, "--stdin"], after.content));
      lines.push(after ? `${modeOf(after)} ${oid}\t${path}\0` : `0 ${none}\t${path}\0`);
    }
    // Deletions first, so that a folder can replace a file.
    const ordered = [
      ...lines.filter((line) => line.startsWith("0 ")),
      ...lines.filter((line) => !line.startsWith("0 ")),
    ];
    await git(["update-index", "-z", "--index-info"], ordered.join(""));
    const tree = await git(["write-tree"]);
    const commit = await git(["commit-tree", tree, ...(head ? ["-p", head] : [])], message);
    const mixed = head ? await uncommitted(root, head, changes) : [];
    await git(["update-ref", "-m", "golem", `refs/heads/${branch}`, commit, none]);
    return { commit, withUncommitted: mixed };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the changed paths that also have uncommitted changes of the user. */
async function uncommitted(root: string, head: string, changes: readonly CheckoutChange[]): Promise<string[]> {
  const output = await runGit(["diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", head], { cwd: root });
  const dirty = new Set(output.toString("utf8").split("\0"));
  return changes.map(({ path }) => path).filter((path) => dirty.has(path));
}
