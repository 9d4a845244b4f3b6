import type { Change, GitFolder, Workspace } from "#domain/workspace.ts";

/** The place where a command runs: the in-memory shell, this machine's OS sandbox, or a provider's remote sandbox. */
export type Tier = "memory" | "os" | "remote";

/** The files a session works on. A toolset builds it from its worker's workspace. */
export interface TreeSource extends Pick<Workspace, "resolve" | "paths" | "list" | "stat" | "readBytes" | "readBase"> {
  changes(): Promise<Change[]>;
  readonly head: { commit: string; branch: string };
  /** Commits of the base's history, newest first. */
  /** `range` is a revision, or `main..topic`; default: the base commit. */
  log(options: { limit: number; path?: string; range?: string }): Promise<TreeCommit[]>;
  /** A commit with its changes against its first parent. Missing for a worker that sees only part of the repository. */
  show?(revision: string): Promise<TreeCommit & { files: CommittedVersions[]; omitted: string[] }>;
  /** A file as it was in a revision. */
  readAt?(revision: string, path: string): Promise<{ content: Uint8Array }>;
  /** The `.git` folder for programs in the OS tier. */
  gitFolder?(): Promise<GitFolder | undefined>;
}

/** A file that a commit changed; undefined where it does not exist. */
export interface CommittedVersions {
  path: string;
  oldPath?: string;
  before: { content: Uint8Array } | undefined;
  after: { content: Uint8Array } | undefined;
}

export interface TreeCommit {
  commit: string;
  message: string;
  author: string;
  email: string;
  date: Date;
}

export interface ExecRequest {
  /** The program and its arguments. The in-memory shell supports only `["bash", "-c", script, ...args]`. */
  command: readonly string[];
  env?: Record<string, string>;
  /** Relative to the root of the tree. */
  cwd?: string;
  stdin?: string;
  timeoutMs: number;
  /** The bytes to keep of stdout and of stderr. Longer output keeps its head and its tail. */
  outputBytes: number;
  signal?: AbortSignal;
  /** Receives the output while the command runs. The in-memory shell sends it after each statement. */
  onOutput?(stream: "stdout" | "stderr", chunk: string): void;
  /** The hosts this command may reach on port 443, through a proxy. Default: none. */
  network?: readonly string[];
  /** Runs the command in an empty folder with an empty home instead of the tree. OS tier only. */
  isolated?: IsolatedFolder;
  /** The key in the `SetupCache` of prepared dependencies that the command can read. OS tier only. */
  setup?: string;
}

/** The folder of a command with network access. Nothing from the tree or from earlier commands can run in it. */
export interface IsolatedFolder {
  /** The only files in it. */
  files: readonly TreeFile[];
  /** The files to copy back if the command changed them. */
  results: ReadonlySet<string>;
  /** Folders to move into the session if the command succeeds. */
  keep: {
    /** Relative to the tree. They replace the session's folders. */
    tree: readonly string[];
    /** Relative to the home folder. Levels down to `mergeDepth` are merged with the session's folders. */
    home: readonly { path: string; mergeDepth: number }[];
  };
  /** Keeps all dependencies, either in the session or only in the `SetupCache` under a key. */
  keepDependencies?: "session" | { key: string };
}

export interface GuestChange {
  path: string;
  content: Uint8Array;
  executable: boolean;
}

/** A file for a session's copy of the tree. */
export interface TreeFile extends GuestChange {
  /** A symbolic link, whose content is its target. */
  isLink?: boolean;
}

/** The validated changes of a command. They are not in the workspace yet. */
export interface TreeChanges {
  written: GuestChange[];
  deleted: string[];
  /** The rejected changes, each with a reason that completes "because it …", and files with their size. */
  rejected: { path: string; reason: string; size?: number }[];
  /** The number of changed files in ignored folders such as node_modules. They stay in the session and are never committed. */
  ignoredFiles: number;
}

export interface ExecResult {
  tier: Tier;
  /** Null if the command was killed. */
  exitCode: number | null;
  stdout: string;
  stderr: string;
  durationMs: number;
  timedOut: boolean;
  /** True if the middle of an output was left out. */
  truncated: boolean;
  /** A sentence that says why the sandbox killed the command: memory, disk or output. */
  stopped?: string;
  changes: TreeChanges;
}

/** The place where one run executes its commands, one at a time. */
export interface ExecSession {
  readonly tier: Tier;
  /**
   * Copies changes of the tree since the last command into the session, runs the command, and reads what it changed.
   * Throws a ToolError `INTERRUPTED` when the signal is aborted, after the whole process tree has ended.
   */
  exec(tree: TreeSource, request: ExecRequest): Promise<ExecResult>;
  /** Kills the running command and removes the session's files. May be called more than once. */
  close(): Promise<void>;
}

export interface Availability {
  tier: Tier;
  available: boolean;
  /** One sentence for the log and for the model. */
  reason: string;
  /** True if its commands may reach other hosts without being asked for: a remote sandbox that does not exclude it. */
  hasNetwork?: boolean;
}

export interface SessionOptions {
  /** Additional read-only folders with programs. Their `bin` comes first in the PATH. OS tier only. */
  tools?: readonly string[];
}

export interface Executor {
  readonly tier: Tier;
  /** Called once; never throws. */
  probe(): Promise<Availability>;
  open(options?: SessionOptions): Promise<ExecSession>;
  close(): Promise<void>;
}

/** For commands that run real programs: a folder that looks like a bare repository could make git run the programs of its settings. */
export const gitSafetyEnvironment = {
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "safe.bareRepository",
  GIT_CONFIG_VALUE_0: "explicit",
};
