import { truncateLine } from "#text/truncate.ts";
import type { GuestChange, TreeChanges } from "./executor.ts";

/** A change that a sandbox reports for one path. It is not trusted. */
export type ProposedChange =
  | { kind: "file"; path: string; size: number; executable: boolean; read(): Uint8Array | Promise<Uint8Array> }
  | { kind: "gone"; path: string }
  /** A link, FIFO, socket or device. `what` completes "is a …". */
  | { kind: "special"; path: string; what: string };

interface ChangeLimits {
  fileBytes: number;
  totalBytes: number;
  files: number;
}

const defaultChangeLimits: ChangeLimits = { fileBytes: 10_000_000, totalBytes: 50_000_000, files: 5_000 };

export interface ValidateOptions {
  /** The workspace's own check. Throws for an invalid path. */
  resolve(path: string): string;
  /** The paths of the tree before the command. */
  known: ReadonlySet<string>;
  /** True for files that stay in the session, such as node_modules. */
  isIgnored(path: string): boolean;
  limits?: ChangeLimits;
}

/** Validates the changes of every tier: first the names, then the sizes, and finally the contents. */
export async function validateChanges(
  proposed: Iterable<ProposedChange>,
  { resolve, known, isIgnored, limits = defaultChangeLimits }: ValidateOptions,
): Promise<TreeChanges> {
  const changes: TreeChanges = { written: [], deleted: [], rejected: [], ignoredFiles: 0 };
  let spellings: Map<string, string> | undefined;
  // Computed on demand, since most commands change nothing and a tree has many paths. Normalizing leaves ASCII as it is.
  const spelled = () => {
    spellings ??= new Map([...known].filter((path) => !isAsciiPath(path)).map((path) => [path.normalize("NFC"), path]));
    return spellings;
  };
  let bytes = 0;

  for (const change of proposed) {
    if (!known.has(change.path) && isIgnored(change.path)) {
      changes.ignoredFiles += 1;
      continue;
    }
    const problem = problemOf(change, { resolve, known, limits, bytes, count: changes.written.length, spelled });
    if (problem) {
      const size = change.kind === "file" && { size: change.size };
      changes.rejected.push({ path: printable(change.path), reason: problem, ...size });
      continue;
    }
    if (change.kind === "gone") changes.deleted.push(change.path);
    if (change.kind !== "file") continue;

    const content = await change.read();
    // The reported size may be wrong.
    if (content.length > limits.fileBytes) {
      changes.rejected.push({ path: change.path, reason: tooLarge(limits.fileBytes), size: content.length });
      continue;
    }
    bytes += content.length;
    spelled().set(change.path.normalize("NFC"), change.path);
    changes.written.push({ path: change.path, content, executable: change.executable } satisfies GuestChange);
  }
  return changes;
}

function isAsciiPath(path: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this is the range of ASCII
  return /^[\u0000-\u007f]*$/.test(path);
}

interface Progress {
  resolve(path: string): string;
  known: ReadonlySet<string>;
  limits: ChangeLimits;
  bytes: number;
  count: number;
  spelled(): ReadonlyMap<string, string>;
}

function problemOf(change: ProposedChange, progress: Progress): string | undefined {
  const { resolve, known, limits, bytes, count, spelled } = progress;
  const problem = pathProblem(change.path) ?? unresolvable(change.path, resolve);
  if (problem) return problem;
  if (change.kind === "special") return `is a ${change.what}`;
  if (change.kind === "gone") return undefined;

  if (change.size > limits.fileBytes) return tooLarge(limits.fileBytes);
  if (bytes + change.size > limits.totalBytes) return "comes after too many bytes of other changes";
  if (count >= limits.files) return `comes after ${limits.files} other changed files`;
  const spelling = change.path.normalize("NFC");
  const existing = spelled().get(spelling) ?? (known.has(spelling) ? spelling : undefined);
  return existing !== undefined && existing !== change.path
    ? "has the same name as another file, in another spelling"
    : undefined;
}

function unresolvable(path: string, resolve: (path: string) => string): string | undefined {
  try {
    resolve(path);
    return undefined;
  } catch {
    return "is outside the part of the tree that this worker can see";
  }
}

function tooLarge(limit: number): string {
  return `is larger than ${Math.floor(limit / 1_000_000)} MB`;
}

function printable(path: string): string {
  const short = truncateLine(path, 200);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  return short.replace(/[\u0000-\u001f\u007f]/g, "\ufffd");
}

const maxPathBytes = 4_096;
const maxNameBytes = 255;

// Characters that HFS+ ignores in names, so that it reads ".g\u200cit" as ".git".
const ignoredByHfs = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/**
 * Explains why a path from a sandbox may not enter the tree, as the end of "because it …"; undefined if it may. The
 * workspace checks again; this first check does not depend on any file system.
 */
export function pathProblem(path: string): string | undefined {
  if (path === "") return "has no name";
  if (Buffer.byteLength(path) > maxPathBytes) return "has a path that is too long";
  if (path.includes("\ufffd")) return "has a name that is not UTF-8";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(path)) return "has control characters in its name";
  if (path.startsWith("/")) return "is outside the tree";

  for (const name of path.split("/")) {
    const problem = nameProblem(name);
    if (problem) return problem;
  }
  return isModulesFile(path) ? "would change the submodules" : undefined;
}

function nameProblem(name: string): string | undefined {
  if (name === "" || name === "." || name === "..") return "is outside the tree";
  if (Buffer.byteLength(name) > maxNameBytes) return "has a name that is too long";
  return isGitDirectory(name) ? "is in .git" : undefined;
}

function isGitDirectory(name: string): boolean {
  return spellings(name).some((part) => part === ".git" || /^git~\d+$/.test(part));
}

/** Includes NTFS short names; git itself checks for the second kind. */
function isModulesFile(path: string): boolean {
  return spellings(path).some((part) => part === ".gitmodules" || /^(gitmod|gi7eba)~\d+$/.test(part));
}

/** Returns the forms in which some file system may read a name: case, trailing dots and spaces, streams, ignored characters. */
function spellings(name: string): string[] {
  const plain = name.replace(ignoredByHfs, "").normalize("NFKC").toLowerCase();
  return plain.split("\\").map((part) => (part.split(":")[0] ?? "").replace(/[. ]+$/, ""));
}
