import { ToolError } from "#domain/errors.ts";
import { truncateLine } from "#text/truncate.ts";

const maxPathBytes = 4_096;
const maxNameBytes = 255;

// Code points that HFS+ ignores when it compares names, as listed in git's `core.protectHFS`.
const ignorable = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/**
 * Normalizes a path: relative to the root, `/` between names, `""` for the root itself. A leading `/` means the root.
 * Throws a ToolError `INVALID_PATH` when the path could point outside the tree or into git's own data on any machine
 * that checks the tree out.
 */
export function parsePath(path: string): string {
  const problem = findProblem(path);
  if (problem) throw invalidPath(path, problem);

  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  for (const name of names) {
    const wrong = findNameProblem(name);
    if (wrong) throw invalidPath(path, wrong);
  }
  if (/^[a-z]:/i.test(names[0] ?? "")) throw invalidPath(path, "it starts with a drive letter");
  return names.join("/");
}

/** A fast check for printable ASCII without `git`, which covers nearly every name. */
const cannotBeGit = /^(?!.*git)[ -~]*$/i;

/** True for every spelling that some file system treats as `.git`. */
export function isGitName(name: string): boolean {
  if (cannotBeGit.test(name)) return false;
  return /^(\.git|git~\d+)$/i.test(plainName(name));
}

/** Returns a name as any file system may read it, except for its case: without ignored characters, streams and trailing dots. */
export function plainName(name: string): string {
  return name
    .normalize("NFKC")
    .replace(ignorable, "")
    .replace(/:.*$/s, "")
    .replace(/[. ]+$/, "");
}

const mayBeStripped = /[. ](?:\/|$)|[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/;

/**
 * Folds case and Unicode form, and leaves out ignored characters and dots and blanks at the end of a name, so that paths that
 * some file system treats as the same become equal.
 */
export function foldPath(path: string): string {
  const seen = mayBeStripped.test(path) ? path.replace(ignorable, "").replace(/[. ]+(?=\/|$)/g, "") : path;
  return seen.normalize("NFC").toLowerCase().toUpperCase().normalize("NFC");
}

/** Returns the parent folders of a path, outermost first and without the root: `a/b/c` has `a` and `a/b`. */
export function foldersAbove(path: string): string[] {
  const folders: string[] = [];
  for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) folders.push(path.slice(0, end));
  return folders;
}

/** Returns the parent folder of a path; `""` for the root. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** True for the folder itself and everything below it. Every path is within `""`. */
export function isWithin(path: string, folder: string): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}

export function invalidPath(path: string, problem: string): ToolError {
  const shown = JSON.stringify(truncateLine(path, 200));
  return new ToolError(`The path ${shown} cannot be used: ${problem}.`, {
    code: "INVALID_PATH",
    suggestion: "Use a path relative to the root of the repository, such as src/index.ts.",
  });
}

/** The refusal to move a file or folder onto something that exists. */
export function existsError(path: string): ToolError {
  return new ToolError(`${path} already exists.`, {
    code: "FILE_EXISTS",
    suggestion: "Pass overwrite to replace a file, or choose another name.",
  });
}

/** The refusal to delete a folder as if it were a file. */
export function folderDeletionError(path: string): ToolError {
  return new ToolError(`${path} is a folder.`, {
    code: "NOT_A_FILE",
    suggestion: "Pass recursive to delete it with its contents.",
  });
}

function findProblem(path: string): string | undefined {
  if (path.includes("\0")) return "it has a NUL byte";
  if (path.includes("\\")) return "it has a backslash; use / between names";
  if (path.startsWith("//")) return "it starts with //, which can mean another machine";
  if (!path.isWellFormed()) return "it is not well-formed Unicode";
  if (/\p{Cc}/u.test(path)) return "it has a control character";
  if (Buffer.byteLength(path) > maxPathBytes) return `it is longer than ${maxPathBytes} bytes`;
  return undefined;
}

function findNameProblem(name: string): string | undefined {
  if (/^\.\.[. ]*$/.test(name)) return "it contains ..";
  if (isGitName(name)) return "it points into git's own data";
  if (Buffer.byteLength(name) > maxNameBytes) return `one of its names is longer than ${maxNameBytes} bytes`;
  return undefined;
}

const maxHops = 16;

interface Links {
  /** The target of the link at this path; undefined when it is not a link. */
  targetOf(path: string): string | undefined;
  /** Throws if the path must not be visible. */
  check(path: string): void;
}

/** Resolves links in a path, with `last` also its last name. Throws `INVALID_PATH` for links out of the tree. */
export function followLinks(path: string, { last }: { last: boolean }, links: Links): string {
  let current = path;
  for (let hops = 0; hops <= maxHops; hops++) {
    const next = followOne(current, last, links);
    if (next === undefined) return current;

    links.check(next);
    current = next;
  }
  throw invalidPath(path, "its symbolic links form a loop");
}

function followOne(path: string, last: boolean, links: Links): string | undefined {
  for (const link of last ? [...foldersAbove(path), path] : foldersAbove(path)) {
    const target = links.targetOf(link);
    if (target === undefined) continue;

    const resolved = resolveTarget(path, link.split("/").slice(0, -1), target);
    return [resolved, ...path.split("/").slice(link.split("/").length)].join("/");
  }
  return undefined;
}

function resolveTarget(path: string, folder: readonly string[], target: string): string {
  if (target.startsWith("/") || target === "")
    throw invalidPath(path, "it contains a symbolic link that leaves the repository");

  const resolved = [...folder];
  for (const name of target.split("/")) {
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (resolved.pop() === undefined)
        throw invalidPath(path, "it contains a symbolic link that leaves the repository");
      continue;
    }
    resolved.push(name);
  }
  return parsePath(resolved.join("/"));
}
