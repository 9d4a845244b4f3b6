import { execFile } from "node:child_process";
import { appendFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const noUserConfiguration = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", LC_ALL: "C" };
// Branches are read as files here; a later git may keep them otherwise unless it is told.
const refsInFiles = { GIT_DEFAULT_REF_FORMAT: "files" };
const maxOutputBytes = 64 * 1024 * 1024;

/** The environment git runs in here: the host's path, nobody's configuration. */
export function gitEnvironment(): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    HOME: "/nonexistent",
    GIT_TERMINAL_PROMPT: "0",
    ...noUserConfiguration,
    ...refsInFiles,
  };
}

async function git(directory: string, ...args: string[]): Promise<string> {
  const options = { env: gitEnvironment(), maxBuffer: maxOutputBytes };
  return (await run("git", ["--git-dir", directory, ...args], options)).stdout;
}

async function tryGit(directory: string, ...args: string[]): Promise<string | undefined> {
  try {
    return await git(directory, ...args);
  } catch (error) {
    // A number is git's own exit code, its way of saying no; anything else means git did not run.
    if (error instanceof Error && "code" in error && typeof error.code === "number") return undefined;
    throw error;
  }
}

/** Makes a bare repository that serves fetches of any reachable commit and takes pushes. */
export async function initialize(directory: string, defaultBranch: string): Promise<void> {
  await run("git", ["init", "--quiet", "--bare", `--initial-branch=${defaultBranch}`, directory], {
    env: gitEnvironment(),
  });
  await appendFile(join(directory, "config"), settings);
}

// Housekeeping in the background would hold the directory after a test is over.
const settings = `[http]
\treceivepack = true
[uploadpack]
\tallowReachableSHA1InWant = true
\tallowFilter = true
[gc]
\tauto = 0
[receive]
\tautogc = false
`;

