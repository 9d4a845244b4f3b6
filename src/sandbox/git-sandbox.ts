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
  /** The commit the branch must point to; undefined for any. A UserError if the branch has moved. */
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
  /** False if conflicts prevented the merge. */
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

/** The sandbox that the git tools use. The worker's zones apply to its paths, too. */
export interface GitSandbox extends Sandbox {
  /** True if the base is a commit of the default branch, which contains only reviewed changes. */
  readonly isOnDefaultBranch?: boolean;
  /** Returns the `.git` of the base. Resolves to undefined for a worker that sees only part of the repository. */
  gitFolder?(): Promise<GitFolder | undefined>;
  /** Lists the branches of the remote, sorted by name. */
  branches(signal?: AbortSignal): Promise<Branch[]>;
  /** Fetches the tip of a branch for `readAt`. Throws a UserError when the branch does not exist. */
  fetchBranch(name: string, signal?: AbortSignal): Promise<string>;
  /** Reads a file at a fetched commit; undefined if it does not exist there. */
  readAt(commit: string, path: string): Promise<Uint8Array | undefined>;
  /**
   * Merges another branch into the working changes, file by file. With conflicts, nothing changes unless
   * `withConflicts` is set, which writes conflict markers. Files that cannot have markers keep our version.
   */
  mergeBranch(name: string, options?: MergeOptions): Promise<MergeResult>;
  /** Returns the changes that `mergeBranch` would make now: the branch's commit and the files before and after. */
  previewMerge(name: string, options?: MergeOptions): Promise<{ commit: string; files: FileVersions[] }>;
  /** Returns the files that `restore` would change, at the tip and afterwards. */
  previewRestore(commits: { tip: string; to: string }, signal?: AbortSignal): Promise<FileVersions[]>;
  /**
   * Pushes a commit with the files of an earlier commit to the run's own branch, without force. Throws a UserError when
   * the branch is no longer at `tip`.
   */
  restore(
    request: Pick<PushRequest, "branch" | "message" | "author" | "at" | "signal"> & { tip: string; to: string },
  ): Promise<PushResult>;
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
  staged(): Promise<StagedChanges>;
  /** Returns the changed files that this worker can see, at the base and now. */
  changedFiles(): Promise<FileVersions[]>;
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
