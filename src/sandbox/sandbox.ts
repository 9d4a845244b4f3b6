import type { NewCommit } from "#domain/github.ts";
import type { FileChange, FileMode } from "#domain/preview.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import type { GitFolder, Workspace } from "#domain/workspace.ts";
import type { FileVersions } from "./preview-files.ts";

export interface BaseCommit {
  /** 40 hex digits. */
  commit: string;
  branch: string;
}

/** The repository to fetch, with access to its credentials, which tools never see. */
export interface SandboxSource {
  /** Separates the cached objects of tenants: installation id and repository. */
  tenant: string;
  /** The smart HTTP address, without credentials. */
  url: string;
  /**
   * Called for each connection, since tokens expire after an hour. `rejected`: a token that the server no longer accepts,
   * so another one is needed. Resolves to undefined for a public repository.
   */
  token(access: "read" | "write", rejected?: string): Promise<string | undefined>;
  /** Lets GitHub create and sign a commit. Resolves to its id, or to undefined if the repository does not ask for that. */
  createCommit?(commit: NewCommit): Promise<string | undefined>;
}

/** The content of one path after a step, as the store keeps it; undefined when it was deleted. */
export interface StoredChange {
  path: string;
  /** The bytes of a file, the target of a link, or the commit of a submodule. */
  content: Uint8Array | undefined;
  /** A mode of git, or `scratch` for a file that is never committed. Links and submodules come from merges. */
  mode: FileMode | "scratch";
}

/** The changes made by one tool call. */
export interface StepChanges {
  /** The tool call as `<model step>/<call id>`, or `childStep` for changes taken over from a child run. */
  step: string;
  changes: StoredChange[];
}

/** Returns the step of the changes that a child run hands over. */
export function childStep(runId: string): string {
  return `child/${runId}`;
}

/** A step with the contents before and after it. */
export interface StoredStep {
  step: string;
  before: StoredChange[];
  after: StoredChange[];
}

export interface LogOptions {
  limit: number;
  /** Only commits that changed this path. */
  path?: string;
  /** The revision to start at, as in `show`; default: the base commit. */
  from?: string;
  /** A revision to leave out, with its ancestors. */
  exclude?: string;
  skip?: number;
  /** Reads older history only if the newest part of it has no commit to return, even if there are fewer than the limit. */
  newestPartFirst?: boolean;
}

export interface LogEntry {
  commit: string;
  message: string;
  author: string;
  email: string;
  date: Date;
  parents: string[];
}

export interface History {
  /** Newest first. */
  commits: LogEntry[];
  /** False if there are fewer commits than the limit because older ones were not read. */
  isComplete: boolean;
  /** The depth that was read, if older history can be read. */
  partDepth?: number;
}

export interface BlameOptions {
  path: string;
  /** The first and the last line, counted from 1. */
  start: number;
  end: number;
}

/** Consecutive lines of a file that the same commit last changed. */
export interface BlamedRange {
  start: number;
  end: number;
  /** Undefined for uncommitted lines, which this run or a person in the working tree changed. */
  commit: LogEntry | undefined;
  /** True when the lines may be older than the commit, because no older history was read. */
  mayBeOlder: boolean;
}

export interface ShowOptions {
  /** Only changes of this file or folder. */
  path?: string;
  signal?: AbortSignal;
}

/** A file that a commit changed. */
export interface CommittedFile extends FileVersions {
  /** The path before a rename. */
  oldPath?: string;
}

/** A commit with its changes against its first parent. */
export interface ShownCommit extends LogEntry {
  /** Sorted by path. */
  files: CommittedFile[];
  /** The paths of further changed files, whose contents were not read. */
  omitted: string[];
}

export interface FileAt {
  commit: string;
  /** The bytes of the file, or the target of a link. */
  content: Uint8Array;
}

