import type { Sandbox } from "./sandbox.ts";

interface Branch {
  name: string;
  commit: string;
}

/** A path that both sides changed in ways that do not fit together. */
export interface MergeConflict {
  path: string;
  /** `content`: both changed the same lines. `deleted`: one side deleted it. `other`: a binary file, a link or a submodule. */
  kind: "content" | "deleted" | "other";
  /** For `content`: the file with markers naming both sides. */
  content?: string;
}

export interface MergeResult {
  /** The commit that was merged in. */
  commit: string;
  /** The last commit both sides share. */
  mergeBase: string;
  /** The paths that were, or would be, changed without conflict. */
  merged: string[];
  conflicts: MergeConflict[];
  /** False when nothing was changed, because of conflicts. */
  applied: boolean;
}

interface StagedChanges {
  staged: string[];
  unstaged: string[];
}

/** The sandbox as the git tools use it. Its paths follow the zones of the worker, like every other. */
export interface GitSandbox extends Sandbox {
  /** The branches of the remote, sorted by name. */
  branches(signal?: AbortSignal): Promise<Branch[]>;
  /** Fetches the tip of a branch, so that `readAt` can look into it. Throws a UserError when there is no such branch. */
  fetchBranch(name: string, signal?: AbortSignal): Promise<string>;
  /** The content of a file at a commit that was fetched; undefined where it has none. */
  readAt(commit: string, path: string): Promise<Uint8Array | undefined>;
  /**
   * Merges another branch into the working changes, file by file. Where there are conflicts nothing is changed, unless
   * `withConflicts` asks for the files with their markers; conflicts without markers are left as they are on our side.
   */
  mergeBranch(name: string, options?: { withConflicts?: boolean; signal?: AbortSignal }): Promise<MergeResult>;
  /** Unified diffs of what changed against the base, of everything or below one path. Empty when nothing did. */
  diffAgainstBase(path?: string): Promise<string>;
  /**
   * Marks changed paths for the next push, which then takes no others; folders mean all changes below. What is staged
   * is a set of names, so later edits of a staged file are pushed too, and it stays staged after a push. Resolves to
   * the paths that were newly staged.
   */
  stage(paths: readonly string[]): Promise<string[]>;
  /** Resolves to the paths that are no longer staged. */
  unstage(paths: readonly string[]): Promise<string[]>;
  staged(): Promise<StagedChanges>;
  /** Puts changed paths back to what the base has. Resolves to what was put back. */
  discard(paths: readonly string[]): Promise<string[]>;
}
