import { realpath } from "node:fs/promises";
import { ToolError, UserError } from "#domain/errors.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { parseCommit } from "#sandbox/git/git-objects.ts";
import {
  type ChangedPath,
  contentIds,
  emptyTree,
  isFileMode,
  maxShownFiles,
  notAFile,
  shownFiles,
} from "#sandbox/git/show-commit.ts";
import { createOverlay } from "#sandbox/overlay.ts";
import type {
  BlamedRange,
  BlameOptions,
  FileAt,
  GitSandbox,
  History,
  LogEntry,
  LogOptions,
  ShownCommit,
  ShowOptions,
  StepChanges,
} from "#sandbox/sandbox.ts";
import { createStaging, isStagingFile, versionBefore, versionNow, workingChanges } from "#sandbox/working-changes.ts";
import { createWorkspaceView } from "#sandbox/workspace-view.ts";
import { createZones, isolatedSandbox, type Zones } from "#sandbox/zones.ts";
import type { BaseRecord, RecordedFile } from "./base-record.ts";
import { readWorkingTree } from "./read-working-tree.ts";
import { GitError, isOutsideRepository, runGit, withoutOwnFilters } from "./run-git.ts";

/** A worker's view of a checkout: its files, and the git operations that need no remote. */
export interface CheckoutTree
  extends Omit<
    GitSandbox,
    "restricted" | "push" | "planPush" | "mergeBranch" | "previewMerge" | "previewRestore" | "restore"
  > {
  /** A view of the same files and changes, narrowed by another policy. */
  restricted(policy: SandboxPolicy | undefined): CheckoutTree;
}

/** One path that a worker changed. */
export interface CheckoutChange {
  path: string;
  /** The content that the worker changed; undefined for a new file. */
  before: FileVersion | undefined;
  /** Undefined for a deleted file. */
  after: FileVersion | undefined;
  /** True if the file changed on disk before the worker read it, so its previous content is unknown. */
  isStale: boolean;
}

/** A git checkout on this machine, with a worker's changes over it in memory. */
export type Checkout = Awaited<ReturnType<typeof openCheckout>>;

export interface OpenCheckout {
  /** The policy of the root worker. */
  policy?: SandboxPolicy | undefined;
  /** The stored changes of a run that is resumed, oldest first. */
  changes?: readonly StepChanges[];
  /** True to open the folder itself without git operations, even inside a checkout. */
  isFolder?: boolean;
  /** Records the changed files, and contains those that a resumed run changed. */
  record?: BaseRecord | undefined;
}