export interface PushRequest {
  /** The run's own branch. The base branch and force pushes are not supported. */
  branch: string;
  message: string;
  author: { name: string; email: string };
  /** The commit time, set by the caller so that pushing the same changes again creates the same commit. */
  at: Date;
  /** Exactly these changes are committed. If a file no longer matches, throws a UserError and pushes nothing. */
  changes: readonly FileChange[];
  /** The commit that the remote branch must point to; undefined when the branch must not exist. */
  expectedTip?: string;
  /** Commits that were merged into the files. All but `expectedTip` become further parents of the new commit. */
  merged?: readonly MergedCommit[];
  /** The tree of the new commit, from `planPush`. If the tree differs, throws a UserError and pushes nothing. */
  tree?: string | undefined;
  signal?: AbortSignal;
}

/** A commit whose changes were merged into the run's files. Nothing is pushed if one of them was dropped again. */
export interface MergedCommit {
  commit: string;
  /** The commits from which the merged changes are counted: its merge bases. Default: the base. */
  since?: readonly string[] | undefined;
  /** True for a commit of the base branch: files that equal those of this commit are not listed as changes of the push. */
  isBase?: boolean;
}

/** A repository at one base commit, with a run's changes over it. */
export interface Sandbox extends Workspace {
  readonly base: BaseCommit;
  /** A view of the same files and changes, narrowed by another policy, for a child run. */
  restricted(policy: SandboxPolicy | undefined): Workspace;
  /** Returns the changes since the last `markStored`; undefined if there are none. */
  pendingChanges(step: string): StepChanges | undefined;
  /** Marks all changes so far as stored. */
  markStored(): void;
  /** Reverts the changes since the last `markStored`, after an interrupted call. */
  rollback(): void;
  /** Every stored step, oldest first, with the previous contents, for undo. */
  history(): Promise<StoredStep[]>;
  /** Lists commits, newest first. Fetches the history as far as needed. */
  log(options: LogOptions): Promise<History>;
  /** Finds the commits that last changed the lines of the current file. Throws a ToolError if none has the file. */
  blame(options: BlameOptions): Promise<BlamedRange[]>;
  /** Returns a commit and its changes that this worker can see. The revision is a commit, branch or tag, or `HEAD~2`. */
  show(revision: string, options?: ShowOptions): Promise<ShownCommit>;
  /** Returns a file as it was in a revision. Throws a ToolError if it was no file there. */
  readAt(revision: string, path: string, signal?: AbortSignal): Promise<FileAt>;
  /**
   * Commits the run's changes over the base (or over `expectedTip`) and pushes them to the run's own branch. Retries
   * during a short outage. Throws a UserError with the remote's reason when the push is rejected.
   */
  push(request: PushRequest): Promise<string>;
}

export interface OpenSandbox {
  source: SandboxSource;
  /** True if the run pushes to the branch it started from, that of a pull request. The default branch is never pushed to. */
  pushesToBase?: boolean;
  /** True if the run started from the default branch, which may have been renamed since. */
  followsDefaultBranch?: boolean;
  /** A branch, to start at its tip, or the base of an existing run. An undefined branch is the default branch. */
  at: { branch: string | undefined } | BaseCommit;
  /** For a child, the policies from the root worker down to its own. Each can only narrow the previous ones. */
  policy?: SandboxPolicy | readonly (SandboxPolicy | undefined)[];
  /** The run's stored changes, oldest first. */
  changes: StepChanges[];
  signal?: AbortSignal;
}

interface Branch {
  name: string;
  commit: string;
}

export interface MergeConflict {
  path: string;
  /**
   * `content`: both changed the same lines. `deleted`: one side deleted it. `folder`: one side added it to a folder that the
   * other one renamed; it is moved to the new folder. `other`: a binary file, link or submodule, or both sides have different
   * files under this name after a rename.
   */
  kind: "content" | "deleted" | "folder" | "other";
  /** For `content`: the file with conflict markers. */
  content?: string;
}

