import fs from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import git, { type TreeEntry as GitTreeEntry } from "isomorphic-git";
import { LRUCache } from "lru-cache";
import { executeGit, type GitOutput, gitEnvironment } from "./run-git.ts";

// Starting a process takes milliseconds. Objects are therefore read and written with isomorphic-git; git itself serves clones
// and pushes, compares commits and moves refs.

async function runGit(directory: string, ...args: string[]): Promise<string> {
  const { code, output, messages } = await executeIn(directory, args);
  if (code === 0) return output.toString();
  throw new Error(`git ${args.join(" ")} exited with code ${code}: ${messages}`);
}

/** Runs git. Returns undefined if it exits with an error. */
async function tryGit(directory: string, ...args: string[]): Promise<string | undefined> {
  const { code, output } = await executeIn(directory, args);
  return code === 0 ? output.toString() : undefined;
}

function executeIn(directory: string, args: string[]): Promise<GitOutput> {
  return executeGit({ args: ["--git-dir", directory, ...args], env: gitEnvironment() });
}

// Background maintenance would keep the directory busy after a test has ended.
const config = `[core]
\trepositoryformatversion = 0
\tbare = true
[http]
\treceivepack = true
[uploadpack]
\tallowReachableSHA1InWant = true
\tallowFilter = true
[gc]
\tauto = 0
[receive]
\tautogc = false
`;

/** Creates a bare repository that serves fetches of any reachable commit and accepts pushes. */
export async function initialize(directory: string, defaultBranch: string): Promise<void> {
  await Promise.all(["objects/pack", "refs/heads"].map((path) => mkdir(join(directory, path), { recursive: true })));
  await writeFile(join(directory, "HEAD"), `ref: refs/heads/${defaultBranch}\n`);
  await writeFile(join(directory, "config"), config);
}

const refuseUnsigned = `#!/bin/sh
while read before after ref; do
  for commit in $(git rev-list "$after" --not --all); do
    git cat-file commit "$commit" | grep -q '^gpgsig ' && continue
    echo "GH013: Repository rule violations found for $ref." >&2
    echo "- Commits must have verified signatures." >&2
    exit 1
  done
done
`;

/** Makes the repository refuse pushes of commits without a signature, as a ruleset of GitHub does. */
export async function requireSignedCommits(directory: string): Promise<void> {
  await mkdir(join(directory, "hooks"), { recursive: true });
  await writeFile(join(directory, "hooks/pre-receive"), refuseUnsigned, { mode: 0o755 });
}

/**
 * The branches by full name (`refs/heads/main`), each with its commit. They are read after each change, and reading such small
 * files synchronously takes a tenth of the time.
 */
