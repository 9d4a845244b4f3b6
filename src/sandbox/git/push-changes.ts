import { createHash } from "node:crypto";
import { packObjects, writeCommit } from "isomorphic-git";
import { EventLoopYielder, runInTurns, type Steps, withRetries } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import type { NewCommit } from "#domain/github.ts";
import { asBuffer } from "#sandbox/diff-file.ts";
import type { Layer } from "#sandbox/layer.ts";
import type { PushRequest, SandboxSource } from "#sandbox/sandbox.ts";
import type { Base } from "./base.ts";
import { encodeTree, type GitObject, isFolder, parseCommit, parseTree, type TreeItem } from "./git-objects.ts";
import { createGitFs, gitdir, ObjectStore } from "./object-store.ts";
import type { Remote } from "./remote.ts";

/** Branches that a run must never push to. */
export interface ProtectedBranches {
  /** Undefined for a run that works on the branch of a pull request. */
  base: string | undefined;
  default: string | undefined;
}

/** Throws a UserError for an invalid branch name, and for the base or default branch. */
export function assertPushableBranch(branch: string, { base, default: main }: ProtectedBranches): void {
  if (!isBranchName(branch)) throw new UserError(`${JSON.stringify(branch)} is not a valid branch name.`);

  const same = (other: string | undefined) => other?.toLowerCase() === branch.toLowerCase();
  if (same(base) || same(main)) {
    throw new UserError(`A run can only push to its own branch, not to ${branch}.`);
  }
}

interface PushTarget extends Pick<PushRequest, "branch" | "expectedTip" | "signal"> {
  /** Resolves to true for a commit with the same message, files and parents, which an earlier attempt pushed. */
  isEqual(commit: string): Promise<boolean>;
}

/** Someone else has pushed to the branch. */
export class BranchMovedError extends UserError {
  override readonly name = "BranchMovedError";
}

/** Moves the branch from `expectedTip`, without force. Resolves to its commit: an earlier attempt may have pushed an equal one. */
export function pushCommit(remote: Remote, target: PushTarget, built: BuiltCommit): Promise<string> {
  return withRetries(() => pushOnce(remote, target, built), { signal: target.signal });
}

async function pushOnce(remote: Remote, target: PushTarget, { commit, pack }: BuiltCommit): Promise<string> {
  const { branch, expectedTip } = target;
  const response = await remote
    .push({ ref: `refs/heads/${branch}`, from: expectedTip, to: commit, pack })
    .catch(async (error) => {
      // The response was lost, but the push may have succeeded.
      const tip = await tipOf(remote, branch).catch(() => expectedTip);
      if (tip === commit) return { ok: true, reason: "" };
      if (tip === expectedTip) throw error;
      return { ok: false, reason: "" };
    });
  if (response.ok) return commit;

  // The server compares and swaps, so the branch is checked only after a refusal.
  const tip = await tipOf(remote, branch);
  if (tip === expectedTip) {
    const hint = /signature|signed/i.test(response.reason) ? requireSignatures : "";
    throw new UserError(`${remote.name} refused the push to ${branch}: ${response.reason}${hint}`);
  }
  if (tip !== undefined && (tip === commit || (await target.isEqual(tip)))) return tip;
  throw branchMoved(remote.name, branch, tip, expectedTip);
}

const requireSignatures =
  "\nSet `verified_commits: true` in .github/golem-forge.yml on the default branch if the repository requires signed commits.";

async function tipOf(remote: Remote, branch: string): Promise<string | undefined> {
  const ref = `refs/heads/${branch}`;
  return (await remote.refs([ref])).find(({ name }) => name === ref)?.oid;
}

function branchMoved(
  name: string,
  branch: string,
  tip: string | undefined,
  expectedTip: string | undefined,
): UserError {
  const change = "Nothing was pushed.";
  if (!tip) {
    return new UserError(
      `The branch ${branch} was deleted from ${name}. Its last known commit is ${expectedTip?.slice(0, 10)}. ${change}`,
    );
  }
  if (!expectedTip)
    return new UserError(`The branch ${branch} already exists in ${name}, at ${tip.slice(0, 10)}. ${change}`);
  return new BranchMovedError(
    `The branch ${branch} of ${name} moved to ${tip.slice(0, 10)} because someone else pushed to it. ${change}`,
  );
}

