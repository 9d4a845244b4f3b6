import { createTwoFilesPatch } from "diff";
import { type Command, defineCommand, type InMemoryFs } from "just-bash";
import { messageOf } from "#domain/errors.ts";
import type { Change } from "#domain/workspace.ts";
import type { CommittedVersions, TreeCommit } from "#executors/executor.ts";
import type { Parent } from "#executors/serve-parent.ts";
import { type LoadedTree, root } from "./indexed-fs.ts";
import type { ShellQuestion } from "./memory-executor.ts";

interface GitContext {
  fs: InMemoryFs;
  tree: LoadedTree;
  head: { commit: string; branch: string };
  ask: Parent["ask"];
}

interface Difference {
  path: string;
  /** The path before a rename. */
  oldPath?: string;
  status: Change["status"];
  before: string;
  after: string;
}

const instead: Record<string, string> = {
  add: "Nothing has to be staged: every change of this run is kept.",
  commit: "Commits are made when the run opens its pull request.",
  push: "A run is pushed when it opens its pull request; it cannot be pushed manually.",
  checkout: "To undo a change, restore the old content: `git show HEAD:path > path`.",
  restore: "To undo a change, restore the old content: `git show HEAD:path > path`.",
  reset: "To undo a change, restore the old content: `git show HEAD:path > path`.",
  stash: "To undo a change, restore the old content: `git show HEAD:path > path`.",
  mv: "Use `mv`: every change of this run is kept.",
  rm: "Use `rm`: every change of this run is kept.",
  blame: "Use the tool git_blame.",
  grep: "Use `rg` or `grep -r`.",
  clone: "There is no network here, and this run works on one repository.",
  fetch: "There is no network here.",
  pull: "There is no network here.",
  merge: "A run has one base commit.",
  rebase: "A run has one base commit.",
};

/** A read-only `git`: changes against the base commit, and its history. Other subcommands print what to use instead. */
export function gitCommand(context: GitContext): Command {
  return defineCommand("git", async (args, { cwd }) => {
    const { command, rest } = withoutGlobalOptions(args);
    try {
      return { stdout: await answer(command, rest, context, cwd), stderr: "", exitCode: 0 };
    } catch (error) {
      return { stdout: "", stderr: `git: ${messageOf(error)}\n`, exitCode: 1 };
    }
  });
}

function withoutGlobalOptions(args: readonly string[]): { command: string; rest: string[] } {
  const rest = [...args];
  while (rest[0] === "--no-pager" || rest[0] === "-C" || rest[0] === "-c") {
    if (rest.shift() !== "--no-pager") rest.shift();
  }
  return { command: rest.shift() ?? "", rest };
}

async function answer(command: string, args: string[], context: GitContext, cwd: string): Promise<string> {
  switch (command) {
    case "status":
      return status(args, await differences(context, []), context.head);
    case "diff":
      return diff(args, await differencesAt(pathsOf(args, context.fs, cwd), context));
    case "log":
      return log(args, context, cwd);
    case "show":
      return show(args, context, cwd);
    case "rev-parse":
      return revParse(args, context.head);
    case "branch":
      return args.includes("--show-current") ? `${context.head.branch}\n` : `* ${context.head.branch}\n`;
    case "ls-files":
      return lsFiles(context, pathsOf(args, context.fs, cwd));
    default:
      throw new Error(
        `"${command}" is not available here. ${instead[command] ?? "Available: status, diff, log, show, ls-files and rev-parse."}`,
      );
  }
}

function pathsOf(args: readonly string[], fs: InMemoryFs, cwd: string): string[] {
  const dashes = args.indexOf("--");
  const words = dashes === -1 ? args.filter((arg) => !arg.startsWith("-") && arg !== "HEAD") : args.slice(dashes + 1);
  return words.map((word) => fs.resolvePath(cwd, word).slice(root.length + 1));
}

/** Throws for a word that is no path, such as another revision. */
async function differencesAt(paths: readonly string[], context: GitContext): Promise<Difference[]> {
  const found = await differences(context, paths);
  for (const path of paths) {
    const isKnown = found.some((one) => isSelected(one.path, [path])) || (await context.fs.exists(`${root}/${path}`));
    if (!isKnown)
      throw new Error(`"${path}" is no file or folder. diff compares with HEAD; "git show" shows a commit.`);
  }
  return found;
}

