import type { GitFolder } from "#domain/workspace.ts";
import type { FileVersions } from "./preview-files.ts";
import type { MergedCommit, PushRequest, PushResult, Sandbox } from "./sandbox.ts";

interface Branch {
  name: string;
  commit: string;
}

/** A path that both sides changed in conflicting ways. */
export interface MergeConflict {
  path: string;
  /** `content`: both changed the same lines. `deleted`: one side deleted it. `other`: a binary file, link or submodule. */
  kind: "content" | "deleted" | "other";
  /** For `content`: the file with conflict markers. */
  content?: string;
}

export interface MergeOptions {
  withConflicts?: boolean | undefined;
  /** The commit the branch must point to; any when undefined. A branch that moved on is a UserError. */
  commit?: string | undefined;
  /** The commits that the working files descend from. Default: the base. */
  heads?: readonly string[];
  signal?: AbortSignal;
}

export interface MergeResult {
  /** The commit that was merged in. */
  commit: string;
  mergeBase: string;
  /** The paths that merge without conflict. */
  merged: string[];
  conflicts: MergeConflict[];
  /** False when conflicts kept the merge from changing anything. */
  applied: boolean;
}

export interface PushPlan {
  tree: string;
  files: FileVersions[];
}

interface StagedChanges {
  staged: string[];
  unstaged: string[];
}

/** The sandbox as the git tools use it. The worker's zones apply to its paths, too. */
export interface GitSandbox extends Sandbox {
  /** True if the base is a commit of the default branch, where only reviewed changes are. */
  readonly isOnDefaultBranch?: boolean;
  /** The `.git` of the base. Resolves to undefined for a worker that sees only a part of the repository. */
  gitFolder?(): Promise<GitFolder | undefined>;
  /** The branches of the remote, sorted by name. */
  branches(signal?: AbortSignal): Promise<Branch[]>;
  /** Fetches the tip of a branch for `readAt`. Throws a UserError when the branch does not exist. */
  fetchBranch(name: string, signal?: AbortSignal): Promise<string>;
  /** The content of a file at a fetched commit; undefined when it does not exist there. */
  readAt(commit: string, path: string): Promise<Uint8Array | undefined>;
  /**
   * Merges another branch into the working changes, file by file. Conflicts leave everything unchanged, unless
   * `withConflicts` asks for files with conflict markers; a conflict that cannot have markers keeps our side.
   */
  mergeBranch(name: string, options?: MergeOptions): Promise<MergeResult>;
  /** What `mergeBranch` would write now: the branch's commit and the files before and after. */
  previewMerge(name: string, options?: MergeOptions): Promise<{ commit: string; files: FileVersions[] }>;
  /** The files that `restore` would change, at the tip and afterwards. */
  previewRestore(commits: { tip: string; to: string }, signal?: AbortSignal): Promise<FileVersions[]>;
  /**
   * Pushes a commit to the run's own branch that has the files of an earlier commit, without force. Throws a UserError
   * when the branch is not at `tip` any more.
   */
  restore(
    request: Pick<PushRequest, "branch" | "message" | "author" | "at" | "signal"> & { tip: string; to: string },
  ): Promise<PushResult>;
  /** Unified diffs against the base, of all changes or of those below a path. Empty when nothing changed. */
  diffAgainstBase(path?: string): Promise<string>;
  /**
   * Marks changed paths for the next push, which then takes no others. A folder stands for all changes below it. Staging
   * records names, so later edits of a staged file are pushed too, and it stays staged after a push. Resolves to the
   * newly staged paths.
   */
  stage(paths: readonly string[]): Promise<string[]>;
  /** Resolves to the paths that were unstaged. */
  unstage(paths: readonly string[]): Promise<string[]>;
  staged(): Promise<StagedChanges>;
  /** Every changed file that this worker can see, at the base and now. */
  changedFiles(): Promise<FileVersions[]>;
  /** The files that the next push takes: the staged ones, or all changed ones, as far as this worker can see them. */
  outgoing(): Promise<FileVersions[]>;
  /**
   * The tree that the next push over `tip` commits, and the files in which it differs from `tip` and from every merged
   * commit of the base branch. Throws a UserError when a merged change was dropped.
   */
  planPush(
    parents: { tip: string | undefined; merged: readonly MergedCommit[] },
    signal?: AbortSignal,
  ): Promise<PushPlan>;
  /** Reverts changed paths to the base. Resolves to the reverted paths. */
  discard(paths: readonly string[]): Promise<string[]>;
}