export interface MergeOptions {
  withConflicts?: boolean | undefined;
  /** The commit the branch must point to; undefined for any. A UserError if the branch has moved. */
  commit?: string | undefined;
  /** The commits that the working files descend from. Default: the base. */
  heads?: readonly string[] | undefined;
  /**
   * An earlier commit of the branch that the files contain already. What happened to the branch since then is merged, even
   * if it was force-pushed. Default: the merge base with `heads`.
   */
  since?: string | undefined;
  signal?: AbortSignal;
}

export interface MergeResult {
  /** The commit that was merged in. */
  commit: string;
  /** The common commits from which the changes are counted, oldest first. */
  mergeBases: readonly string[];
  /** The paths that merge without conflict. */
  merged: string[];
  conflicts: MergeConflict[];
  /** False if conflicts prevented the merge. */
  applied: boolean;
}

export interface PushPlan {
  tree: string;
  files: FileVersions[];
}

/** The sandbox that the git tools use. The worker's zones also apply to its paths. */
export interface GitSandbox extends Sandbox {
  /** True if the base is a commit of the default branch, which contains only reviewed changes. */
  readonly isOnDefaultBranch?: boolean;
  /** Returns the `.git` of the base. Resolves to undefined for a worker that sees only part of the repository. */
  gitFolder?(): Promise<GitFolder | undefined>;
  /** Lists the branches of the remote, sorted by name. */
  branches(signal?: AbortSignal): Promise<Branch[]>;
  /**
   * Merges another branch into the working changes, file by file. With conflicts, nothing changes unless
   * `withConflicts` is set, which writes conflict markers. As in git, a file that one side deleted is kept as the other
   * one changed it. Other files that cannot have markers keep our version.
   */
  mergeBranch(name: string, options?: MergeOptions): Promise<MergeResult>;
  /** Returns the changes that `mergeBranch` would make now: the branch's commit and the files before and after. */
  previewMerge(name: string, options?: MergeOptions): Promise<{ commit: string; files: FileVersions[] }>;
  /** Returns the files that `restore` would change, at the tip and afterwards. */
  previewRestore(commits: { tip: string; to: string }, signal?: AbortSignal): Promise<FileVersions[]>;
  /** Pushes a commit with an earlier commit's files, without force. Throws a UserError if `tip` is outdated. */
  restore(
    request: Pick<PushRequest, "branch" | "message" | "author" | "at" | "signal"> & { tip: string; to: string },
  ): Promise<string>;
  /** Returns the unified diff against the base, of all changes or of those below a path. Empty if nothing changed. */
  diffAgainstBase(path?: string): Promise<string>;
  /**
   * Stages changed paths: the next push contains only these. A folder stages all changes below it. Staging records
   * paths, so later edits of a staged file are pushed too, and it stays staged after a push. Resolves to the newly
   * staged paths.
   */
  stage(paths: readonly string[]): Promise<string[]>;
  /** Resolves to the paths that were unstaged. */
  unstage(paths: readonly string[]): Promise<string[]>;
  staged(): Promise<{ staged: string[]; unstaged: string[] }>;
  /** Returns the changed files that this worker can see, at the base and now. */
  changedFiles(): Promise<FileVersions[]>;
  /** Returns everything that commands find changed, staged or not: the changed files, and those that are stored with the run. */
  allChanges(): Promise<FileVersions[]>;
  /** Returns the files that the next push contains: the staged ones, or all changed ones, as far as this worker can see them. */
  outgoing(): Promise<FileVersions[]>;
  /**
   * Returns the tree that the next push over `tip` commits, and the files in which it differs from `tip` and from every
   * merged commit of the base branch. Throws a UserError when a merged change was dropped.
   */
  planPush(
    parents: { tip: string | undefined; merged: readonly MergedCommit[] },
    signal?: AbortSignal,
  ): Promise<PushPlan>;
  /** Reverts changed paths to the base. Resolves to the reverted paths. */
  discard(paths: readonly string[]): Promise<string[]>;
}