async function differences({ fs, tree, ask }: GitContext, only: readonly string[]): Promise<Difference[]> {
  const changes = (await ask({ kind: "changes" } satisfies ShellQuestion)) as Change[];
  const inside = await tree.differences();
  const candidates = new Set([
    ...changes.map(({ path }) => path),
    ...inside.written.map(({ path }) => path),
    ...inside.deleted,
  ]);
  const found: Difference[] = [];
  for (const path of [...candidates].sort()) {
    if (!isSelected(path, only)) continue;
    const before = (await ask({ kind: "base", path } satisfies ShellQuestion)) as Uint8Array | undefined;
    const isThere = await fs.exists(`${root}/${path}`);
    const after = isThere ? await fs.readFileBuffer(`${root}/${path}`) : undefined;
    if (before && after && Buffer.compare(before, after) === 0) continue;
    if (!before && !after) continue;
    found.push({
      path,
      status: !before ? "added" : !after ? "deleted" : "modified",
      before: Buffer.from(before ?? []).toString("utf8"),
      after: Buffer.from(after ?? []).toString("utf8"),
    });
  }
  return found;
}

function status(args: readonly string[], found: Difference[], head: { branch: string }): string {
  const short = args.some((arg) => arg === "-s" || arg === "--short" || arg.startsWith("--porcelain"));
  if (short) {
    const letters = { added: "??", modified: " M", deleted: " D" };
    return found.map(({ path, status }) => `${letters[status]} ${path}\n`).join("");
  }
  const words = { added: "new file", modified: "modified", deleted: "deleted" };
  if (found.length === 0) return `On branch ${head.branch}\nnothing to commit, working tree clean\n`;
  const lines = found.map(({ path, status }) => `\t${words[status]}:   ${path}\n`).join("");
  return `On branch ${head.branch}\nChanges of this run:\n${lines}`;
}

function diff(args: readonly string[], found: Difference[]): string {
  if (args.includes("--name-only")) return found.map(({ path }) => `${path}\n`).join("");
  if (args.includes("--name-status")) {
    return found.map(({ path, status }) => `${status.slice(0, 1).toUpperCase()}\t${path}\n`).join("");
  }
  const patches = found.map(patch);
  if (!args.includes("--stat")) return patches.join("");
  return patches
    .map((text, at) => ` ${found[at]?.path} | +${countLines(text, "+")} -${countLines(text, "-")}\n`)
    .join("");
}

function patch({ path, oldPath = path, status, before, after }: Difference): string {
  const head = `diff --git a/${oldPath} b/${path}\n`;
  if (before.includes("\0") || after.includes("\0")) return `${head}Binary files differ\n`;
  const from = status === "added" ? "/dev/null" : `a/${oldPath}`;
  const to = status === "deleted" ? "/dev/null" : `b/${path}`;
  const text = createTwoFilesPatch(from, to, before, after, "", "", { timeout: 2_000 });
  if (text === undefined) return `${head}--- ${from}\n+++ ${to}\n(too different to compare)\n`;
  return head + text.replace(/^=+\n/, "").replace(/^(---|\+\+\+) (.*?)\t$/gm, "$1 $2");
}

function countLines(text: string, sign: string): number {
  return text.split("\n").filter((line) => line.startsWith(sign) && !line.startsWith(sign.repeat(3))).length;
}

const logCount = /^(?:-n|--max-count=|-)(\d+)$/;
/** These change nothing that the output has. */
const plainLogOptions = /^--(?:no-)?(?:color|decorate|abbrev-commit|follow)(?:=\w+)?$/;

async function log(args: string[], context: GitContext, cwd: string): Promise<string> {
  const { limit, isShort, range, path } = await logArguments(args, context, cwd);
  const question: ShellQuestion = { kind: "log", limit: Math.min(limit, 200), path, range };
  const commits = (await context.ask(question)) as TreeCommit[];
  if (isShort) return commits.map(({ commit, message }) => `${commit.slice(0, 7)} ${firstLine(message)}\n`).join("");
  return commits.map(describeCommit).join("\n");
}

/** Throws for arguments whose meaning would be ignored. */
async function logArguments(args: readonly string[], { fs, head }: GitContext, cwd: string) {
  const revisions: string[] = [];
  const paths: string[] = [];
  let limit = 20;
  let isShort = false;
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    const count = arg === "-n" ? String(args[++at]) : logCount.exec(arg)?.[1];
    if (arg === "--") {
      paths.push(...args.slice(at + 1));
      break;
    }
    if (count !== undefined) limit = Number(count);
    else if (arg === "--oneline" || arg === "--pretty=oneline") isShort = true;
    else if (!arg.startsWith("-")) ((await fs.exists(fs.resolvePath(cwd, arg))) ? paths : revisions).push(arg);
    else if (!plainLogOptions.test(arg)) throw notForLog(arg);
  }
  if (!Number.isInteger(limit) || limit < 0) throw new Error("-n needs a number");
  const [range, other] = revisions.filter((one) => !isHead(one, head));
  if (other !== undefined) throw notForLog("second revision");
  if (paths.length > 1) throw notForLog("second path");
  const [path] = paths.map((one) => fs.resolvePath(cwd, one).slice(root.length + 1));
  return { limit, isShort, range, path };
}

