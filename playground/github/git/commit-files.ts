import fs from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import git, { type TreeEntry } from "isomorphic-git";
import { branches, readGitCommit } from "./git-repository.ts";

export interface CommitFiles {
  branch: string;
  /** The branch a new one starts from; without it, the commit has no parent. */
  from?: string;
  message: string;
  author: string;
  at: Date;
  /** Contents by path; undefined deletes the file. */
  files: Record<string, FileContent | undefined>;
}

/** The content of a file, the target of a symbolic link, the commit of a submodule, or an object that exists already. */
export type FileContent =
  | string
  | Uint8Array
  | { link: string }
  | { submodule: string }
  | Pick<TreeEntry, "mode" | "type" | "oid">;

/** Adds commits to a bare repository, each on top of its branch. The same input gives the same hashes. */
export async function commitFiles(directory: string, commits: readonly CommitFiles[]): Promise<void> {
  const heads = await branches(directory);
  for (const { branch, from, message, author, at, files } of commits) {
    const ref = `refs/heads/${branch}`;
    const parent = heads.get(ref) ?? heads.get(`refs/heads/${from}`);
    const base = parent && (await readGitCommit(directory, parent)).tree;
    const tree =
      (await writeTree(directory, base, new Map(Object.entries(files)))) ??
      (await git.writeTree({ fs, gitdir: directory, tree: [] }));
    const person = signatureOf(author, at);
    const oid = await git.writeCommit({
      fs,
      gitdir: directory,
      commit: { tree, parent: parent ? [parent] : [], message, author: person, committer: person },
    });
    const file = join(directory, ref);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, `${oid}\n`);
    heads.set(ref, oid);
  }
}

/** Returns the author or committer of a commit. */
export function signatureOf(login: string, at: Date) {
  const email = `${login}@users.noreply.github.invalid`;
  return { name: login, email, timestamp: Math.floor(at.getTime() / 1000), timezoneOffset: 0 };
}

/** Writes the tree `base` with these changes. Resolves to undefined if the tree is empty. */
export async function writeTree(
  directory: string,
  base: string | undefined,
  changes: ReadonlyMap<string, FileContent | undefined>,
): Promise<string | undefined> {
  const before = base ? (await git.readTree({ fs, gitdir: directory, oid: base })).tree : [];
  const entries = new Map(before.map((entry) => [entry.path, entry]));
  const byName = Map.groupBy(changes, ([path]) => path.split("/", 1)[0] ?? "");
  for (const [name, below] of byName) {
    const entry = await writeEntry(directory, entries.get(name), name, below);
    if (entry) entries.set(name, entry);
    else entries.delete(name);
  }
  return entries.size === 0 ? undefined : git.writeTree({ fs, gitdir: directory, tree: [...entries.values()] });
}

async function writeEntry(
  directory: string,
  before: TreeEntry | undefined,
  name: string,
  changes: [string, FileContent | undefined][],
): Promise<TreeEntry | undefined> {
  const [first] = changes;
  if (first?.[0] === name) {
    const content = first[1];
    if (content === undefined) return undefined;
    if (typeof content === "object" && "submodule" in content) {
      return { mode: "160000", path: name, type: "commit", oid: content.submodule };
    }
    if (typeof content === "object" && "oid" in content) return { ...content, path: name };
    const isLink = typeof content === "object" && "link" in content;
    const oid = await git.writeBlob({ fs, gitdir: directory, blob: Buffer.from(isLink ? content.link : content) });
    return { mode: isLink ? "120000" : "100644", path: name, type: "blob", oid };
  }
  const inner = new Map(changes.map(([path, content]) => [path.slice(name.length + 1), content]));
  const tree = await writeTree(directory, before?.type === "tree" ? before.oid : undefined, inner);
  return tree ? { mode: "040000", path: name, type: "tree", oid: tree } : undefined;
}
