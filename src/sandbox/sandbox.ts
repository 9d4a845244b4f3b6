import type { FileChange } from "#domain/preview.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";

/** The commit that a sandbox is based on. */
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
  /** Called for each connection, since tokens expire after an hour. Resolves to undefined for a public repository. */
  token(access: "read" | "write"): Promise<string | undefined>;
}

/** The content of one path after a step, as the store keeps it; undefined when it was deleted. */
export interface StoredChange {
  path: string;
  content: Uint8Array | undefined;
  /** `100644`, `100755`, or `scratch` for a file in a zone that stays with the run and is never committed. */
  mode: "100644" | "100755" | "scratch";
}

/** The changes made by one tool call. */
export interface StepChanges {
  /** The tool call as `<model step>/<call id>`, or `child/<run id>` for changes taken over from a child run. */
  step: string;
  changes: StoredChange[];
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
  /** The branch or commit to start at; default: the base commit. */
  from?: string;
  /** A branch or commit to leave out, with its ancestors. */
  exclude?: string;
  /** The number of commits to skip. */
  skip?: number;
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
  /** The commit from which the merged changes are counted. Default: the base. */
  since?: string | undefined;
  /** True for a commit of the base branch: files that equal those of this commit are not listed as changes of the push. */
  isBase?: boolean;
}

export interface PushResult {
  commit: string;
  /** False if the branch already pointed to this commit. */
  moved: boolean;
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
  /**
   * Finds the commits that last changed the lines of the current file. Fetches the history as far as needed. Throws a
   * ToolError for a file that is in no commit.
   */
  blame(options: BlameOptions): Promise<BlamedRange[]>;
  /**
   * Commits the run's changes over the base (or over `expectedTip`) and pushes them to the run's own branch. Retries
   * during a short outage. Throws a UserError with the remote's reason when the push is rejected.
   */
  push(request: PushRequest): Promise<PushResult>;
}

export interface OpenSandbox {
  source: SandboxSource;
  /** True if the run pushes to the branch it started from, that of a pull request. The default branch is never pushed to. */
  pushesToBase?: boolean;
  /** A branch, to start at its tip, or the base of an existing run. An undefined branch is the default branch. */
  at: { branch: string | undefined } | BaseCommit;
  /** For a child, the policies from the root worker down to its own. Each can only narrow the previous ones. */
  policy?: SandboxPolicy | readonly (SandboxPolicy | undefined)[];
  /** The run's stored changes, oldest first. */
  changes: StepChanges[];
  signal?: AbortSignal;
}