function isHead(revision: string, { commit, branch }: GitContext["head"]): boolean {
  return ["HEAD", "@", commit, branch].includes(revision);
}

function notForLog(what: string): Error {
  return new Error(`log has no ${what} here, only -n, --oneline, one revision or range, and one path.`);
}

function describeCommit({ commit, author, email, date, message }: TreeCommit): string {
  const body = message
    .trimEnd()
    .split("\n")
    .map((line) => `    ${line}\n`)
    .join("");
  return `commit ${commit}\nAuthor: ${author} <${email}>\nDate:   ${new Date(date).toUTCString()}\n\n${body}`;
}

function firstLine(message: string): string {
  return message.split("\n")[0] ?? "";
}

async function show(args: string[], context: GitContext, cwd: string): Promise<string> {
  const dashes = args.indexOf("--");
  const [target = "HEAD", ...words] = args.filter((arg) => !arg.startsWith("-"));
  const colon = target.indexOf(":");
  const revision = colon === -1 ? target : target.slice(0, colon);
  if (colon === -1) {
    const only = pathsOf(dashes === -1 ? words : args.slice(dashes), context.fs, cwd);
    const question: ShellQuestion = { kind: "show", revision };
    const shown = (await context.ask(question)) as TreeCommit & { files: CommittedVersions[]; omitted: string[] };
    const found = shown.files.filter(({ path }) => isSelected(path, only)).map(committedDifference);
    const isShort = args.some((arg) => arg === "-s" || arg === "--no-patch");
    const more = shown.omitted.length > 0 ? `(${shown.omitted.length} more files are not shown)\n` : "";
    return describeCommit(shown) + (isShort ? "" : `\n${diff(args, found)}${more}`);
  }
  const named = target.slice(colon + 1);
  const path = named.startsWith("./") ? context.fs.resolvePath(cwd, named).slice(root.length + 1) : named;
  if (!isHead(revision, context.head)) {
    const question: ShellQuestion = { kind: "file", revision, path };
    const { content } = (await context.ask(question)) as { content: Uint8Array };
    return Buffer.from(content).toString("utf8");
  }
  const content = (await context.ask({ kind: "base", path } satisfies ShellQuestion)) as Uint8Array | undefined;
  if (!content) throw new Error(`path '${path}' does not exist in 'HEAD'`);
  return Buffer.from(content).toString("utf8");
}

function committedDifference({ path, oldPath, before, after }: CommittedVersions): Difference {
  return {
    path,
    ...(oldPath !== undefined && { oldPath }),
    status: !before ? "added" : !after ? "deleted" : "modified",
    before: Buffer.from(before?.content ?? []).toString("utf8"),
    after: Buffer.from(after?.content ?? []).toString("utf8"),
  };
}

function revParse(args: readonly string[], head: { commit: string; branch: string }): string {
  if (args.includes("--show-toplevel")) return `${root}\n`;
  if (args.includes("--is-inside-work-tree")) return "true\n";
  if (args.includes("--abbrev-ref")) return `${head.branch}\n`;
  if (args.includes("--short")) return `${head.commit.slice(0, 7)}\n`;
  if (args.includes("HEAD") || args.includes("@")) return `${head.commit}\n`;
  throw new Error("rev-parse supports only HEAD, --abbrev-ref HEAD, --short HEAD and --show-toplevel here");
}

/** True for a path at or below one of these; without any, for every path. */
function isSelected(path: string, only: readonly string[]): boolean {
  return only.length === 0 || only.some((other) => other === "" || path === other || path.startsWith(`${other}/`));
}

async function lsFiles({ fs }: GitContext, only: readonly string[]): Promise<string> {
  const files: string[] = [];
  for (const absolute of fs.getAllPaths()) {
    const path = absolute.slice(root.length + 1);
    if (!absolute.startsWith(`${root}/`) || !(await fs.lstat(absolute)).isFile) continue;
    if (isSelected(path, only)) files.push(path);
  }
  return files
    .sort()
    .map((path) => `${path}\n`)
    .join("");
}
