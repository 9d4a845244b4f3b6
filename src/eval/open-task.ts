import { cpSync, lstatSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Checkout, type CheckoutChange, openCheckout } from "#sandbox/checkout/open-checkout.ts";
import { runGit } from "#sandbox/checkout/run-git.ts";
import type { EvalTask, HiddenFiles } from "./eval-tasks.ts";

/** A file that the checks add, replace or delete. */
export interface HiddenFile {
  path: string;
  /** Undefined deletes the file. */
  content: Buffer | undefined;
  executable: boolean;
}

export interface OpenedTask {
  /** The root of a separate checkout, which contains no part of the checks. */
  root: string;
  hidden: HiddenFile[];
}

// The person's own git settings must not affect what the worker sees.
const identity = ["user.name=Golem Forge", "user.email=golem-forge@localhost"];
const settings = [...identity, "commit.gpgsign=false", "core.autocrlf=false"];
const configured = settings.flatMap((setting) => ["-c", setting]);
// A fixed date, so that commits have the same hash in every attempt.
const date = "2026-01-01T00:00:00Z";
/** Without `ext`, which names a program. */
const protocols = "file:git:http:https:ssh";
const env = { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date, GIT_CONFIG_GLOBAL: "/dev/null" };

function git(root: string, args: readonly string[], stdin = ""): Promise<Buffer> {
  return runGit([...configured, ...args], { cwd: root, env, stdin });
}

/** Creates the checkout of a task in an empty folder: its repository and, for a review, the change on top of it. */
export async function openTask(task: EvalTask, folder: string): Promise<OpenedTask> {
  const root = join(folder, "repository");
  mkdirSync(root);
  await git(root, ["init", "-q", "-b", "main"]);
  if (task.repository.kind === "folder") {
    // Settings in a `.git` of the task could name programs that git runs on this machine.
    const filter = (path: string) => basename(path).toLowerCase() !== ".git";
    cpSync(task.repository.path, root, { recursive: true, verbatimSymlinks: true, filter });
    await commitAll(root, "Initial files");
  } else {
    // Fetch only the history of the commit: other branches and later commits may contain the solution.
    const { url, commit } = task.repository;
    const from = ["--no-write-fetch-head", "--end-of-options", url, `${commit}:refs/heads/base`];
    // Use the person's own settings, which may have the credentials.
    await runGit(["fetch", "-q", "--no-tags", ...from], { cwd: root, env: { GIT_ALLOW_PROTOCOL: protocols } });
    await git(root, ["reset", "-q", "--hard", "base"]);
    await git(root, ["branch", "-q", "-D", "base"]);
  }
  if (task.review) {
    await git(root, ["apply", "--whitespace=nowarn", "-"], task.review.patch);
    await commitAll(root, "The change under review");
  }
  const hidden = task.hidden ? await readHidden(task.hidden, root) : [];
  return { root, hidden };
}

export async function commitAll(root: string, message: string): Promise<void> {
  await git(root, ["add", "-A"]);
  await git(root, ["commit", "-q", "--allow-empty", "-m", message]);
}

async function readHidden(hidden: HiddenFiles, root: string): Promise<HiddenFile[]> {
  if (hidden.kind === "folder") return filesBelow(hidden.path).map((path) => readHiddenFile(hidden.path, path));
  if (hidden.patch.trim() === "") return [];
  await git(root, ["apply", "--whitespace=nowarn", "-"], hidden.patch);
  await git(root, ["add", "-A"]);
  const changed = (await git(root, ["diff", "--cached", "--name-only", "--no-renames", "-z"])).toString("utf8");
  const paths = changed.split("\0").filter(Boolean);
  const files = paths.map((path) => readHiddenFile(root, path));
  await git(root, ["reset", "-q", "--hard"]);
  return files;
}

function readHiddenFile(folder: string, path: string): HiddenFile {
  const stat = lstatSync(join(folder, path), { throwIfNoEntry: false });
  if (!stat?.isFile()) return { path, content: undefined, executable: false };
  return { path, content: readFileSync(join(folder, path)), executable: (stat.mode & 0o100) !== 0 };
}

function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
}

/** Opens the checkout with a worker's changes and then the hidden files over them, in memory. */
export async function openChanged(
  root: string,
  changes: readonly CheckoutChange[],
  hidden: readonly HiddenFile[],
): Promise<Checkout> {
  const checkout = await openCheckout(root);
  const byWorker = changes.map(({ path, after }) => ({
    path,
    content: after?.content,
    executable: after?.executable ?? false,
  }));
  for (const files of [byWorker, hidden]) {
    // Deletions first, so that a file can replace a folder.
    for (const { path, content } of files) {
      if (content === undefined && (await checkout.tree.exists(path))) await checkout.tree.remove(path);
    }
    for (const { path, content, executable } of files) {
      if (content !== undefined) await checkout.tree.write(path, content, { executable });
    }
  }
  return checkout;
}