export async function branches(directory: string): Promise<Map<string, string>> {
  const packed = undefinedIfMissing(() => fs.readFileSync(join(directory, "packed-refs"), "utf8")) ?? "";
  const found = new Map(
    [...packed.matchAll(/^(\w+) (refs\/heads\/.+)$/gm)].map(([, commit = "", ref = ""]) => [ref, commit]),
  );
  for (const ref of looseRefs(directory, "refs/heads")) {
    const commit = undefinedIfMissing(() => fs.readFileSync(join(directory, ref), "utf8"));
    if (commit) found.set(ref, commit.trim());
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function looseRefs(directory: string, folder: string): string[] {
  const entries = undefinedIfMissing(() => fs.readdirSync(join(directory, folder), { withFileTypes: true })) ?? [];
  return entries
    .filter(({ name }) => !name.endsWith(".lock"))
    .flatMap((entry) => {
      const path = `${folder}/${entry.name}`;
      return entry.isDirectory() ? looseRefs(directory, path) : [path];
    });
}

/** Handles a ref, or its empty folders, being deleted by git between a listing and a read. */
function undefinedIfMissing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

export async function resolveCommit(directory: string, name: string): Promise<string | undefined> {
  const heads = await branches(directory);
  const head = heads.get(`refs/heads/${name}`) ?? heads.get(`refs/${name}`);
  if (head) return head;
  const isHash = /^[0-9a-f]{40}$/.test(name);
  if (isHash && (await exists(directory, name))) return name;
  if (isHash) return undefined;
  const commit = `${name}^{commit}`;
  return (await tryGit(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", commit))?.trim();
}

async function exists(directory: string, commit: string): Promise<boolean> {
  return (await readGitCommit(directory, commit).catch(() => undefined)) !== undefined;
}

export async function readGitCommit(directory: string, commit: string) {
  return (await git.readCommit({ fs, gitdir: directory, oid: commit })).commit;
}

export interface TreeEntry {
  mode: string;
  type: "blob" | "tree" | "commit";
  sha: string;
  size: number;
  path: string;
}

/** Finds the entry at a path of a commit; `""` is the root. */
export async function findEntry(directory: string, commit: string, path: string): Promise<TreeEntry | undefined> {
  const { tree } = await readGitCommit(directory, commit);
  let entry: TreeEntry = { mode: "040000", type: "tree", sha: tree, size: 0, path: "" };
  for (const name of path.split("/").filter((part) => part !== "")) {
    if (entry.type !== "tree") return undefined;
    const child = (await readTree(directory, entry.sha)).find((one) => one.path === name);
    if (!child) return undefined;
    entry = toEntry(child, entry.path);
  }
  return withSize(directory, entry);
}

/** Lists the direct entries of a folder of a commit. */
export async function listFolder(directory: string, commit: string, path: string): Promise<TreeEntry[]> {
  const folder = await findEntry(directory, commit, path);
  if (folder?.type !== "tree") return [];
  const entries = await readTree(directory, folder.sha);
  return Promise.all(entries.map((entry) => withSize(directory, toEntry(entry, path))));
}

export async function listTree(directory: string, sha: string): Promise<TreeEntry[]> {
  return Promise.all((await readTree(directory, sha)).map((entry) => withSize(directory, toEntry(entry, ""))));
}

function readTree(directory: string, sha: string): Promise<GitTreeEntry[]> {
  return cached(`${directory} tree ${sha}`, async () => (await git.readTree({ fs, gitdir: directory, oid: sha })).tree);
}

function toEntry({ mode, type, oid, path }: GitTreeEntry, folder: string): TreeEntry {
  return { mode: mode.padStart(6, "0"), type, sha: oid, size: 0, path: folder === "" ? path : `${folder}/${path}` };
}

async function withSize(directory: string, entry: TreeEntry): Promise<TreeEntry> {
  return entry.type === "blob" ? { ...entry, size: (await readBlob(directory, entry.sha)).length } : entry;
}

export function readBlob(directory: string, sha: string): Promise<Buffer> {
  return cached(`${directory} blob ${sha}`, async () => {
    return Buffer.from((await git.readBlob({ fs, gitdir: directory, oid: sha })).blob);
  });
}

const cache = new LRUCache<string, Promise<unknown>>({ max: 500 });

/** Caches immutable results: the content of objects and the differences between commits. */
function cached<T>(question: string, ask: () => Promise<T>): Promise<T> {
  const known = cache.get(question);
  if (known !== undefined) return known as Promise<T>;

  const answer = ask();
  cache.set(question, answer);
  answer.catch(() => cache.delete(question));
  return answer;
}

export interface ChangedFile {
  path: string;
  previousPath: string | undefined;
  status: "added" | "removed" | "modified" | "renamed" | "copied" | "changed";
  sha: string;
  additions: number;
  deletions: number;
  /** The hunks without the file's header, as GitHub shows them; undefined for a binary file. */
  patch: string | undefined;
}

const statusOf: Record<string, ChangedFile["status"]> = {
  A: "added",
  D: "removed",
  M: "modified",
  R: "renamed",
  C: "copied",
  T: "changed",
};

/** Returns the changes of `head` since its merge base with `base`, as printed by git. */
export function diffText(directory: string, base: string, head: string): Promise<string> {
  return runGit(directory, "diff", "--no-color", "--no-ext-diff", "-M", `${base}...${head}`);
}

/** Returns the changes of `head` since its merge base with `base`, by file. Both are commit hashes. */
export function diffFiles(directory: string, base: string, head: string): Promise<ChangedFile[]> {
  return cached(`${directory} diff ${base}...${head}`, async () => {
    const options = ["--raw", "--patch", "--no-abbrev", "-z", "-M", "--no-color", "--no-ext-diff"];
    const output = await runGit(directory, "diff", ...options, `${base}...${head}`);
    const start = output.startsWith(":") ? output.indexOf("\0\0") : -1;
    const raw = start < 0 ? output : output.slice(0, start);
    // Lines of a diff's content start with a space, +, -, \ or @, so this only matches a header.
    const patches =
      start < 0
        ? []
        : output
            .slice(start + 2)
            .split(/^diff --git /m)
            .slice(1);
    return parseRaw(raw).map((file, index) => {
      const hunks = patches[index]?.match(/^@@[\s\S]*/m)?.[0].replace(/\n$/, "");
      const lines = hunks?.split("\n") ?? [];
      const additions = lines.filter((line) => line.startsWith("+")).length;
      const deletions = lines.filter((line) => line.startsWith("-")).length;
      return { ...file, patch: hunks, additions, deletions };
    });
  });
}

function parseRaw(raw: string): Pick<ChangedFile, "path" | "previousPath" | "status" | "sha">[] {
  const fields = raw.split("\0");
  const files: Pick<ChangedFile, "path" | "previousPath" | "status" | "sha">[] = [];
  while (fields[0]) {
    const [, , oldSha = "", newSha = "", letter = "M"] = (fields.shift() ?? "").split(" ");
    const status = statusOf[letter.charAt(0)] ?? "changed";
    const first = fields.shift() ?? "";
    const moved = status === "renamed" || status === "copied";
    const path = moved ? (fields.shift() ?? "") : first;
    files.push({
      path,
      previousPath: moved ? first : undefined,
      status,
      sha: status === "removed" ? oldSha : newSha,
    });
  }
  return files;
}

/** Returns the commits of `head` that `base` lacks, oldest first; none if they share no history. */
export function commitsBetween(directory: string, base: string, head: string): Promise<string[]> {
  return cached(`${directory} commits ${base}..${head}`, async () => {
    if ((await findMergeBase(directory, base, head)) === undefined) return [];
    const list = await runGit(directory, "rev-list", "--reverse", `${base}..${head}`);
    return list.split("\n").filter((commit) => commit !== "");
  });
}

export interface CommitPaths {
  sha: string;
  added: string[];
  modified: string[];
  removed: string[];
}

/** Returns the commits of a push, oldest first. A merge has the paths in which it differs from all its parents. */
export async function commitsOfPush(directory: string, before: string, after: string): Promise<CommitPaths[]> {
  const options = ["--reverse", "--name-status", "--no-renames", "-z", "--format=%x00%H"];
  const output = await tryGit(directory, "log", ...options, `${before}..${after}`);
  // Each commit follows two NUL characters; its paths follow their letters, each followed by a NUL character.
  return (output ?? "").split("\0\0").flatMap((part) => {
    const [sha, ...fields] = part.split("\0").filter((field) => field !== "");
    if (sha === undefined) return [];
    const files = fields.flatMap((path, index) =>
      index % 2 === 1 ? [{ letter: fields[index - 1]?.trim(), path }] : [],
    );
    const paths = (...letters: string[]) =>
      files.filter(({ letter }) => letters.includes(letter ?? "")).map(({ path }) => path);
    return [{ sha: sha.trim(), added: paths("A"), modified: paths("M", "T"), removed: paths("D") }];
  });
}

/** Returns the commits up to this one that changed a path, newest first; with `""`, all of them. */
export async function commitsTouching(directory: string, commit: string, path: string): Promise<string[]> {
  const list = await runGit(directory, "rev-list", commit, "--", ...(path === "" ? [] : [path]));
  return list.split("\n").filter((one) => one !== "");
}

/** Returns the merge base of two commits; `base` itself if they share no history. */
export async function mergeBase(directory: string, base: string, head: string): Promise<string> {
  return (await findMergeBase(directory, base, head)) ?? base;
}

export async function isAncestor(directory: string, ancestor: string, commit: string): Promise<boolean> {
  return (await findMergeBase(directory, ancestor, commit)) === ancestor;
}

function findMergeBase(directory: string, base: string, head: string): Promise<string | undefined> {
  return cached(`${directory} base ${base}...${head}`, async () => {
    return (await tryGit(directory, "merge-base", base, head))?.trim();
  });
}

/** Moves, creates (`from` undefined) or deletes (`to` undefined) a branch. Returns false if it does not point to `from`. */
export async function moveBranch(
  directory: string,
  branch: string,
  { from, to }: { from: string | undefined; to: string | undefined },
): Promise<boolean> {
  const ref = `refs/heads/${branch}`;
  const old = from ?? "0".repeat(40);
  const args = to === undefined ? ["-d", ref, old] : [ref, to, old];
  return (await tryGit(directory, "update-ref", ...args)) !== undefined;
}

/** Renames a branch; HEAD follows. */
export async function renameBranch(directory: string, from: string, to: string): Promise<void> {
  await runGit(directory, "branch", "--move", from, to);
}