/** Opens the checkout that contains a folder, or throws a UserError if there is none. Never writes to it. */
export async function openCheckout(
  folder: string,
  { policy, changes = [], record, isFolder = false }: OpenCheckout = {},
) {
  const { root, currentBranch } = isFolder ? { root: await realpath(folder) } : await findRootAndBranch(folder);
  const changedBefore = new Set(changes.flatMap((step) => step.changes.map(({ path }) => path)));
  const recorded = new Map([...(record?.files ?? [])].filter(([path]) => changedBefore.has(path)));
  const { base, branch, head, isStale } = await readWorkingTree(root, { recorded, isFolder, currentBranch });
  const overlay = createOverlay(base, isStagingFile);
  await overlay.restore(changes);
  const staging = createStaging(overlay);
  const { markStored, rollback } = overlay;
  const isUnknown = (path: string) =>
    recorded.get(path)?.kind === "unknown" || (base.entries.has(path) && isStale(path));

  function recordedBefore(path: string): RecordedFile {
    if (isUnknown(path)) return { kind: "unknown" };
    const version = knownBefore(() => versionBefore(base, path));
    return version ? { kind: "file", version } : { kind: "absent" };
  }

  // The previous contents are recorded first, so that every stored change has one.
  function pendingChanges(step: string): StepChanges | undefined {
    const pending = overlay.pendingChanges(step);
    for (const { path, mode } of pending?.changes ?? []) {
      if (mode !== "scratch") record?.add(path, recordedBefore(path));
    }
    return pending;
  }

  const viewFor = (zones: Zones): CheckoutTree => {
    const view = createWorkspaceView(base, overlay, { zones });
    return {
      ...view,
      ...workingChanges({ base, overlay, view, staging }),
      base: { commit: base.commit, branch },
      pendingChanges,
      markStored,
      rollback,
      history: async () => overlay.history(),
      log: async ({ path, ...options }) =>
        readLog(root, { ...options, ...(path !== undefined && { path: view.resolve(path) }) }),
      blame: async (options) =>
        readLocalBlame(root, {
          ...options,
          path: view.resolve(options.path),
          content: await view.readBytes(options.path),
        }),
      show: async (revision, { path = "", signal } = {}) =>
        showLocalCommit(root, revision, { path: view.resolve(path), canSee: zones.canSee, signal }),
      readAt: async (revision, path, signal) => {
        const resolved = view.resolve(path);
        const commit = await readRevision(root, revision, signal);
        if (!zones.canSee(resolved)) throw notAFile(resolved, commit, "");
        return readLocalFileAt(root, commit, resolved, signal);
      },
      branches: (signal) => readBranches(root, signal),
      restricted: (narrower) => viewFor(zones.narrow(narrower)),
    };
  };

  const changedPaths = () => overlay.layers.repository.changed();
  return {
    /** Its root folder, with links resolved. */
    root,
    tree: viewFor(createZones(policy, isolatedSandbox)),
    branch,
    /** The current commit; undefined before the first one. */
    head,
    fileCount: base.files.length,
    /** False for a folder that was opened without git. */
    isRepository: !isFolder,
    /** The worker's changes, sorted by path. */
    changes: (): CheckoutChange[] =>
      changedPaths().map((path) => ({
        path,
        before: isUnknown(path) ? undefined : knownBefore(() => versionBefore(base, path)),
        after: versionNow(overlay, path),
        isStale: isUnknown(path),
      })),
    /** The changed paths that are staged. */
    staged: (): string[] => {
      const changed = new Set(changedPaths());
      return staging.paths().filter((path) => changed.has(path));
    },
  };
}

/** Returns the previous content; undefined if the file was deleted from disk before it was read. */
function knownBefore(read: () => FileVersion | undefined): FileVersion | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}

async function readLog(root: string, { limit, skip = 0, path, from, exclude }: LogOptions): Promise<History> {
  const format = "--format=%H%x00%an%x00%ae%x00%at%x00%P%x00%B%x00";
  const options = [`-${limit}`, `--skip=${skip}`, format, "--end-of-options"];
  const revisions = [from ?? "HEAD", ...(exclude === undefined ? [] : [`^${exclude}`])];
  const only = path === undefined || path === "" ? [] : [path];
  const output = await runGit(["log", ...options, ...revisions, "--", ...only], { cwd: root });
  const fields = output.toString("utf8").split("\0");
  const entries: LogEntry[] = [];
  for (let at = 0; at + 6 < fields.length; at += 6) {
    const [commit = "", author = "", email = "", seconds = "", parents = "", message = ""] = fields.slice(at, at + 6);
    entries.push({
      commit: commit.trim(),
      author,
      email,
      date: new Date(Number(seconds) * 1_000),
      parents: parents.split(" ").filter(Boolean),
      message,
    });
  }
  return { commits: entries, isComplete: entries.length === limit || !(await isShallow(root)) };
}

async function isShallow(root: string): Promise<boolean> {
  return (await runGit(["rev-parse", "--is-shallow-repository"], { cwd: root })).toString("utf8").trim() === "true";
}

async function readLocalBlame(
  root: string,
  { path, start, end, content }: BlameOptions & { content: Uint8Array },
): Promise<BlamedRange[]> {
  // A missing file of ignored revisions would be an error, and a text conversion would run a program.
  const config = ["-c", "blame.ignoreRevsFile=", ...(await withoutOwnFilters(root))];
  const options = ["--porcelain", "--no-textconv", "--contents", "-", "-L", `${start},${end}`];
  const output = await runGit([...config, "blame", ...options, "--", path], { cwd: root, stdin: content });
  const shallow = await isShallow(root);
  const commits = new Map<string, { commit: LogEntry | undefined; isBoundary: boolean }>();
  const ranges: BlamedRange[] = [];
  // Each line of the file has a header, the fields of a commit on its first mention, and a tab with the line.
  for (const entry of output.toString("utf8").split(/^\t[^\n]*\n/m)) {
    const [, oid = "", line = ""] = /^([0-9a-f]{40}) \d+ (\d+)/.exec(entry) ?? [];
    if (oid === "") continue;
    const known = commits.getOrInsertComputed(oid, () => readPorcelain(oid, entry));
    const last = ranges.at(-1);
    if (last && last.commit === known.commit) last.end = Number(line);
    else {
      const range = { start: Number(line), end: Number(line), commit: known.commit };
      ranges.push({ ...range, mayBeOlder: shallow && known.isBoundary });
    }
  }
  return ranges;
}