/** Applies the rules of `git check-ref-format --branch`. */
function isBranchName(name: string): boolean {
  const isOdd = name === "HEAD" || name.startsWith("-") || name.length > 200;
  if (isOdd || /[\p{Cc} ~^:?*[\\]|\.\.|@\{/u.test(name)) return false;
  return name.split("/").every((part) => part !== "" && !part.startsWith(".") && !/(\.|\.lock)$/.test(part));
}

export interface CommitRequest {
  parents: readonly string[];
  message: string;
  author: { name: string; email: string };
  at: Date;
}

/** A tree with the objects that the base does not have. */
export interface BuiltTree extends Pick<NewCommit, "tree" | "baseTree" | "files"> {
  store: ObjectStore;
  added: readonly string[];
}

export interface BuiltCommit {
  commit: string;
  /** The objects that the remote does not have yet. */
  pack: Buffer;
}

/** The changes in one folder, by name. An undefined file is a deletion. */
interface FolderChange {
  files: Map<string, TreeItem | undefined>;
  folders: Map<string, FolderChange>;
}

/** Builds the tree with these changed paths over the base tree. Only folders that contain changes are rewritten. */
export async function buildTree(base: Base, layer: Layer, paths: readonly string[]): Promise<BuiltTree> {
  const added = new Set<string>();
  const store = new ObjectStore({ below: base.store });
  const add: AddObject = (object) => {
    const oid = store.add(object);
    added.add(oid);
    return oid;
  };
  const change: FolderChange = { files: new Map(), folders: new Map() };
  const loop = new EventLoopYielder();
  const files: ChangedFile[] = [];
  for (const path of paths) {
    const file = changedFile(layer, path);
    files.push(file);
    addFileChange(change, path, treeItem(add, file));
    if (loop.isDue) await loop.turn();
  }

  const rewritten = await runInTurns(rewriteTree({ store, add }, base.tree, change), loop);
  const tree = rewritten ?? add({ type: "tree", data: Buffer.alloc(0) });
  return { tree, baseTree: base.tree, files, store, added: [...added] };
}

/** A pack without objects, for a commit that the remote has. */
const packHeader = Buffer.from("PACK\0\0\0\x02\0\0\0\0", "latin1");
const emptyPack = Buffer.concat([packHeader, createHash("sha1").update(packHeader).digest()]);

/** Creates the commit on the remote if the repository asks for signed commits, otherwise here. */
export async function createCommit(
  source: Pick<SandboxSource, "createCommit">,
  built: BuiltTree,
  request: CommitRequest,
): Promise<BuiltCommit> {
  const { message, parents } = request;
  const { tree, baseTree, files } = built;
  const commit = await source.createCommit?.({ message, parents, tree, baseTree, files });
  return commit === undefined ? packCommit(built, request) : { commit, pack: emptyPack };
}

export function isSameCommit(data: Buffer, { tree, parents, message }: CommitRequest & { tree: string }): boolean {
  const found = parseCommit(data);
  const isSameTree = found.tree === tree && found.parents.join() === parents.join();
  return isSameTree && found.message.trimEnd() === message.trimEnd();
}

/** Writes a commit of a tree, and packs it with the objects that were added. */
async function packCommit(
  { tree, store, added }: BuiltTree,
  { parents, message, author, at }: CommitRequest,
): Promise<BuiltCommit> {
  const person = {
    name: sanitizeIdent(author.name) || "Golem Forge",
    email: sanitizeIdent(author.email),
    timestamp: Math.floor(at.getTime() / 1_000),
    timezoneOffset: 0,
  };
  const fs = createGitFs(store);
  const commit = await writeCommit({
    fs,
    gitdir,
    commit: { tree, parent: [...parents], author: person, committer: person, message },
  });
  const { packfile } = await packObjects({ fs, gitdir, oids: [...added, commit], write: false });
  if (!packfile) throw new Error("isomorphic-git gave no pack.");
  return { commit, pack: Buffer.from(packfile) };
}

type AddObject = (object: GitObject) => string;

type ChangedFile = NewCommit["files"][number];

/** Returns what a commit contains at a path: the bytes of a file, the target of a link, or the commit of a submodule. */
function changedFile(layer: Layer, path: string): ChangedFile {
  const file = layer.fileAt(path);
  if (file) return { path, mode: file.mode, content: file.content };
  const submodule = layer.treeEntry(path);
  return { path, mode: submodule?.mode ?? "100644", content: submodule && Buffer.from(submodule.oid) };
}

function treeItem(add: AddObject, { path, mode, content }: ChangedFile): TreeItem | undefined {
  if (!content) return undefined;
  const data = asBuffer(content);
  const oid = mode === "160000" ? data.toString() : add({ type: "blob", data });
  return { mode, oid, name: Buffer.from(path.slice(path.lastIndexOf("/") + 1)) };
}

function addFileChange(change: FolderChange, path: string, line: TreeItem | undefined): void {
  const names = path.split("/");
  const file = names.pop() ?? "";
  let folder = change;
  for (const name of names) {
    folder = folder.folders.getOrInsertComputed(name, () => ({ files: new Map(), folders: new Map() }));
  }
  folder.files.set(file, line);
}

/** Returns the new tree, one folder per step; undefined for an empty one, which git does not store. */
function* rewriteTree(
  objects: { store: ObjectStore; add: AddObject },
  tree: string | undefined,
  change: FolderChange,
): Steps<string | undefined> {
  const old = tree ? objects.store.read(tree) : undefined;
  // Without this, the commit would delete everything else in the folder.
  if (tree && !old) throw new Error(`The tree ${tree} of the base is missing.`);
  const lines = new Map((old ? parseTree(old.data) : []).map((line) => [line.name.toString("latin1"), line]));
  // Names in a tree are bytes and need not be valid UTF-8.
  const key = (name: string) => Buffer.from(name).toString("latin1");
  // A file that becomes a folder is deleted first, and a folder that becomes a file has no files left.
  for (const [name, file] of change.files) {
    if (file) lines.set(key(name), file);
    else lines.delete(key(name));
  }
  for (const [name, below] of change.folders) {
    const line = lines.get(key(name));
    const oid = yield* rewriteTree(objects, line && isFolder(line) ? line.oid : undefined, below);
    if (oid) lines.set(key(name), { mode: "40000", name: Buffer.from(name), oid });
    else if (line && isFolder(line)) lines.delete(key(name));
  }
  yield;
  return lines.size > 0 ? objects.add({ type: "tree", data: encodeTree([...lines.values()]) }) : undefined;
}

/** Removes the characters that would end a name or an address early in a commit header. */
function sanitizeIdent(text: string): string {
  return text.replace(/[<>\p{Cc}]/gu, " ").trim();
}
