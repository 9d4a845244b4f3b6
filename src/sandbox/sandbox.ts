import type { SandboxPolicy } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";

/** The repository and commit a sandbox stands on. */
export interface BaseCommit {
  /** 40 hex digits. */
  commit: string;
  branch: string;
}

/** Where a repository is fetched from. Credentials never reach a tool. */
export interface SandboxSource {
  /** Keeps one tenant's objects from another: installation id and repository. */
  tenant: string;
  /** The smart HTTP address, without credentials. */
  url: string;
  /** Asked again for each connection, since tokens live an hour. Undefined for a public repository. */
  token(access: "read" | "write"): Promise<string | undefined>;
}

/** The content of one path after a step; `content` undefined means it is gone. This is what the store keeps. */
export interface StoredChange {
  path: string;
  content: Uint8Array | undefined;
  /** `100644`, `100755`, or `scratch` for what a zone keeps with the run and never commits. */
  mode: "100644" | "100755" | "scratch";
}

/** The changes one tool call made. */
export interface StepChanges {
  /** The tool call, as `<step of the model>/<call id>`; `child/<run id>` for what a child handed over. */
  step: string;
  changes: StoredChange[];
}

export interface LogEntry {
  commit: string;
  message: string;
  author: string;
  email: string;
  date: Date;
  parents: string[];
}

export interface PushRequest {
  /** The run's own branch; a push to the base branch or with force does not exist here. */
  branch: string;
  message: string;
  author: { name: string; email: string };
  /** The commit's time. Fixed by the caller, so that the same work pushed twice is the same commit. */
  at: Date;
  /** Commit the remote branch must stand on; undefined when it must not exist yet. */
  expectedTip?: string;
  signal?: AbortSignal;
}

export interface PushResult {
  commit: string;
  /** False when the branch was found on exactly this commit. */
  moved: boolean;
}

/** One repository at one base commit, with a run's changes over it. */
export interface Sandbox extends Workspace {
  readonly base: BaseCommit;
  /** The worker's own narrower view on the same changes, for a child. */
  restricted(policy: SandboxPolicy | undefined): Workspace;
  /** What changed since the last `settle`, or undefined when nothing did. */
  pendingChanges(step: string): StepChanges | undefined;
  /** Marks everything up to now as stored. */
  markStored(): void;
  /** Drops what changed since the last `settle`: a call was interrupted half way. */
  rollback(): void;
  /** Every settled step, oldest first, with what stood before it: what undo works from. */
  history(): { step: string; before: StoredChange[]; after: StoredChange[] }[];
  /** Commits of the base's history, newest first; fetches more of it when the shallow part is too short. */
  log(options: { limit: number; path?: string }): Promise<LogEntry[]>;
  /**
   * Commits the run's changes on top of the base (or of `expected`) and pushes them to the run's own branch.
   * Waits out a short outage. Throws a UserError when the remote refuses, saying what it said.
   */
  push(request: PushRequest): Promise<PushResult>;
}

export interface OpenSandbox {
  source: SandboxSource;
  /** A branch to take the tip of, or a base to open again after a restart. */
  at: { branch: string } | BaseCommit;
  /** For a child, the policies from the root worker down to its own: each can only narrow the one before. */
  policy?: SandboxPolicy | readonly (SandboxPolicy | undefined)[];
  /** The run's stored changes, oldest first. */
  changes: StepChanges[];
  signal?: AbortSignal;
}