function readPorcelain(oid: string, entry: string): { commit: LogEntry | undefined; isBoundary: boolean } {
  const field = (name: string) => new RegExp(`^${name} ([^\n]*)$`, "m").exec(entry)?.[1] ?? "";
  if (/^0+$/.test(oid)) return { commit: undefined, isBoundary: false };
  const commit = {
    commit: oid,
    author: field("author"),
    email: field("author-mail").replace(/^<|>$/g, ""),
    date: new Date(Number(field("author-time")) * 1_000),
    message: field("summary"),
    parents: field("previous").split(" ").slice(0, 1).filter(Boolean),
  };
  return { commit, isBoundary: /^boundary$/m.test(entry) };
}

/** Resolves a revision to a commit. */
async function readRevision(root: string, revision: string, signal: AbortSignal | undefined): Promise<string> {
  const name = `${revision === "" ? "HEAD" : revision}^{commit}`;
  const output = await runGit(["rev-parse", "--verify", "--end-of-options", name], { cwd: root, signal }).catch(
    (error: unknown) => {
      throw new ToolError(`${JSON.stringify(revision)} is no commit, branch or tag of this checkout.`, {
        code: "FILE_NOT_FOUND",
        suggestion: "git_log lists commits, and git_branches the branches.",
        cause: error,
      });
    },
  );
  return output.toString("utf8").trim().split("\n").at(-1) ?? "";
}

async function showLocalCommit(
  root: string,
  revision: string,
  { path, canSee, signal }: ShowOptions & { path: string; canSee(path: string): boolean },
): Promise<ShownCommit> {
  const commit = await readRevision(root, revision, signal);
  const { message, author, email, authored, parents } = parseCommit(await readObject(root, commit, signal));
  const [parent = emptyTree] = parents;
  const compared = ["diff-tree", "-r", "-z", "-M", parent, commit, "--", ...(path === "" ? [] : [path])];
  const raw = await runGit(compared, { cwd: root, signal }).catch(async (error: unknown) => {
    if (!(await isShallow(root))) throw error;
    throw new ToolError(`This checkout is shallow: it lacks the parent of ${commit.slice(0, 10)}.`, {
      code: "UNAVAILABLE",
      suggestion: "`git fetch --unshallow` gets it.",
      cause: error,
    });
  });
  const changed = parseChanges(raw.toString("utf8")).flatMap((file) => visiblePart(file, canSee));
  const contents = await readBlobs(root, changed.slice(0, maxShownFiles), signal);
  const shown = shownFiles(changed, ({ mode, oid }) =>
    isFileMode(mode) ? (contents.get(oid) ?? new Uint8Array()) : Buffer.from(oid),
  );
  return { commit, message: message.trimEnd(), author, email, date: authored, parents, ...shown };
}

/** Returns what a worker can see of a change: a file that was moved from a hidden folder is new, and one moved there is deleted. */
function visiblePart({ path, oldPath, before, after }: ChangedPath, canSee: (path: string) => boolean): ChangedPath[] {
  if (oldPath === undefined) return canSee(path) ? [{ path, before, after }] : [];
  if (canSee(path)) return [canSee(oldPath) ? { path, oldPath, before, after } : { path, before: undefined, after }];
  return canSee(oldPath) ? [{ path: oldPath, before, after: undefined }] : [];
}