/** Every branch by its full name, `refs/heads/main`, with its commit. */
export async function branches(directory: string): Promise<Map<string, string>> {
  // Asked after every change on GitHub: a process of git for each was most of what a story cost.
  const packed = (await undefinedIfMissing(readFile(join(directory, "packed-refs"), "utf8"))) ?? "";
  const found = new Map(
    [...packed.matchAll(/^(\w+) (refs\/heads\/.+)$/gm)].map(([, commit = "", ref = ""]) => [ref, commit]),
  );
  for (const ref of await looseRefs(directory, "refs/heads")) {
    const commit = await undefinedIfMissing(readFile(join(directory, ref), "utf8"));
    if (commit) found.set(ref, commit.trim());
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function looseRefs(directory: string, folder: string): Promise<string[]> {
  const entries = (await undefinedIfMissing(readdir(join(directory, folder), { withFileTypes: true }))) ?? [];
  const refs = entries
    .filter(({ name }) => !name.endsWith(".lock"))
    .map((entry) => {
      const path = `${folder}/${entry.name}`;
      return entry.isDirectory() ? looseRefs(directory, path) : [path];
    });
  return (await Promise.all(refs)).flat();
}

/** Git deletes a branch, and the folders it leaves empty, while others look. */
async function undefinedIfMissing<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** The commit a branch, tag or hash stands for. */
export async function resolveCommit(directory: string, name: string): Promise<string | undefined> {
  const head = (await branches(directory)).get(`refs/heads/${name}`);
  if (head) return head;
  const commit = `${name}^{commit}`;
  return (await tryGit(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", commit))?.trim();
}

export interface TreeEntry {
  mode: string;
  type: "blob" | "tree" | "commit";
  sha: string;
  size: number;
  path: string;
}

/** The entry at a path of a commit; `""` is the root. */
export async function findEntry(directory: string, commit: string, path: string): Promise<TreeEntry | undefined> {
  if (path === "") return { mode: "040000", type: "tree", sha: `${commit}^{tree}`, size: 0, path: "" };
  return (await listTree(directory, commit, path))[0];
}

/** The direct entries of a folder of a commit. */
export function listFolder(directory: string, commit: string, path: string): Promise<TreeEntry[]> {
  return listTree(directory, commit, path === "" ? "" : `${path}/`);
}

async function listTree(directory: string, commit: string, path: string): Promise<TreeEntry[]> {
  const paths = path === "" ? [] : ["--", path];
  const listing = await cached(`${directory} ${commit} ${path}`, () =>
    tryGit(directory, "ls-tree", "-z", "--long", "--full-tree", commit, ...paths),
  );
  return (listing ?? "")
    .split("\0")
    .filter((line) => line !== "")
    .map(parseEntry);
}

function parseEntry(line: string): TreeEntry {
  const tab = line.indexOf("\t");
  const [mode = "", type = "", sha = "", size = "-"] = line.slice(0, tab).split(/ +/);
  return { mode, type: type as TreeEntry["type"], sha, size: Number(size) || 0, path: line.slice(tab + 1) };
}

export async function readBlob(directory: string, sha: string): Promise<Buffer> {
  const options = { env: gitEnvironment(), maxBuffer: maxOutputBytes, encoding: "buffer" as const };
  const read = async () => (await run("git", ["--git-dir", directory, "cat-file", "blob", sha], options)).stdout;
  return cached(`${directory} ${sha}`, read);
}

const cache = new Map<string, string | Buffer>();
const maxCachedAnswers = 500;

/** What a commit or a blob holds never changes, and the app asks for the same files at every run. */
async function cached<T extends string | Buffer | undefined>(question: string, ask: () => Promise<T>): Promise<T> {
  const known = cache.get(question);
  if (known !== undefined) return known as T;

  const answer = await ask();
  if (answer === undefined || answer.length > 100_000) return answer;
  const [oldest] = cache.size < maxCachedAnswers ? [] : cache.keys();
  if (oldest !== undefined) cache.delete(oldest);
  cache.set(question, answer);
  return answer;
}

export interface ChangedFile {
  path: string;
  previousPath: string | undefined;
  status: "added" | "removed" | "modified" | "renamed" | "copied" | "changed";
  sha: string;
  additions: number;
  deletions: number;
  /** Hunks only, as GitHub shows them; undefined for a binary file. */
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

/** What `head` changed since it left `base`, as git prints it. */
export function diffText(directory: string, base: string, head: string): Promise<string> {
  return git(directory, "diff", "--no-color", "--no-ext-diff", "-M", `${base}...${head}`);
}

/** What `head` changed since it left `base`, file by file. */
export async function diffFiles(directory: string, base: string, head: string): Promise<ChangedFile[]> {
  const range = `${base}...${head}`;
  const raw = await git(directory, "diff", "--raw", "--no-abbrev", "-z", "-M", range);
  const text = await diffText(directory, base, head);
  // Lines of a diff's content start with a space, +, -, \ or @, so this only ever matches a header.
  const patches = text.split(/^diff --git /m).slice(1);
  return parseRaw(raw).map((file, index) => {
    const hunks = patches[index]?.match(/^@@[\s\S]*/m)?.[0].replace(/\n$/, "");
    const lines = hunks?.split("\n") ?? [];
    const additions = lines.filter((line) => line.startsWith("+")).length;
    const deletions = lines.filter((line) => line.startsWith("-")).length;
    return { ...file, patch: hunks, additions, deletions };
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

/** How many commits `head` has that `base` has not; 0 also when they share no history. */
export async function commitsBetween(directory: string, base: string, head: string): Promise<number> {
  if ((await tryGit(directory, "merge-base", base, head)) === undefined) return 0;
  return Number(await git(directory, "rev-list", "--count", `${base}..${head}`));
}

/** Moves, creates (`from` undefined) or deletes (`to` undefined) a branch. False when it does not stand on `from`. */
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

export async function isAncestor(directory: string, ancestor: string, commit: string): Promise<boolean> {
  return (await tryGit(directory, "merge-base", "--is-ancestor", ancestor, commit)) !== undefined;
}

/** Gives a branch another name, and lets HEAD follow it. */
export async function renameBranch(directory: string, from: string, to: string): Promise<void> {
  await git(directory, "branch", "--move", from, to);
}
