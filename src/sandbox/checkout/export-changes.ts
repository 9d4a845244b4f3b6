import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { runAtOnce } from "#domain/async-work.ts";
import { diffFile, type FileVersion, isBinary, modeLines, modeOf } from "#sandbox/diff-file.ts";
import { hashObject } from "#sandbox/git/git-objects.ts";
import { quotePath } from "#text/quoted-path.ts";
import type { Checkout, CheckoutChange } from "./open-checkout.ts";
import { runGit, withoutOwnFilters } from "./run-git.ts";

type Versions = Pick<CheckoutChange, "path" | "before" | "after">;

/** Formats changes, including modes and binary files, as a patch for `git apply`. */
export function writePatch(changes: readonly Versions[]): string {
  return changes.flatMap(asOneKind).map(patchOf).join("");
}

/** Splits a change between a file and a link into a deletion and an addition, as git does. */
function asOneKind({ path, before, after }: Versions): Versions[] {
  if (!before || !after || before.isLink === after.isLink) return [{ path, before, after }];
  return [
    { path, before, after: undefined },
    { path, before: undefined, after },
  ];
}

function patchOf({ path, before, after }: Versions): string {
  if (isBinary(before) || isBinary(after)) return binaryPatch(path, before, after);
  return runAtOnce(diffFile(path, { before, after }));
}

function binaryPatch(path: string, before: FileVersion | undefined, after: FileVersion | undefined): string {
  const modes = modeLines(before, after);
  const sameMode = before && after && modes.length === 0 ? ` ${modeOf(after)}` : "";
  return [
    `diff --git ${quotePath(`a/${path}`)} ${quotePath(`b/${path}`)}`,
    ...modes,
    `index ${oidOf(before)}..${oidOf(after)}${sameMode}`,
    "GIT binary patch",
    ...literal(after),
    ...literal(before),
  ]
    .map((line) => `${line}\n`)
    .join("");
}

function oidOf(version: FileVersion | undefined): string {
  return version ? hashObject({ type: "blob", data: Buffer.from(version.content) }) : "0".repeat(40);
}

function literal(version: FileVersion | undefined): string[] {
  const content = version?.content ?? new Uint8Array();
  const packed = deflateSync(content);
  const lines = [`literal ${content.length}`];
  for (let at = 0; at < packed.length; at += 52) lines.push(encodeLine(packed.subarray(at, at + 52)));
  return [...lines, ""];
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/** Git's base 85: the number of bytes as a letter, then five letters for each four bytes. */
function encodeLine(bytes: Buffer): string {
  const length = String.fromCharCode(bytes.length <= 26 ? 64 + bytes.length : 96 + bytes.length - 26);
  const padded = Buffer.alloc(Math.ceil(bytes.length / 4) * 4);
  bytes.copy(padded);
  const groups = Array.from({ length: padded.length / 4 }, (_, index) => encodeGroup(padded.readUInt32BE(index * 4)));
  return length + groups.join("");
}

function encodeGroup(number: number): string {
  let rest = number;
  let text = "";
  for (let index = 0; index < 5; index++) {
    text = letters.charAt(rest % 85) + text;
    rest = Math.floor(rest / 85);
  }
  return text;
}

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
  await using folder = await mkdtempDisposable(join(tmpdir(), "golem-forge-index-"));
  // SHA-256 repositories have longer object names.
  const none = "0".repeat(head?.length ?? 40);
  const env = { GIT_INDEX_FILE: join(folder.path, "index") };
  const git = async (args: string[], stdin?: string | Uint8Array) =>
    (await runGit(args, { cwd: root, env, ...(stdin !== undefined && { stdin }) })).toString("utf8").trim();

  if (head) await git(["read-tree", head]);
  const lines: string[] = [];
  for (const { path, after } of changes) {
    // Applies the repository's filters, like git add.
    const filter = after?.isLink ? "--no-filters" : `--path=${path}`;
    const oid = after && (await git(["hash-object", "-w", filter, "--stdin"], after.content));
    lines.push(after ? `${modeOf(after)} ${oid}\t${path}\0` : `0 ${none}\t${path}\0`);
  }
  // Deletions first, so that a folder can replace a file.
  const ordered = [...lines.filter((line) => line.startsWith("0 ")), ...lines.filter((line) => !line.startsWith("0 "))];
  await git(["update-index", "-z", "--index-info"], ordered.join(""));
  const tree = await git(["write-tree"]);
  const commit = await git(["commit-tree", tree, ...(head ? ["-p", head] : [])], message);
  const mixed = head ? await uncommitted(root, head, changes) : [];
  await git(["update-ref", "-m", "golem", `refs/heads/${branch}`, commit, none]);
  return { commit, withUncommitted: mixed };
}

/** Returns the changed paths that also have uncommitted changes of the user. */
async function uncommitted(root: string, head: string, changes: readonly CheckoutChange[]): Promise<string[]> {
  const options = ["--name-only", "-z", "--no-ext-diff", "--no-renames", "--ignore-submodules=dirty"];
  const output = await runGit([...(await withoutOwnFilters(root)), "diff", ...options, head], { cwd: root });
  const dirty = new Set(output.toString("utf8").split("\0"));
  return changes.map(({ path }) => path).filter((path) => dirty.has(path));
}