/** Parses the raw format of `git diff-tree -z`. */
function parseChanges(raw: string): ChangedPath[] {
  const fields = raw.split("\0");
  const changed: ChangedPath[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [, oldMode = "", mode = "", oldOid = "", oid = "", status = ""] =
      /^:(\d+) (\d+) (\w+) (\w+) (\w)/.exec(fields[at] ?? "") ?? [];
    const oldPath = status === "R" ? fields[++at] : undefined;
    changed.push({
      path: fields[at + 1] ?? "",
      ...(oldPath !== undefined && { oldPath }),
      before: status === "A" ? undefined : { mode: oldMode, oid: oldOid },
      after: status === "D" ? undefined : { mode, oid },
    });
  }
  return changed;
}

async function readLocalFileAt(
  root: string,
  commit: string,
  path: string,
  signal: AbortSignal | undefined,
): Promise<FileAt> {
  const listed =
    path === "" ? "" : (await runGit(["ls-tree", "-z", commit, "--", path], { cwd: root, signal })).toString("utf8");
  const [, mode = "", oid = ""] = /^(\d+) \w+ (\w+)\t/.exec(listed) ?? [];
  if (!isFileMode(mode)) throw notAFile(path, commit, mode);
  return { commit, content: await readObject(root, oid, signal) };
}

async function readObject(root: string, oid: string, signal: AbortSignal | undefined): Promise<Buffer> {
  const batch = await runGit(["cat-file", "--batch"], { cwd: root, signal, stdin: `${oid}\n` });
  return [...objectsIn(batch)][0]?.[1] ?? Buffer.alloc(0);
}

async function readBlobs(
  root: string,
  files: readonly ChangedPath[],
  signal: AbortSignal | undefined,
): Promise<Map<string, Buffer>> {
  const stdin = [...new Set(contentIds(files))].map((oid) => `${oid}\n`).join("");
  return new Map(objectsIn(await runGit(["cat-file", "--batch"], { cwd: root, signal, stdin })));
}

/** Parses the output of `git cat-file --batch`. */
function* objectsIn(batch: Buffer): Generator<[oid: string, content: Buffer]> {
  for (let at = 0; at < batch.length; ) {
    const end = batch.indexOf(0x0a, at);
    const [oid = "", , size = 0] = batch.toString("latin1", at, end).split(" ");
    yield [oid, batch.subarray(end + 1, end + 1 + Number(size))];
    at = end + 2 + Number(size);
  }
}

async function readBranches(root: string, signal: AbortSignal | undefined) {
  const output = await runGit(["for-each-ref", "--sort=refname", "--format=%(objectname) %(refname)", "refs/heads"], {
    cwd: root,
    signal,
  });
  return output
    .toString("utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => line.split(" refs/heads/"))
    .map(([commit = "", name = ""]) => ({ commit, name }));
}

/** Asks git for both at once, which it only answers after the first commit. The branch is undefined when HEAD is detached. */
async function findRootAndBranch(folder: string): Promise<{ root: string; currentBranch?: string | undefined }> {
  const options = ["--show-toplevel", "--abbrev-ref=loose", "HEAD"];
  const output = await runGit(["rev-parse", ...options], { cwd: folder }).catch(() => undefined);
  const [, root, branch] = /^(.*)\n(.*)\n$/s.exec(output?.toString("utf8") ?? "") ?? [];
  if (root !== undefined) {
    return { root: await realpath(root), currentBranch: branch === "HEAD" ? undefined : branch };
  }
  const found = await findRoot(folder);
  const name = await runGit(["symbolic-ref", "-q", "--short", "HEAD"], { cwd: found }).catch(() => undefined);
  return { root: found, currentBranch: name?.toString("utf8").trim() || undefined };
}

/** Finds the root of the git checkout that contains a folder, with links resolved. Rejects with a UserError outside one. */
export async function findRoot(folder: string): Promise<string> {
  try {
    const output = await runGit(["rev-parse", "--show-toplevel"], { cwd: folder });
    return await realpath(output.toString("utf8").replace(/\n$/, ""));
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    const refuse = (sentence: string) => {
      throw new UserError(sentence, { cause: error });
    };
    if (isOutsideRepository(error))
      refuse(`${folder} is not in a git repository. Change to one, or create one with git init.`);
    if (/work tree|bare repository/.test(error.message))
      refuse(`${folder} is in a git repository, but not in its working tree. Change to a checkout of it.`);
    throw error;
  }
}
